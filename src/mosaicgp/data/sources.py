"""Where rows come from: files that Arrow reads, tables in memory, NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from mosaicgp.data.encoding import DatasetError
from mosaicgp.data.files import READAHEAD, File, Piece, batch_rows

TARGET = "(target)"  # the column of targets that came as an array of their own


class Source(Protocol):
    """Rows that can be read again and again, in one order."""

    @property
    def schema(self) -> pa.Schema:
        """The columns there are."""

    def pieces(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[Piece]:
        """These columns of the rows that pass the filter, with bounded memory."""

    def count(self, filter: pc.Expression | None) -> int:
        """Number of rows that pass the filter."""

    def check_unchanged(self) -> None:
        """Raises if a file is not what it was when it was opened."""

    def identity(self) -> list[Any] | None:
        """What tells files apart without reading them, for JSON; None for data in memory."""


@dataclass(frozen=True, eq=False)
class TableSource:
    """Rows of an Arrow table in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def pieces(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[Piece]:
        projection = {name: ds.field(name) for name in columns}
        scanner = ds.dataset(self.table).scanner(
            columns=projection,
            filter=filter,
            batch_size=batch_rows(len(columns)),
            batch_readahead=READAHEAD,
        )
        row = 0
        for batch in scanner.to_batches():
            yield Piece(batch, row)
            row += batch.num_rows

    def count(self, filter: pc.Expression | None) -> int:
        return self.table.num_rows if filter is None else ds.dataset(self.table).count_rows(filter)

    def check_unchanged(self) -> None:
        pass

    def identity(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Rows of an array (n, d), perhaps memory-mapped; its columns are called x0, x1, ..."""

    array: NDArray[Any]  # (n, d)
    y: NDArray[Any] | None = None  # (n,)
    file: File | None = None  # where the array is mapped from, if it was opened here

    def __post_init__(self) -> None:
        if self.array.ndim != 2:
            raise DatasetError(
                f"source: an array must have shape (n, d), rows by columns; got {self.array.shape}"
            )
        check_dtype("source", self.array.dtype)
        if 0 in self.array.shape:
            raise DatasetError(f"source: there are no rows or columns in {self.array.shape}")

    @property
    def schema(self) -> pa.Schema:
        names = [f"x{k}" for k in range(self.array.shape[1])]
        names += [] if self.y is None else [TARGET]
        return pa.schema([(name, pa.float64()) for name in names])

    def column(self, name: str, rows: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """A column by its name, in float64."""
        values = self.y if name == TARGET else self.array[:, int(name[1:])]
        assert values is not None
        return np.ascontiguousarray(values[rows], dtype=np.float64)

    def pieces(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[Piece]:
        # A filter may look at any column, and which ones an expression does not tell.
        names = columns if filter is None else self.schema.names
        row, size = 0, batch_rows(len(names))
        for start in range(0, len(self.array), size):
            rows = slice(start, start + size)
            table = pa.table({name: self.column(name, rows) for name in names})
            kept = (table if filter is None else table.filter(filter)).select(columns)
            for batch in kept.combine_chunks().to_batches():
                yield Piece(batch, row)
                row += batch.num_rows

    def count(self, filter: pc.Expression | None) -> int:
        if filter is None:
            return len(self.array)
        return sum(piece.batch.num_rows for piece in self.pieces(self.schema.names[:1], filter))

    def check_unchanged(self) -> None:
        if self.file is not None:
            self.file.check_unchanged()

    def identity(self) -> list[Any] | None:
        if self.file is None:
            return None
        self.check_unchanged()
        return [[os.path.basename(self.file.path), self.file.size, self.file.mtime]]


def check_dtype(what: str, dtype: np.dtype[Any]) -> None:
    """Raises unless an array of this dtype holds real numbers or booleans."""
    if dtype.kind == "c":
        raise TypeError(no_complex(what))
    if dtype.kind not in "biuf":
        raise TypeError(
            f"{what}: an array must hold numbers, not {dtype}. Pass text, dates and columns of "
            "several types as a table (pandas, polars or Arrow)."
        )


def no_complex(what: str) -> str:
    """The message about complex numbers in `what`."""
    return f"{what}: complex numbers are not supported. Pass real and imaginary parts as columns."
