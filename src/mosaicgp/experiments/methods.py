"""The methods of the paper's table by their names, made with the settings of a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from mosaicgp.arguments import AUTO_BLOCK_SIZE, AUTO_MAX_ITER
from mosaicgp.comparison.baselines import OneWidth, baselines
from mosaicgp.experiments.settings import Settings

VB_METHODS = {"VBDTC+": "dtc", "VBFITC+": "fitc", "VBPIC+": "pic"}

# Exact inference of the same models, for tables of few rows: what each is the twin of.
EXACT_TWINS = {
    "VBPIC": "VBPIC+",
    "VBFITC": "VBFITC+",
    "VBDTC": "VBDTC+",
    "PIC": "PIC+",
    "DTC": "SVIGP",
}
GPFLOW = "GPflow SVGP"
BOOSTING = "HistGradientBoosting"
MORE_TREES = 2000
LONG_BOOSTING = f"{BOOSTING} {MORE_TREES}"
NO_GPS = (BOOSTING, LONG_BOOSTING)

# Most iterations of methods that use all rows in each: Dist-VGP's of all rows of a large table, and
# the estimator's own.
DIST_ITERATIONS = 100
EXACT_ITERATIONS = AUTO_MAX_ITER["exact"]


def family_arguments(settings: Settings, seed: int) -> dict[str, Any]:
    """Arguments of ``SparseGPRegressor`` that all stochastic rows of the family share."""
    return {
        "n_inducing": settings.M,
        "block_size": "auto" if settings.block_size is None else settings.block_size,
        "max_iter": settings.iterations,
        "dtype": settings.dtype,
        "random_state": seed,
    }


def _variational_bayesian(kind: str) -> Callable[[Settings, int], Any]:
    def make(settings: Settings, seed: int) -> Any:
        from mosaicgp.estimator import SparseGPRegressor

        return SparseGPRegressor(kind, inference="stochastic", **family_arguments(settings, seed))

    return make


def _point_estimates(name: str) -> Callable[[Settings, int], Any]:
    def make(settings: Settings, seed: int) -> Any:
        from mosaicgp import rivals

        return getattr(rivals, name)(**family_arguments(settings, seed))

    return make


def _dist_vgp(settings: Settings, seed: int) -> Any:
    from mosaicgp.rivals import DistVGP

    iterations = min(DIST_ITERATIONS, settings.iterations)
    return DistVGP(
        n_inducing=settings.M, max_iter=iterations, learn_inducing=True, random_state=seed
    )


def _exact(name: str) -> Callable[[Settings, int], Any]:
    def make(settings: Settings, seed: int) -> Any:
        twin = ESTIMATORS[EXACT_TWINS[name]](settings, seed)
        # "auto" is another size for exact inference, and so another model.
        blocks = settings.block_size or AUTO_BLOCK_SIZE["stochastic"]
        most = min(EXACT_ITERATIONS, settings.iterations)
        return twin.set_params(inference="exact", max_iter=most, block_size=blocks)

    return make


def _rbcm(settings: Settings, seed: int) -> Any:
    from mosaicgp.rivals import RobustBCM

    return RobustBCM(max_iter=min(200, settings.iterations), random_state=seed)


def _vssgpr(settings: Settings, seed: int) -> Any:
    from mosaicgp.rivals import VSSGPR

    return VSSGPR(n_features=settings.M, max_iter=settings.iterations, random_state=seed)


def _boosting(**arguments: Any) -> Callable[[Settings, int], Any]:
    def make(settings: Settings, seed: int) -> Any:
        return OneWidth(lambda: baselines(seed)[BOOSTING]().set_params(**arguments), seed)

    return make


# In the order of the table: ours, their point-estimate twins, the other rivals.
ESTIMATORS: dict[str, Callable[[Settings, int], Any]] = {
    "VBPIC+": _variational_bayesian("pic"),
    "VBFITC+": _variational_bayesian("fitc"),
    "VBDTC+": _variational_bayesian("dtc"),
    "PIC+": _point_estimates("PICPlus"),
    "SVIGP": _point_estimates("SVIGP"),
    "Dist-VGP": _dist_vgp,
    "rBCM": _rbcm,
    "VSSGPR": _vssgpr,
    BOOSTING: _boosting(),
    LONG_BOOSTING: _boosting(max_iter=MORE_TREES, early_stopping=True),
    **{name: _exact(name) for name in EXACT_TWINS},
}

# Those of the table unless others are named. GPflow runs in an interpreter of its own: see `peer`.
METHODS = (*(name for name in ESTIMATORS if name not in EXACT_TWINS), GPFLOW)

ABOUT = {
    "VBPIC+": "noise correlated within a block, posterior over the hyperparameters, stochastic",
    "VBFITC+": "independent noise that depends on the input, posterior, stochastic",
    "VBDTC+": "independent noise, posterior, stochastic",
    "PIC+": "VBPIC+ with point estimates",
    "SVIGP": "VBDTC+ with point estimates",
    "Dist-VGP": (
        f"SVIGP's model with all rows in each of at most {DIST_ITERATIONS} iterations, inducing "
        "inputs learned"
    ),
    "rBCM": "a committee of GP experts on at most 256,000 of the rows, point estimates",
    "VSSGPR": "variational Bayes over the frequencies of a sparse spectrum",
    **{
        name: f"{twin} by exact inference: all rows in each iteration, at most {EXACT_ITERATIONS}"
        for name, twin in EXACT_TWINS.items()
    },
    GPFLOW: "SVIGP's model in GPflow: natural gradients, Adam, inducing inputs learned",
    BOOSTING: (
        "at most 100 trees, scikit-learn's default, no GP; its one width for all rows is the RMSE "
        "on a fifth of the training rows"
    ),
    LONG_BOOSTING: (
        f"the same with at most {MORE_TREES:,} trees, fewer where the error on a tenth of the "
        "training rows no longer falls"
    ),
}


def make(method: str, settings: Settings, seed: int) -> Any:
    """An unfitted estimator with ``fit(X, y)`` and ``predict(X, return_std=True)``."""
    return ESTIMATORS[method](settings, seed)


def left_out(method: str, settings: Settings) -> str | None:
    """Why a method cannot be run here, if it cannot."""
    if method != GPFLOW:
        return None
    from mosaicgp.experiments.peer import interpreter

    if interpreter(settings.gpflow_python) is not None:
        return None
    if settings.gpflow_python is not None and shutil.which(settings.gpflow_python) is None:
        return f"{GPFLOW} is left out: --gpflow-python: no program '{settings.gpflow_python}'."
    where = settings.gpflow_python or "this Python"
    return f"{GPFLOW} is left out: {where} cannot import gpflow (name one with --gpflow-python)."
