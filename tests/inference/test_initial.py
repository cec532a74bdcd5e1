"""Where the inverse length-scales of the noise kernel start."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mosaicgp import SparseGPRegressor, stages
from mosaicgp.inference.initial import EPS_RATIO, NEIGHBOURS, eps_ratio

MOST = 15.0


def blocks_of(spacing, d=4, k=3, n=200):
    """Rows on a line along the diagonal, neighbours at distance ``spacing``; some rows pad."""
    rows = np.arange(n)[:, None] * np.full(d, spacing / np.sqrt(d))
    mask = np.ones((k, n))
    mask[:, n // 3 :] = 0.0
    return np.where(mask[..., None] > 0, rows, 0.0), mask


def neighbours(X, mask, ratio):
    """The median over the rows of all blocks, by definition."""
    each = []
    for rows, real in zip(X, mask, strict=True):
        rows = rows[real > 0] * ratio / np.sqrt(X.shape[2])
        kernel = np.exp(-0.5 * ((rows[:, None] - rows[None]) ** 2).sum(axis=2))
        each.append(kernel.sum(axis=1) - 1.0)
    return np.median(np.concatenate(each))


def test_rows_with_near_neighbours_take_the_finest():
    X, mask = blocks_of(0.01)
    assert eps_ratio(X, mask, MOST) == MOST


def test_rows_without_neighbours_take_the_coarsest():
    X, mask = blocks_of(1e3)
    assert eps_ratio(X, mask, MOST) == EPS_RATIO


def test_doubles_are_no_neighbours():
    X, mask = blocks_of(1e3)
    assert eps_ratio(np.repeat(X, 2, axis=1), np.repeat(mask, 2, axis=1), MOST) == EPS_RATIO


@pytest.mark.parametrize("spacing", [0.15, 0.3, 0.6])
@pytest.mark.parametrize("d", [1, 4, 50])
def test_otherwise_a_typical_row_has_half_a_neighbour(spacing, d):
    X, mask = blocks_of(spacing * np.sqrt(d), d)
    ratio = eps_ratio(X, mask, MOST)
    assert EPS_RATIO < ratio < MOST
    # Of a grid of ratios the finest that has enough; the next finer has not.
    assert neighbours(X, mask, ratio) >= NEIGHBOURS
    assert neighbours(X, mask, ratio * (MOST / EPS_RATIO) ** (1 / 39)) < NEIGHBOURS


@pytest.mark.parametrize(("d", "near"), [(1, True), (30, False)])
def test_a_fit_by_blocks_starts_there(d, near, monkeypatch):
    """400 normal rows have neighbours in one input, and none in thirty."""
    rng = np.random.default_rng(0)
    X, starts, own = rng.normal(size=(400, d)), [], stages.fit_stochastic

    def spy(free, *rest):
        starts.append(np.exp(free.log_eps_lam) * np.sqrt(d))
        return own(free, *rest)

    monkeypatch.setattr(stages, "fit_stochastic", spy)
    model = SparseGPRegressor(
        inference="stochastic", n_inducing=10, block_size=50, max_iter=2, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X, np.sin(X[:, 0]))
    np.testing.assert_allclose(starts[0] == MOST, near)
    assert np.all(starts[0] >= 0.999 * EPS_RATIO)
