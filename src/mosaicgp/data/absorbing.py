"""Rows that come later join the blocks of those that are there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, grouped
from mosaicgp.data.disk import (
    DiskBlocks,
    RecordFile,
    Workspace,
    append_blocks,
    bytes_of,
    records,
    working_file,
)
from mosaicgp.data.partition import Partition

FloatArray = NDArray[np.float64]

ABSORB_BLOCKS = 2048


def absorb(
    partition: Partition,
    blocks: Blocks | DiskBlocks,
    X: FloatArray,
    y: FloatArray,
    first_row: int,
    block_rows: int,
    keep: float,
    rng: np.random.Generator,
    workspace: Workspace | None,
) -> Blocks | DiskBlocks:
    """New standardised rows join the blocks of a partition.

    A random share ``keep`` of the old rows stays; the new ones are numbered from ``first_row`` on.
    Blocks on disk are written anew to the ``workspace``, a few thousand at a time.
    """
    labels = partition.assign(X)
    numbers = np.arange(first_row, first_row + len(y))
    order = np.argsort(labels, kind="stable")
    new = records(X, y, numbers).take(order, axis=0)
    labels = labels[order]

    def part(first: int, last: int) -> Blocks:
        """Blocks first .. last - 1, and the new rows from the first's label up to the next one."""
        old, old_labels = _rows_between(blocks, first, last)
        stays = rng.uniform(size=len(old)) < keep
        # A cell must not become empty: its newest row stays.
        stays[np.flatnonzero(np.diff(old_labels, prepend=-1))] = True
        low = 0 if first == 0 else int(blocks.label[first])
        high = partition.n_blocks if last == blocks.n_blocks else int(blocks.label[last])
        here = (labels >= low) & (labels < high)
        # New rows first: of a cell that is cut, predictions use the first part.
        both = np.concatenate([new[here], old[stays]])
        found = grouped(
            np.ascontiguousarray(both[:, :-2]),
            both[:, -2],
            np.concatenate([labels[here], old_labels[stays]]),
            block_rows,
        )
        table = np.append(both[:, -1].astype(np.int64), -1)
        return replace(found, rows=table[found.rows])

    if isinstance(blocks, Blocks):
        return part(0, blocks.n_blocks)
    assert workspace is not None
    workspace.require(bytes_of(blocks.n + len(y), blocks.n_features))
    path = workspace.new_file()
    sizes, new_labels = [], []
    with working_file(path, "wb") as file:
        for first, last in _ranges(blocks.label, ABSORB_BLOCKS):
            found = part(first, last)
            append_blocks(found, file)
            sizes.append(found.sizes)
            new_labels.append(found.label)
    start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    file_rows = RecordFile(path, int(start[-1]), blocks.n_features + 2)
    return DiskBlocks(file_rows, start, np.concatenate(new_labels), blocks.least)


def _rows_between(
    blocks: Blocks | DiskBlocks, first: int, last: int
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Records and labels of the rows of blocks first .. last - 1."""
    labels = np.repeat(blocks.label[first:last], blocks.sizes[first:last])
    if isinstance(blocks, DiskBlocks):
        return blocks.file.between(blocks.start[first], blocks.start[last]), labels
    real = blocks.rows[first:last] >= 0
    here = slice(first, last)
    return records(blocks.X[here][real], blocks.y[here][real], blocks.rows[here][real]), labels


def _ranges(label: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """About ``size`` blocks at a time, those of one label together."""
    starts = np.flatnonzero(np.diff(label, prepend=-1))  # first block of each label
    edges = [*starts[::size].tolist(), len(label)]
    return list(pairwise(edges))
