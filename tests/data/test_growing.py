"""Trees grown a level at a time: each cut is what one node alone would get."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaicgp.data import growing
from mosaicgp.data.growing import Grown, grow, project
from mosaicgp.data.partition import BalancedTree

seeds = st.integers(0, 2**32 - 1)


def check_cuts(X: np.ndarray, grown: Grown, n_leaves: int) -> None:
    """Node by node, with all rows at hand: sizes, thresholds, numbers and rows of the leaves."""
    numbered = []

    def descend(vertex: int, rows: np.ndarray, quota: int) -> None:
        numbered.append(vertex)
        if quota == 1:
            leaf = ~vertex
            found = grown.order[grown.start[leaf] : grown.start[leaf + 1]]
            np.testing.assert_array_equal(found, rows)
            return
        along = project(X[rows].T, grown.direction[vertex])
        left_size = quota // 2 * len(rows) // quota
        low, high = np.sort(along)[left_size - 1 : left_size + 1]
        assert grown.threshold[vertex] == low + 0.5 * (high - low)
        left, right = grown.children[vertex]
        descend(left, rows[along <= grown.threshold[vertex]], quota // 2)
        descend(right, rows[along > grown.threshold[vertex]], quota - quota // 2)

    descend(0 if n_leaves > 1 else ~0, np.arange(len(X)), n_leaves)
    nodes = [v for v in numbered if v >= 0]
    leaves = [~v for v in numbered if v < 0]
    assert nodes == list(range(n_leaves - 1)) and leaves == list(range(n_leaves))


@settings(max_examples=40)
@given(
    seed=seeds,
    n=st.integers(1, 900),
    d=st.integers(1, 6),
    n_leaves=st.integers(1, 70),
    level_rows=st.sampled_from([1, 200, 2**15]),
)
def test_every_cut_halves_its_rows(seed, n, d, n_leaves, level_rows):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    n_leaves = min(n, n_leaves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_LEVEL_ROWS", level_rows)
        grown = grow(X, n_leaves, rng, rng.uniform(0.5, 2.0, size=d))
    check_cuts(X, grown, n_leaves)


@settings(max_examples=60)
@given(
    seed=seeds,
    style=st.sampled_from(["few values", "one odd row", "two columns tie", "continuous"]),
    n=st.integers(1, 400),
    n_leaves=st.integers(1, 50),
)
def test_rows_are_in_the_leaf_that_the_rule_assigns_them(seed, style, n, n_leaves):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    if style == "few values":
        X = np.round(X)
    elif style == "one odd row":
        X[1:] = X[-1]
    elif style == "two columns tie":
        X[:, 1:] = rng.integers(2, size=(n, 2))
    tree, order, start = BalancedTree.grow(X, n_leaves, rng)
    labels = tree.assign(X)
    np.testing.assert_array_equal(
        labels[order], np.repeat(np.arange(tree.n_blocks), np.diff(start))
    )
    np.testing.assert_array_equal(order, np.argsort(labels, kind="stable"))
    assert np.diff(start).min() >= 1


@pytest.mark.parametrize("scale", [np.ones(4), np.array([1.0, 0.2, 3.0, 1.0])])
def test_the_first_cut_is_across_the_principal_direction(scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) @ np.diag([4.0, 1.0, 0.5, 0.2]) @ rng.standard_normal((4, 4))
    grown = grow(X, 2, rng, scale)
    scaled = X * scale
    values, vectors = np.linalg.eigh(np.cov(scaled.T))
    direction = grown.direction[0] / scale  # of the scaled rows
    # Eight steps of power iteration leave what the ratio of the variances to the 8th power does.
    error = np.linalg.norm(direction - np.sign(direction @ vectors[:, -1]) * vectors[:, -1])
    assert error < 10.0 * (values[-2] / values[-1]) ** 8 + 1e-9
