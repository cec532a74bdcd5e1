"""Every experiment from a file to its page, at toy size, through the command."""

import json
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mosaicgp import arguments
from mosaicgp.cli import app
from mosaicgp.cli.paper import EXACT, METHODS
from mosaicgp.comparison.scores import Split
from mosaicgp.experiments import convergence, fits, methods, running
from mosaicgp.experiments.peer import PeerError, predictions
from mosaicgp.experiments.settings import Settings
from mosaicgp.inference import climb
from paper_command import paper, rows_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


def assert_whole(folder, name, *texts):
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / f"{name}.svg").read_text()
    page = (folder / f"{name}.md").read_text()
    facts = (f"mosaicgp paper {name} --data waves.parquet", "random split", "cores", "Wall time")
    for text in (*facts, *texts):
        assert text in page
    assert str(folder) not in page


@pytest.fixture(scope="module")
def accuracy(table, folder):
    options = ["--splits", "2", "--method", "VBDTC+", "--beside", "AIRLINE"]
    result = paper("accuracy", table, folder, *options)
    assert result.exit_code == 0, result.output
    return result


def test_accuracy(folder, accuracy):
    found = rows_of(folder / "accuracy.csv")
    places = [(row["split"], row["at"], row["iterations"]) for row in found]
    curve = [("on its way", "1"), ("on its way", "10"), ("end", "40")]
    assert places == [(split, *place) for split in "01" for place in curve]
    errors = [float(row["rmse"]) for row in found]
    assert errors[2] < 0.8 * errors[0]
    assert float(found[1]["seconds"]) <= float(found[2]["seconds"])
    assert_whole(folder, "accuracy", "VBDTC+", "37.55", "0.0122", "seed 0 to 1")


def test_intervals_and_table_use_the_fits_that_are_there(table, folder, accuracy, monkeypatch):
    monkeypatch.setattr(fits, "_fit_with_curve", None)  # nothing is fitted again
    result = paper("intervals", table, folder, "--splits", "2", "--method", "vbdtc+")
    assert result.exit_code == 0, result.output
    found = rows_of(folder / "intervals.csv")
    assert len(found) == 2 * 2
    assert float(found[0]["mean"]) > float(found[1]["mean"])  # b says nothing about y
    assert_whole(folder, "intervals", "Mean log variance", "too narrow", "means of all splits")

    named = ["--method", "VBDTC+", "--method", "HistGradientBoosting"]
    result = paper("table", table, folder, "--splits", "2", *named)
    assert result.exit_code == 0, result.output
    assert "VBDTC+, split 1: there already" in result.output
    scores = rows_of(folder / "table.csv")
    assert all(0.0 < float(row["crps"]) < float(row["rmse"]) for row in scores)
    assert {row["method"] for row in scores} == {"VBDTC+", "HistGradientBoosting"}
    assert all(np.isfinite(float(row["mnlp"])) for row in scores)
    assert_whole(folder, "table", "HistGradientBoosting", "a fifth of the training rows")

    result = paper("table", table, folder, "--splits", "1", "--method", "VBDTC+")
    assert rows_of(folder / "table.csv") == scores  # what was there stays on the page
    assert "| VBDTC+ | 2 |" in result.output


def test_the_help_names_the_methods_of_the_table():
    assert [name.strip("' ") for name in METHODS.split(",")] == list(methods.METHODS)
    assert EXACT.split(", ") == list(methods.EXACT_TWINS)


def test_exact_rows_of_the_family_stay_beside_the_others(table, tmp_path):
    """They have their own inference and are else their twins."""
    named = ["--splits", "1", "--method"]
    result = paper("table", table, tmp_path, *named, "VBDTC, dtc")
    assert result.exit_code == 0, result.output
    result = paper("table", table, tmp_path, *named, "SVIGP", "--json")
    found = json.loads(result.stdout)["records"]
    assert [row["method"] for row in found] == ["SVIGP", "VBDTC", "DTC"]
    assert found == [
        {name: json.loads(v) if name not in ("method", "status") else v for name, v in row.items()}
        for row in rows_of(tmp_path / "table.csv")
    ]
    for name, twin in methods.EXACT_TWINS.items():
        exact, stochastic = (
            arguments.plan(methods.make(each, Settings(), 3), 5000) for each in (name, twin)
        )
        assert isinstance(exact.settings, climb.Settings)
        assert exact.settings.max_iter == methods.EXACT_ITERATIONS
        assert replace(exact, settings=stochastic.settings) == stochastic


