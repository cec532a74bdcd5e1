"""Encoding: columns against a loop over Python values, categories, JSON, filters as text."""

import datetime as dt
import json
import math
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaicgp.data import DatasetError, Encoding, open_dataset
from mosaicgp.data.encoding import ColumnEncoding, column_kind, learn_encoding
from mosaicgp.data.filters import read_filter

EPOCH = dt.datetime(1970, 1, 1)
words = st.sampled_from(["UA", "DL", "é", "", "a b", "x=y"])
moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
BERLIN = ZoneInfo("Europe/Berlin")

COLUMNS = {  # name: (Arrow type, values, kind declared)
    "float": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False), None),
    "single": (pa.float32(), st.floats(-1e6, 1e6, width=32), None),
    "half": (pa.float16(), st.floats(-100, 100, width=16).map(np.float16), None),
    "small": (pa.int8(), st.integers(-128, 127), None),
    "large": (pa.uint64(), st.integers(0, 2**64 - 1), None),
    "flag": (pa.bool_(), st.booleans(), None),
    "price": (pa.decimal128(12, 3), st.decimals(-1000, 1000, places=3), None),
    "day": (pa.date32(), st.dates(), None),
    "day64": (pa.date64(), st.dates(), None),
    "clock": (pa.time64("us"), st.times(), None),
    "moment": (pa.timestamp("us"), moments, None),
    "instant": (pa.timestamp("us", "Europe/Berlin"), moments, None),
    "carrier": (pa.string(), words, "onehot"),
    "origin": (pa.large_string(), words, "ordinal"),
    "month": (pa.int16(), st.integers(-3, 3), "onehot"),
}


def naive(kind: str, categories: tuple, value: object) -> list[float]:
    """Features of one value, as the documentation says."""
    if kind == "onehot":
        return [math.nan if value is None else float(value == c) for c in categories]
    if kind == "ordinal":
        return [math.nan if value is None else float(categories.index(value))]
    if value is None:
        return [math.nan] * (2 if kind.startswith("timestamp") else 1)
    if kind == "date":
        return [float((value - EPOCH.date()).days)]
    if kind == "time":
        return [value.hour * 60 + value.minute + (value.second + value.microsecond / 1e6) / 60]
    if kind.startswith("timestamp"):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return [*naive("date", (), value.date()), *naive("time", (), value.time())]
    return [float(value)]


