"""Batches: what they contain, how often, and what is held back."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.data import shuffling
from mosaicgp.data.blocks import group
from mosaicgp.data.rows import ArrayRows
from mosaicgp.data.sampling import (
    Ahead,
    BlockSampler,
    RowSampler,
    SamplerState,
    hold_in_blocks,
    hold_rows,
)


def table(n=50):
    X = np.arange(float(n))[:, None] * [1.0, 2.0]
    return X, np.arange(float(n))


def test_rows_are_drawn_uniformly_and_never_those_held():
    X, y = table()
    rng = np.random.default_rng(0)
    held, rows = hold_rows(ArrayRows(X, y), 7, rng)
    sampler = RowSampler(ArrayRows(X, y), 10, rows, rng)
    assert_allclose(np.sort(held.y[0]), y[rows])
    samples = [sampler.next(False) for _ in range(3000)]
    counts = np.bincount(np.concatenate([s.y[0] for s in samples]).astype(int), minlength=50)
    assert np.all(counts[rows] == 0)
    expected = 30_000 / 43
    seen = np.delete(counts, rows)
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(expected))
    assert all(np.array_equal(s.X[0, :, 0], s.y[0]) for s in samples[:20])
    assert_allclose(samples[0].weight, 43 / 10)


def test_a_reshuffled_pass_sees_every_row_once():
    X, y = table()
    none = np.empty(0, dtype=np.int64)
    sampler = RowSampler(ArrayRows(X, y), 10, none, np.random.default_rng(1))
    assert sampler.batches_per_pass == 5
    for _ in range(3):
        seen = np.concatenate([sampler.next(True).y[0] for _ in range(5)])
        assert np.array_equal(np.sort(seen), y)


def test_weighted_sums_over_blocks_are_unbiased_with_unequal_blocks():
    X, y = table()
    rng = np.random.default_rng(2)
    blocks = group(X, y, np.minimum(np.arange(50) // 9, 4), pad_multiple=8)
    sampler = BlockSampler(blocks, None, 2, rng)
    sums = [s.weight * np.sum(s.y * s.mask) for s in (sampler.next(False) for _ in range(4000))]
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - y.sum()) < 4 * error


def test_rows_held_in_blocks_leave_their_block_and_nothing_else():
    X, y = table(640)
    blocks = group(X, y, np.arange(640) // 64)
    held = hold_in_blocks(blocks, 32, np.random.default_rng(0))
    everything = np.arange(blocks.n_blocks)
    mask = held.remaining(everything, blocks.mask)
    assert held.mask.sum() == 32
    assert blocks.mask.sum() - mask.sum() == 32
    for b, rows in zip(held.block, held.y, strict=True):
        gone = blocks.y[b][(blocks.mask[b] > 0) & (mask[b] == 0)]
        assert np.array_equal(np.sort(gone), np.sort(rows))
    sampler = BlockSampler(blocks, held, 10, np.random.default_rng(1))
    assert sampler.next(True).mask.sum() == 640 - 32


def test_blocks_of_one_row_hold_nothing():
    X, y = table(10)
    held = hold_in_blocks(group(X, y, np.arange(10)), 4, np.random.default_rng(0))
    assert held.mask.sum() == 0 and held.left.sum() == len(held.block)


@pytest.mark.parametrize("reshuffled", [False, True])
def test_reading_ahead_changes_nothing(reshuffled):
    X, y = table()
    none = np.empty(0, dtype=np.int64)

    def sampler():
        return RowSampler(ArrayRows(X, y), 8, none, np.random.default_rng(3))

    plain, ahead = sampler(), Ahead(sampler())
    for mode in (reshuffled, reshuffled, not reshuffled, reshuffled):
        assert np.array_equal(plain.next(mode).y, ahead.next(mode).y)
    # A sampler put back to where another stands goes on as that one does.
    other = Ahead(sampler())
    other.state = ahead.state
    expected = [plain.next(mode).y for mode in (True, False, True)]
    assert np.array_equal([ahead.next(mode).y for mode in (True, False, True)], expected)
    assert np.array_equal([other.next(mode).y for mode in (True, False, True)], expected)
    ahead.close()
    other.close()


@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000, 2**14, 40_000])
def test_an_order_that_is_computed_holds_every_number_once(n, monkeypatch):
    monkeypatch.setattr(shuffling, "KEPT_UNITS", 0)
    monkeypatch.setattr(shuffling, "WINDOW", 2**10)
    shuffle = shuffling.Shuffle(n, 5)
    whole = shuffle.between(0, n)
    assert np.array_equal(np.sort(whole), np.arange(n))
    # Looked at anywhere, it is the same.
    for first, last in ((0, min(3, n)), (n // 3, n // 2 + 1), (n // 5, n), (0, n // 7 + 1)):
        assert np.array_equal(shuffle.between(first, last), whole[first:last])


def test_an_order_that_is_computed_looks_random(monkeypatch):
    """Where a number stands says nothing about it, nor about its neighbours, nor does the seed."""
    monkeypatch.setattr(shuffling, "KEPT_UNITS", 0)
    n, cells = 100_000, 20
    orders = [shuffling.Shuffle(n, seed).between(0, n) for seed in range(4)]
    position = np.arange(n)
    pairs = [(position, order) for order in orders]
    pairs += [(order[:-1], order[1:]) for order in orders]
    pairs += [(orders[0], orders[1]), (orders[1], orders[2])]
    freedom = (cells - 1) ** 2
    for one, other in pairs:
        counts = np.histogram2d(one, other, bins=cells, range=[(0, n), (0, n)])[0]
        expected = len(one) / cells**2
        statistic = np.sum((counts - expected) ** 2) / expected
        assert abs(statistic - freedom) < 5.0 * np.sqrt(2.0 * freedom)


def test_a_state_is_a_few_numbers_however_many_rows(monkeypatch):
    monkeypatch.setattr(shuffling, "KEPT_UNITS", 10)
    X, y = table(5000)
    none = np.empty(0, dtype=np.int64)
    sampler = RowSampler(ArrayRows(X, y), 700, none, np.random.default_rng(3))
    for _ in range(9):  # into the second pass
        sampler.next(True)
    kept = json.loads(json.dumps(sampler.state._asdict()))
    other = RowSampler(ArrayRows(X, y), 700, none, np.random.default_rng(99))
    other.state = SamplerState(**kept)
    for mode in (True, False, True):
        assert np.array_equal(sampler.next(mode).y, other.next(mode).y)
