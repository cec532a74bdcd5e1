"""Where rows come from: files that Arrow reads, tables in memory, NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from mosaicgp.data.encoding import DatasetError, repeated
from mosaicgp.data.files import (
    BATCH_ROWS,
    READAHEAD,
    File,
    FileSource,
    Piece,
    check_names,
    find_files,
)

TARGET = "(target)"  # the column of targets that came as an array of their own

_TABLES = ("__arrow_c_stream__", "__arrow_c_array__", "dtypes")  # Arrow, polars, pandas


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
            columns=projection, filter=filter, batch_size=BATCH_ROWS, batch_readahead=READAHEAD
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
        row = 0
        for start in range(0, len(self.array), BATCH_ROWS):
            rows = slice(start, start + BATCH_ROWS)
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


def open_source(source: Any, y: NDArray[Any] | None, text: Collection[Any] = ()) -> Source:
    """The source, with targets y (n,) as a column of its own if they came apart."""
    several = isinstance(source, list | tuple)
    opened: Source
    if all(isinstance(path, str | os.PathLike) for path in (source if several else [source])):
        files = find_files(source)
        if len(files) == 1 and files[0].endswith(".npy"):
            opened = map_array(files[0], y)
        elif y is not None:
            raise TypeError("target: for files it must be the name of a column")
        else:
            return FileSource.open(files, {str(name) for name in text})
    elif isinstance(source, np.ndarray):
        opened = ArraySource(np.asarray(source), y)
    elif any(hasattr(source, name) for name in _TABLES):
        table = table_of(source)
        _check_length(y, table.num_rows)
        return TableSource(table if y is None else table.append_column(TARGET, pa.array(y)))
    elif hasattr(source, "__array__"):
        opened = ArraySource(np.asarray(source), y)
    else:
        raise TypeError(
            f"source: cannot open {type(source).__name__}. Pass a 2-d array, a pandas, polars or "
            "Arrow table, or the path of Parquet, CSV or .npy files."
        )
    _check_length(y, opened.count(None))
    return opened


def read_targets(target: Any) -> NDArray[Any]:
    """Targets (n,) in float64."""
    y = np.asarray(target)
    if y.ndim != 1:
        raise DatasetError(f"target: must be a column's name or an array (n,), got {y.shape}")
    check_dtype("target", y.dtype)
    return y.astype(np.float64, copy=False)


def _check_length(y: NDArray[Any] | None, n: int) -> None:
    if y is not None and len(y) != n:
        raise DatasetError(f"target: there are {len(y)} targets for {n} rows")


def column_name(column: Any, source: Source) -> str:
    """The name of a column; of an array's column by its number, which may count from the end."""
    if not isinstance(column, str | int | np.integer) or isinstance(column, bool):
        raise TypeError(f"a column must be named by text or a number, not {column!r}")
    if isinstance(source, ArraySource) and not isinstance(column, str):
        d = source.array.shape[1]
        return f"x{column + d if -d <= column < 0 else column}"
    return str(column)


def map_array(path: str, y: NDArray[Any] | None) -> ArraySource:
    """A `.npy` file, memory-mapped."""
    file = File.stat(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DatasetError(f"{path} cannot be read as an array: {error}") from None
    return ArraySource(np.asarray(array), y, file)


def table_of(source: Any) -> pa.Table:
    """An Arrow table of a pandas, polars or Arrow table, without copying numbers where possible."""
    dtypes: Any = getattr(source, "dtypes", None)
    is_pandas = hasattr(dtypes, "items")
    if is_pandas:
        twice = repeated(str(name) for name in source.columns)
        if twice is not None:
            raise DatasetError(f"source: two columns are called {twice!r}")
        for name, dtype in dtypes.items():
            if getattr(dtype, "kind", "") == "c":
                raise TypeError(_complex(f"column {str(name)!r}"))
        source = source.rename(columns=str)
    try:
        if is_pandas:
            table = pa.Table.from_pandas(source, preserve_index=False)
        else:
            table = pa.table(source)
    except (pa.ArrowException, TypeError) as error:
        raise DatasetError(f"source: not a table that Arrow takes: {error}") from None
    check_names(table.schema, "source")
    if table.num_rows == 0:
        raise DatasetError("source: there are no rows in the table")
    for k, field in enumerate(table.schema):
        t = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string_view(t):  # polars: Arrow has few functions for it
            chunks = [_plain_text(chunk) for chunk in table.column(k).chunks]
            table = table.set_column(k, field.name, pa.chunked_array(chunks))
    return table


def check_dtype(what: str, dtype: np.dtype[Any]) -> None:
    """Raises unless an array of this dtype holds real numbers or booleans."""
    if dtype.kind == "c":
        raise TypeError(_complex(what))
    if dtype.kind not in "biuf":
        raise TypeError(
            f"{what}: an array must hold numbers, not {dtype}. Pass text, dates and columns of "
            "several types as a table (pandas, polars or Arrow)."
        )


def _complex(what: str) -> str:
    return f"{what}: complex numbers are not supported. Pass real and imaginary parts as columns."


def _plain_text(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, _plain_text(values.dictionary))
    try:
        return values.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # older Arrow
        return pa.array(values.to_pylist(), pa.large_string())
