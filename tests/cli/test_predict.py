"""`mosaicgp predict`, in this process: formats, columns, standard streams, bad input."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mosaicgp import SparseGPRegressor
from mosaicgp.data import open_dataset
from terminal import piped

PREDICTIONS = ["mean", "std", "lower", "upper"]


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path)
    return pa.ipc.open_file(path).read_all()


@pytest.fixture(scope="module")
def truth(model, houses):
    """Mean and std by Python."""
    fitted = SparseGPRegressor.load(model)
    return fitted.predict(open_dataset(houses / "test.parquet"), return_std=True)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("source", ["test.csv", "test.parquet"])
def test_every_format(run, model, houses, tmp_path, truth, ending, source):
    out = tmp_path / f"out.{ending}"
    done = run("predict", model, houses / source, "-o", out, "--keep", "id,price", "-q")
    assert done.code == 0 and done.out == "" and "60 predictions" in done.err
    found = read(out)
    assert found.column_names == ["id", "price", *PREDICTIONS]
    np.testing.assert_allclose(found["mean"], truth[0], rtol=1e-12)
    np.testing.assert_allclose(found["std"], truth[1], rtol=1e-12)
    wide = np.asarray(found["upper"]) - np.asarray(found["lower"])
    np.testing.assert_allclose(wide, 2 * 1.959963984540054 * truth[1], rtol=1e-9)
    assert found["id"].to_pylist() == [f"h{k}" for k in range(60)]


def test_standard_streams(model, houses, truth):
    """As a process: the bytes on standard output are the table and nothing else."""
    content = (houses / "test.csv").read_bytes()
    done = piped("predict", model, "-", "-o", "-", "-q", input=content)
    assert done.returncode == 0 and done.stderr == b""
    found = pyarrow.csv.read_csv(io.BytesIO(done.stdout))
    assert found.column_names == PREDICTIONS
    np.testing.assert_allclose(found["mean"], truth[0], rtol=1e-12)


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_other_formats_of_standard_streams(run, model, houses, truth, tmp_path, format):
    test, stream, sink = pq.read_table(houses / "test.parquet"), io.BytesIO(), io.BytesIO()
    if format == "parquet":
        pq.write_table(test, stream)
    else:
        with pa.ipc.new_stream(stream, test.schema) as writer:
            writer.write_table(test)
    done = run("predict", model, "-", "-o", tmp_path / "out.csv", "-q", stdin=stream.getvalue())
    assert done.code == 0
    np.testing.assert_allclose(read(tmp_path / "out.csv")["mean"], truth[0], rtol=1e-12)
    SparseGPRegressor.load(model).predict_to(sink, test, format=format)
    sink.seek(0)
    written = pq.read_table(sink) if format == "parquet" else pa.ipc.open_stream(sink).read_all()
    assert written.column_names == PREDICTIONS
    np.testing.assert_allclose(written["std"], truth[1], rtol=1e-12)


def test_only_some_rows_and_all_columns(run, model, houses, tmp_path):
    out = tmp_path / "out.csv"
    arguments = ["predict", model, houses / "test.csv", "-o", out, "--keep-all"]
    done = run(*arguments, "--where", "rooms > 3", "--level", "0.5", "--json", "-q")
    found = json.loads(done.out)
    table = read(out)
    assert found["rows"] == table.num_rows < 60
    assert table.column_names == ["id", "area", "rooms", "city", "price", *PREDICTIONS]
    assert min(table["rooms"].to_pylist()) > 3


def test_the_mean_alone_in_little_memory(run, model, houses, tmp_path, truth):
    out = tmp_path / "out.csv"
    arguments = ["predict", model, houses / "test.csv", "-o", out, "-q", "--mean-only"]
    assert run(*arguments, "--memory", "0.001").code == 0
    assert read(out).column_names == ["mean"]
    np.testing.assert_allclose(read(out)["mean"], truth[0], rtol=1e-9)
    done = run(*arguments, "--force", "--memory", "0")
    assert done.code == 2 and "memory must be" in done.err


def test_rows_with_holes(run, model, houses, tmp_path):
    rows = pq.read_table(houses / "test.parquet")
    area = rows["area"].to_pylist()
    area[7] = None
    holes = tmp_path / "holes.parquet"
    pq.write_table(rows.set_column(1, "area", pa.array(area)), holes)
    arguments = ["predict", model, holes, "-q", "-o", tmp_path / "out.parquet"]
    done = run(*arguments)
    assert done.code == 2 and "--missing drop" in done.err and "row 7" in done.err
    done = run(*arguments, "--missing", "drop")
    assert done.code == 2 and "--keep" in done.err
    done = run(*arguments, "--missing", "drop", "--keep", "id")
    assert done.code == 0
    kept = read(tmp_path / "out.parquet")["id"].to_pylist()
    assert kept == [f"h{k}" for k in range(60) if k != 7]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({1: "nowhere.gp"}, "no model at nowhere.gp"),
        ({2: "nowhere.csv"}, "there is no file nowhere.csv"),
        ({4: "out.txt"}, ".parquet, .pq, .csv, .arrow"),
        ({5: "--keep", 6: "ID"}, "Did you mean 'id'?"),
        ({5: "--level", 6: "1.5"}, "level must be between 0 and 1"),
        ({5: "--where", 6: "area > 1e9"}, "there are no rows"),
        ({4: "-", 5: "--json"}, "--json"),
        ({2: "-"}, "nothing came on standard input"),
    ],
)
def test_bad_input(run, model, houses, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    arguments = dict(enumerate(["predict", model, houses / "test.csv", "-o", "out.csv"]))
    done = run(*(arguments | changes).values())
    assert done.code == 2 and done.out == ""
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_lacks_a_column(run, model, houses, tmp_path):
    rows = pq.read_table(houses / "test.parquet").rename_columns(
        ["id", "Area", "rooms", "city", "price"]
    )
    pq.write_table(rows, tmp_path / "other.parquet")
    done = run("predict", model, tmp_path / "other.parquet", "-o", tmp_path / "out.csv")
    assert done.code == 2 and "there is no column 'area'. Did you mean 'Area'?" in done.err


def test_files_that_are_no_model(run, houses, model, tmp_path):
    exported = tmp_path / "predictor.npz"
    SparseGPRegressor.load(model).export(exported)
    for path, message in (
        (houses / "test.csv", "is not a mosaicgp model"),
        (exported, "mosaicgp.serving.load"),
        (houses, "is a folder"),
    ):
        done = run("predict", path, houses / "test.csv", "-o", tmp_path / "out.csv")
        assert done.code == 2 and message in done.err


def test_output_that_exists_needs_force(run, model, houses, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("precious")
    arguments = ["predict", model, houses / "test.csv", "-o", out, "-q"]
    done = run(*arguments)
    assert done.code == 2 and "--force" in done.err and out.read_text() == "precious"
    assert run(*arguments, "--force").code == 0
    assert read(out).num_rows == 60
