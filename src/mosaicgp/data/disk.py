"""Rows and blocks kept in files: read by position, never all at once.

A row is d + 2 doubles: its inputs, its target and its number in the table. Blocks are read and not
mapped: where the page cache has large pages, a row that is touched in a map counts as megabytes of
resident memory (300 MB more in a fit of ten million rows). Single rows anywhere in a file come from
a map, which takes a third of the time, and what was touched is given back.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from mosaicgp.atomic import BESIDE
from mosaicgp.data.blocks import Blocks, StoredBlocks

FloatArray = NDArray[np.float64]

_ITEM = np.dtype(np.float64).itemsize
_COLUMN_ROWS = 2**14
_SEEKING = Lock()
_MAPPED_ROWS = 64  # touched before they are given back: 128 MB with the largest pages
SCRATCH = "mosaicgp-buckets-"  # beginning of the names of folders


try:
    import fcntl
except ImportError:  # Windows has no such lock; two fits in one folder then go unnoticed
    HAS_LOCK = False
else:
    HAS_LOCK = True


class FolderInUseError(RuntimeError):
    """Another fit holds the lock."""


class FolderLock:
    """Held until closed, or until the process ends in whatever way."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        self.close = weakref.finalize(self, os.close, descriptor)  # or when called
        if not HAS_LOCK:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise FolderInUseError(f"another fit is running in {path.parent}") from error


class WorkFolderError(OSError):
    """A working folder that cannot be used; the message says why."""


@dataclass(frozen=True, eq=False)
class RecordFile:
    """``n`` rows of ``width`` doubles in a file, from byte ``offset`` on."""

    path: Path
    n: int
    width: int
    offset: int = 0

    def __post_init__(self) -> None:
        _ = self._descriptor  # opened now: the path may come to name another file

    @cached_property
    def _descriptor(self) -> int:
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "n", "width", "offset")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def _map(self) -> mmap.mmap:
        length = self.offset + self.n * self.width * _ITEM
        return mmap.mmap(self._descriptor, length, access=mmap.ACCESS_READ)

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """Copies of the given rows (k, width)."""
        values = np.frombuffer(self._map, np.float64, self.n * self.width, self.offset)
        table, found = values.reshape(self.n, self.width), np.empty((len(rows), self.width))
        for k in range(0, len(rows), _MAPPED_ROWS):
            part = slice(k, k + _MAPPED_ROWS)
            found[part] = table.take(rows[part], axis=0)
            if hasattr(mmap, "MADV_DONTNEED"):
                self._map.madvise(mmap.MADV_DONTNEED)
        return found

    def between(self, start: int, stop: int) -> FloatArray:
        """A copy of rows start .. stop - 1."""
        found = np.empty((stop - start, self.width))
        self._read(found.view(np.uint8).reshape(-1), int(start))
        return found

    def column(self, column: int, start: int, stop: int) -> FloatArray:
        """One column of rows start .. stop - 1."""
        steps = range(start, stop, _COLUMN_ROWS)
        parts = [self.between(k, min(k + _COLUMN_ROWS, stop))[:, column] for k in steps]
        return np.concatenate(parts) if parts else np.empty(0)

    def _read(self, into: NDArray[np.uint8], row: int) -> None:
        """Fill ``into`` with bytes from the beginning of a row on."""
        offset, done = self.offset + row * self.width * _ITEM, 0
        while done < len(into):
            read = _read_at(self._descriptor, into[done:], offset + done)
            if read == 0:
                raise OSError(f"{self.path} was cut short while it was in use")
            done += read


