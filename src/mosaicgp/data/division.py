"""From rows to a partition and its blocks, for tables of any size.

A large table is divided in two rounds. A tree grown on a sample cuts the space into buckets; then
each bucket grows its own tree over all its rows (``data.buckets``), and the trees are grafted
together. Blocks so differ by at most a row within a bucket, whatever the sample was; and in the
whole table too, if every bucket has as many rows as the square of ``block_rows``. What is in memory
and what on disk does not change the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import (
    LARGEST_CELL,
    Blocks,
    StoredBlocks,
    chunk,
    chunk_size,
    cut_cells,
    grouped,
    least_rows,
)
from mosaicgp.data.buckets import GROUPS, Buckets, scattered
from mosaicgp.data.disk import DiskBlocks, Workspace, bytes_of, written
from mosaicgp.data.memory import give_back
from mosaicgp.data.partition import BalancedTree, KMeansCells, Partition
from mosaicgp.data.rows import Rows
from mosaicgp.data.threads import WORKERS

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int64]

# Rows of a bucket, about; and of the sample that the space is cut into buckets by.
BUCKET_ROWS = 2**17
SAMPLE_ROWS = 2**17

# Rows of a block where noise is independent, and blocks are no more than rows worked on at a time.
CHUNK_ROWS = 1024


class Division(NamedTuple):
    """The rule that assigns rows to blocks, and the rows by block."""

    partition: Partition
    blocks: StoredBlocks


def divide(
    rows: Rows,
    kind: str,
    block_rows: int,
    rng: np.random.Generator,
    scale: FloatArray | None = None,
    workspace: Workspace | None = None,
) -> Division:
    """Divide standardised rows into blocks of about ``block_rows``, near in X times ``scale``.

    With a ``workspace`` the blocks are written there; otherwise the rows stay in memory where they
    are, and must be fetched from there in any order.
    """
    _require_room(rows, workspace)
    if kind == KMeansCells.kind:
        n_blocks = n_blocks_of(rows.count(), block_rows)
        cells = KMeansCells.of_rows(rows, n_blocks, rng, scale)
        return Division(cells, arranged(rows, cells, block_rows, workspace))
    coarse = _coarse(rows, rng, scale)
    seed = int(rng.integers(2**62))

    def grown(bucket: int, X: FloatArray) -> tuple[Labels, tuple[BalancedTree, Labels]]:
        own = np.random.default_rng([seed, bucket])
        n_blocks = n_blocks_of(len(X), block_rows)
        tree, order, start = BalancedTree.grow(X, n_blocks, own, scale)
        return order, (tree, np.diff(start))

    with scattered(rows, coarse.assign, coarse.n_blocks, workspace) as buckets:
        trees, sizes = zip(*buckets.rearrange(grown), strict=True)
    give_back()
    blocks = _blocks(buckets, np.concatenate(sizes), block_rows)
    return Division(coarse.grafted(trees), blocks)


def arranged(
    rows: Rows, partition: Partition, block_rows: int, workspace: Workspace | None
) -> StoredBlocks:
    """Standardised rows by the blocks of a partition that is there already."""
    _require_room(rows, workspace)
    n_cells = partition.n_blocks
    per_bucket = -(-n_cells // _n_buckets(rows.count()))

    def sorted_by_cell(bucket: int, X: FloatArray) -> tuple[Labels, Labels]:
        cell = partition.assign(X) - bucket * per_bucket
        here = min(per_bucket, n_cells - bucket * per_bucket)
        return np.argsort(cell, kind="stable"), np.bincount(cell, minlength=here)

    n_buckets = -(-n_cells // per_bucket)
    with scattered(
        rows, lambda X: partition.assign(X) // per_bucket, n_buckets, workspace
    ) as buckets:
        sizes = buckets.rearrange(sorted_by_cell)
    give_back()
    return _blocks(buckets, np.concatenate(sizes), block_rows)


def regroup(X: FloatArray, y: FloatArray, partition: Partition | None, block_rows: int) -> Blocks:
    """The same of rows in memory, as arrays; without a partition blocks of consecutive rows."""
    if partition is None:
        return chunk(X, y, CHUNK_ROWS)
    return grouped(X, y, partition.assign(X), block_rows)


def chunked(rows: Rows, size: int, workspace: Workspace) -> DiskBlocks:
    """Blocks of consecutive rows, as ``blocks.chunk`` makes them, on disk."""
    n = rows.count()
    size = chunk_size(n, size)
    workspace.require(bytes_of(n, rows.n_features))
    file = written(rows.chunks(), workspace.new_file()).file
    start = np.append(np.arange(0, n, size), n)
    return DiskBlocks(file, start, np.arange(len(start) - 1), size)


def n_blocks_of(n: int, block_rows: int) -> int:
    """Blocks that n rows are divided into: so many that none is larger than ``block_rows``, which
    every block is padded to; so all tables share one shape."""
    return -(-n // block_rows)


def working_bytes(n: int, n_features: int) -> int:
    """Room that n rows take on disk while they are divided: once, and twice, as they were scattered
    and by block, those of a group of buckets and of the buckets that threads have in hand."""
    n_buckets = _n_buckets(n)
    twice = min(n_buckets, -(-n_buckets // GROUPS) + WORKERS)
    return bytes_of(n + n * twice // n_buckets, n_features)


def _require_room(rows: Rows, workspace: Workspace | None) -> None:
    if workspace is not None:
        workspace.require(working_bytes(rows.count(), rows.n_features))


def _n_buckets(n: int) -> int:
    return max(1, round(n / BUCKET_ROWS))


def _coarse(rows: Rows, rng: np.random.Generator, scale: FloatArray | None) -> BalancedTree:
    """A tree that cuts the space into buckets."""
    n = rows.count()
    n_buckets = _n_buckets(n)
    sample = np.zeros((1, rows.n_features))
    if n_buckets > 1:
        chosen = np.sort(rng.choice(n, min(n, SAMPLE_ROWS), replace=False, shuffle=False))
        sample, _ = rows.gather(chosen)
    return BalancedTree.build(sample, n_buckets, rng, scale)


def _blocks(buckets: Buckets, cell_sizes: Labels, block_rows: int) -> StoredBlocks:
    start, label = cut_cells(cell_sizes, LARGEST_CELL * block_rows)
    return buckets.blocks(start, label, least_rows(start, block_rows))
