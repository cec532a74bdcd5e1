"""From rows to a partition and its blocks, for tables of any size.

A large table is divided in two rounds. A tree grown on a sample cuts the space into buckets of
half a million rows; then each bucket, small enough for memory, grows its own tree over all its
rows, and the trees are grafted together. Blocks so differ by a row within a bucket, whatever the
sample was. What is in memory and what on disk does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, group, joined
from mosaicgp.data.disk import BlockWriter, DiskBlocks, Workspace, bytes_of, records
from mosaicgp.data.partition import BalancedTree, KMeansCells, Partition
from mosaicgp.data.rows import Rows, whole

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int64]
T = TypeVar("T")

BUCKET_ROWS = 2**19
SAMPLE_ROWS = 2**17

# Small tables share few shapes, and so compilations; in large ones padding costs more.
SMALL_ROWS = 512
SMALL_PAD, PAD = 32, 8

# A cell that ties made larger than this many times a block is cut.
LARGEST_CELL = 4

_THREADS = 2


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
    n_buckets = max(1, round(n / BUCKET_ROWS))
    if kind == KMeansCells.kind or n_buckets == 1:
        partition, parts = _at_once(rows, kind, block_rows, rng, scale)
        return Division(partition, _kept(iter(parts), rows, workspace))
    return _in_buckets(rows, n_buckets, block_rows, rng, scale, workspace)


def regroup(X: FloatArray, y: FloatArray, partition: Partition, block_rows: int) -> Blocks:
    """Standardised rows by the blocks of a partition that is there already."""
    return _grouped(X, y, partition.assign(X), block_rows)


def _grouped(X: FloatArray, y: FloatArray, labels: Labels, block_rows: int) -> Blocks:
    pad = SMALL_PAD if len(y) <= SMALL_ROWS else PAD
    return group(X, y, labels, pad_multiple=pad, max_size=LARGEST_CELL * block_rows)


def _at_once(
    rows: Rows, kind: str, block_rows: int, rng: np.random.Generator, scale: FloatArray | None
) -> tuple[Partition, list[Blocks]]:
    """With all rows in memory."""
    X, y = whole(rows)
    n_blocks = max(1, round(len(y) / block_rows))
    if kind == KMeansCells.kind:
        cells = KMeansCells.build(X, n_blocks, rng, scale)
        return cells, [_grouped(X, y, cells.assign(X), block_rows)]
    tree, labels = BalancedTree.grow(X, n_blocks, rng, scale)
    return tree, [_grouped(X, y, labels, block_rows)]


def _kept(parts: Iterator[Blocks], rows: Rows, workspace: Workspace | None) -> Blocks | DiskBlocks:
    if workspace is None:
        return joined(list(parts))
    path = workspace.path / "blocks.f64"
    path.unlink(missing_ok=True)  # of an earlier division; who maps it still can read it
    writer = BlockWriter(path, rows.n_features)
    for part in parts:
        writer.append(part)
    return writer.finish()


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
    generators = rng.spawn(coarse.n_blocks)
    branches: list[BalancedTree] = []
    if workspace is None:
        buckets: _Buckets = _MemoryBuckets(coarse.n_blocks, rows.n_features)
        blocks = _divided(rows, coarse, buckets, block_rows, generators, scale, branches)
        kept = _kept(blocks, rows, None)
    else:
        with workspace.scratch() as folder:
            buckets = _DiskBuckets(coarse.n_blocks, rows.n_features, folder)
            blocks = _divided(rows, coarse, buckets, block_rows, generators, scale, branches)
            kept = _kept(blocks, rows, workspace)
    return Division(coarse.grafted(branches), kept)


def _divided(
    rows: Rows,
    coarse: BalancedTree,
    buckets: _Buckets,
    block_rows: int,
    generators: list[np.random.Generator],
    scale: FloatArray | None,
    branches: list[BalancedTree],
) -> Iterator[Blocks]:
    """Blocks bucket by bucket; ``branches`` receives the tree of each."""
    _fill(rows, coarse, buckets)

    def one(bucket: int) -> tuple[BalancedTree, Blocks]:
        found = buckets.read(bucket)
        X, y, numbers = np.ascontiguousarray(found[:, :-2]), found[:, -2], found[:, -1]
        n_blocks = max(1, round(len(y) / block_rows))
        tree, labels = BalancedTree.grow(X, n_blocks, generators[bucket], scale)
        local = _grouped(X, y, labels, block_rows)
        table = np.append(numbers.astype(np.int64), -1)  # padding stays -1
        return tree, Blocks(local.X, local.y, local.mask, table[local.rows], local.label)

    first = 0
    for tree, part in _in_threads(one, coarse.n_blocks):
        branches.append(tree)
        yield Blocks(part.X, part.y, part.mask, part.rows, part.label + first)
        first += tree.n_blocks


def _fill(rows: Rows, coarse: BalancedTree, buckets: _Buckets) -> None:
    first = 0
    for X, y in rows.chunks():
        bucket = coarse.assign(X)
        order = np.argsort(bucket, kind="stable")
        found = records(X, y, np.arange(first, first + len(y)))[order]
        values, starts = np.unique(bucket[order], return_index=True)
        for value, part in zip(values, np.split(found, starts[1:]), strict=True):
            buckets.append(int(value), part)
        first += len(y)


def _in_threads(one: Callable[[int], T], n: int) -> Iterator[T]:
    """one(0), one(1), ... in order, a few ahead of what is asked for."""
    with ThreadPoolExecutor(_THREADS) as pool:
        ahead = [pool.submit(one, k) for k in range(min(_THREADS, n))]
        for k in range(n):
            found = ahead.pop(0).result()
            if k + _THREADS < n:
                ahead.append(pool.submit(one, k + _THREADS))
            yield found


class _MemoryBuckets:
    """Records (k, d + 2) by bucket, in the order they came in."""

    def __init__(self, n: int, n_features: int) -> None:
        self._parts: list[list[FloatArray]] = [[] for _ in range(n)]
        self._width = n_features + 2

    def append(self, bucket: int, part: FloatArray) -> None:
        """Add records to a bucket."""
        self._parts[bucket].append(part)

    def read(self, bucket: int) -> FloatArray:
        """All records of a bucket, which is then empty."""
        parts, self._parts[bucket] = self._parts[bucket], []
        return np.concatenate([np.empty((0, self._width)), *parts])


class _DiskBuckets:
    """The same, a file a bucket."""

    def __init__(self, n: int, n_features: int, folder: Path) -> None:
        self._paths = [folder / f"{k}.f64" for k in range(n)]
        self._width = n_features + 2

    def append(self, bucket: int, part: FloatArray) -> None:
        """Add records to a bucket."""
        with self._paths[bucket].open("ab") as file:
            file.write(part.data)

    def read(self, bucket: int) -> FloatArray:
        """All records of a bucket, which is then empty."""
        found = np.fromfile(self._paths[bucket]).reshape(-1, self._width)
        self._paths[bucket].unlink()
        return found


_Buckets = _MemoryBuckets | _DiskBuckets
