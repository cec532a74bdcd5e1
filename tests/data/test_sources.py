"""Datasets: the same rows from every source, in exact chunks, and an error for every fault."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mosaicgp.data import DatasetError, files, open_dataset


def numbers(n: int = 57, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.standard_normal(n) for name in ("a", "b.c", "y")})


def mixed(n: int = 40) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "size": rng.integers(-5, 5, n),
            "carrier": rng.choice(["UA", "DL", "AA"], n),
            "late": rng.random(n) < 0.5,
            "day": pa.array(rng.integers(0, 20_000, n).astype(np.int32), pa.date32()),
            "at": pa.array(rng.integers(0, 10**9, n), pa.timestamp("s")),
            "y": rng.standard_normal(n),
        }
    )


def write(folder: Path, table: pa.Table, cuts: list[int], **options) -> Path:
    """The rows of a table in files that end at the cuts, and at the end."""
    folder.mkdir(exist_ok=True)
    ends = [*sorted(cuts), table.num_rows]
    for k, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{k:03}.parquet", **options)
    return folder


def csv(path: Path, table: pa.Table) -> Path:
    pyarrow.csv.write_csv(table, path)
    return path


def stacked(dataset, rows):
    chunks = list(dataset.chunks(rows))
    assert all(len(X) == rows for X, _ in chunks[:-1]) and 0 < len(chunks[-1][0]) <= rows
    assert all(X.flags.c_contiguous and X.dtype == np.float64 for X, _ in chunks)
    y = [y for _, y in chunks if y is not None]
    return np.concatenate([X for X, _ in chunks]), np.concatenate(y) if y else None


def test_the_same_rows_from_every_source(tmp_path):
    table = mixed()
    folder = write(tmp_path / "parts", table, [7, 8, 25])
    pq.write_table(table, tmp_path / "one.parquet")
    frame, polar = table.to_pandas(), pl.from_arrow(table)
    polar.write_parquet(tmp_path / "polars.parquet")
    csv(tmp_path / "c-1.csv", table.slice(0, 11))
    csv(tmp_path / "c-2.csv", table.slice(11))
    frame["day"] = table["day"].to_pandas()  # objects: dates
    categories = frame.astype({"carrier": "category"})
    sources = {
        "arrow": table,
        "batch": table.combine_chunks().to_batches()[0],
        "folder": folder,
        "file": tmp_path / "one.parquet",
        "glob": str(tmp_path / "parts" / "*.parquet"),
        "list": [folder / f"part-{k:03}.parquet" for k in range(4)],
        "csv": str(tmp_path / "c-*.csv"),
        "pandas": frame,
        "pandas category": categories,
        "polars": polar,
        "polars category": polar.with_columns(pl.col("carrier").cast(pl.Categorical)),
        "polars enum": polar.with_columns(pl.col("carrier").cast(pl.Enum(["UA", "DL", "AA"]))),
        "polars file": tmp_path / "polars.parquet",
        "dictionary": table.set_column(1, "carrier", table["carrier"].dictionary_encode()),
    }
    first = open_dataset(table, target="y", categorical=["carrier"])
    X, y = first.to_arrays()
    assert X.shape == (40, 8)
    assert_array_equal(y, table["y"].to_numpy())
    for name, source in sources.items():
        declared = (
            None if "categor" in name or name in ("polars enum", "dictionary") else ["carrier"]
        )
        dataset = open_dataset(source, target="y", categorical=declared)
        assert dataset.encoding == first.encoding, name
        X_here, y_here = dataset.to_arrays()
        assert_array_equal(X_here, X, err_msg=name)
        assert_array_equal(y_here, y, err_msg=name)
        late = open_dataset(
            source, target="y", categorical=declared, filter="carrier == 'UA' and size > 0"
        )
        keep = (X[:, 0] > 0) & (X[:, 3] == 1)
        late = late.with_encoding(first.encoding)
        assert_array_equal(late.to_arrays()[0], X[keep], err_msg=name)
        assert late.count() == keep.sum()


def test_files_with_text_as_views(tmp_path):
    table = mixed()
    views = table.set_column(1, "carrier", table["carrier"].cast(pa.string_view()))
    try:
        pq.write_table(views, tmp_path / "view.parquet")
    except pa.ArrowNotImplementedError:
        pytest.skip("this version of Arrow does not write them")
    options = {"target": "y", "categorical": ["carrier"]}
    X, _ = open_dataset(tmp_path / "view.parquet", **options).to_arrays()
    assert_array_equal(X, open_dataset(table, **options).to_arrays()[0])


def test_the_same_rows_from_arrays(tmp_path):
    table = numbers()
    values = np.column_stack([table[name].to_numpy() for name in table.column_names])
    np.save(tmp_path / "rows.npy", values)
    np.save(tmp_path / "columns.npy", np.asfortranarray(values))
    X, y = open_dataset(table, target="y").to_arrays()
    sources = [
        values,
        np.asfortranarray(values),
        values.astype(">f8"),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        tmp_path / "rows.npy",
        str(tmp_path / "columns.npy"),
        pd.DataFrame(values),
    ]
    for source in sources:
        for target in [2] if isinstance(source, pd.DataFrame) else [2, -1, "x2", np.int64(2)]:
            dataset = open_dataset(source, target=target)
            X_here, y_here = stacked(dataset, 10)
            assert_array_equal(X_here, X)
            assert_array_equal(y_here, y)
        if not isinstance(source, pd.DataFrame):
            few = open_dataset(source, target=2, columns=[1, 0], filter="x0 > 0.5")
            keep = X[:, 0] > 0.5
            assert_array_equal(few.to_arrays()[0], X[keep][:, ::-1])
            assert_array_equal(few.to_arrays()[1], y[keep])
            assert few.count() == keep.sum() and few.feature_names == ("x1", "x0")


@pytest.mark.parametrize("make", [np.asarray, pa.table, pd.DataFrame, pl.DataFrame])
def test_targets_in_an_array_of_their_own(make):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    source = make(X) if make is np.asarray else make({"a": X[:, 0], "b": X[:, 1]})
    dataset = open_dataset(source, target=pd.Series(y))
    assert dataset.n_features == 2 and dataset.target == "(target)"
    assert_array_equal(dataset.to_arrays()[0], X)
    assert_array_equal(dataset.to_arrays()[1], y)
    first = dataset.feature_names[0]
    kept = open_dataset(source, target=y, filter=f"{first} > 3")
    assert_array_equal(kept.to_arrays()[1], y[2:])
    with pytest.raises(DatasetError, match="5 targets for 6 rows"):
        open_dataset(source, target=y[:5])
    with pytest.raises(DatasetError, match=r"column '\(target\)' has a missing value .* row 1\."):
        open_dataset(source, target=np.where(y == 1, np.nan, y)).to_arrays()


@given(
    n=st.integers(1, 60),
    rows=st.integers(1, 70),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    group=st.integers(1, 20),
    drop=st.booleans(),
    filtered=st.booleans(),
    data=st.data(),
)
def test_chunks_do_not_depend_on_files(
    tmp_path_factory, n, rows, cuts, group, drop, filtered, data
):
    a = np.random.default_rng(n).standard_normal(n)
    y = np.where(np.arange(n) % 3 == 1, np.nan, a) if drop else a
    table = pa.table({"a": a, "b": range(n), "y": y})
    keep = np.isfinite(y) & ((np.arange(n) % 5 != 0) if filtered else True)
    folder = write(
        tmp_path_factory.mktemp("cut"), table, [min(cut, n) for cut in cuts], row_group_size=group
    )
    bad = ", ".join(str(k) for k in range(0, n, 5))
    options = {
        "target": "y",
        "filter": f"b not in [{bad}]" if filtered else None,
        "missing": "drop" if drop else "error",
    }
    for source in (folder, table):
        dataset = open_dataset(source, **options)
        if not keep.any():
            with pytest.raises(DatasetError, match="there are no rows"):
                list(dataset.chunks(rows))
            with pytest.raises(DatasetError, match="there are no rows"):
                dataset.count()
            continue
        if data.draw(st.booleans()):
            assert dataset.count() == keep.sum()
        X_all, y_all = stacked(dataset, rows)
        assert_array_equal(X_all, np.column_stack([a, np.arange(n)])[keep])
        assert_array_equal(y_all, y[keep])
        assert dataset.count() == keep.sum()
        passed = np.arange(n) % 5 != 0 if filtered else np.ones(n, bool)
        assert dataset.dropped == np.isnan(y[passed]).sum()
        wanted = sorted(data.draw(st.lists(st.integers(0, int(keep.sum()) - 1), max_size=9)))
        X_some, y_some = dataset.gather(np.array(wanted, dtype=np.int64))
        assert_array_equal(X_some, X_all[wanted])
        assert_array_equal(y_some, y_all[wanted])


def test_wide_tables_are_read_fewer_rows_at_a_time(tmp_path, monkeypatch):
    table = numbers()
    X = np.column_stack([table[name].to_numpy() for name in table.column_names])
    monkeypatch.setattr(files, "BATCH_VALUES", 30)
    for source in (table, write(tmp_path / "d", table, [20]), X):
        dataset = open_dataset(source, filter=pc.scalar(True))
        pieces = dataset._source.pieces(dataset.encoding.column_names, None)
        assert max(piece.batch.num_rows for piece in pieces) == 10
        assert_array_equal(dataset.to_arrays()[0], X)


def test_gather_refuses_rows_that_are_not_there():
    dataset = open_dataset(numbers(5))
    with pytest.raises(IndexError, match="no row 5; the dataset has 5 rows"):
        dataset.gather([0, 5])
    with pytest.raises(ValueError, match="sorted"):
        dataset.gather([2, 1])
    with pytest.raises(ValueError, match="from 0"):
        dataset.gather([-1, 1])
    with pytest.raises(TypeError, match="integers"):
        dataset.gather([0.5])
    X, y = dataset.gather([])
    assert X.shape == (0, 3) and y is None


def test_arrays_are_not_copied(tmp_path):
    X = np.random.default_rng(0).standard_normal((100, 3))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for array in (X, mapped):
        dataset = open_dataset(array, target=np.zeros(100))
        for chunk, _ in dataset.chunks(30):
            assert np.shares_memory(chunk, array)
            assert not chunk.flags.writeable and type(chunk) is np.ndarray
        assert np.shares_memory(dataset.to_arrays()[0], array)
    assert X.flags.writeable


def test_no_encoding_pass_without_categories(tmp_path, monkeypatch):
    table = mixed()
    dataset = open_dataset(write(tmp_path / "d", table.drop_columns("carrier"), []), target="y")
    monkeypatch.setattr(type(dataset._source), "_scanner", None)
    assert dataset.n_features == 5 and dataset.count() == 40


def test_with_encoding_ignores_other_columns_and_names_missing_ones(tmp_path):
    fitted = open_dataset(mixed(), target="y", categorical=["carrier"])
    new = mixed().drop_columns("y").append_column("note", pa.array(["text"] * 40))
    X, y = (
        open_dataset(write(tmp_path / "new", new, [9])).with_encoding(fitted.encoding).to_arrays()
    )
    assert_array_equal(X, fitted.to_arrays()[0])
    assert y is None
    with pytest.raises(
        DatasetError, match=r"no column 'late', 'day'\. The columns are 'size', .*'y'"
    ):
        open_dataset(mixed().drop_columns(["late", "day"])).with_encoding(fitted.encoding)


@pytest.mark.parametrize(("name", "row"), [("a", 2), ("c", 1), ("y", 3)])
def test_missing_values_are_named(tmp_path, name, row):
    table = pa.table(
        {
            "a": [1.0, 2.0, np.nan, 4.0],
            "c": ["u", None, "v", "u"],
            "y": [1, 2, 3, None],
            "k": range(4),
        }
    )
    folder = write(tmp_path / "d", table, [1])
    options = {"target": name} if name == "y" else {"columns": [name]}
    if name == "y":
        options["columns"] = ["k"]
    options["categorical"] = ["c"]
    what = rf"column '{name}' has a missing value \(null or NaN\) in row"
    with pytest.raises(DatasetError, match=rf"{what} {row}\."):
        open_dataset(table, **options).to_arrays()
    with pytest.raises(DatasetError, match=rf"{what} {row - 1} of .*part-001.parquet\."):
        open_dataset(folder, **options).to_arrays()
    passed = f"{what} {row - 1} of those that pass the filter"
    with pytest.raises(DatasetError, match=passed):
        open_dataset(table, **options, filter="k > 0").to_arrays()


def test_missing_values_are_dropped_and_counted(tmp_path):
    table = pa.table(
        {"a": [1.0, 2.0, np.nan, 4.0], "c": ["u", None, "v", "u"], "y": [1, 2, 3, None]}
    )
    for source in (table, write(tmp_path / "d", table, [1])):
        dataset = open_dataset(source, target="y", categorical=["c"], missing="drop")
        assert dataset.dropped is None
        assert dataset.count() == 1 and dataset.dropped == 3
        assert_array_equal(dataset.to_arrays()[0], [[1.0, 1.0, 0.0]])
    assert open_dataset(table, target="y", categorical=["c"]).dropped == 0
    X = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])
    dataset = open_dataset(X, missing="drop")
    assert_array_equal(stacked(dataset, 1)[0], X[[0, 2]])
    assert dataset.dropped == 1
    with pytest.raises(DatasetError, match="there are no rows; 3 were dropped for missing values"):
        open_dataset(np.full((3, 1), np.nan), missing="drop").to_arrays()


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_infinity_is_always_an_error(missing):
    for table in (
        pa.table({"a": [1.0, np.inf, np.nan]}),
        pa.table({"a": [1.0, -np.inf, np.nan], "b": [1.0, 2.0, 3.0]}),
    ):
        with pytest.raises(DatasetError, match=r"'a' has an infinity in row 1\."):
            open_dataset(table, missing=missing).to_arrays()
        with pytest.raises(DatasetError, match=r"'a' has an infinity in row 1\."):
            open_dataset(table, missing=missing, categorical=["a"]).to_arrays()
    with pytest.raises(DatasetError, match=r"'x0' has an infinity in row 3\."):
        list(open_dataset(np.array([[1.0], [2.0], [3.0], [np.inf]]), missing=missing).chunks(2))


def test_large_finite_values_are_not_taken_for_infinite():
    X = np.full((4, 2), 1e308)
    assert_array_equal(open_dataset(X).to_arrays()[0], X)


def test_a_csv_column_may_start_whole_or_empty(tmp_path):
    n = 100_000  # more than one block of the reader
    (tmp_path / "long.csv").write_text(
        "a,b,c\n" + "1000000000,,\n" * n + "1.5,2.5,z\n", encoding="utf-8"
    )
    dataset = open_dataset(tmp_path / "long.csv", categorical=["c"], missing="drop")
    assert_array_equal(dataset.to_arrays()[0], [[1.5, 2.5, 1.0]])
    assert dataset.dropped == n
    with pytest.raises(DatasetError, match=r"long.csv cannot be read: .*\bz\b"):
        open_dataset(tmp_path / "long.csv", columns=["c"], missing="drop").to_arrays()
    assert open_dataset(tmp_path / "long.csv").count() == n + 1


def test_fingerprints(tmp_path):
    table = mixed()
    folder = write(tmp_path / "d", table, [5])
    options = {"target": "y", "categorical": ["carrier"]}
    seen = set()
    for source in (folder, table):
        one = open_dataset(source, **options).fingerprint()
        assert one == open_dataset(source, **options).fingerprint()
        others = [
            open_dataset(source, **{**options, "target": None}),
            open_dataset(source, **options, missing="drop"),
            open_dataset(source, **options, filter="size > 0"),
            open_dataset(source, **{**options, "categorical": {"carrier": "ordinal"}}),
        ]
        seen |= {one, *(other.fingerprint() for other in others)}
    assert len(seen) == 10
    arrow = open_dataset(table.drop_columns("day"), categorical=["carrier"])
    same = open_dataset(table.to_pandas().drop(columns="day"), categorical=["carrier"])
    assert same.fingerprint() == arrow.fingerprint()
    path = folder / "part-000.parquet"
    os.utime(path, ns=(0, 1))
    assert open_dataset(folder, **options).fingerprint() not in seen
    X = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "x.npy", X)
    prints = {
        open_dataset(source, target=target).fingerprint()
        for source in (X, X + 1, X[:, ::-1], tmp_path / "x.npy")
        for target in (np.zeros(3), np.ones(3), None)
    }
    assert len(prints) == 12


def test_nothing_to_open(tmp_path):
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "no.parquet", tmp_path / "no.npy", str(tmp_path / "*.parquet")):
        with pytest.raises(FileNotFoundError, match=r"no file"):
            open_dataset(source)
    with pytest.raises(FileNotFoundError, match=r"folder .*empty has no Parquet or CSV"):
        open_dataset(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="list of paths is empty"):
        open_dataset([])
    with pytest.raises(FileNotFoundError, match=r"no file .*there.txt"):
        open_dataset(tmp_path / "there.txt")
    (tmp_path / "there.txt").touch()
    with pytest.raises(DatasetError, match=r"there.txt: the name must end in"):
        open_dataset(tmp_path / "there.txt")


def test_damaged_and_empty_files(tmp_path):
    folder = write(tmp_path / "d", numbers(), [20, 40])
    whole = (folder / "part-001.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-3], b""):
        (folder / "part-001.parquet").write_bytes(content)
        with pytest.raises(DatasetError, match=r"part-001.parquet cannot be read"):
            open_dataset(folder)
    # Damage that the footer does not show is found when the rows are read.
    (folder / "part-001.parquet").write_bytes(whole[:4] + bytes(200) + whole[204:])
    with pytest.raises(DatasetError, match=r"part-001.parquet cannot be read"):
        open_dataset(folder).to_arrays()
    for name, content in (("e.csv", b""), ("e.npy", b""), ("f.npy", b"\x93NUMPY")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DatasetError, match=f"{name} cannot be read"):
            open_dataset(tmp_path / name)
    (tmp_path / "h.csv").write_text("a,b\n")
    with pytest.raises(DatasetError, match="there are no rows"):
        open_dataset(tmp_path / "h.csv").to_arrays()
    with pytest.raises(DatasetError, match=r"there are no rows in part-000.parquet"):
        open_dataset(write(tmp_path / "none", numbers(0), []))
    for table in (numbers(0), numbers(0).to_pandas(), np.empty((0, 3)), np.empty((3, 0))):
        with pytest.raises(DatasetError, match="there are no rows"):
            open_dataset(table)
    X, _ = open_dataset(write(tmp_path / "some", numbers(5), [0, 2, 2])).to_arrays()
    assert len(X) == 5  # an empty file among others does no harm


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda t: t.drop_columns("a"), "it has no column 'a'"),
        (lambda t: t.append_column("z", t["a"]), "it has a column 'z' more"),
        (
            lambda t: t.set_column(0, "a", t["a"].cast(pa.float32())),
            "column 'a' holds float, not double",
        ),
        (lambda t: t.rename_columns(["A", "b.c", "y"]), "it has no column 'a'; .* 'A' more"),
    ],
)
def test_another_schema_in_the_middle(tmp_path, other, message):
    folder = write(tmp_path / "d", numbers(), [20, 40])
    pq.write_table(other(numbers()), folder / "part-001.parquet")
    with pytest.raises(DatasetError, match=f"part-001.parquet differs from part-000.*: {message}"):
        open_dataset(folder)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 1, 0), (3, 2, 0, 1)])
def test_schemas_that_differ_only_in_form(tmp_path, order):
    table, parts = mixed(), []
    for form, start in zip(order, (0, 10, 20, 30), strict=True):
        part = table.slice(start, 10)
        text = part["carrier"]
        if form == 1:
            text = text.dictionary_encode()
        elif form == 2:
            text = text.cast(pa.large_string())
        part = part.set_column(1, "carrier", text)
        parts.append(tmp_path / f"{start}.parquet")
        pq.write_table(part.select(part.column_names[:: -1 if form == 3 else 1]), parts[-1])
    columns = ["size", "carrier", "at"]
    for rows in (None, "carrier == 'UA'", "carrier in ['UA', 'DL']"):
        options = {"target": "y", "categorical": ["carrier"], "columns": columns, "filter": rows}
        X, y = open_dataset(parts, **options).to_arrays()
        X_table, y_table = open_dataset(table, **options).to_arrays()
        assert_array_equal(X, X_table)
        assert_array_equal(y, y_table)


def test_a_column_of_nulls_in_one_file(tmp_path):
    tables = [pa.table({"a": [1.0, 2.0], "b": b}) for b in (pa.nulls(2), pa.array([3.0, 4.0]))]
    for order in (tables, tables[::-1]):
        for k, table in enumerate(order):
            pq.write_table(table, tmp_path / f"{k}.parquet")
        dataset = open_dataset(tmp_path, missing="drop")
        assert_array_equal(dataset.to_arrays()[0], [[1.0, 3.0], [2.0, 4.0]])
        assert dataset.dropped == 2
        assert open_dataset(tmp_path, filter="b > 3").count() == 1


def test_damage_in_a_csv_file_is_named(tmp_path):
    text = "a,b\n" + "1000000,2000000\n" * 70_000
    for last in ("3\n", "3,x\n"):
        (tmp_path / "bad.csv").write_text(text + last)
        for use in ("count", "to_arrays"):
            if (last, use) == ("3,x\n", "count"):
                continue  # counting does not convert
            with pytest.raises(DatasetError, match=r"bad.csv cannot be read: "):
                getattr(open_dataset(tmp_path / "bad.csv"), use)()


def test_formats_are_not_mixed(tmp_path):
    pq.write_table(numbers(), tmp_path / "a.parquet")
    csv(tmp_path / "b.csv", numbers())
    with pytest.raises(DatasetError, match=r"one format .*b.csv and .*a.parquet"):
        open_dataset([tmp_path / "a.parquet", tmp_path / "b.csv"])


@pytest.mark.parametrize("change", ["grow", "touch", "remove", "replace"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
def test_a_file_that_changes_while_it_is_read(tmp_path, change, kind):
    path = tmp_path / f"one.{kind}"
    table = numbers(70_000)
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=1000)
    elif kind == "csv":
        csv(path, table)
    else:
        np.save(path, np.column_stack([table[k].to_numpy() for k in range(3)]))
    dataset = open_dataset(path)
    chunks = dataset.chunks(1000)
    next(chunks)
    if change == "grow":
        with path.open("ab") as file:
            file.write(b"1,2,3\n")
    elif change == "touch":
        os.utime(path, ns=(0, 12345))
    elif change == "remove":
        path.unlink()
    else:
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes()[:-100])
        other.replace(path)
    with pytest.raises(DatasetError, match=rf"one.{kind} has (changed|gone) since"):
        list(chunks)
    for use in (dataset.count, dataset.fingerprint, dataset.to_arrays):
        if use == dataset.count and kind == "npy":
            continue
        with pytest.raises(DatasetError, match=rf"one.{kind} has (changed|gone) since"):
            use()


def test_columns_that_are_not_there(tmp_path):
    folder = write(tmp_path / "d", numbers(), [])
    for source in (folder, numbers()):
        for options in ({"target": "z"}, {"columns": ["a", "z"]}, {"categorical": ["z"]}):
            what = next(iter(options))
            with pytest.raises(
                DatasetError, match=rf"{what}: .*'z'\. The columns are 'a', 'b.c', 'y'"
            ):
                open_dataset(source, **options)
    with pytest.raises(
        DatasetError,
        match=r"target: there is no column 'x7'\. Did you mean 'x[0-9]+'[?] The columns are 'x0'",
    ):
        open_dataset(np.zeros((3, 2)), target=7)


def test_arguments():
    table = mixed()
    cases = [
        ({"columns": ["size", "size"]}, "columns: 'size' is there twice"),
        ({"columns": []}, "columns: it is empty"),
        ({"columns": ["y"], "target": "y"}, "columns: the target is among them"),
        ({"target": "carrier"}, "target: column 'carrier' must hold numbers"),
        ({"target": "at"}, "target: column 'at' must hold numbers"),
        ({"missing": "ignore"}, "missing='ignore'"),
        ({"order": "random"}, "order='random'"),
        ({"categorical": {"carrier": "hash"}}, "categorical='hash'"),
        ({"target": np.zeros((40, 1))}, "target: must be"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            open_dataset(table, **options)
    with pytest.raises(ValueError, match="rows must be at least 1"):
        open_dataset(table).chunks(0)
    for name in ("columns", "categorical"):
        with pytest.raises(TypeError, match=rf"{name}: must be a list, such as \['size'\]"):
            open_dataset(table, **{name: "size"})
    for options in ({"columns": [1.5]}, {"target": True}):
        with pytest.raises(TypeError, match="named by text or a number"):
            open_dataset(table, **options)


def test_sources_that_are_not_tables(tmp_path):
    for shape in ((3,), (2, 2, 2), ()):
        with pytest.raises(DatasetError, match=r"shape \(n, d\)"):
            open_dataset(np.zeros(shape))
    for source in (np.zeros((2, 2), complex), pd.DataFrame({"z": [1j]})):
        with pytest.raises(TypeError, match="complex"):
            open_dataset(source)
    with pytest.raises(TypeError, match="complex"):
        open_dataset(np.zeros((2, 2)), target=np.zeros(2, complex))
    for array in (np.array([["a"]]), np.array([[None]]), np.array([["2024"]], "M8[D]")):
        with pytest.raises(TypeError, match="must hold numbers"):
            open_dataset(array)
    for source in (3, None, [[1.0]], object()):
        with pytest.raises(TypeError, match="source: cannot open"):
            open_dataset(source)
    with pytest.raises(DatasetError, match="not a table"):
        open_dataset(pd.DataFrame({"a": [1, "b"]}))
    pq.write_table(numbers(), tmp_path / "a.parquet")
    with pytest.raises(TypeError, match="for files it must be the name of a column"):
        open_dataset(tmp_path / "a.parquet", target=np.zeros(57))


def test_duplicate_names(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1.0])] * 2, ["a", "a"])
    pq.write_table(twice, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    frame = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    for source in (twice, frame, tmp_path / "a.parquet", tmp_path / "a.csv"):
        with pytest.raises(DatasetError, match="two columns are called 'a'"):
            open_dataset(source)


def test_the_modules_do_not_import_jax_themselves():
    for name in ("dataset", "encoding", "files", "filters", "opening", "sources"):
        text = (Path(__file__).parents[2] / f"src/mosaicgp/data/{name}.py").read_text()
        assert not any(f"import {other}" in text for other in ("jax", "pandas", "polars"))
