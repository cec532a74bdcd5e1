"""Rows with targets, read in order as often as asked: what a fit needs of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.scaling import Scaling

FloatArray = NDArray[np.float64]
Part = tuple[FloatArray, FloatArray]

CHUNK_ROWS = 2**16


class Rows(Protocol):
    """Rows X (n, d) and targets y (n,); arrays, or a dataset that is never in memory whole."""

    @property
    def n_features(self) -> int:
        """Inputs d."""

    def count(self) -> int:
        """Number of rows n."""

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Part]:
        """All rows in order, so many at a time."""

    def gather(self, rows: NDArray[np.int64]) -> Part:
        """The rows of these numbers, which ascend."""


class UserRows(Rows, Protocol):
    """Rows as the user handed them in."""

    def fingerprint(self) -> str:
        """What tells these rows from others."""


def is_dataset(X: Any) -> bool:
    """Whether X is a ``mosaicgp.data.Dataset``, without importing Arrow to find out."""
    return hasattr(X, "with_encoding")


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows that are in memory, or in one file mapped as an array."""

    X: FloatArray
    y: FloatArray

    @property
    def n_features(self) -> int:
        """Inputs d."""
        return self.X.shape[1]

    def count(self) -> int:
        """Number of rows n."""
        return len(self.y)

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Part]:
        """All rows in order, so many at a time."""
        for start in range(0, len(self.y), rows):
            yield self.X[start : start + rows], self.y[start : start + rows]

    def gather(self, rows: NDArray[np.int64]) -> Part:
        """The rows of these numbers."""
        return self.X.take(rows, axis=0), self.y.take(rows)

    def fingerprint(self) -> str:
        """What tells these rows from others."""
        digest = hashlib.sha256(repr(self.X.shape).encode())
        for X, y in self.chunks():
            digest.update(np.ascontiguousarray(X).data)
            digest.update(np.ascontiguousarray(y).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class StandardRows:
    """The same rows in standardised units."""

    rows: Rows
    scaling: Scaling

    @property
    def n_features(self) -> int:
        """Inputs d."""
        return self.rows.n_features

    def count(self) -> int:
        """Number of rows n."""
        return self.rows.count()

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Part]:
        """All rows in order, so many at a time."""
        for X, y in self.rows.chunks(rows):
            yield self.scaling.transform_X(X), self.scaling.transform_y(y)

    def gather(self, rows: NDArray[np.int64]) -> Part:
        """The rows of these numbers."""
        X, y = self.rows.gather(rows)
        return self.scaling.transform_X(X), self.scaling.transform_y(y)


def whole(rows: Rows) -> Part:
    """All rows in memory."""
    n = rows.count()
    X, y, start = np.empty((n, rows.n_features)), np.empty(n), 0
    for X_part, y_part in rows.chunks():
        part = slice(start, start + len(y_part))
        X[part], y[part] = X_part, y_part
        start = part.stop
    return X, y
