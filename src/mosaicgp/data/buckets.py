"""Buckets of rows divided into blocks, several at a time.

Growing a tree is many small steps of NumPy, between which Python holds its lock: threads get in
each other's way. Workers are processes of their own, told what to do through their standard input
(`python -m mosaicgp.data.buckets`): multiprocessing would run the user's script again in each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, group, padded
from mosaicgp.data.disk import append_blocks, bytes_of
from mosaicgp.data.partition import BalancedTree

FloatArray = NDArray[np.float64]

# Small tables share few shapes, and so compilations; in large ones padding costs more.
SMALL_ROWS = 512
SMALL_PAD, PAD = 32, 8

# A cell that ties made larger than this many times a block is cut.
LARGEST_CELL = 4

# Fewer buckets than this are not worth the start of a process.
LEAST_FOR_WORKERS = 16
WORKERS = min(4, os.cpu_count() or 1)


def grouped(
    X: FloatArray,
    y: FloatArray,
    labels: NDArray[np.int64],
    block_rows: int,
    whole_table: bool = True,
) -> Blocks:
    """Rows by label, padded to ``block_rows`` or more; a cell that is much too large is cut."""
    pad = SMALL_PAD if whole_table and len(y) <= SMALL_ROWS else PAD
    blocks = group(X, y, labels, pad_multiple=pad, max_size=LARGEST_CELL * block_rows)
    return padded(blocks, block_rows, pad) if blocks.n_blocks > 1 else blocks


def n_blocks_of(n: int, block_rows: int) -> int:
    """Blocks that n rows are divided into: so many that none is larger than ``block_rows``, which
    every block is padded to; so all tables share one shape."""
    return -(-n // block_rows)


@dataclass(frozen=True)
class BucketTask:
    """How to divide the records (k, d + 2) of a bucket."""

    n_features: int
    block_rows: int
    seed: int
    scale: FloatArray | None

    def divide(self, found: FloatArray, bucket: int) -> tuple[BalancedTree, Blocks]:
        """A tree over the bucket's rows, and its blocks with the rows' numbers in the table."""
        X, y, numbers = np.ascontiguousarray(found[:, :-2]), found[:, -2], found[:, -1]
        n_blocks = n_blocks_of(len(y), self.block_rows)
        rng = np.random.default_rng([self.seed, bucket])
        tree, labels = BalancedTree.grow(X, n_blocks, rng, self.scale)
        local = grouped(X, y, labels, self.block_rows, whole_table=False)
        table = np.append(numbers.astype(np.int64), -1)  # padding stays -1
        return tree, Blocks(local.X, local.y, local.mask, table[local.rows], local.label)


class Divided(NamedTuple):
    """What became of a bucket whose rows were written by block."""

    tree: BalancedTree
    sizes: NDArray[np.int64]
    label: NDArray[np.int64]


class _Order(NamedTuple):
    """One bucket to divide: read from a file, written to another from a row on."""

    source: str
    target: str
    first_row: int
    bucket: int


class WorkerError(RuntimeError):
    """A worker ended before its work; the message has its last words."""


def divide_buckets(
    task: BucketTask, sources: Sequence[Path], counts: NDArray[np.int64], target: Path
) -> list[Divided]:
    """Write the rows of all bucket files to ``target`` by block; the files are used up."""
    first = np.cumsum(counts) - counts
    target.touch()
    orders = [
        _Order(str(path), str(target), int(row), k)
        for k, (path, row) in enumerate(zip(sources, first, strict=True))
    ]
    if len(orders) < LEAST_FOR_WORKERS or WORKERS == 1 or not sys.executable:
        for order in orders:
            _divide_file(task, order)
    else:
        _by_workers(task, orders)
    return [_collect(Path(order.source)) for order in orders]


def _by_workers(task: BucketTask, orders: list[_Order]) -> None:
    queue: SimpleQueue[_Order] = SimpleQueue()
    for order in orders:
        queue.put(order)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    with ExitStack() as stack:
        # Left in the opposite order: workers are killed first, so that no thread waits for one.
        pool = stack.enter_context(ThreadPoolExecutor(WORKERS))
        workers = [stack.enter_context(_Worker(task, environment)) for _ in range(WORKERS)]
        for done in [pool.submit(worker.run, queue) for worker in workers]:
            done.result()


class _Worker:
    """A process that divides one bucket after the other."""

    def __init__(self, task: BucketTask, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mosaicgp.data.buckets"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        scale = None if task.scale is None else task.scale.tolist()
        self._first_line = json.dumps(asdict(task) | {"scale": scale})

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, queue: SimpleQueue[_Order]) -> None:
        """Have orders done until there are none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(self._first_line + "\n")
            while True:
                self._process.stdin.write(json.dumps(queue.get_nowait()) + "\n")
                self._process.stdin.flush()
                if self._process.stdout.readline() != "done\n":
                    break
        except Empty:
            return
        except BrokenPipeError:
            pass
        assert self._process.stderr is not None
        words = self._process.stderr.read().strip().splitlines()
        raise WorkerError(
            "a process that divides rows into blocks ended early: "
            + (words[-1] if words else "it said nothing; was there too little memory?")
        )


def _divide_file(task: BucketTask, order: _Order) -> None:
    """Rows of the bucket by block into the target; tree and sizes into a file beside the source."""
    source = Path(order.source)
    tree, blocks = task.divide(np.fromfile(source).reshape(-1, task.n_features + 2), order.bucket)
    source.unlink()
    with open(order.target, "r+b") as file:
        file.seek(bytes_of(order.first_row, task.n_features))
        append_blocks(blocks, file)
    arrays: dict[str, Any] = tree.to_arrays()
    np.savez(_beside(source), sizes=blocks.sizes, label=blocks.label, **arrays)


def _collect(source: Path) -> Divided:
    with np.load(_beside(source)) as found:
        arrays = dict(found)
    sizes, label = arrays.pop("sizes"), arrays.pop("label")
    return Divided(BalancedTree.from_arrays(arrays), sizes, label)


def _beside(source: Path) -> Path:
    return source.with_suffix(".npz")


def main() -> None:
    """A worker: the task on the first line of standard input, an order on each that follows."""
    given = json.loads(sys.stdin.readline())
    scale = None if given["scale"] is None else np.array(given["scale"])
    task = BucketTask(**(given | {"scale": scale}))
    for line in sys.stdin:
        _divide_file(task, _Order(*json.loads(line)))
        print("done", flush=True)


if __name__ == "__main__":
    main()
