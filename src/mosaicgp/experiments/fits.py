"""Fits and their scores: the work behind the table, the curves and the intervals.

The three share what is done: a run of one finds the fits of another in the same folder.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mosaicgp.comparison.scores import Split
from mosaicgp.estimator import SparseGPRegressor
from mosaicgp.experiments.datasets import Data, split
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.methods import GPFLOW, VB_METHODS, make
from mosaicgp.experiments.peer import interpreter, predictions
from mosaicgp.experiments.settings import Line, Settings, Unit, Work
from mosaicgp.metrics import coverage, crps, mnlp, mnlp_counts, rmse

FloatArray = NDArray[np.float64]

# Test rows that a fit is scored on on its way, at the mean of q(θ): every look factorises their
# blocks anew. At its end it is scored on all, with its draws.
CURVE_ROWS = 1000


def identity(data: Data, settings: Settings) -> Line:
    """What the figures depend on."""
    return settings.identity(data) | {"curve": f"{CURVE_ROWS} rows, at the mean of q(θ)"}


def run(unit: Unit, work: Work) -> None:
    """Fit one method on one split, score it on its way where it is one of the paper's three."""
    settings = work.settings
    part = split(work.data, unit.split, settings.rows, settings.test_share)
    load, began = os.getloadavg()[0], time.perf_counter()
    values = (_of_gpflow if unit.method == GPFLOW else _of_estimator)(unit, part, work)
    # A fit that went on where it was interrupted took longer than this part of it.
    whole = values["fit_s"] + (values["predict_s"] or 0.0)
    work.record(
        END,
        {
            **values,
            "wall_s": max(time.perf_counter() - began, whole),
            "train_rows": len(part.y),
            "test_rows": len(part.y_test),
            "load": (load + os.getloadavg()[0]) / 2.0,
        },
    )


def _of_gpflow(unit: Unit, part: Split, work: Work) -> Line:
    settings = work.settings
    python = interpreter(settings.gpflow_python)
    assert python is not None  # otherwise the method was left out
    began = time.perf_counter()
    found = predictions(python, part, settings.M, settings.iterations, unit.split)
    # One process fits and predicts; the seconds are those of both.
    seconds = time.perf_counter() - began
    return scores(part, *found) | {
        "fit_s": seconds,
        "predict_s": None,
        "iterations": settings.iterations,
        "status": "max_iter",
    }


def _of_estimator(unit: Unit, part: Split, work: Work) -> Line:
    model = make(unit.method, work.settings, unit.split)
    began = time.perf_counter()
    curve = unit.method in VB_METHODS
    if isinstance(model, SparseGPRegressor):
        model.set_params(verbose=work.verbose)
    if curve:
        _fit_with_curve(model, part, work)
    elif isinstance(model, SparseGPRegressor):
        _fit(model, part, checkpoint=work.checkpoint, resume=True)
    else:
        _fit(model, part)
    result = getattr(model, "fit_result_", None)
    how = {
        "fit_s": time.perf_counter() - began if result is None else result.seconds,
        "iterations": None if result is None else result.iterations,
        "status": None if result is None else result.status,
    }
    values = _at_the_end(model, part, curve) | how
    return values | (_hyperparameters(model) if curve else {})


def fit_watched(model: Any, part: Split, work: Work, look: Any) -> None:
    """Fit with checkpoints, and with looks at the points that are not known."""
    points = [n for n in work.settings.points() if n not in work.known]
    _fit(
        model,
        part,
        checkpoint=work.checkpoint,
        resume=True,
        snapshot_at=points,
        on_snapshot=look,
    )


def _fit_with_curve(model: Any, part: Split, work: Work) -> None:
    def look(snapshot: Any) -> None:
        values = _on_its_way(snapshot, part)
        work.record(snapshot.n_iter_, {**values, "fit_s": snapshot.fit_result_.seconds})

    fit_watched(model, part, work, look)


def _on_its_way(model: Any, part: Split) -> Line:
    """Scores of a point of the curve."""
    few = part._replace(X_test=part.X_test[:CURVE_ROWS], y_test=part.y_test[:CURVE_ROWS])
    at_mean = model.with_theta_nodes(np.zeros((1, few.X.shape[1] + 1)))
    return scores(few, *at_mean.predict(few.X_test, return_std=True))


def _fit(model: Any, part: Split, **arguments: Any) -> None:
    with warnings.catch_warnings():
        # The status of the fit is recorded; a budget that ran out is part of the experiment.
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        model.fit(part.X, part.y, **arguments)
    result = getattr(model, "fit_result_", None)
    if result is not None and result.status == "interrupted":
        raise KeyboardInterrupt  # by the user: a fit ends in peace, but it is no result


def scores(part: Split, mean: FloatArray, std: FloatArray) -> Line:
    """RMSE, MNLP, CRPS and coverage of predictions of y; of counts also the MNLP of counts."""
    found = {
        "rmse": rmse(part.y_test, mean),
        "mnlp": mnlp(part.y_test, mean, std),
        "crps": crps(part.y_test, mean, std),
        "coverage": coverage(part.y_test, mean, std),
    }
    if part.counts is not None:
        logs = part.counts == "logs"
        counts = np.rint(np.expm1(part.y_test)) if logs else part.y_test
        found["mnlp_counts"] = mnlp_counts(counts, mean, std, logs=logs)
    return found


def _at_the_end(model: Any, part: Split, curve: bool) -> Line:
    began = time.perf_counter()
    mean, std = model.predict(part.X_test, return_std=True)
    values = scores(part, mean, std) | {"predict_s": time.perf_counter() - began}
    if not curve:
        return values
    f_mean, f_var = model.predict_f(part.X_test[:CURVE_ROWS])
    return {
        **values,
        "curve": _on_its_way(model, part),
        "mnlp_f": mnlp(part.y_test[:CURVE_ROWS], f_mean, np.sqrt(f_var)),
    }


def _hyperparameters(model: Any) -> Line:
    """q(θ) in standardised units, as the paper's figure shows it."""
    q = model.posterior_
    return {
        "lambda_mean": np.abs(q.nu).tolist(),
        "lambda_std": np.sqrt(q.xi).tolist(),
        "signal_mean": float(abs(q.alpha)),
        "signal_std": float(np.sqrt(q.beta)),
        "mean_log_variance": model.mean_log_variance(),
    }
