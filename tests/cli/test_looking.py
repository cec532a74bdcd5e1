"""`mosaicgp evaluate`, `inspect` and `compare`, in this process."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mosaicgp import SparseGPRegressor, metrics
from mosaicgp.comparison import methods
from mosaicgp.data import open_dataset

COLUMNS = ["--categorical", "city", "--exclude", "id"]


def test_evaluate_gives_the_scores_of_the_library(run, model, houses, tmp_path):
    picture = tmp_path / "calibration.png"
    done = run("evaluate", model, houses / "test.csv", "--json", "--plot", picture)
    assert done.code == 0
    found = json.loads(done.out)
    data = open_dataset(houses / "test.parquet", target="price")
    expected = metrics.evaluate(SparseGPRegressor.load(model), data, levels=[0.5, 0.99])
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name
    assert found["rows"] == 60 and found["target"] == "price"
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = run("evaluate", model, houses / "test.csv", "--plot", picture)
    assert again.code == 2 and "--force" in again.err


def test_evaluate_for_people(run, model, houses):
    done = run("evaluate", model, houses / "test.csv", "--level", "0.9", "--where", "rooms > 2")
    assert done.code == 0
    assert "RMSE" in done.out and "coverage 90%" in done.out and "coverage 95%" not in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "prise"], "Did you mean 'price'?"),
        (["--level", "2"], "level must lie strictly between 0 and 1"),
        (["--plot", "picture.txt"], "must end in one of"),
        (["--plot", "nowhere/picture.png"], "there is no folder nowhere"),
    ],
)
def test_evaluate_with_bad_options(run, model, houses, arguments, message):
    done = run("evaluate", model, houses / "test.csv", *arguments)
    assert done.code == 2 and done.out == "" and message in done.err


def test_a_model_of_arrays_asks_for_the_target(run, houses, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = SparseGPRegressor("dtc", n_inducing=5, max_time=0.1, max_iter=2)
    with pytest.warns(match=r"time budget|converging"):
        model.fit(X, X[:, 0])
    model.save(tmp_path / "arrays.gp")
    np.save(tmp_path / "rows.npy", np.column_stack([X, X[:, 0]]))
    done = run("evaluate", tmp_path / "arrays.gp", tmp_path / "rows.npy")
    assert done.code == 2 and "--target" in done.err
    found = run("inspect", tmp_path / "arrays.gp")
    assert found.code == 0 and "30 rows of arrays" in found.out


def test_inspect_says_what_a_model_is(run, model):
    done = run("inspect", model, "--json")
    assert done.code == 0 and done.err == ""
    found = json.loads(done.out)
    assert found["kind"] == "saved model" and found["approximation"] == "dtc"
    assert found["trained_on"]["rows"] == 300
    assert found["trained_on"]["files"] == ["train.csv"]
    assert found["features"] == ["area", "rooms", "city=Lyon", "city=Oslo", "city=Rome"]
    area = found["hyperparameters"][0]
    assert area["name"] == "inverse_lengthscale[area]"
    assert area["lower"] < area["mean"] < area["upper"]
    people = run("inspect", model)
    for words in ("300 rows of train.csv", "price", "25 iterations", "noise_std"):
        assert words in people.out


def test_inspect_recognises_a_predictor_and_what_is_neither(run, model, houses, tmp_path):
    exported = tmp_path / "predictor.npz"
    SparseGPRegressor.load(model).export(exported)
    done = run("inspect", exported)
    assert done.code == 0
    assert "exported predictor" in done.out and "city=Oslo" in done.out
    for path in (houses, houses / "train.csv", tmp_path / "nowhere"):
        done = run("inspect", path)
        assert done.code == 2 and done.out == "" and str(path) in done.err


def test_inspect_a_model_of_before_it_kept_its_origin(run, model, monkeypatch):
    load = SparseGPRegressor.load

    def old(path):
        fitted = load(path)
        fitted.trained_on_ = None
        return fitted

    monkeypatch.setattr(SparseGPRegressor, "load", old)
    done = run("inspect", model)
    assert done.code == 0 and "unknown" in done.out


def test_compare(run, houses, tmp_path):
    picture = tmp_path / "compared.svg"
    arguments = ["compare", houses / "train.csv", "-t", "price", *COLUMNS, "-m", "8"]
    chosen = ["--method", "linear,boosting,dtc", "--test-rows", "100"]
    done = run(*arguments, *chosen, "--json", "--plot", picture)
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["train_rows"], found["test_rows"]) == (200, 100)
    scores = {score["name"]: score for score in found["scores"]}
    assert list(scores) == ["linear", "HistGradientBoosting", "mosaicgp dtc"]
    # The truth is a line, waves of amplitude 30 around it, and noise of 8.
    assert scores["mosaicgp dtc"]["rmse"] < scores["linear"]["rmse"] < 30.0
    assert scores["mosaicgp dtc"]["rmse"] > 6.0
    assert "<svg" in picture.read_text()


def test_compare_reports_a_method_that_fails(run, houses, monkeypatch):
    original = methods.run

    def failing(name, split, budget):
        if name == "boosting":
            raise MemoryError("too small a machine")
        return original(name, split, budget)

    monkeypatch.setattr(methods, "run", failing)
    arguments = ["compare", houses / "train.csv", "-t", "price", *COLUMNS]
    done = run(*arguments, "--method", "boosting", "--method", "linear")
    assert done.code == 1
    assert "too small a machine" in done.err and "linear" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "magic"], "there is no 'magic'"),
        (["--test-rows", "298"], "leave too few"),
        (["--where", "area < 32"], "needs 10 rows"),
    ],
)
def test_compare_with_bad_options(run, houses, arguments, message):
    done = run("compare", houses / "train.csv", "-t", "price", *COLUMNS, *arguments)
    assert done.code == 2 and done.out == "" and message in done.err


def test_a_library_that_is_not_installed(run, houses, monkeypatch):
    monkeypatch.setattr(methods, "available", lambda name: name != "gpflow")
    start = ["compare", houses / "train.csv", "-t", "price", *COLUMNS]
    done = run(*start, "--method", "gpflow")
    assert done.code == 2 and "pip install gpflow" in done.err


def test_a_split_of_a_larger_table_is_a_sample(tmp_path):
    rows = pa.table({"a": np.arange(500.0), "y": np.arange(500.0)})
    split = methods.split_rows(open_dataset(rows, target="y"), 100, None, seed=3)
    assert len(split.y) == 80 and len(split.y_test) == 20
    drawn = np.concatenate([split.y, split.y_test])
    assert len(np.unique(drawn)) == 100 and drawn.max() > 300.0
    np.testing.assert_array_equal(split.X[:, 0], split.y)
