"""What is compared: our approximations, familiar point predictors, and other libraries' SVGP."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mosaicgp.comparison.scores import Score, Split, baselines, score, score_point_predictor

if TYPE_CHECKING:
    from mosaicgp.data.dataset import Dataset

OURS = ("dtc", "fitc", "pitc", "pic")
BASELINES = ("linear", "boosting")
PEERS = {"gpflow": "GPflow SVGP", "gpytorch": "GPyTorch SVGP"}
METHODS = (*BASELINES, *OURS, *PEERS)


class Budget(NamedTuple):
    """What every Gaussian process gets: inducing points, seconds of training at most, a seed."""

    n_inducing: int
    max_time: float
    seed: int


def available(name: str) -> bool:
    """Whether a method can run here: other libraries where they are installed."""
    return name not in PEERS or importlib.util.find_spec(name) is not None


def split_rows(dataset: Dataset, rows: int, test_rows: int | None, seed: int) -> Split:
    """Rows drawn at random, at most ``rows``; of those ``test_rows`` to score on, or a fifth."""
    n = dataset.count()
    if n < 10:
        raise ValueError(f"a comparison needs 10 rows at least, and there are {n}.")
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(n, size=min(n, rows), replace=False))
    X, y = dataset.gather(chosen)
    assert y is not None
    n_test = max(1, len(y) // 5) if test_rows is None else test_rows
    if n_test > len(y) - 5:
        raise ValueError(f"{n_test} test rows leave too few of {len(y)} to learn from.")
    order = rng.permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return Split(X[train], y[train], X[test], y[test])


def run(name: str, split: Split, budget: Budget) -> Score:
    """Train one method, and score it."""
    if name in BASELINES:
        known = dict(zip(BASELINES, baselines(budget.seed).items(), strict=True))
        title, make = known[name]
        return score_point_predictor(title, make, split, budget.seed)
    return (_run_peer if name in PEERS else _run_ours)(name, split, budget)


def _run_ours(name: str, split: Split, budget: Budget) -> Score:
    from mosaicgp.estimator import SparseGPRegressor

    began = time.perf_counter()
    model = SparseGPRegressor(
        name,
        n_inducing=budget.n_inducing,
        max_time=budget.max_time,
        random_state=budget.seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a budget that ran out is in the score
        model.fit(split.X, split.y)
    mean, std = model.predict(split.X_test, return_std=True)
    found = score(f"mosaicgp {name}", split.y_test, mean, std, time.perf_counter() - began)
    return found._replace(unfinished=model.fit_result_.budget_exhausted)


def _run_peer(name: str, split: Split, budget: Budget) -> Score:
    """Standardised as our own models do it inside."""
    from mosaicgp.data.scaling import Scaling

    began = time.perf_counter()
    scaling = Scaling.of_chunks([(split.X, split.y)])
    predict: Callable[..., tuple[np.ndarray, np.ndarray]]
    predict = import_module(f"mosaicgp.comparison.svgp_{name}").predict
    X, y = scaling.transform_X(split.X), scaling.transform_y(split.y)
    mean, var = predict(X, y, scaling.transform_X(split.X_test), *budget)
    std = np.sqrt(scaling.var_to_user(var))
    mean = scaling.mean_to_user(mean)
    return score(PEERS[name], split.y_test, mean, std, time.perf_counter() - began)