@given(data=st.data(), n=st.integers(1, 12), missing=st.booleans())
def test_encoding_equals_a_loop_over_python_values(data, n, missing):
    arrays, kinds = {}, {}
    for name, (t, values, declared) in COLUMNS.items():
        drawn = data.draw(
            st.lists(st.none() | values if missing else values, min_size=n, max_size=n)
        )
        if declared and all(value is None for value in drawn):
            drawn[0] = data.draw(values)
        if name == "instant":
            drawn = [None if v is None else v.replace(tzinfo=BERLIN) for v in drawn]
        arrays[name] = pa.array(drawn, t)
        kinds[name] = column_kind(pa.field(name, t), declared)
    batch = pa.record_batch(arrays)
    encoding = learn_encoding(kinds, [batch.slice(0, n // 2), batch.slice(n // 2)])
    X = encoding.encode(batch)
    expected = [
        [
            feature
            for column in encoding.columns
            for feature in naive(column.kind, column.categories, row[column.name])
        ]
        for row in batch.to_pylist()
    ]
    assert X.flags.c_contiguous and X.dtype == np.float64
    assert X.shape == (n, encoding.n_features) == (n, len(encoding.feature_columns))
    np.testing.assert_allclose(X, expected, rtol=1e-15, atol=0)
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding
    np.testing.assert_array_equal(again.encode(batch), X)


def test_feature_names():
    table = pa.table({"t": pa.array([0], pa.timestamp("s")), "c": ["b"], "k": [2.0], "x": [1]})
    encoding = open_dataset(table, categorical={"c": "onehot", "k": "onehot"}).encoding
    assert encoding.feature_names == ("t (day)", "t (minute)", "c=b", "k=2", "x")
    assert encoding.feature_columns == ("t", "t", "c", "k", "x")
    assert encoding.column_names == ("t", "c", "k", "x")


def test_a_time_zone_counts_as_utc_and_is_not_mixed_up_with_wall_time():
    noon = dt.datetime(2024, 7, 1, 12, 0, 30)
    wall = pa.table({"t": pa.array([noon], pa.timestamp("ns"))})
    zone = pa.table(
        {"t": pa.array([noon.replace(tzinfo=BERLIN)], pa.timestamp("s", "Europe/Berlin"))}
    )
    day = (noon - EPOCH).days
    np.testing.assert_array_equal(open_dataset(wall).to_arrays()[0], [[day, 720.5]])
    np.testing.assert_array_equal(open_dataset(zone).to_arrays()[0], [[day, 600.5]])
    with pytest.raises(DatasetError, match=r"'t' is encoded as 'timestamp', .*'timestamp-utc'"):
        open_dataset(zone).with_encoding(open_dataset(wall).encoding)


def test_before_1970_minutes_stay_within_the_day():
    table = pa.table({"t": pa.array([-1], pa.timestamp("s"))})
    np.testing.assert_allclose(open_dataset(table).to_arrays()[0], [[-1.0, 1440 - 1 / 60]])


def test_categories_are_the_same_whatever_number_type_holds_them():
    whole = open_dataset(pa.table({"m": [3, 1, 2]}), categorical=["m"])
    floats = open_dataset(pa.table({"m": [3.0, 1.0, 2.0]}), categorical=["m"])
    codes = open_dataset(pa.table({"m": pa.array([3, 1, 2]).dictionary_encode()}))
    assert whole.encoding == floats.encoding == codes.encoding
    assert whole.encoding.columns[0].categories == (1, 2, 3)
    flags = open_dataset(pa.table({"f": [True, False]}), categorical={"f": "ordinal"})
    np.testing.assert_array_equal(flags.to_arrays()[0], [[1.0], [0.0]])
    zeros = open_dataset(pa.table({"m": [0.0, -0.0]}), categorical=["m"])
    np.testing.assert_array_equal(zeros.to_arrays()[0], [[1.0], [1.0]])


@pytest.mark.parametrize("kind", ["onehot", "ordinal"])
def test_unknown_category(kind):
    fitted = open_dataset(pa.table({"c": [f"{k:02}" for k in range(12)]}), categorical={"c": kind})
    new = open_dataset(pa.table({"c": ["00", None, "zz"]}), missing="drop")
    known = r"'c' has the unknown category 'zz'; known are '00', .*'09' and 2 more\."
    with pytest.raises(DatasetError, match=known):
        new.with_encoding(fitted.encoding).to_arrays()
    numbers = open_dataset(pa.table({"c": [1, 2]})).with_encoding(fitted.encoding)
    with pytest.raises(DatasetError, match="'c': its categories were text, and now it holds num"):
        numbers.to_arrays()


def test_too_many_categories_and_none():
    with pytest.raises(
        DatasetError, match=r"'c' has more than 1000 .*categorical=\{'c': 'ordinal'"
    ):
        _ = open_dataset(pa.table({"c": range(1001)}), categorical=["c"]).encoding
    assert open_dataset(pa.table({"c": range(1001)}), categorical={"c": "ordinal"}).n_features == 1
    with pytest.raises(DatasetError, match="'c' has no categories"):
        _ = open_dataset(pa.table({"c": pa.array([None], pa.string())}), categorical=["c"]).encoding
    with pytest.raises(DatasetError, match="beyond 2\\^53"):
        _ = open_dataset(pa.table({"c": [2**53 + 1]}), categorical=["c"]).encoding


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array(["a"]), r"'c' holds text. Declare it with categorical=\['c'\]"),
        (pa.array([[1.0]]), "'c' is nested"),
        (pa.array([{"a": 1}]), "'c' is nested"),
        (pa.array([dt.timedelta(1)]), "'c' has a type that does not become numbers"),
        (pa.array([b"a"]), "'c' has a type that does not become numbers"),
        (
            pa.array([dt.date(2024, 1, 1)]).dictionary_encode(),
            "'c' of type .* cannot be categorical",
        ),
    ],
)
def test_types_that_are_not_encoded(values, message):
    dataset = open_dataset(pa.table({"c": values, "x": [1.0]}))
    with pytest.raises(DatasetError, match=message):
        _ = dataset.feature_names
    # A column that is not asked for does not matter.
    fitted = open_dataset(pa.table({"x": [2.0]})).encoding
    assert dataset.with_encoding(fitted).n_features == 1


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"columns": []},
        {"columns": ["x"]},
        {"columns": [{"name": "x", "kind": "number"}]},
        {"columns": [{"name": "x", "kind": "log", "categories": []}]},
        {"columns": [{"name": 3, "kind": "number", "categories": []}]},
        {"columns": [{"name": "x", "kind": "number", "categories": [1]}]},
        {"columns": [{"name": "x", "kind": "onehot", "categories": []}]},
        {"columns": [{"name": "x", "kind": "onehot", "categories": [2, 1]}]},
        {"columns": [{"name": "x", "kind": "onehot", "categories": ["a", "a"]}]},
        {"columns": [{"name": "x", "kind": "onehot", "categories": ["a", 1]}]},
        {"columns": [{"name": "x", "kind": "onehot", "categories": [True]}]},
        {"columns": [{"name": "x", "kind": "number", "categories": []}] * 2},
    ],
)
def test_json_that_is_no_encoding(bad):
    with pytest.raises(DatasetError, match="encoding"):
        Encoding.from_json(bad)


