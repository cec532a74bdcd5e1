"""Where the inverse length-scales of the noise kernel start."""

import numpy as np
import pytest

from mosaicgp.inference.initial import EPS_RATIO, NEIGHBOURS, eps_ratio

MOST = 15.0


def blocks_of(spacing, d=4, k=3, n=40):
    """Rows on a line along the diagonal, neighbours at distance ``spacing``; some rows pad."""
    rows = np.arange(n)[:, None] * np.full(d, spacing / np.sqrt(d))
    mask = np.ones((k, n))
    mask[:, -5:] = 0.0
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


@pytest.mark.parametrize("spacing", [0.15, 0.3, 0.6])
@pytest.mark.parametrize("d", [1, 4, 50])
def test_otherwise_a_typical_row_has_half_a_neighbour(spacing, d):
    X, mask = blocks_of(spacing * np.sqrt(d), d)
    ratio = eps_ratio(X, mask, MOST)
    assert EPS_RATIO < ratio < MOST
    # Of a grid of ratios the finest that has enough; the next finer has not.
    assert neighbours(X, mask, ratio) >= NEIGHBOURS
    assert neighbours(X, mask, ratio * (MOST / EPS_RATIO) ** (1 / 39)) < NEIGHBOURS
