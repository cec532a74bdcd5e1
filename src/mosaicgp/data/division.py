"""From rows to a partition and its blocks, for tables of any size.

A large table is divided in two rounds. A tree grown on a sample cuts the space into buckets; then
each bucket, small enough for memory, grows its own tree over all its rows (``data.buckets``), and
the trees are grafted together. Blocks so differ by a row within a bucket, whatever the sample was.
What is in memory and what on disk does not change the result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, joined
from mosaicgp.data.buckets import BucketTask, divide_buckets, grouped, n_blocks_of
from mosaicgp.data.disk import (
    DiskBlocks,
    RecordFile,
    Workspace,
    append_blocks,
    bytes_of,
    records,
    write_blocks,
)
from mosaicgp.data.partition import BalancedTree, KMeansCells, Partition
from mosaicgp.data.rows import Rows, whole

FloatArray = NDArray[np.float64]

# Up to so many rows are divided at once; more, in buckets.
AT_ONCE_ROWS = 2**20
BUCKET_ROWS = 2**17
SAMPLE_ROWS = 2**17


class Division(NamedTuple):
    """The rule that assigns rows to blocks, and the rows by block."""

    partition: Partition
    blocks: Blocks | DiskBlocks


def divide(
    rows: Rows,
    kind: str,
    block_rows: int,
    rng: np.random.Generator,
    scale: FloatArray | None = None,
    workspace: Workspace | None = None,
) -> Division:
    """Divide standardised rows into blocks of about ``block_rows``, near in X times ``scale``.

    With a ``workspace`` the blocks are written there; otherwise they stay in memory.
    """
    n = rows.count()
    if workspace is not None:
        workspace.require(2 * bytes_of(n, rows.n_features))
    if kind == KMeansCells.kind or n <= AT_ONCE_ROWS:
        partition, blocks = _at_once(rows, kind, block_rows, rng, scale)
        return Division(partition, _kept(blocks, workspace))
    return _in_buckets(rows, round(n / BUCKET_ROWS), block_rows, rng, scale, workspace)


def regroup(X: FloatArray, y: FloatArray, partition: Partition, block_rows: int) -> Blocks:
    """Standardised rows by the blocks of a partition that is there already."""
    return grouped(X, y, partition.assign(X), block_rows)


def _at_once(
    rows: Rows, kind: str, block_rows: int, rng: np.random.Generator, scale: FloatArray | None
) -> tuple[Partition, Blocks]:
    """With all rows in memory."""
    X, y = whole(rows)
    n_blocks = n_blocks_of(len(y), block_rows)
    if kind == KMeansCells.kind:
        cells = KMeansCells.build(X, n_blocks, rng, scale)
        return cells, grouped(X, y, cells.assign(X), block_rows)
    tree, labels = BalancedTree.grow(X, n_blocks, rng, scale)
    return tree, grouped(X, y, labels, block_rows)


def _kept(blocks: Blocks, workspace: Workspace | None) -> Blocks | DiskBlocks:
    return blocks if workspace is None else write_blocks(blocks, _new_file(workspace))


def _new_file(workspace: Workspace) -> Path:
    path = workspace.path / "blocks.f64"
    path.unlink(missing_ok=True)  # of an earlier division; who maps it still can read it
    return path


def _in_buckets(
    rows: Rows,
    n_buckets: int,
    block_rows: int,
    rng: np.random.Generator,
    scale: FloatArray | None,
    workspace: Workspace | None,
) -> Division:
    n = rows.count()
    sample, _ = rows.gather(np.sort(rng.choice(n, size=min(n, SAMPLE_ROWS), replace=False)))
    coarse = BalancedTree.build(sample, n_buckets, rng, scale)
    task = BucketTask(rows.n_features, block_rows, int(rng.integers(2**62)), scale)
    if workspace is None:
        memory = _fill(rows, coarse, _MemoryBuckets(coarse.n_blocks, rows.n_features))
        divided = [task.divide(memory.read(k), k) for k in range(coarse.n_blocks)]
        trees, blocks = [tree for tree, _ in divided], [part for _, part in divided]
        return Division(coarse.grafted(trees), joined(_numbered(trees, blocks)))
    with workspace.scratch() as folder:
        files = _fill(rows, coarse, _DiskBuckets(coarse.n_blocks, rows.n_features, folder))
        files.close()
        path = _new_file(workspace)
        found = divide_buckets(task, files.paths, files.counts, path)
    trees = [bucket.tree for bucket in found]
    first = np.cumsum([0, *(tree.n_blocks for tree in trees)])
    label = np.concatenate([b.label + k for b, k in zip(found, first, strict=False)])
    start = np.concatenate([[0], np.cumsum(np.concatenate([b.sizes for b in found]))])
    file = RecordFile(path, int(start[-1]), rows.n_features + 2)
    return Division(coarse.grafted(trees), DiskBlocks(file, start, label, block_rows))


def _numbered(trees: list[BalancedTree], parts: list[Blocks]) -> list[Blocks]:
    """The blocks of each bucket with the labels they have in the grafted tree."""
    first = np.cumsum([0, *(tree.n_blocks for tree in trees)])
    return [replace(b, label=b.label + k) for b, k in zip(parts, first, strict=False)]


_Buckets = TypeVar("_Buckets", "_MemoryBuckets", "_DiskBuckets")


def _fill(rows: Rows, coarse: BalancedTree, buckets: _Buckets) -> _Buckets:
    first = 0
    for X, y in rows.chunks():
        bucket = coarse.assign(X)
        order = np.argsort(bucket, kind="stable")
        found = records(X, y, np.arange(first, first + len(y)))[order]
        values, starts = np.unique(bucket[order], return_index=True)
        for value, part in zip(values, np.split(found, starts[1:]), strict=True):
            buckets.append(int(value), part)
        first += len(y)
    return buckets


class _MemoryBuckets:
    """Records (k, d + 2) by bucket, in the order they came in."""

    def __init__(self, n: int, n_features: int) -> None:
        self._parts: list[list[FloatArray]] = [[] for _ in range(n)]

    def append(self, bucket: int, part: FloatArray) -> None:
        """Add records to a bucket."""
        self._parts[bucket].append(part)

    def read(self, bucket: int) -> FloatArray:
        """All records of a bucket, which is then empty."""
        parts, self._parts[bucket] = self._parts[bucket], []
        return np.concatenate(parts)


class _DiskBuckets:
    """The same, a file a bucket."""

    def __init__(self, n: int, n_features: int, folder: Path) -> None:
        self.paths = [folder / f"{k}.f64" for k in range(n)]
        self.counts = np.zeros(n, dtype=np.int64)
        self._waiting: list[list[FloatArray]] = [[] for _ in range(n)]
        self._n_waiting = 0

    def append(self, bucket: int, part: FloatArray) -> None:
        """Add records to a bucket."""
        self.counts[bucket] += len(part)
        self._waiting[bucket].append(part)
        self._n_waiting += len(part)
        if self._n_waiting >= BUCKET_ROWS:
            self.close()

    def close(self) -> None:
        """Write what waits to be written."""
        for path, parts in zip(self.paths, self._waiting, strict=True):
            if parts:
                with path.open("ab") as file:
                    file.writelines(part.data for part in parts)
            parts.clear()
        self._n_waiting = 0


# ---------------------------------------------------------------------------------------------
# Rows that come later

ABSORB_BLOCKS = 2048


def absorb(
    division: Division,
    X: FloatArray,
    y: FloatArray,
    first_row: int,
    block_rows: int,
    keep: float,
    rng: np.random.Generator,
    workspace: Workspace | None,
) -> Division:
    """New standardised rows join the blocks, in which a random share ``keep`` of the old stays.

    The new rows are numbered from ``first_row`` on. Blocks on disk are written anew to the
    ``workspace``, a few thousand at a time.
    """
    partition, blocks = division
    labels = partition.assign(X)
    numbers = np.arange(first_row, first_row + len(y))
    order = np.argsort(labels, kind="stable")
    new = records(X, y, numbers)[order]
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
        return Division(partition, part(0, blocks.n_blocks))
    assert workspace is not None
    workspace.require(bytes_of(blocks.n + len(y), blocks.n_features))
    path = _new_file(workspace)
    sizes, new_labels = [], []
    with path.open("wb") as file:
        for first, last in _ranges(blocks.label, ABSORB_BLOCKS):
            found = part(first, last)
            append_blocks(found, file)
            sizes.append(found.sizes)
            new_labels.append(found.label)
    start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    file_rows = RecordFile(path, int(start[-1]), blocks.n_features + 2)
    return Division(
        partition, DiskBlocks(file_rows, start, np.concatenate(new_labels), blocks.least)
    )


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
