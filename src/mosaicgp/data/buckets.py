"""Rows scattered into buckets, and each bucket put in another order, several at a time.

One pass over the rows decides the bucket of each. What stays is a number a row for a table in
memory, and the rows themselves for one that is not: a part of the table is sorted by bucket and
written as runs, a file for every few buckets, and a bucket is read from all its runs. A file goes
when its buckets are in order, so that rows are on disk little more than once, and the new ones take
the memory of those that went.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import StoredBlocks, TableBlocks
from mosaicgp.data.disk import (
    DiskBlocks,
    RecordFile,
    Workspace,
    bytes_of,
    records,
    working_file,
)
from mosaicgp.data.rows import Part, Rows
from mosaicgp.data.threads import WORKERS, in_threads

FloatArray = NDArray[np.float64]
Assign = Callable[[FloatArray], NDArray[np.int64]]
T = TypeVar("T")

RUN_ROWS = 2**17
MOST_BYTES = 2**30  # asked of the system at a time
GROUPS = 16  # files of runs


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

        found = []
        for bucket, known in enumerate(in_threads(one, range(len(self.first) - 1))):
            found.append(known)
            self.done(bucket)
        return found

    def done(self, bucket: int) -> None:  # noqa: B027 - most have nothing to do
        """This bucket and all before it are placed."""


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

        def one(part: tuple[int, Part]) -> None:
            first, (X, _) = part
            bucket[first : first + len(X)] = assign(X)

        for _ in in_threads(one, _numbered(self._rows)):
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
        self._target = target
        self._group = np.arange(n_buckets) * min(GROUPS, n_buckets) // n_buckets  # ascending
        self._files = [scratch / f"runs-{g}.f64" for g in range(self._group[-1] + 1)]
        for path in self._files:
            path.touch()
        ends = np.searchsorted(self._group, np.arange(len(self._files)), side="right")
        used = np.zeros(len(self._files), dtype=np.int64)  # rows in each file
        appending = Lock()

        def one(part: tuple[int, Part]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            first, (X, y) = part
            bucket = assign(X).astype(_small(n_buckets))
            order = np.argsort(bucket, kind="stable")
            found = records(X, y, np.arange(first, first + len(y))).take(order, axis=0)
            counts = np.bincount(bucket, minlength=n_buckets)
            last = np.cumsum(counts)
            stop = last[ends - 1]
            start = np.concatenate([[0], stop[:-1]])
            with appending:
                at = used.copy()
                used[:] += stop - start
            for file, to, a, b in zip(self._files, at, start, stop, strict=True):
                _write(file, bytes_of(int(to), rows.n_features), found[a:b])
            return counts, last - counts + (at - start)[self._group]

        parts = list(in_threads(one, _numbered(rows)))
        self._counts = np.array([counts for counts, _ in parts])  # (runs, k)
        self._starts = np.array([starts for _, starts in parts])  # within the file of the group
        self.first[1:] = np.cumsum(self._counts.sum(axis=0))
        with working_file(target, "wb") as file:
            file.truncate(bytes_of(int(self.first[-1]), rows.n_features))
        self.room = bytes_of(int(np.sort(used)[-1 - WORKERS :].sum()), rows.n_features)

    def read(self, bucket: int) -> tuple[FloatArray, FloatArray]:
        found = np.empty((self.first[bucket + 1] - self.first[bucket], self._width))
        done = 0
        path = self._files[self._group[bucket]]
        with path.open("rb", buffering=0) as file:
            for start, count in zip(self._starts[:, bucket], self._counts[:, bucket], strict=True):
                if count:
                    file.seek(bytes_of(int(start), self._width - 2))
                    left = found[done : done + count].data.cast("B")
                    while left:  # a call may read less than it was asked for
                        read = file.readinto(left[:MOST_BYTES])
                        if not read:
                            raise OSError(f"{path} was cut short while it was in use")
                        left = left[read:]
                    done += count
        return found[:, :-2], found

    def place(self, bucket: int, content: FloatArray, order: NDArray[np.int64]) -> None:
        offset = bytes_of(int(self.first[bucket]), self._width - 2)
        _write(self._target, offset, content.take(order, axis=0))

    def done(self, bucket: int) -> None:
        if bucket + 1 == len(self._group) or self._group[bucket + 1] > self._group[bucket]:
            self._files[self._group[bucket]].unlink()

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
    with workspace.scratch() as folder:
        buckets = FileBuckets(rows, assign, n_buckets, folder, workspace.new_file())
        workspace.require(buckets.room)
        yield buckets


def _numbered(rows: Rows) -> Iterator[tuple[int, Part]]:
    """Parts of a table, each with the number of its first row."""
    first = 0
    for X, y in rows.chunks(RUN_ROWS):
        yield first, (X, y)
        first += len(y)


def _small(n: int) -> type[np.unsignedinteger]:
    """The type of numbers below n: those of two bytes are sorted many times faster."""
    return np.uint16 if n <= 2**16 else np.uint32


def _write(path: Path, offset: int, rows: FloatArray) -> None:
    with working_file(path, "r+b") as file:
        file.seek(offset)
        file.write(rows.data)
