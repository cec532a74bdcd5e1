"""How the columns of a table become features: numbers, days and minutes, categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mosaicgp.nearest import column_hint

FloatArray = NDArray[np.float64]
Category = str | int | float

KINDS = ("number", "date", "time", "timestamp", "timestamp-utc", "onehot", "ordinal")
CATEGORICAL = ("onehot", "ordinal")
MOST_ONEHOT = 1000  # features of one column; beyond, chunks take gigabytes and fits learn nothing

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_KNOWN_SHOWN = 10


class DatasetError(ValueError):
    """Data that cannot be read as asked; the message names the file, column or row."""


@dataclass(frozen=True)
class ColumnEncoding:
    """How one source column becomes features.

    number         the value; false and true are 0 and 1
    date           day number since 1970-01-01
    time           minute of the day, with seconds as a fraction
    timestamp      day number and minute of the day, of the time as written (no time zone)
    timestamp-utc  the same of a time with a zone, in UTC, which is how Arrow stores it
    onehot         one feature a category, 0 or 1
    ordinal        the category's place in `categories`, from 0
    """

    name: str
    kind: str
    categories: tuple[Category, ...] = ()  # sorted; all text, or all numbers

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.kind not in KINDS:
            raise DatasetError(f"encoding: column {self.name!r} has unknown kind {self.kind!r}")
        numbers = all(_is_number(c) for c in self.categories)
        if not (numbers or all(isinstance(c, str) for c in self.categories)):
            raise DatasetError(f"encoding: categories of {self.name!r} mix text and numbers")
        ascending = all(a < b for a, b in zip(self.categories, self.categories[1:], strict=False))  # type: ignore[operator]
        if not ascending or bool(self.categories) != (self.kind in CATEGORICAL):
            raise DatasetError(
                f"encoding: column {self.name!r} of kind {self.kind!r} must have "
                f"{'sorted, distinct' if self.kind in CATEGORICAL else 'no'} categories"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        if self.kind == "onehot":
            return tuple(f"{self.name}={category}" for category in self.categories)
        if self.kind.startswith("timestamp"):
            return (f"{self.name} (day)", f"{self.name} (minute)")
        return (self.name,)

    def write(self, values: pa.Array, out: FloatArray) -> None:
        """Features of values (n,) into out (n, width); NaN where a value is missing."""
        if self.kind == "number":
            out[:, 0] = _floats(values)
        elif self.kind in CATEGORICAL:
            self._write_categories(values, out)
        else:
            ticks, missing = _ticks(values)
            if pa.types.is_date32(values.type):
                out[:, 0] = ticks
            else:
                unit = "ms" if pa.types.is_date64(values.type) else values.type.unit
                day, rest = np.divmod(ticks, 86_400 * _PER_SECOND[unit])
                out[:, -1] = rest / (60 * _PER_SECOND[unit])
                if self.kind != "time":
                    out[:, 0] = day
            out[missing] = np.nan

    def _write_categories(self, values: pa.Array, out: FloatArray) -> None:
        if pa.types.is_null(values.type):
            out[:] = np.nan
            return
        values = _category_values(self.name, values)
        text = isinstance(self.categories[0], str)
        if pa.types.is_string(values.type) != text:
            held, holds = ("text", "numbers") if text else ("numbers", "text")
            raise DatasetError(
                f"column {self.name!r}: its categories were {held}, and now it holds {holds}."
            )
        known = pa.array(self.categories, pa.string() if text else pa.float64())
        code = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        unknown = (code < 0) & ~missing
        infinite = np.zeros(len(values), dtype=bool)
        if unknown.any() and not text:  # an infinity is bad data, not a category
            infinite = np.isinf(values.to_numpy(zero_copy_only=False))
            unknown &= ~infinite
        if unknown.any():
            value = values[int(np.argmax(unknown))].as_py()
            shown = ", ".join(repr(c) for c in self.categories[:_KNOWN_SHOWN])
            more = len(self.categories) - _KNOWN_SHOWN
            raise DatasetError(
                f"column {self.name!r} has the unknown category {value!r}; known are {shown}"
                + (f" and {more} more." if more > 0 else ".")
            )
        if self.kind == "ordinal":
            out[:, 0] = code
        else:
            out[:] = 0.0
            rows = np.flatnonzero(code >= 0)
            out[rows, code[rows]] = 1.0
        out[missing] = np.nan
        out[infinite] = np.inf


@dataclass(frozen=True)
class Encoding:
    """How source columns become the features of X, column by column in order."""

    columns: tuple[ColumnEncoding, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise DatasetError("encoding: there are no input columns")
        twice = repeated(c.name for c in self.columns) or repeated(self.feature_names)
        if twice is not None:
            raise DatasetError(f"encoding: two columns or features are called {twice!r}")

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names (d,) of the features."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @cached_property
    def feature_columns(self) -> tuple[str, ...]:
        """The source column (d,) of each feature."""
        return tuple(column.name for column in self.columns for _ in column.feature_names)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return len(self.feature_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the source columns that are read."""
        return tuple(column.name for column in self.columns)

    def check(self, schema: pa.Schema) -> None:
        """Raises unless a table with this schema has the columns, of types that fit."""
        require(self.column_names, schema, "columns")
        for column in self.columns:
            field = schema.field(column.name)
            declared = column.kind if column.kind in CATEGORICAL else None
            kind = column_kind(field, declared)
            if kind != column.kind:
                raise DatasetError(
                    f"column {column.name!r} is encoded as {column.kind!r}, but here it holds "
                    f"{field.type}, which would be {kind!r}."
                )

    def encode(self, batch: pa.RecordBatch) -> FloatArray:
        """Features (n, d) of the rows of a batch, in C order; NaN where a value is missing."""
        self.check(batch.schema)
        X = np.empty((batch.num_rows, self.n_features))
        start = 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            column.write(batch.column(column.name), X[:, start:stop])
            start = stop
        return X

    def to_json(self) -> dict[str, Any]:
        """The encoding as JSON would hold it."""
        return {
            "columns": [
                {"name": c.name, "kind": c.kind, "categories": list(c.categories)}
                for c in self.columns
            ]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Encoding:
        """Inverse of `to_json`."""
        try:
            columns = tuple(
                ColumnEncoding(c["name"], c["kind"], tuple(c["categories"]))
                for c in data["columns"]
            )
        except (KeyError, TypeError) as error:
            raise DatasetError(
                f"encoding: not an encoding as `to_json` writes it: {error}"
            ) from None
        return cls(columns)


def learn_encoding(kinds: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> Encoding:
    """Encoding of columns of the given kinds, with the categories that occur in the batches.

    The batches are not looked at when no column is categorical.
    """
    found: dict[str, set[Any]] = {
        name: set() for name, kind in kinds.items() if kind in CATEGORICAL
    }
    for batch in batches if found else ():
        for name, values in found.items():
            seen = pc.unique(_category_values(name, batch.column(name))).to_pylist()
            values.update(
                v for v in seen if v is not None and (isinstance(v, str) or np.isfinite(v))
            )
            if kinds[name] == "onehot" and len(values) > MOST_ONEHOT:
                raise DatasetError(
                    f"column {name!r} has more than {MOST_ONEHOT} categories, too many for one-hot "
                    f"features. Pass categorical={{{name!r}: 'ordinal'}}, or leave it out."
                )
    for name, values in found.items():
        if not values:
            raise DatasetError(f"column {name!r} has no categories: no row has a value in it.")
    return Encoding(
        tuple(
            ColumnEncoding(name, kind, tuple(_plain(v) for v in sorted(found.get(name, ()))))
            for name, kind in kinds.items()
        )
    )


def column_kind(field: pa.Field, declared: str | None = None) -> str:
    """The kind of encoding for a column of this type, or an error that names the remedy."""
    t, is_ = field.type, pa.types
    values = t.value_type if is_.is_dictionary(t) else t
    number = is_.is_integer(values) or is_.is_floating(values) or is_.is_boolean(values)
    leave = "leave the column out with columns=[...]"
    if declared is not None or is_.is_dictionary(t):
        if not (number or is_text(values) or is_.is_null(values)):
            raise DatasetError(
                f"column {field.name!r} of type {t} cannot be categorical: only text, whole "
                f"numbers and booleans can. Turn it into text, or {leave}."
            )
        return declared or "onehot"
    if number or is_.is_decimal(t) or is_.is_null(t):
        return "number"
    if is_.is_date(t):
        return "date"
    if is_.is_time(t):
        return "time"
    if is_.is_timestamp(t):
        return "timestamp" if t.tz is None else "timestamp-utc"
    if is_text(t):
        raise DatasetError(
            f"column {field.name!r} holds text. Declare it with categorical=[{field.name!r}], "
            f"or {leave}."
        )
    what = "is nested" if is_.is_nested(t) else "has a type that does not become numbers"
    raise DatasetError(
        f"column {field.name!r} {what} ({t}). Make columns of numbers of it, or {leave}."
    )


def require(names: Sequence[str], schema: pa.Schema, what: str) -> None:
    """Raises unless the schema has columns of these names."""
    absent = [name for name in names if name not in schema.names]
    if absent:
        hint = column_hint(absent[0], schema.names) if len(absent) == 1 else ""
        raise DatasetError(
            f"{what}: there is no column {', '.join(map(repr, absent))}.{hint} "
            f"The columns are {', '.join(map(repr, schema.names))}."
        )


def repeated(names: Iterable[str]) -> str | None:
    """The first name that comes a second time, if one does."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def is_text(t: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)


def _floats(values: pa.Array) -> NDArray[Any]:
    """Numbers (n,) that float64 takes up by assignment, NaN for nulls."""
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        values = values.cast(pa.float64(), safe=False)
    return values.to_numpy(zero_copy_only=False)


def _ticks(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Dates and times as counts (n,) of their unit, and which are missing."""
    whole = pa.int32() if values.type.bit_width == 32 else pa.int64()
    ticks = values.cast(whole).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return ticks, values.is_null().to_numpy(zero_copy_only=False)


def _category_values(name: str, values: pa.Array) -> pa.Array:
    """Categories as text, or as float64 whatever number type they came in; null if missing."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type):
        return values.cast(pa.string())
    try:
        numbers = values.cast(pa.float64())
    except pa.ArrowInvalid:
        raise DatasetError(
            f"column {name!r} has whole numbers beyond 2^53 as categories. Turn them into text."
        ) from None
    numbers = pc.add(numbers, 0.0)  # -0.0 and 0.0 are one category
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


def _plain(value: str | float) -> Category:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