def test_features_of_one_name():
    columns = (ColumnEncoding("a", "onehot", ("b",)), ColumnEncoding("a=b", "number"))
    with pytest.raises(DatasetError, match="called 'a=b'"):
        Encoding(columns)


FLIGHTS = pa.table(
    {
        "carrier": ["UA", "DL", "UA", "AA", None],
        "kind": pa.array(["p", "q", "p", "q", "p"]).dictionary_encode(),
        "month": [1, 5, 7, 12, 6],
        "late": [True, False, True, True, False],
        "price": pa.array([Decimal("1.5"), Decimal("2.5"), None, Decimal("0.5"), Decimal("9.0")]),
        "day": pa.array([dt.date(2024, m, 1) for m in (1, 5, 7, 12, 6)]),
        "at": pa.array([dt.datetime(2024, m, 1) for m in (1, 5, 7, 12, 6)], pa.timestamp("us")),
        "row": range(5),
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("month > 5", [2, 3, 4]),
        ("5 < month", [2, 3, 4]),
        ("1 < month <= 7", [1, 2, 4]),
        ("carrier == 'UA' and month <= 6", [0]),
        ("carrier == 'DL' or not late", [1, 4]),
        ("not (late and month > 1)", [0, 1, 4]),
        ("carrier in ['UA', 'AA']", [0, 2, 3]),
        ("carrier != 'UA'", [1, 3]),
        ("kind == 'p'", [0, 2, 4]),
        ("kind in ('q',)", [1, 3]),
        ("month not in {1, 5.0}", [2, 3, 4]),
        ("month > -2.5 and price > 1", [0, 1, 4]),
        ("month == row", []),
        ("month > row", [0, 1, 2, 3, 4]),
        ("day >= '2024-06-01'", [2, 3, 4]),
        ("day in ['2024-06-01']", [4]),
        ("at < '2024-06-01'", [0, 1]),
    ],
)
def test_filters_as_text(text, rows):
    dataset = open_dataset(FLIGHTS, filter=text, columns=["row"])
    if rows:
        np.testing.assert_array_equal(dataset.to_arrays()[0][:, 0], rows)
        assert dataset.count() == len(rows)
    else:
        with pytest.raises(DatasetError, match="no rows that pass the filter"):
            dataset.to_arrays()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "month.real > 1",
        "month > 1 if late else 2",
        "month + 1 > 2",
        "3",
        "1 < 2",
        "month >",
        "",
        "month > None",
        "month is 1",
        "month in month",
        "distance > 100",
        "carrier > 3",
        "day > 'soon'",
        "month in [1, 'a']",
        "(" * 300 + "month > 1" + ")" * 300,
        "month > '\0'",
    ],
)
def test_filters_that_cannot_be_read(text):
    with pytest.raises(DatasetError, match="filter"):
        open_dataset(FLIGHTS, filter=text)


def test_filters_as_expressions():
    expression = (pc.field("month") > 5) & pc.field("late")
    assert read_filter(expression, FLIGHTS.schema) is expression
    assert open_dataset(FLIGHTS, filter=expression).count() == 2
    with pytest.raises(DatasetError, match="filter"):
        open_dataset(FLIGHTS, filter=pc.field("distance") > 5)
    with pytest.raises(TypeError, match="filter"):
        open_dataset(FLIGHTS, filter=lambda row: True)
