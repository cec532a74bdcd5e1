"""Scores of Gaussian predictions: the error of the mean, and how honest the intervals are.

Every function takes the observed targets ``y`` and a prediction N(mean, std²) for each row, in the
same units. Plain NumPy: nothing here knows of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from mosaicgp.sample import targets

__all__ = ["coverage", "crps", "evaluate", "mnlp", "mnlp_counts", "pit", "rmse"]

FloatArray = NDArray[np.float64]


class Predictor(Protocol):
    """What :func:`evaluate` asks of a model."""

    def predict(self, X: Any, *, return_std: bool) -> Any: ...

    def predict_f(self, X: Any) -> Any: ...


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error of the predicted means, in the units of y."""
    y, mean = _targets_and_means(y, mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mnlp(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean negative log probability, ½ mean[(y − mean)² / std² + log(2π std²)].

    Lower is better; in nats, for y in its own units. The std decides what is scored:

    - the std of y, from ``predict(X, return_std=True)``: the MNLP of y, which is what compares
      models fairly;
    - the square root of the variance of f, from ``predict_f(X)``: the quantity as Yu et al. write
      it, which leaves the noise out and so punishes a model that is sure of f.
    """
    y, mean, std = _targets_and_predictions(y, mean, std)
    return float(0.5 * np.mean(((y - mean) / std) ** 2 + 2.0 * np.log(std) + np.log(2.0 * np.pi)))


def mnlp_counts(counts: ArrayLike, mean: ArrayLike, std: ArrayLike, *, logs: bool = False) -> float:
    """Mean negative log probability of whole numbers from zero on, in nats; lower is better.

    A prediction N(mean, std²), of the counts or with ``logs`` of log(1 + count), gives a count the
    probability of all that rounds to it, and zero that of all below ½. Other than densities
    (:func:`mnlp`), such probabilities can be compared between models of counts and models of their
    logarithms, and a width that is narrow where many counts are equal gains no more than certainty.
    """
    counts, mean, std = _targets_and_predictions(counts, mean, std)
    if np.any(counts < 0.0) or np.any(counts != np.rint(counts)):
        raise ValueError("counts must be whole numbers from zero on.")
    scale = np.log1p if logs else np.asarray
    upper = (scale(counts + 0.5) - mean) / std
    lower = np.where(counts > 0.0, (scale(np.maximum(counts - 0.5, 0.0)) - mean) / std, -np.inf)
    # Both on the side of the mean where Φ is small, so that far tails keep their digits.
    beyond = lower > 0.0
    upper, lower = np.where(beyond, -lower, upper), np.where(beyond, -upper, lower)
    # A cell too narrow for a difference has the density at the count, times its width.
    z = (scale(counts) - mean) / std
    width = (np.log1p(1.0 / (counts + 0.5)) if logs else 1.0) / std
    narrow = (counts > 0.0) & (width * np.maximum(np.abs(z), 1.0) < 1e-6)
    density = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) + np.log(width)
    upper, lower = np.where(narrow, 0.0, upper), np.where(narrow, -1.0, lower)
    log_upper = log_ndtr(upper)
    cell = log_upper + np.log(-np.expm1(log_ndtr(lower) - log_upper))
    return float(-np.mean(np.where(narrow, density, cell)))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Continuous ranked probability score, the mean over rows, in the units of y.

    The mean absolute error, generalised to predictive distributions: lower is better, and far less
    ruled by single outliers than :func:`mnlp`. Closed form for Gaussians: Gneiting and Raftery
    (2007), equation 21, with the sign of a loss.
    """
    y, mean, std = _targets_and_predictions(y, mean, std)
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float(np.mean(std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))))


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.95) -> float:
    """Share of rows whose y lies in its central interval of the given level.

    A calibrated prediction of y gives ``level``; less means intervals that are too narrow.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
    y, mean, std = _targets_and_predictions(y, mean, std)
    half_width = ndtri(0.5 + 0.5 * level) * std
    return float(np.mean(np.abs(y - mean) <= half_width))


def pit(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> FloatArray:
    """Probability integral transform of each row: the predicted probability of a target below y.

    Uniform on [0, 1] over rows if the predictions are calibrated. A histogram that is high at both
    ends says too narrow, high in the middle too wide, sloping biased.
    """
    y, mean, std = _targets_and_predictions(y, mean, std)
    return np.asarray(ndtr((y - mean) / std), dtype=np.float64)


def evaluate(
    model: Predictor, X: Any, y: ArrayLike | None = None, levels: Sequence[float] = (0.95,)
) -> dict[str, float]:
    """All scores of a fitted model on the rows X with targets y.

    X may be a dataset with its target in it; then y is left out. Returns ``rmse``, ``mnlp`` (of
    y), ``mnlp_f`` (of f, as the paper writes it), ``crps`` and, for each of the ``levels``, the
    coverage of the central interval, as ``coverage_95``.
    """
    if y is None:
        X, y = targets(model, X, y)
    mean, std = model.predict(X, return_std=True)
    f_mean, f_var = model.predict_f(X)
    return {
        "rmse": rmse(y, mean),
        "mnlp": mnlp(y, mean, std),
        "mnlp_f": mnlp(y, f_mean, np.sqrt(f_var)),
        "crps": crps(y, mean, std),
        **{f"coverage_{100 * level:g}": coverage(y, mean, std, level) for level in levels},
    }


def _targets_and_means(y: ArrayLike, mean: ArrayLike) -> tuple[FloatArray, FloatArray]:
    y = _column(y, "y")
    mean = _column(mean, "mean")
    if y.shape != mean.shape:
        raise ValueError(f"y has {y.size} rows and mean has {mean.size}: they must be the same.")
    return y, mean


def _targets_and_predictions(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    y, mean = _targets_and_means(y, mean)
    if np.ndim(std) == 0:  # one std for every row, as a homoscedastic model has
        std = np.full(y.shape, std)
    std = _column(std, "std")
    if std.shape != y.shape:
        raise ValueError(f"y has {y.size} rows and std has {std.size}: they must be the same.")
    if not np.all(std > 0.0):
        row = int(np.argmin(std > 0.0))
        raise ValueError(f"std must be positive, but row {row} has {std[row]}.")
    return y, mean, std


def _column(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.ndim != 1:
        hint = " Pass it through numpy.ravel." if array.ndim == 2 and 1 in array.shape else ""
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}.{hint}")
    if array.size == 0:
        raise ValueError(f"{name} has no rows.")
    try:
        if array.dtype.kind not in "buifO":  # text and complex numbers would convert in silence
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}.") from None
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"{name} must be finite, but row {row} has {array[row]}.")
    return array
