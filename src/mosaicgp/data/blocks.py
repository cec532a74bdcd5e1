"""Rows gathered into padded blocks of one shape, at once or when they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mosaicgp.data.rows import Rows

_SMALLEST_CHUNK = 8

# Small tables share few shapes, and so compilations; in large ones padding costs more.
SMALL_ROWS = 512
SMALL_PAD, PAD = 32, 8

# A cell that ties made larger than this many times a block is cut.
LARGEST_CELL = 4


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


class StoredBlocks(ABC):
    """Blocks whose rows are fetched, and padded, when they are asked for.

    Rows stand in an order in which those of a block follow each other.
    """

    start: NDArray[np.int64]  # (B + 1,): first row of each block, and the end of the last
    label: NDArray[np.int64]  # (B,): the block's label; a label that was cut has several blocks
    least: int  # rows that every block is padded to, unless one is larger

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Inputs d."""

    @abstractmethod
    def between(self, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """X and y of rows first .. last - 1 in the order of the blocks."""

    @abstractmethod
    def numbers(self, first: int, last: int) -> NDArray[np.int64]:
        """The numbers that those rows have in the table."""

    @property
    def n(self) -> int:
        """Rows in all blocks."""
        return int(self.start[-1])

    @property
    def n_blocks(self) -> int:
        """Number of blocks B."""
        return len(self.label)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows (B,) of each block, without padding."""
        return np.diff(self.start)

    @cached_property
    def block_size(self) -> int:
        """Rows of a block, with padding."""
        return padded_size(np.append(self.sizes, self.least), PAD)

    def take(self, units: NDArray[np.int64]) -> BlockRows:
        """The blocks of these numbers, padded."""
        shape = (len(units), self.block_size)
        X, y, mask = np.zeros((*shape, self.n_features)), np.zeros(shape), np.zeros(shape)
        for place, unit in enumerate(units):
            first, last = self.start[unit], self.start[unit + 1]
            k = last - first
            X[place, :k], y[place, :k] = self.between(first, last)
            mask[place, :k] = 1.0
        return BlockRows(X, y, mask)

    def rows_of(self, unit: int) -> NDArray[np.int64]:
        """Numbers in the table of the rows of a block."""
        return self.numbers(self.start[unit], self.start[unit + 1])

    def in_memory(self) -> Blocks:
        """The same blocks as arrays."""
        rows = _padded_rows(self.numbers(0, self.n), self.start, self.block_size)
        return Blocks(*self.take(np.arange(self.n_blocks)), rows, self.label)


@dataclass(frozen=True, eq=False)
class TableBlocks(StoredBlocks):
    """Blocks of a table that stays as it is in memory: beside it, a number a row."""

    rows: Rows  # standardised; gathered in any order
    order: NDArray[np.integer]  # (n,): numbers of the rows, block by block
    start: NDArray[np.int64]
    label: NDArray[np.int64]
    least: int

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    def between(self, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.rows.gather(self.numbers(first, last))

    def numbers(self, first: int, last: int) -> NDArray[np.int64]:
        return self.order[first:last].astype(np.int64)


def cut_cells(
    sizes: NDArray[np.int64], max_size: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Blocks of cells with so many rows (c,), in order: ``start`` (B + 1,) and the cell (B,).

    A cell with more than ``max_size`` rows is cut into the fewest blocks that hold it, whose
    sizes differ by at most one; an empty cell has no block.
    """
    pieces = (sizes > 0).astype(np.int64) if max_size is None else -(-sizes // max_size)
    cell = np.repeat(np.arange(len(sizes)), pieces)
    piece = np.arange(len(cell)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    within = -(-piece * sizes[cell] // pieces[cell])
    start = (np.cumsum(sizes) - sizes)[cell] + within
    return np.append(start, sizes.sum()), cell


def least_rows(start: NDArray[np.int64], block_rows: int) -> int:
    """Rows that blocks are padded to when they should have ``block_rows``: so tables share shapes.

    A block that is the only one need not look like those of other tables.
    """
    pad = SMALL_PAD if start[-1] <= SMALL_ROWS else PAD
    sizes = np.diff(start)
    return padded_size(np.append(sizes, block_rows) if len(sizes) > 1 else sizes, pad)


def grouped(
    X: NDArray[np.float64], y: NDArray[np.float64], labels: NDArray[np.int64], block_rows: int
) -> Blocks:
    """Rows by label, padded to ``block_rows`` or more; a cell that is much too large is cut."""
    order = np.argsort(labels, kind="stable")
    start, label = cut_cells(np.bincount(labels), LARGEST_CELL * block_rows)
    return _gather(X, y, _padded_rows(order, start, least_rows(start, block_rows)), label)


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
    label, sizes = np.unique(labels, return_counts=True)
    start, cell = cut_cells(sizes, max_size)
    size = padded_size(np.diff(start), pad_multiple)
    rows = _padded_rows(np.argsort(labels, kind="stable"), start, size)
    return _gather(X, y, rows, label[cell].astype(np.int64))


def padded_size(sizes: NDArray[np.int64], pad_multiple: int) -> int:
    """Rows that every block is padded to."""
    return -(-int(sizes.max()) // pad_multiple) * pad_multiple


def _padded_rows(
    order: NDArray[np.int64], start: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Rows (B, size), -1 for padding, of blocks that lie one after the other in ``order``."""
    rows = np.full((len(start) - 1, size), -1, dtype=np.int64)
    rows[np.arange(size) < np.diff(start)[:, None]] = order
    return rows


def chunk(X: ArrayLike, y: ArrayLike, size: int) -> Blocks:
    """Blocks of consecutive rows of X (n, d) and y (n,), for noise independent between rows.

    A block has `size` rows, but not more than the power of two that holds all n, nor less than 8;
    so tables of similar size give blocks of one shape. Each block is its own label.
    """
    X, y = _checked(X, y)
    if size < 1:
        raise ValueError(f"size: must be at least 1, got {size}")
    n = len(y)
    size = chunk_size(n, size)
    n_blocks = -(-n // size)
    rows = np.arange(n_blocks * size, dtype=np.int64)
    rows[n:] = -1
    return _gather(X, y, rows.reshape(n_blocks, size), np.arange(n_blocks, dtype=np.int64))


def chunk_size(n: int, size: int) -> int:
    """Rows of the blocks that ``chunk`` makes of n rows."""
    return max(min(size, 1 << (n - 1).bit_length()), _SMALLEST_CHUNK)


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
    padded_X = X.take(rows, axis=0)  # -1 fetches the last row, which the next line takes away again
    padded_X[~real] = 0.0
    return Blocks(
        X=padded_X,
        y=np.where(real, y.take(rows), y.dtype.type(0)),
        mask=real.astype(X.dtype),
        rows=rows,
        label=label,
    )
