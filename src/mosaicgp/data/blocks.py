"""Rows gathered into padded blocks of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SMALLEST_CHUNK = 8


class BlockRows(NamedTuple):
    """A few blocks in front: X (S, n_b, d), y (S, n_b), mask (S, n_b)."""

    X: NDArray[np.floating]
    y: NDArray[np.floating]
    mask: NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Blocks:
    """B blocks of n_b rows; a block with fewer rows is padded with zeros at its end."""

    X: NDArray[np.floating]  # (B, n_b, d)
    y: NDArray[np.floating]  # (B, n_b)
    mask: NDArray[np.floating]  # (B, n_b): 1 for a row, 0 for padding
    rows: NDArray[np.int64]  # (B, n_b): the row's index in the table, -1 for padding
    label: NDArray[np.int64]  # (B,): the block's label; a label that was cut has several blocks

    @property
    def n(self) -> int:
        """Rows in all blocks, without padding."""
        return int(np.count_nonzero(self.rows >= 0))

    @property
    def n_blocks(self) -> int:
        """Number of blocks B."""
        return self.rows.shape[0]

    @property
    def block_size(self) -> int:
        """Rows n_b of a block, with padding."""
        return self.rows.shape[1]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows (B,) of each block, without padding."""
        return np.count_nonzero(self.rows >= 0, axis=1)

    @property
    def n_features(self) -> int:
        """Inputs d."""
        return self.X.shape[2]

    def take(self, units: NDArray[np.int64]) -> BlockRows:
        """Copies of the blocks of these numbers."""
        return BlockRows(self.X[units], self.y[units], self.mask[units])

    def rows_of(self, unit: int) -> NDArray[np.int64]:
        """Numbers in the table of the rows of a block."""
        return self.rows[unit][self.rows[unit] >= 0]


def group(
    X: ArrayLike,
    y: ArrayLike,
    labels: ArrayLike,
    pad_multiple: int = 8,
    max_size: int | None = None,
) -> Blocks:
    """Blocks of the rows of X (n, d) and y (n,) that share a label (n,), in order of label.

    Rows keep their order within a block. Blocks are padded to the largest one, rounded up to a
    multiple of `pad_multiple`. A label with more than `max_size` rows is cut, in row order, into
    the fewest blocks that hold it, whose sizes differ by at most one.
    """
    X, y = _checked(X, y)
    labels = np.asarray(labels)
    if labels.shape != y.shape or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels: must be {len(y)} integers, one a row")
    if pad_multiple < 1:
        raise ValueError(f"pad_multiple: must be at least 1, got {pad_multiple}")
    if max_size is not None and max_size < 1:
        raise ValueError(f"max_size: must be at least 1, got {max_size}")
    order = np.argsort(labels, kind="stable")
    label, start, count = np.unique(labels[order], return_index=True, return_counts=True)
    pieces = np.ones_like(count) if max_size is None else -(-count // max_size)
    rank = np.arange(len(order)) - np.repeat(start, count)
    block = np.repeat(np.cumsum(pieces) - pieces, count)
    block += rank * np.repeat(pieces, count) // np.repeat(count, count)
    sizes = np.bincount(block)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    block_size = padded_size(sizes, pad_multiple)
    rows = np.full((len(sizes), block_size), -1, dtype=np.int64)
    rows[block, place] = order
    return _gather(X, y, rows, np.repeat(label, pieces).astype(np.int64))


def padded_size(sizes: NDArray[np.int64], pad_multiple: int) -> int:
    """Rows that every block is padded to."""
    return -(-int(sizes.max()) // pad_multiple) * pad_multiple


def padded(blocks: Blocks, least: int, pad_multiple: int = 1) -> Blocks:
    """The same blocks with room for at least so many rows each."""
    more = -(-least // pad_multiple) * pad_multiple - blocks.block_size
    if more <= 0:
        return blocks

    def wider(array: NDArray, fill: float) -> NDArray:
        room = [(0, 0), (0, more), *[(0, 0)] * (array.ndim - 2)]
        return np.pad(array, room, constant_values=fill)

    return Blocks(
        X=wider(blocks.X, 0.0),
        y=wider(blocks.y, 0.0),
        mask=wider(blocks.mask, 0.0),
        rows=wider(blocks.rows, -1),
        label=blocks.label,
    )


def joined(parts: list[Blocks]) -> Blocks:
    """Blocks of several groups as one, padded to the largest."""
    size = max(part.block_size for part in parts)
    parts = [padded(part, size) for part in parts]
    fields = ("X", "y", "mask", "rows", "label")
    return Blocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def chunk(X: ArrayLike, y: ArrayLike, size: int) -> Blocks:
    """Blocks of consecutive rows of X (n, d) and y (n,), for noise independent between rows.

    A block has `size` rows, but not more than the power of two that holds all n, nor less than 8;
    so tables of similar size give blocks of one shape. Each block is its own label.
    """
    X, y = _checked(X, y)
    if size < 1:
        raise ValueError(f"size: must be at least 1, got {size}")
    n = len(y)
    size = max(min(size, 1 << (n - 1).bit_length()), _SMALLEST_CHUNK)
    n_blocks = -(-n // size)
    rows = np.arange(n_blocks * size, dtype=np.int64)
    rows[n:] = -1
    return _gather(X, y, rows.reshape(n_blocks, size), np.arange(n_blocks, dtype=np.int64))


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """X and y as floating-point arrays; float32 stays float32."""
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) == 0:
        raise ValueError(f"X, y: must have shapes (n, d) and (n,), n > 0; got {X.shape}, {y.shape}")
    X, y = (a if np.issubdtype(a.dtype, np.floating) else a.astype(np.float64) for a in (X, y))
    return X, y


def _gather(
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    rows: NDArray[np.int64],
    label: NDArray[np.int64],
) -> Blocks:
    real = rows >= 0
    padded_X = X[rows]  # -1 fetches the last row, which the next line takes away again
    padded_X[~real] = 0.0
    return Blocks(
        X=padded_X,
        y=np.where(real, y[rows], y.dtype.type(0)),
        mask=real.astype(X.dtype),
        rows=rows,
        label=label,
    )