def _read_at(descriptor: int, into: NDArray[np.uint8], offset: int) -> int:
    """Bytes read into a buffer from a place in a file, by any number of threads."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [into.data], offset)
    with _SEEKING:  # Windows
        os.lseek(descriptor, offset, os.SEEK_SET)
        found = os.read(descriptor, len(into))
    into[: len(found)] = np.frombuffer(found, dtype=np.uint8)
    return len(found)


@dataclass(frozen=True, eq=False)
class DiskBlocks(StoredBlocks):
    """Blocks whose rows lie one block after the other in a file."""

    file: RecordFile
    start: NDArray[np.int64]
    label: NDArray[np.int64]
    least: int

    @property
    def n_features(self) -> int:
        return self.file.width - 2

    def between(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        found = self.file.between(first, last)
        return found[:, :-2], found[:, -2]

    def numbers(self, first: int, last: int) -> NDArray[np.int64]:
        return self.file.column(-1, first, last).astype(np.int64)


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows in a file as a fit wants them (``data.rows.Rows``), in the order they were written."""

    file: RecordFile

    @property
    def n_features(self) -> int:
        """Inputs d."""
        return self.file.width - 2

    def count(self) -> int:
        """Number of rows n."""
        return self.file.n

    def chunks(self, rows: int = 2**16) -> Iterator[tuple[FloatArray, FloatArray]]:
        """All rows in order, so many at a time."""
        for start in range(0, self.file.n, rows):
            found = self.file.between(start, min(start + rows, self.file.n))
            yield found[:, :-2], found[:, -2]

    def gather(self, rows: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """The rows of these numbers, in any order."""
        found = self.file.take(rows)
        return np.ascontiguousarray(found[:, :-2]), found[:, -2].copy()


@contextmanager
def working_file(path: Path, mode: str) -> Iterator[BinaryIO]:
    """A file of a working folder, open; failures to write it say what to do."""
    try:
        with path.open(mode) as file:
            yield cast(BinaryIO, file)
    except OSError as error:
        raise WorkFolderError(
            f"work_dir: the working file {path} cannot be written ({error}). Make room there, or "
            "choose another folder by work_dir."
        ) from error


def written(parts: Iterator[tuple[FloatArray, FloatArray]], path: Path) -> FileRows:
    """Rows of a table written to a file as they come."""
    n, width = 0, 0
    with working_file(path, "wb") as file:
        for X, y in parts:
            found = records(X, y, np.arange(n, n + len(y)))
            file.write(found.data)
            n, width = n + len(y), found.shape[1]
    return FileRows(RecordFile(path, n, width))


def records(
    X: NDArray[np.floating], y: NDArray[np.floating], rows: NDArray[np.int64]
) -> FloatArray:
    """Rows as they lie in a file: (n, d + 2)."""
    out = np.empty((len(y), X.shape[1] + 2))
    out[:, :-2], out[:, -2], out[:, -1] = X, y, rows
    return out


def append_blocks(blocks: Blocks, file: BinaryIO) -> None:
    """Write the rows of blocks, one block after the other, to an open file."""
    real = blocks.rows >= 0
    file.write(records(blocks.X[real], blocks.y[real], blocks.rows[real]).data)


class Workspace:
    """A folder for the files of one fit, which no other fit may use meanwhile.

    Without a given folder it is a temporary one, ``within`` another if that is named, and removed
    when nothing refers to it any more.
    """

    def __init__(self, folder: str | Path | None, within: str | Path | None = None) -> None:
        try:
            if folder is None:
                if within is not None:
                    Path(within).mkdir(parents=True, exist_ok=True)
                self.path = Path(tempfile.mkdtemp(prefix="mosaicgp-", dir=within))
                weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
            else:
                self.path = Path(folder)
                self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.path / "work.lock")
            for left in self.path.glob(f"{SCRATCH}*"):  # by a fit that was killed
                shutil.rmtree(left)
            for left in self.path.glob(f"*.f64{BESIDE}"):
                left.unlink()
        except (OSError, FolderInUseError) as error:
            raise WorkFolderError(
                f"work_dir: the working folder {folder or within or tempfile.gettempdir()} cannot "
                f"be used ({error}). Choose another folder that you may write to."
            ) from error

    def release(self, keep: bool = True) -> None:
        """The fit is over; what it left in the folder stays, or goes."""
        for path in () if keep else self.path.glob("*.f64"):
            path.unlink()
        self._lock.close()

    def require(self, n_bytes: int) -> None:
        """Refuse before any work when the disk has no room for so many bytes."""
        free = shutil.disk_usage(self.path).free
        if n_bytes > free:
            raise WorkFolderError(
                f"work_dir: the fit needs {n_bytes / 1e9:.1f} GB in {self.path}, where "
                f"{free / 1e9:.1f} GB are free. Free some, or choose another folder by work_dir."
            )

    @property
    def blocks_file(self) -> Path:
        """Where blocks are."""
        return self.path / "blocks.f64"

    def new_file(self) -> Path:
        """Where to write blocks; an earlier file goes, but who has it open still can read it."""
        self.blocks_file.unlink(missing_ok=True)
        return self.blocks_file

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder inside that is removed at the end, whatever happens."""
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=self.path))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def bytes_of(n: int, n_features: int) -> int:
    """Bytes of n rows in a file."""
    return n * (n_features + 2) * _ITEM
