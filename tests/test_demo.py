"""The demonstration's data, and a run of it with a model that costs nothing."""

from __future__ import annotations

import importlib.util
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from mosaicgp import demo
from mosaicgp.experiments import flights as flight_data


@pytest.fixture(scope="module")
def flights():
    return flight_data.load_flights()


class OneWidth:
    """Predicts the mean; has the face that the demonstration shows."""

    def fit(self, X, y):
        self.columns = list(X.columns)
        self.mean, self.std = np.mean(y), np.std(y)
        self.fit_result_ = SimpleNamespace(message="Nothing to learn.")
        names = [f"inverse_lengthscale[{c}]" for c in self.columns] + ["sigma_f", "noise_std"]
        values = np.linspace(0.1, 1.0, len(names))
        self.hyperparameters_ = {"name": np.array(names), "mean": values, "std": 0.1 * values}
        for prefix in ("", "standardised_"):
            self.hyperparameters_ |= {
                f"{prefix}lower": 0.8 * values,
                f"{prefix}upper": 1.2 * values,
            }
        self.hyperparameters_["standardised"] = values
        return self

    def predict(self, X, return_std=False):
        assert list(X.columns) == self.columns
        return np.full(len(X), self.mean), np.full(len(X), self.std)


def test_flights_are_whole(flights):
    assert flights.X.shape == (273_853, 8)
    assert flights.y.shape == (273_853,)
    assert flights.feature_names == flight_data.FEATURE_NAMES
    assert np.isfinite(flights.X).all()
    assert np.isfinite(flights.y).all()


def test_first_flight_is_read_as_written(flights):
    # UA1545 of Tuesday 2013-01-01, N14228 (built 1999): dep 517, arr 830, 227 min, 1400 miles, +11.
    expected = [14.0, 1400 * 1.609344, 227.0, 317.0, 510.0, 2.0, 1.0, 1.0]
    np.testing.assert_allclose(flights.X[0], expected)
    assert flights.y[0] == 11.0


def test_inputs_stay_in_their_ranges(flights):
    lowest, highest = flights.X.min(axis=0), flights.X.max(axis=0)
    np.testing.assert_array_equal(lowest[[0, 3, 4, 5, 6, 7]], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(highest[[0, 3, 4, 5, 6, 7]], [57, 1439, 1439, 7, 31, 12])


def test_midnight_is_one_minute():
    minutes = flight_data.minute_of_day(np.array([1.0, 59.0, 100.0, 2359.0, 2400.0]))
    np.testing.assert_array_equal(minutes, [1, 59, 60, 1439, 0])


def test_the_package_need_not_be_importable(monkeypatch):
    """Its own import needs pkg_resources, which new versions of setuptools do not have."""
    monkeypatch.setitem(sys.modules, "pkg_resources", None)
    assert flight_data.load_flights().X.shape[1] == 8


def test_missing_data_names_the_remedy(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install '\.\[demo\]'"):
        flight_data.load_flights()


def test_a_run_prints_scores_and_writes_the_picture(tmp_path):
    picture = tmp_path / "picture.png"
    stream = io.StringIO()
    scores = demo.run_demo(200, 100, 0, picture, Console(file=stream, width=120), model=OneWidth())
    assert [score.name for score in scores] == ["linear", "HistGradientBoosting", "mosaicgp"]
    assert all(np.isfinite(score[1:]).all() for score in scores)
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = stream.getvalue()
    for text in ("RMSE", "MNLP", "95% coverage", "air_time", str(picture)):
        assert text in printed.replace("\n", "")


def test_the_same_seed_gives_the_same_scores(tmp_path):
    def scores():
        run = demo.run_demo(
            100, 50, 3, tmp_path / "p.png", Console(file=io.StringIO()), model=OneWidth()
        )
        return [score[:4] for score in run]

    assert scores() == scores()


@pytest.mark.parametrize(
    ("n_train", "n_test", "name", "message"),
    [
        (5, 100, "a.png", "n_train must be at least 10, got 5"),
        (100, 0, "a.png", "n_test must be at least 10, got 0"),
        (273_000, 1_000, "a.png", "more than the 273,853 flights there are"),
        (100, 100, "a.txt", "known format"),
        (100, 100, "nowhere/a.png", "no folder"),
    ],
)
def test_bad_arguments_stop_before_any_work(tmp_path, n_train, n_test, name, message):
    with pytest.raises(demo.DemoError, match=message):
        demo.run_demo(n_train, n_test, 0, tmp_path / name, Console(file=io.StringIO()), OneWidth())
    assert not list(tmp_path.iterdir())
