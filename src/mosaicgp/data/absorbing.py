"""Rows that come later join the blocks of those that are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.atomic import whole_file
from mosaicgp.data.blocks import Blocks, StoredBlocks, grouped
from mosaicgp.data.disk import (
    DiskBlocks,
    RecordFile,
    Workspace,
    append_blocks,
    bytes_of,
    records,
    working_file,
)
from mosaicgp.data.division import arranged
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import ArrayRows, Rows, whole

FloatArray = NDArray[np.float64]

ABSORB_BLOCKS = 2048


class Absorbed(NamedTuple):
    """Blocks with new rows in them, and the folder they are in, if any."""

    blocks: Blocks | DiskBlocks
    workspace: Workspace | None


def absorb(
    partition: Partition,
    blocks: Blocks | DiskBlocks,
    rows: Rows,
    first_row: int,
    block_rows: int,
    keep: float,
    rng: np.random.Generator,
    work_dir: str | Path | None,
) -> Absorbed:
    """New standardised rows join the blocks of a partition.

    A random share ``keep`` of the old rows stays; the new ones are numbered from ``first_row`` on.
    Blocks on disk are written anew to ``work_dir``, a few thousand at a time, and the new rows pass
    through files there; what was in the folder stays if anything goes wrong.
    """

    def joined(new: StoredBlocks, first: int, last: int) -> Blocks:
        """Blocks first .. last - 1, and the new rows from the first's label up to the next one."""
        old, old_labels = _rows_between(blocks, first, last)
        stays = rng.uniform(size=len(old)) < keep
        # A cell must not become empty: its newest row stays.
        stays[np.flatnonzero(np.diff(old_labels, prepend=-1))] = True
        low = 0 if first == 0 else int(blocks.label[first])
        high = partition.n_blocks if last == blocks.n_blocks else int(blocks.label[last])
        here, labels = _rows_between(new, *np.searchsorted(new.label, [low, high]))
        here[:, -1] += first_row
        # New rows first: of a cell that is cut, predictions use the first part.
        both = np.concatenate([here, old[stays]])
        found = grouped(
            np.ascontiguousarray(both[:, :-2]),
            both[:, -2],
            np.concatenate([labels, old_labels[stays]]),
            block_rows,
        )
        table = np.append(both[:, -1].astype(np.int64), -1)
        return replace(found, rows=table[found.rows])

    if isinstance(blocks, Blocks):
        new = arranged(ArrayRows(*whole(rows)), partition, block_rows, None)
        return Absorbed(joined(new, 0, blocks.n_blocks), None)
    workspace = Workspace(work_dir)
    try:
        with workspace.scratch() as scratch:
            new = arranged(rows, partition, block_rows, Workspace(scratch))
            workspace.require(bytes_of(blocks.n + new.n, blocks.n_features))
            ranges = _ranges(blocks.label, ABSORB_BLOCKS)
            parts = (joined(new, first, last) for first, last in ranges)
            return Absorbed(_written(parts, workspace.blocks_file, blocks), workspace)
    finally:
        workspace.release()


def _written(parts: Iterable[Blocks], path: Path, before: DiskBlocks) -> DiskBlocks:
    """Blocks in a file, in place of those before, once it is whole."""
    sizes, labels = [], []
    with whole_file(path) as beside, working_file(beside, "wb") as file:
        for part in parts:
            append_blocks(part, file)
            sizes.append(part.sizes)
            labels.append(part.label)
    start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    file_rows = RecordFile(path, int(start[-1]), before.n_features + 2)
    return DiskBlocks(file_rows, start, np.concatenate(labels), before.least)


def _rows_between(
    blocks: Blocks | StoredBlocks, first: int, last: int
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Records and labels of the rows of blocks first .. last - 1."""
    labels = np.repeat(blocks.label[first:last], blocks.sizes[first:last])
    if isinstance(blocks, StoredBlocks):
        ends = blocks.start[first], blocks.start[last]
        return records(*blocks.between(*ends), blocks.numbers(*ends)), labels
    real = blocks.rows[first:last] >= 0
    here = slice(first, last)
    return records(blocks.X[here][real], blocks.y[here][real], blocks.rows[here][real]), labels


def _ranges(label: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """About ``size`` blocks at a time, those of one label together."""
    starts = np.flatnonzero(np.diff(label, prepend=-1))  # first block of each label
    edges = [*starts[::size].tolist(), len(label)]
    return list(pairwise(edges))
