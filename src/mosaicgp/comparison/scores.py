"""Scores of a model on test rows, and of point predictors that have no uncertainty of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp import metrics
from mosaicgp.comparison.baselines import OneWidth

FloatArray = NDArray[np.float64]


class Split(NamedTuple):
    """Rows to learn from and rows to score on, in the user's units.

    ``counts``: the targets are whole numbers from zero on, or the logarithms of 1 + these.
    """

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    counts: Literal["as they are", "logs"] | None = None


class Score(NamedTuple):
    """One line of a comparison; ``seconds`` are those of training and predicting.

    ``unfinished``: the time for training ran out before the fit was known to have converged.
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
    started = time.perf_counter()
    model = OneWidth(make, seed).fit(split.X, split.y)
    mean, std = model.predict(split.X_test, return_std=True)
    return score(name, split.y_test, mean, std, time.perf_counter() - started)
