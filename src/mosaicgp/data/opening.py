"""Opening a dataset: what the arguments of `open_dataset` stand for."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from mosaicgp.data.dataset import Dataset
from mosaicgp.data.encoding import CATEGORICAL, DatasetError, column_kind, repeated, require
from mosaicgp.data.files import File, FileSource, check_names, find_files
from mosaicgp.data.filters import read_filter
from mosaicgp.data.sources import (
    TARGET,
    ArraySource,
    Source,
    TableSource,
    check_dtype,
    no_complex,
)
from mosaicgp.validation import one_of

_TABLES = ("__arrow_c_stream__", "__arrow_c_array__", "dtypes")  # Arrow, polars, pandas


def open_dataset(
    source: Any,
    *,
    target: str | int | ArrayLike | None = None,
    columns: Sequence[str | int] | None = None,
    filter: str | pc.Expression | None = None,
    categorical: Sequence[str | int] | Mapping[str, str] | None = None,
    missing: str = "error",
    order: str = "given",
) -> Dataset:
    """Rows of a table, array or files, to be read in chunks of constant memory.

    source: a 2-d array or memmap, the path of a `.npy`, Parquet or CSV file, a folder of Parquet
      (or CSV) files, a glob, a list of paths, or a pandas, polars or Arrow table. Files of a
      folder or glob are read in the order of their names.
    target: the column to predict, or None. Columns of arrays have numbers, and names x0, x1, ...
      For arrays and tables in memory it may also be the array (n,) of targets itself.
    columns: the input columns, in order; all but the target by default.
    filter: a pyarrow expression, or text such as "distance > 100 and carrier == 'UA'".
    categorical: names of columns to be one-hot encoded, or name -> "onehot" or "ordinal".
      Columns of a categorical type are one-hot encoded without being named.
    missing: what to do about a null or NaN: "error", or "drop" the row.
    order: "given", the order in the source, is the only one.
    """
    one_of("missing", missing, ("error", "drop"))
    one_of("order", order, ("given",))
    for argument, value in (("columns", columns), ("categorical", categorical)):
        if isinstance(value, str):
            raise TypeError(f"{argument}: must be a list, such as [{value!r}]")
    y = None if target is None or isinstance(target, str | int | np.integer) else _targets(target)
    opened = _open(source, y, categorical or ())
    name = TARGET if y is not None else None if target is None else _column(target, opened)
    if name is not None:
        require([name], opened.schema, "target")
        if _kind_or_none(opened.schema.field(name)) != "number":
            held = opened.schema.field(name).type
            raise DatasetError(f"target: column {name!r} must hold numbers, and it holds {held}.")
    names = None if columns is None else tuple(_column(c, opened) for c in columns)
    if names is not None:
        require(names, opened.schema, "columns")
        twice = repeated(names)
        if twice is not None or not names or name in names:
            wrong = f"{twice!r} is there twice" if twice else "it is empty"
            raise DatasetError(
                f"columns: {'the target is among them' if name in names else wrong}."
            )
    kinds = (
        {_column(c, opened): kind for c, kind in categorical.items()}
        if isinstance(categorical, Mapping)
        else {_column(c, opened): "onehot" for c in categorical or ()}
    )
    require(tuple(kinds), opened.schema, "categorical")
    for kind in kinds.values():
        one_of("categorical", kind, CATEGORICAL)
    expression = read_filter(filter, opened.schema)
    return Dataset(opened, name, names, expression, kinds, missing)


def _open(source: Any, y: NDArray[Any] | None, text: Collection[Any] = ()) -> Source:
    """The source, with targets y (n,) as a column of its own if they came apart."""
    several = isinstance(source, list | tuple)
    opened: Source
    if all(isinstance(path, str | os.PathLike) for path in (source if several else [source])):
        files = find_files(source)
        if len(files) == 1 and files[0].endswith(".npy"):
            opened = _map_array(files[0], y)
        elif y is not None:
            raise TypeError("target: for files it must be the name of a column")
        else:
            return FileSource.open(files, {str(name) for name in text})
    elif isinstance(source, np.ndarray):
        opened = ArraySource(np.asarray(source), y)
    elif any(hasattr(source, name) for name in _TABLES):
        table = _table(source)
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


def _targets(target: Any) -> NDArray[Any]:
    """Targets (n,) in float64."""
    y = np.asarray(target)
    if y.ndim != 1:
        raise DatasetError(f"target: must be a column's name or an array (n,), got {y.shape}")
    check_dtype("target", y.dtype)
    return y.astype(np.float64, copy=False)


def _check_length(y: NDArray[Any] | None, n: int) -> None:
    if y is not None and len(y) != n:
        raise DatasetError(f"target: there are {len(y)} targets for {n} rows")


def _column(column: Any, source: Source) -> str:
    """The name of a column; of an array's column by its number, which may count from the end."""
    if not isinstance(column, str | int | np.integer) or isinstance(column, bool):
        raise TypeError(f"a column must be named by text or a number, not {column!r}")
    if isinstance(source, ArraySource) and not isinstance(column, str):
        d = source.array.shape[1]
        return f"x{column + d if -d <= column < 0 else column}"
    return str(column)


def _map_array(path: str, y: NDArray[Any] | None) -> ArraySource:
    """A `.npy` file, memory-mapped."""
    file = File.stat(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DatasetError(f"{path} cannot be read as an array: {error}") from None
    return ArraySource(np.asarray(array), y, file)


def _table(source: Any) -> pa.Table:
    """An Arrow table of a pandas, polars or Arrow table, without copying numbers where possible."""
    dtypes: Any = getattr(source, "dtypes", None)
    is_pandas = hasattr(dtypes, "items")
    if is_pandas:
        twice = repeated(str(name) for name in source.columns)
        if twice is not None:
            raise DatasetError(f"source: two columns are called {twice!r}")
        for name, dtype in dtypes.items():
            if getattr(dtype, "kind", "") == "c":
                raise TypeError(no_complex(f"column {str(name)!r}"))
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


def _plain_text(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, _plain_text(values.dictionary))
    try:
        return values.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # older Arrow
        return pa.array(values.to_pylist(), pa.large_string())


def _kind_or_none(field: pa.Field) -> str | None:
    try:
        return column_kind(field)
    except DatasetError:
        return None
