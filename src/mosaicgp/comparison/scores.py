"""Scores of a model on test rows, and of point predictors that have no uncertainty of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp import metrics

FloatArray = NDArray[np.float64]


class Split(NamedTuple):
    """Rows to learn from and rows to score on, in the user's units."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray


class Score(NamedTuple):
    """One line of a comparison; ``seconds`` are those of training and predicting.

    ``unfinished``: the time for training ran out while the fit was still improving.
    """

    name: str
    rmse: float
    crps: float
    mnlp: float
    coverage: float
    seconds: float
    unfinished: bool = False


def score(name: str, y: FloatArray, mean: FloatArray, std: Any, seconds: float) -> Score:
    """The score of predictions N(mean, std²)."""
    return Score(
        name,
        metrics.rmse(y, mean),
        metrics.crps(y, mean, std),
        metrics.mnlp(y, mean, std),
        metrics.coverage(y, mean, std, level=0.95),
        seconds,
    )


def score_point_predictor(name: str, make: Callable[[], Any], split: Split, seed: int) -> Score:
    """A point predictor with one Gaussian width for all rows, learned on held-out rows."""
    from sklearn.model_selection import train_test_split
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    X_fit, X_held, y_fit, y_held = train_test_split(
        split.X, split.y, test_size=0.2, random_state=seed
    )
    # One thread: the trees are the same, and tables this small gain nothing from more. On a busy
    # machine the threads of gradient boosting wait for each other, up to a hundred times as long.
    with threadpool_limits(1, user_api="openmp"):
        width = metrics.rmse(y_held, make().fit(X_fit, y_fit).predict(X_held))
        mean = make().fit(split.X, split.y).predict(split.X_test)
    # Of targets that a model hits exactly no width is left, and a density needs one.
    width = max(width, 1e-9 * float(np.std(split.y)))
    return score(name, split.y_test, mean, width, time.perf_counter() - started)


def baselines(seed: int) -> dict[str, Callable[[], Any]]:
    """Point predictors that everybody has, by name."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    return {
        "linear": LinearRegression,
        "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=seed),
    }
