"""``mosaicgp paper --log-target``: counts in logarithms."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from typer.testing import CliRunner

from mosaicgp import metrics
from mosaicgp.cli import app
from mosaicgp.experiments.datasets import DataError, in_logs, load, split
from mosaicgp.experiments.fits import scores


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    path = tmp_path_factory.mktemp("data") / "counts.parquet"
    pq.write_table(pa.table({"x": x, "calls": rng.poisson(np.exp(2.0 * x))}), path)
    return path


def paper(counts, folder, *options):
    sizes = ["--target", "calls", "--splits", "1", "--inducing", "5", "--test-share", "0.2"]
    command = ["paper", "table", "--data", str(counts), *sizes, "--out", str(folder)]
    return CliRunner().invoke(app, [*command, "--method", "HistGradientBoosting", *options])


def test_the_target_is_its_logarithm(counts):
    raw = load(str(counts), "calls")
    logs = in_logs(raw)
    np.testing.assert_allclose(np.exp(logs.y) - 1.0, raw.y, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(logs.X, raw.X)
    assert logs.target == "log(1 + calls)"
    assert (raw.counts, logs.counts) == ("as they are", "logs")
    # A price is a whole number, too, and cents beside millions are no rounding.
    for y in (raw.y + 0.5, raw.y - 1.0, raw.y + 1.0, raw.y * 0.1 * 10, raw.y * 1e9 + 0.5 * raw.y):
        assert replace(raw, y=y).counts is None
        assert in_logs(replace(raw, y=np.maximum(y, 0.0) + (y > 0) * 0.25)).counts is None
    part = split(logs, 0, None, 0.2)
    counts_test = np.rint(np.expm1(part.y_test))
    found = scores(part, part.y_test, np.full(len(counts_test), 0.3))
    expected = metrics.mnlp_counts(counts_test, part.y_test, 0.3, logs=True)
    assert found["mnlp_counts"] == pytest.approx(expected)
    assert "mnlp_counts" not in scores(part._replace(counts=None), part.y_test, 1.0)


def test_scores_are_on_that_scale(counts, tmp_path):
    result = paper(counts, tmp_path, "--log-target")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "table.md").read_text()
    assert "--target calls --log-target --test-share 0.2" in page
    assert "target log(1 + calls)" in page
    assert "MNLP of counts" in page
    with (tmp_path / "table.csv").open() as file:
        row = next(csv.DictReader(file))
    found = float(row["rmse"])
    part = split(load(str(counts), "calls"), 0, None, 0.2)
    trees = HistGradientBoostingRegressor(random_state=0).fit(part.X, np.log1p(part.y))
    errors = trees.predict(part.X_test) - np.log1p(part.y_test)
    assert found == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert 0.5 < float(row["mnlp_counts"]) < 5.0

    result = paper(counts, tmp_path)  # the same folder, the counts as they are
    assert result.exit_code == 2
    assert "target was 'log(1 + calls)', is 'calls'" in " ".join(result.output.split())


def test_the_command_of_a_page_can_be_run_again(tmp_path):
    """Also where an option is the empty name of a column, as pandas writes its index."""
    table = np.column_stack([np.arange(200), np.random.default_rng(0).poisson(3.0, (200, 2))])
    path = tmp_path / "index.csv"
    np.savetxt(path, table, delimiter=",", header=",x,calls", comments="", fmt="%d")
    result = paper(path, tmp_path / "out", "--exclude", "", "--log-target")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "table.md").read_text()
    assert "--target calls --log-target --exclude '' --test-share 0.2" in page


def test_what_has_no_logarithm_is_told_of(tmp_path):
    path = tmp_path / "profits.parquet"
    pq.write_table(pa.table({"x": np.arange(200.0), "profit": 3.0 - np.arange(200)}), path)
    with pytest.raises(DataError, match="--log-target: profit of profits is below zero in 196"):
        in_logs(load(str(path), "profit"))


def test_the_papers_figures_do_not_stand_beside_logarithms(counts, tmp_path):
    result = paper(counts, tmp_path / "out", "--log-target", "--beside", "TWITTER")
    assert result.exit_code == 2
    assert "--beside: the figures of TWITTER are of a target that is no logarithm" in " ".join(
        result.output.split()
    )
    assert not (tmp_path / "out").exists()
