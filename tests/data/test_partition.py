"""Partitions: balance, ties, and the same block for the same row in any batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaicgp.data.partition import (
    PARTITIONS,
    BalancedTree,
    KMeansCells,
    Partition,
    project,
)

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(sorted(PARTITIONS))


def rows(rng: np.random.Generator, n: int, d: int, style: str) -> np.ndarray:
    """Rows without ties, on a grid, from few distinct values, or all the same."""
    X = rng.standard_normal((n, d))
    if style == "grid":
        return np.round(X)
    if style == "repeated":
        return X[rng.integers(min(n, 4), size=n)]
    if style == "identical":
        return np.repeat(X[:1], n, axis=0)
    if style == "close":  # so close that projections collide by rounding
        return 7.0 + 1e-15 * np.round(X)
    return X @ rng.standard_normal((d, d))


styles = st.sampled_from(["continuous", "grid", "repeated", "identical", "close"])


@settings(max_examples=60)
@given(seed=seeds, n=st.integers(1, 700), d=st.integers(1, 6), n_blocks=st.integers(1, 60))
def test_tree_sizes_differ_by_at_most_one(seed, n, d, n_blocks):
    rng = np.random.default_rng(seed)
    X = rows(rng, n, d, "continuous")
    tree = BalancedTree.build(X, n_blocks, rng)
    sizes = np.bincount(tree.assign(X), minlength=tree.n_blocks)
    assert tree.n_blocks == min(n, n_blocks) == len(sizes)
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=60)
@given(
    seed=seeds,
    kind=kinds,
    style=styles,
    n=st.integers(1, 120),
    d=st.integers(1, 5),
    n_blocks=st.integers(1, 40),
)
def test_every_block_is_used_and_identical_rows_share_one(seed, kind, style, n, d, n_blocks):
    rng = np.random.default_rng(seed)
    X = rows(rng, n, d, style)
    partition = PARTITIONS[kind].build(X, n_blocks, rng)
    labels = partition.assign(X)
    n_distinct = len(np.unique(X, axis=0))
    assert 1 <= partition.n_blocks <= min(n_blocks, n_distinct)
    np.testing.assert_array_equal(np.unique(labels), np.arange(partition.n_blocks))
    assert len(np.unique(np.column_stack([X, labels]), axis=0)) == n_distinct
    if kind == "tree":  # rows that differ can always be told apart
        assert partition.n_blocks >= min(n_blocks, n_distinct, 2)


@settings(max_examples=40)
@given(seed=seeds, kind=kinds, style=styles, n=st.integers(1, 100), d=st.integers(1, 9))
def test_the_block_of_a_row_does_not_depend_on_its_batch(seed, kind, style, n, d):
    rng = np.random.default_rng(seed)
    X = rows(rng, n, d, style)
    partition = PARTITIONS[kind].build(X, 16, rng)
    # Unseen rows between training rows too, where a cut through the middle of two is exact.
    X = np.concatenate([X, 0.5 * (X + X[rng.permutation(n)])])
    labels = partition.assign(X)
    alone = np.concatenate([partition.assign(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(alone, labels)
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(partition.assign(X[order]), labels[order])
    np.testing.assert_array_equal(partition.assign(np.asfortranarray(X)), labels)
    np.testing.assert_array_equal(partition.assign(np.repeat(X, 3, axis=0)[::3]), labels)


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 300), d=st.integers(1, 40))
def test_build_and_assign_project_a_row_to_the_same_bits(seed, n, d):
    rng = np.random.default_rng(seed)
    columns, w = rng.standard_normal((d, n)), rng.standard_normal(d)
    whole = project(columns, w)
    np.testing.assert_array_equal(project(columns, np.repeat(w[:, None], n, axis=1)), whole)
    alone = [project(columns[:, i : i + 1], w)[0] for i in range(n)]
    np.testing.assert_array_equal(alone, whole)
    np.testing.assert_allclose(whole, w @ columns, atol=1e-12)


def test_assignment_in_many_chunks_equals_assignment_in_one(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 77))
    tree = BalancedTree.build(X, 300, rng)
    labels = tree.assign(X)
    monkeypatch.setattr("mosaicgp.data.partition._CHUNK_ROWS", 7)
    np.testing.assert_array_equal(tree.assign(X), labels)


@settings(max_examples=30)
@given(seed=seeds, kind=kinds, style=styles, n=st.integers(1, 100), d=st.integers(1, 5))
def test_arrays_there_and_back(seed, kind, style, n, d):
    rng = np.random.default_rng(seed)
    partition = PARTITIONS[kind].build(rows(rng, n, d, style), 10, rng)
    arrays = partition.to_arrays()
    restored = PARTITIONS[kind].from_arrays({k: v.copy() for k, v in arrays.items()})
    X_new = rng.standard_normal((50, d))
    assert isinstance(restored, Partition)
    assert restored.kind == kind
    assert restored.n_blocks == partition.n_blocks
    np.testing.assert_array_equal(restored.assign(X_new), partition.assign(X_new))


@given(seed=seeds, kind=kinds)
def test_the_same_seed_gives_the_same_partition(seed, kind):
    X = np.random.default_rng(seed).standard_normal((3000, 3))
    first, second = (
        PARTITIONS[kind].build(X, 20, np.random.default_rng(seed)).to_arrays() for _ in range(2)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def test_ties_move_the_cut_to_the_nearest_boundary():
    rng = np.random.default_rng(0)
    for n_low, sizes in ((45, [45, 55]), (70, [70, 30]), (1, [1, 99])):
        X = np.repeat([0.0, 1.0], [n_low, 100 - n_low])[:, None]
        tree = BalancedTree.build(X, 2, rng)
        np.testing.assert_array_equal(np.sort(np.bincount(tree.assign(X))), np.sort(sizes))
    # 48 | 50 | 2: the boundary at 48 is nearer to half than the one at 98.
    X = np.repeat([0.0, 1.0, 2.0], [48, 50, 2])[:, None]
    labels = BalancedTree.build(X, 2, rng).assign(X)
    np.testing.assert_array_equal(np.sort(np.bincount(labels)), [48, 52])


def test_after_ties_the_blocks_follow_the_rows():
    # A binary column with 90% zeros, across which the first cut goes, and one without ties.
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 100.0], [900, 100]), rng.standard_normal(1000)])
    sizes = np.bincount(BalancedTree.build(X, 10, rng).assign(X))
    np.testing.assert_array_equal(sizes, 100)


def test_one_odd_row_that_the_sample_misses_is_still_cut_off():
    X = np.zeros((100_000, 2))
    X[4321, 1] = 1e-9
    tree = BalancedTree.build(X, 5, np.random.default_rng(0))
    assert tree.n_blocks == 2
    np.testing.assert_array_equal(np.sort(np.bincount(tree.assign(X))), [1, 99_999])


def test_tree_cuts_across_the_long_diagonal():
    rng = np.random.default_rng(0)
    along, across = 10.0 * rng.standard_normal(4000), rng.standard_normal(4000)
    X = np.column_stack([along + across, along - across])
    labels = BalancedTree.build(X, 8, rng).assign(X)
    spread = [np.ptp(along[labels == b]) for b in range(8)]
    assert np.median(spread) < 12  # bands across the diagonal, which is some 70 long
    first = np.array([along[labels == b].mean() for b in range(8)])
    np.testing.assert_array_equal(np.argsort(first * np.sign(first[-1])), np.arange(8))


def test_kmeans_finds_separate_clusters():
    rng = np.random.default_rng(0)
    which = rng.integers(3, size=600)
    X = 20.0 * np.eye(3)[which] + rng.standard_normal((600, 3))
    labels = KMeansCells.build(X, 3, rng).assign(X)
    assert len(np.unique(np.column_stack([which, labels]), axis=0)) == 3


@pytest.mark.parametrize("n_blocks", [100, 300])
def test_kmeans_assigns_to_the_nearest_centre(n_blocks):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2))
    cells = KMeansCells.build(X, n_blocks, rng)
    X_new = rng.standard_normal((200, 2))
    distance = ((X_new[:, None] - cells.centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(cells.assign(X_new), distance.argmin(axis=1))


@pytest.mark.parametrize(("n", "n_blocks"), [(1, 1), (2, 1), (1000, 33)])
@pytest.mark.parametrize("kind", sorted(PARTITIONS))
def test_float32_and_empty_tables_are_assigned(kind, n, n_blocks):
    X = np.random.default_rng(0).standard_normal((n, 2)).astype(np.float32)
    partition = PARTITIONS[kind].build(X, n_blocks, np.random.default_rng(0))
    assert partition.n_blocks == n_blocks
    assert partition.assign(X).shape == (n,)
    assert partition.assign(X[:0]).shape == (0,)


@pytest.mark.parametrize("kind", sorted(PARTITIONS))
def test_a_wrong_number_of_columns_is_named(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    with pytest.raises(ValueError, match=r"\(n, 2\), got \(30, 1\)"):
        PARTITIONS[kind].build(X, 3, rng).assign(X[:, :1])


def test_arrays_that_are_no_tree_are_refused():
    arrays = BalancedTree.build(np.arange(8.0)[:, None], 4, np.random.default_rng(0)).to_arrays()
    for children in ([[0, 2], [-1, -2], [-3, -4]], [[1, 2], [-1, -2], [-3, 1]], [[1, 2], [-1, -2]]):
        with pytest.raises(ValueError, match="partition"):
            BalancedTree.from_arrays({**arrays, "children": np.array(children)})
    with pytest.raises(ValueError, match="centres"):
        KMeansCells.from_arrays({"centres": np.zeros((0, 2))})
