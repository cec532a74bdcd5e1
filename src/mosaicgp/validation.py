"""Checks of arguments and data that name the argument, the column and the row."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_X_y

FloatArray = NDArray[np.float64]


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """``value`` must be one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(allowed)}.")


def flag(name: str, value: Any) -> None:
    """``value`` must be true or false."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def whole(name: str, value: Any, least: int) -> int:
    """``value`` must be an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")
    return int(value)


def number(name: str, value: Any, above: float) -> float:
    """``value`` must be a finite real number greater than ``above``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    plain = float(value)
    if not (np.isfinite(plain) and plain > above):
        raise ValueError(f"{name} must be a finite number greater than {above:g}, got {value}.")
    return plain


def training_data(X: Any, y: Any, estimator: Any) -> tuple[FloatArray, FloatArray]:
    """X (n, d) and y (n,) in float64, finite."""
    _no_path(X, ", target=column")
    _numeric_columns(X)
    _finite_target(y)
    # Rows in C order whatever they came in, so that sums round alike.
    X_array, y_array = check_X_y(
        X,
        y,
        dtype=np.float64,
        order="C",
        ensure_all_finite=False,
        y_numeric=True,
        estimator=estimator,
    )
    _finite_rows(X_array, "X", _column_names(X))
    y_float = np.asarray(y_array, dtype=np.float64)
    _finite_rows(y_float[:, None], "y", None)  # an object array could hide a None until now
    return X_array, y_float


def new_rows(X: Any, estimator: Any) -> FloatArray:
    """X (n, d) in float64, finite."""
    _no_path(X, "")
    _numeric_columns(X)
    X_array = check_array(
        X, dtype=np.float64, order="C", ensure_all_finite=False, estimator=estimator
    )
    _finite_rows(X_array, "X", _column_names(X))
    return X_array


def columns_of(X: Any) -> list[Any] | None:
    """The columns of a table as it calls them: of pandas, polars or Arrow; None for arrays."""
    names = getattr(X, "column_names", None)  # Arrow, whose `columns` are their values
    columns = getattr(X, "columns", None) if names is None else names
    return None if columns is None else list(columns)


def _column_names(X: Any) -> list[str] | None:
    columns = columns_of(X)
    return None if columns is None else [str(column) for column in columns]


def _no_path(X: Any, target: str) -> None:
    """A file's name in place of its rows."""
    if isinstance(X, str | PathLike):
        raise TypeError(
            f"X: a path, not rows. Open the file: open_dataset({str(X)!r}{target}), with "
            "open_dataset from mosaicgp.data, and pass what it returns."
        )


def _finite_target(y: Any) -> None:
    values = np.asarray(y)
    if values.dtype.kind in "US" or (values.dtype.kind == "O" and _has_text(values)):
        raise ValueError("y holds text; the target must be numbers. Convert it, or name another.")
    if values.dtype.kind == "f" and values.ndim in (1, 2) and values.size:
        _finite_rows(values.reshape(len(values), -1), "y", None)


def _has_text(values: Any) -> bool:
    """Whether an object array holds a word that is no number."""
    return any(isinstance(value, str | bytes) and not _is_number(value) for value in values.flat)


def _finite_rows(values: FloatArray, name: str, columns: list[str] | None) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(values)):  # a finite sum has finite terms, and is cheap
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad) == 0:
        return
    row, column = bad[0]
    what = "NaN" if np.isnan(values[row, column]) else "infinity"
    where = f"row {row}"
    if name == "X":
        where += f", column {columns[column]!r}" if columns else f", column {column}"
    more = f" (and {len(bad) - 1} more values like it)" if len(bad) > 1 else ""
    raise ValueError(
        f"Input {name} contains NaN or infinity: {what} at {where}{more}. "
        "Drop or impute such rows before fitting or predicting."
    )


def _numeric_columns(X: Any) -> None:
    """Text in a table raises with the column's name and the first row that holds it."""
    columns = columns_of(X)
    if columns is not None:
        cells = [(str(column), X[column]) for column in columns]
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS":
        cells = [(str(k), X[:, k]) for k in range(X.shape[1])]
    else:
        return
    for name, column in cells:
        values = np.asarray(column)
        if values.dtype.kind in "Mm":
            raise ValueError(
                f"X has dates or durations in column {name!r}. Turn them into numbers, for "
                "example days since a start and minutes after midnight, or leave the column out."
            )
        if values.ndim != 1 or values.dtype.kind not in "OUST":
            continue
        for row, value in enumerate(values):
            if isinstance(value, str | bytes) and not _is_number(value):
                raise ValueError(
                    f"X has text in column {name!r}: {value!r} in row {row}. "
                    "Encode text as numbers, for example with sklearn's OrdinalEncoder or "
                    "OneHotEncoder, open the table with mosaicgp.data.open_dataset(..., "
                    f"categorical=[{name!r}]), or leave the column out."
                )


def _is_number(value: str | bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
