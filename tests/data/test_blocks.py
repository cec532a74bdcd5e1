"""Blocks: every row once, padding masked, long labels cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaicgp.data.blocks import Blocks, chunk, group

seeds = st.integers(0, 2**32 - 1)


def table(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def check(blocks: Blocks, X: np.ndarray, y: np.ndarray) -> None:
    """Every row of the table stands in the blocks exactly once, the rest is masked zeros."""
    real = blocks.rows >= 0
    assert blocks.X.shape == (blocks.n_blocks, blocks.block_size, X.shape[1])
    assert blocks.y.shape == blocks.mask.shape == blocks.rows.shape
    assert blocks.label.shape == blocks.sizes.shape == (blocks.n_blocks,)
    assert blocks.n == blocks.sizes.sum() == len(y)
    np.testing.assert_array_equal(np.sort(blocks.rows[real]), np.arange(len(y)))
    np.testing.assert_array_equal(blocks.X[real], X[blocks.rows[real]])
    np.testing.assert_array_equal(blocks.y[real], y[blocks.rows[real]])
    np.testing.assert_array_equal(blocks.mask, real)
    assert not blocks.X[~real].any() and not blocks.y[~real].any()
    # Padding at the end of a block, and rows in their original order before it.
    assert (np.diff(blocks.mask, axis=1) <= 0).all()
    assert (np.diff(blocks.rows, axis=1)[real[:, 1:]] > 0).all()
    assert (blocks.sizes > 0).all()


@settings(max_examples=60)
@given(
    seed=seeds,
    n=st.integers(1, 200),
    d=st.integers(1, 4),
    n_labels=st.integers(1, 12),
    pad_multiple=st.sampled_from([1, 5, 8]),
    max_size=st.none() | st.integers(1, 40),
)
def test_group(seed, n, d, n_labels, pad_multiple, max_size):
    rng = np.random.default_rng(seed)
    X, y = table(rng, n, d)
    labels = 3 * rng.integers(n_labels, size=n)  # not consecutive: some labels have no rows
    blocks = group(X, y, labels, pad_multiple, max_size)
    check(blocks, X, y)
    real = blocks.rows >= 0
    np.testing.assert_array_equal(
        np.broadcast_to(blocks.label[:, None], real.shape)[real], labels[blocks.rows[real]]
    )
    assert (np.diff(blocks.label) >= 0).all()
    assert blocks.block_size % pad_multiple == 0
    assert blocks.block_size - blocks.sizes.max() < pad_multiple
    for label in np.unique(labels):
        mine = blocks.label == label
        count = int((labels == label).sum())
        assert mine.sum() == (1 if max_size is None else -(-count // max_size))
        assert np.ptp(blocks.sizes[mine]) <= 1
        in_order = blocks.rows[mine][real[mine]]
        np.testing.assert_array_equal(in_order, np.flatnonzero(labels == label))


@settings(max_examples=60)
@given(seed=seeds, n=st.integers(1, 200), d=st.integers(1, 4), size=st.integers(1, 300))
def test_chunk(seed, n, d, size):
    X, y = table(np.random.default_rng(seed), n, d)
    blocks = chunk(X, y, size)
    check(blocks, X, y)
    np.testing.assert_array_equal(blocks.rows[blocks.rows >= 0], np.arange(n))
    np.testing.assert_array_equal(blocks.label, np.arange(blocks.n_blocks))
    assert (blocks.sizes[:-1] == blocks.block_size).all()


@pytest.mark.parametrize(
    ("n", "size", "shape"),
    [
        (1, 4096, (1, 8)),
        (9, 4096, (1, 16)),
        (1000, 4096, (1, 1024)),
        (1024, 4096, (1, 1024)),
        (5000, 4096, (2, 4096)),
        (20, 3, (3, 8)),
        (100, 10, (10, 10)),
    ],
)
def test_size_of_chunks(n, size, shape):
    assert chunk(np.zeros((n, 1)), np.zeros(n), size).rows.shape == shape


def test_a_label_is_cut_into_equal_chunks_in_row_order():
    X, y = table(np.random.default_rng(0), 13, 2)
    labels = np.array([7, 2, 7, 7, 2, 7, 7, 7, 2, 7, 7, 7, 7])
    blocks = group(X, y, labels, pad_multiple=1, max_size=4)
    np.testing.assert_array_equal(blocks.label, [2, 7, 7, 7])
    np.testing.assert_array_equal(
        blocks.rows, [[1, 4, 8, -1], [0, 2, 3, 5], [6, 7, 9, -1], [10, 11, 12, -1]]
    )


@pytest.mark.parametrize(
    ("dtype", "expected"), [(np.float32, np.float32), (float, float), (int, float)]
)
def test_precision_is_kept(dtype, expected):
    X, y = np.ones((5, 2), dtype=dtype), np.ones(5, dtype=dtype)
    for blocks in (chunk(X, y, 8), group(X, y, np.zeros(5, dtype=int))):
        assert blocks.X.dtype == blocks.y.dtype == blocks.mask.dtype == expected


def test_bad_arguments_are_named():
    X, y, labels = np.zeros((4, 2)), np.zeros(4), np.zeros(4, dtype=int)
    with pytest.raises(ValueError, match="shapes"):
        chunk(X, y[:3], 8)
    with pytest.raises(ValueError, match="shapes"):
        group(X[:0], y[:0], labels[:0])
    with pytest.raises(ValueError, match="size"):
        chunk(X, y, 0)
    with pytest.raises(ValueError, match="labels"):
        group(X, y, labels[:3])
    with pytest.raises(ValueError, match="labels"):
        group(X, y, labels + 0.5)
    with pytest.raises(ValueError, match="pad_multiple"):
        group(X, y, labels, pad_multiple=0)
    with pytest.raises(ValueError, match="max_size"):
        group(X, y, labels, max_size=0)
