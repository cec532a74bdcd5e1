"""Rows scattered into buckets, and each bucket put in another order, several at a time.

One pass over the rows decides the bucket of each. What stays is a number a row for a table in
memory, and the rows themselves for one that is not: a part of the table is sorted by bucket and
written as a run, and a bucket is read from all runs. Threads share the work: NumPy lets others
run while it computes.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import StoredBlocks, TableBlocks
from mosaicgp.data.disk import DiskBlocks, RecordFile, Workspace, bytes_of, records
from mosaicgp.data.rows import Rows

FloatArray = NDArray[np.float64]
Assign = Callable[[FloatArray], NDArray[np.int64]]
T = TypeVar("T")

WORKERS = min(4, os.cpu_count() or 1)
RUN_ROWS = 2**17


class Buckets(ABC):
    """Rows by bucket, those of a bucket in the order of the table until they are placed."""

    def __init__(self, n_buckets: int) -> None:
        self.first = np.zeros(n_buckets + 1, dtype=np.int64)  # of each bucket's rows, and the end

    @abstractmethod
    def read(self, bucket: int) -> tuple[FloatArray, Any]:
        """X (k, d) of a bucket's rows, and what ``place`` wants of them."""

    @abstractmethod
    def place(self, bucket: int, content: Any, order: NDArray[np.int64]) -> None:
        """Leave the rows of a bucket in this order (k,)."""

    @abstractmethod
    def blocks(
        self, start: NDArray[np.int64], label: NDArray[np.int64], least: int
    ) -> StoredBlocks:
        """Blocks of the rows as they were placed."""

    def rearrange(
        self, arranged: Callable[[int, FloatArray], tuple[NDArray[np.int64], T]]
    ) -> list[T]:
        """Have every bucket put in an order: ``arranged`` takes its number and its X, and returns
        the order of its rows and whatever is to be known of it."""

        def one(bucket: int) -> T:
            X, content = self.read(bucket)
            order, known = arranged(bucket, X)
            self.place(bucket, content, order)
            return known

        return list(in_threads(one, range(len(self.first) - 1)))


class TableBuckets(Buckets):
    """Of a table in memory, as row numbers."""

    def __init__(self, rows: Rows, assign: Assign, n_buckets: int) -> None:
        super().__init__(n_buckets)
        n = rows.count()
        self._rows = rows
        self._order: NDArray[np.integer] = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
        self.first[-1] = n
        if n_buckets > 1:
            self._scatter(assign, n_buckets)

    def _scatter(self, assign: Assign, n_buckets: int) -> None:
        bucket = np.empty(len(self._order), dtype=_small(n_buckets))

        def one(part: tuple[int, FloatArray]) -> None:
            first, X = part
            bucket[first : first + len(X)] = assign(X)

        for _ in in_threads(one, _numbered((X for X, _ in self._rows.chunks(RUN_ROWS)))):
            pass
        self.first[1:] = np.cumsum(np.bincount(bucket, minlength=n_buckets))
        free = self.first[:-1].copy()  # the next place in each bucket
        for start in range(0, len(bucket), RUN_ROWS):
            part = bucket[start : start + RUN_ROWS]
            order = np.argsort(part, kind="stable")
            counts = np.bincount(part, minlength=n_buckets)
            rank = np.arange(len(part)) - np.repeat(np.cumsum(counts) - counts, counts)
            self._order[np.repeat(free, counts) + rank] = order + start
            free += counts

    def read(self, bucket: int) -> tuple[FloatArray, NDArray[np.integer]]:
        numbers = self._order[self.first[bucket] : self.first[bucket + 1]]
        return self._rows.gather(numbers.astype(np.int64))[0], numbers

    def place(self, bucket: int, content: NDArray[np.integer], order: NDArray[np.int64]) -> None:
        content[:] = content.take(order)

    def blocks(self, start: NDArray[np.int64], label: NDArray[np.int64], least: int) -> TableBlocks:
        return TableBlocks(self._rows, self._order, start, label, least)


class FileBuckets(Buckets):
    """Of a table that is not in memory, as rows in files."""

    def __init__(
        self, rows: Rows, assign: Assign, n_buckets: int, scratch: Path, target: Path
    ) -> None:
        super().__init__(n_buckets)
        self._width = rows.n_features + 2
        self._scratch, self._target = scratch / "runs.f64", target
        self._scratch.touch()

        def one(part: tuple[int, tuple[FloatArray, FloatArray]]) -> NDArray[np.int64]:
            first, (X, y) = part
            bucket = assign(X).astype(_small(n_buckets))
            order = np.argsort(bucket, kind="stable")
            found = records(X, y, np.arange(first, first + len(y)))
            _write(self._scratch, bytes_of(first, rows.n_features), found.take(order, axis=0))
            return np.bincount(bucket, minlength=n_buckets)

        counts = np.array(list(in_threads(one, _numbered(rows.chunks(RUN_ROWS)))))  # (runs, k)
        self._counts = counts
        ends = np.cumsum(counts.ravel()).reshape(counts.shape)
        self._starts = ends - counts
        self.first[1:] = np.cumsum(counts.sum(axis=0))
        with target.open("wb") as file:
            file.truncate(bytes_of(int(self.first[-1]), rows.n_features))

    def read(self, bucket: int) -> tuple[FloatArray, FloatArray]:
        found = np.empty((self.first[bucket + 1] - self.first[bucket], self._width))
        done = 0
        with self._scratch.open("rb") as file:
            for start, count in zip(self._starts[:, bucket], self._counts[:, bucket], strict=True):
                if count:
                    file.seek(bytes_of(int(start), self._width - 2))
                    file.readinto(found[done : done + count].data)
                    done += count
        return found[:, :-2], found

    def place(self, bucket: int, content: FloatArray, order: NDArray[np.int64]) -> None:
        offset = bytes_of(int(self.first[bucket]), self._width - 2)
        _write(self._target, offset, content.take(order, axis=0))

    def blocks(self, start: NDArray[np.int64], label: NDArray[np.int64], least: int) -> DiskBlocks:
        file = RecordFile(self._target, int(self.first[-1]), self._width)
        return DiskBlocks(file, start, label, least)


@contextmanager
def scattered(
    rows: Rows, assign: Assign, n_buckets: int, workspace: Workspace | None
) -> Iterator[Buckets]:
    """The rows by the bucket that ``assign`` names: on disk, if there is a ``workspace``."""
    if workspace is None:
        yield TableBuckets(rows, assign, n_buckets)
        return
    workspace.require(2 * bytes_of(rows.count(), rows.n_features))
    with workspace.scratch() as folder:
        yield FileBuckets(rows, assign, n_buckets, folder, workspace.new_file())


def in_threads(function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
    """Results in order; no more items are taken than there are threads for, and one."""
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="mosaicgp-divide")
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _numbered(parts: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Each part with the number of its first row."""
    first = 0
    for part in parts:
        yield first, part
        first += len(part[0]) if isinstance(part, tuple) else len(part)  # type: ignore[arg-type]


def _small(n: int) -> type[np.unsignedinteger]:
    """The type of numbers below n: those of two bytes are sorted many times faster."""
    return np.uint16 if n <= 2**16 else np.uint32


def _write(path: Path, offset: int, rows: FloatArray) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(rows.data)