def test_exact_rows_of_a_large_table_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "EXACT_ROWS", 300)
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(500.0), "y": np.arange(500.0) % 7}), table)
    result = paper("table", table, tmp_path / "out", "--method", "SVIGP,VBPIC")
    assert result.exit_code == 2
    assert "400 are too many (at most 300). Use fewer --rows, or VBPIC+" in " ".join(
        result.output.split()
    )
    assert not (tmp_path / "out").exists()


def test_categories_of_ones_own_csv(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        f"{a},{'uvw'[k]},{a + k}"
        for a, k in zip(rng.normal(size=200), rng.integers(3, size=200), strict=True)
    ]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["a,kind,y", *rows, ",u,1.0"]))
    sizes = [
        "--rows",
        "150",
        "--splits",
        "1",
        "--method",
        "HistGradientBoosting",
        "--inducing",
        "6",
    ]
    named = ["--categorical", "kind", "--missing", "drop", "--target", "y"]
    out = ["--data", str(path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["paper", "table", *out, *named, *sizes])
    assert result.exit_code == 0, result.output
    assert "Rows with missing values, left out: 1." in result.output
    page = (tmp_path / "out" / "table.md").read_text()
    assert "--target y --categorical kind --missing drop --rows 150" in page
    assert "left out before all else: 1." in page


def test_samples(table, tmp_path):
    options = ["--splits", "1", "--draws", "1", "--draws", "2"]
    result = paper("samples", table, tmp_path, *options)
    assert result.exit_code == 0, result.output
    found = rows_of(tmp_path / "samples.csv")
    assert "[1/1] VBPIC+, split 0, 10: RMSE" in result.output
    assert "with 2 draws" in result.output
    places = [(row["at"], row["draws"]) for row in found]
    assert places == [(at, n) for at in ("1", "10", "end") for n in ("mean", "1", "2")]
    ends = [float(row["rmse"]) for row in found if row["at"] == "end"]
    assert len(set(ends)) == 3
    assert_whole(
        tmp_path,
        "samples",
        "How wide q(θ) is",
        "2 draws beside 1: the RMSE at the end is",
        "from 1 to 2 by",
        "(one split)",
    )


def test_convergence(table, tmp_path, monkeypatch):
    compared = []
    measured = convergence.kl
    monkeypatch.setattr(convergence, "kl", lambda *two: compared.append(two) or measured(*two))
    options = ["--splits", "1", "--method", "VBDTC+", "--rows", "100", "--block-size", "20"]
    result = paper("convergence", table, tmp_path, *options, "--iterations", "100")
    assert result.exit_code == 0, result.output
    found = rows_of(tmp_path / "convergence.csv")
    assert [row["iterations"] for row in found] == ["1", "10", "100"]
    for told in ("fit of 1 iterations", "fit of 100 iterations", "exact fit: converged"):
        assert f"VBDTC+, split 0, {told}" in result.output
    distances = [float(row["kl_s"]) for row in found]
    assert 0.0 <= distances[-1] < distances[0]
    # KL(q ‖ q⁺): from the exact posterior to the stochastic one, as in the paper's Figure 1.
    kinds = [(exact.inference, stochastic.inference) for exact, stochastic in compared]
    assert kinds == [("exact", "stochastic")] * 3
    assert_whole(tmp_path, "convergence", "Orders of magnitude", "of 1 exact fits converged")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rows", "501"], "501 are more than the 500 rows"),
        (["--rows", "50"], "too few for a split"),
        (["--inducing", "300"], "too few for 300 inducing points"),
        (["--method", "GPR"], "has no 'GPR'. It has"),
        (["--test-share", "1.5"], "--test-share must be between 0 and 1"),
        (["--test-share", "nan"], "--test-share must be between 0 and 1"),
        (["--test-share", "inf"], "--test-share must be between 0 and 1"),
        (["--method", "rBCM", "--gpflow-python", "p"], "--gpflow-python: GPflow SVGP is not among"),
        (["--data", "nothing.csv"], "there is no file 'nothing.csv'. Name a file"),
        (["--splits", "0"], "--splits"),
        (["--draws", "8"], "--draws: table makes no use of it"),
        (["--planes", "planes.csv"], "--planes: waves.parquet is not the on-time CSV"),
    ],
)
def test_bad_input_stops_before_any_work(table, tmp_path, options, message):
    result = paper("table", table, tmp_path / "out", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_a_target_that_is_the_same_in_all_rows_is_told_of(tmp_path):
    pq.write_table(pa.table({"a": np.arange(500.0), "y": np.ones(500)}), tmp_path / "t.parquet")
    result = paper("table", tmp_path / "t.parquet", tmp_path / "out")
    assert result.exit_code == 2 and "t: the target, y, is the same in all rows" in result.output


def test_results_of_other_settings_are_refused(table, folder, accuracy):
    before = (folder / "fits.jsonl").read_text()
    result = paper("accuracy", table, folder, "--iterations", "50")
    assert result.exit_code == 2
    assert "iterations was 40, is 50" in result.output
    assert (folder / "fits.jsonl").read_text() == before


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("convergence", ["--test-share", "0.2"], "--test-share: convergence makes no use of it"),
        ("samples", ["--beside", "AIRLINE"], "--beside: samples makes no use of it"),
        ("accuracy", ["--gpflow-python", "p"], "--gpflow-python: accuracy makes no use of it"),
    ],
)
def test_options_that_an_experiment_makes_no_use_of_are_told_of(
    table, tmp_path, name, options, message
):
    sizes = ["--data", str(table), "--target", "y", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["paper", name, *sizes, *options])
    assert result.exit_code == 2 and message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_all_rows_of_a_selection_are_learned_from(table, tmp_path):
    options = ["--data", str(table), "--target", "y", "--rows", "100", "--inducing", "51"]
    result = CliRunner().invoke(app, ["paper", "convergence", *options, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "100 of 100 rows to learn from are too few for 51" in " ".join(result.output.split())


def test_gpflow_is_left_out_where_it_is_not(table, tmp_path):
    options = ["--splits", "1", "--gpflow-python", str(tmp_path / "no-python")]
    methods = ["--method", "HistGradientBoosting, GPflow SVGP"]
    result = paper("table", table, tmp_path, *options, *methods)
    assert result.exit_code == 0, result.output
    assert (
        "GPflow SVGP is left out: --gpflow-python: no program"
        in (tmp_path / "table.md").read_text()
    )
    lines = [json.loads(line) for line in (tmp_path / "fits.jsonl").read_text().splitlines()]
    assert {line["method"] for line in lines} == {"HistGradientBoosting"}

    there = [line | {"method": "GPflow SVGP"} for line in lines]
    (tmp_path / "fits.jsonl").write_text("".join(json.dumps(e) + "\n" for e in lines + there))
    result = paper("table", table, tmp_path, *options, *methods)
    page = (tmp_path / "table.md").read_text()
    assert "| GPflow SVGP | 1 |" in page and "left out" not in page


def test_what_goes_wrong_in_the_other_interpreter_is_shown():
    X, y = np.eye(4), np.arange(4.0)
    with pytest.raises(PeerError, match="No module named"):
        predictions(sys.executable, Split(X, y, X, y), 2, 1, 0)


def test_splits_of_other_seeds(table, tmp_path):
    named = ["--method", "HistGradientBoosting", "--splits", "2"]
    first = paper("table", table, tmp_path / "first", *named)
    later = paper("table", table, tmp_path / "later", *named, "--first-split", "7")
    assert first.exit_code == later.exit_code == 0, later.output
    splits = [row["split"] for row in rows_of(tmp_path / "later" / "table.csv")]
    assert splits == ["7", "8"]
    scores = {
        row["rmse"] for at in ("first", "later") for row in rows_of(tmp_path / at / "table.csv")
    }
    assert len(scores) == 4  # no split is another's
    assert_whole(tmp_path / "later", "table", "seed 7 to 8", "--splits 2 --first-split 7`")

    both = paper("table", table, tmp_path / "later", *named)
    assert both.exit_code == 0, both.output
    stretches = (
        "--splits 2`\n",
        "--splits 2 --first-split 7`\n",
        "4 random splits, seed 0, 1, 7, 8",
    )
    assert_whole(tmp_path / "later", "table", *stretches)
