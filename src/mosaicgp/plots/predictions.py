"""Predictions beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from mosaicgp.plots.canvas import BLUE, ORANGE, axes
from mosaicgp.sample import drawn, moments, targets
from mosaicgp.validation import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIT_GRID = 400  # places at which the mean and band over one input are drawn


def plot_predictions(
    model: Any,
    X: Any,
    y: Any = None,
    ax: Axes | None = None,
    *,
    max_rows: int | None = 80,
    level: float = 0.95,
    target_name: str = "y",
    random_state: int = 0,
) -> Axes:
    """Predictions of y with their intervals beside the observed values, sorted by prediction.

    Parameters
    ----------
    model : fitted estimator with ``predict(X, return_std=True)``
    X, y : the rows to show and their observed targets; X may be a dataset with its target in it
    ax : axes to draw on; a new figure if None
    max_rows : of more rows than this, that many drawn at random are shown; all if None
    level : probability of the central intervals
    target_name : label of the vertical axis
    random_state : seed of the drawn rows
    """
    _check_level(level)
    if max_rows is not None and max_rows < 1:
        raise ValueError(f"max_rows must be at least 1 or None, got {max_rows!r}.")
    X, y = targets(model, X, y)
    mean, std = (np.asarray(a, dtype=np.float64) for a in model.predict(X, return_std=True))
    if y.shape != mean.shape:
        raise ValueError(f"X has {mean.size} rows but y has shape {y.shape}.")

    shown = np.arange(y.size)
    if max_rows is not None and y.size > max_rows:
        shown = np.random.default_rng(random_state).choice(y.size, max_rows, replace=False)
    shown = shown[np.argsort(mean[shown], kind="stable")]
    y, mean, half_width = y[shown], mean[shown], ndtri(0.5 + 0.5 * level) * std[shown]
    inside = np.abs(y - mean) <= half_width
    rank = np.arange(y.size)

    ax = axes(ax)
    ax.vlines(
        rank,
        mean - half_width,
        mean + half_width,
        color=BLUE,
        alpha=0.35,
        linewidth=3.0,
        label=f"{level:.0%} interval",
    )
    ax.plot(rank, mean, color=BLUE, linewidth=1.5, label="prediction")
    ax.plot(rank[inside], y[inside], "o", color="black", markersize=3.0, label="observed")
    if not inside.all():
        ax.plot(
            rank[~inside], y[~inside], "o", color=ORANGE, markersize=4.0, label="observed, outside"
        )
    ax.set_xlabel("rows, sorted by prediction")
    ax.set_ylabel(target_name)
    ax.set_title(f"Predictions: {int(inside.sum())} of {y.size} rows inside their interval")
    ax.margins(x=0.01)
    ax.legend(loc="upper left", frameon=False)
    return ax


def plot_fit(
    model: Any,
    X: Any,
    y: Any = None,
    ax: Axes | None = None,
    *,
    max_rows: int = 2000,
    level: float = 0.95,
    target_name: str = "y",
    random_state: int = 0,
) -> Axes:
    """One input: mean and interval of y over the data. More inputs: predicted against observed.

    Parameters
    ----------
    model : fitted SparseGPRegressor
    X, y : rows and their observed targets; X may be a dataset with its target in it, y left out
    ax : axes to draw on; a new figure if None
    max_rows : of more rows than this, that many drawn at random are shown
    level : probability of the central interval
    target_name : name of the target on the axes
    random_state : seed of the drawn rows
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    _check_level(level)
    sample = drawn(model, X, y, whole("max_rows", max_rows, 1), random_state)
    z = ndtri(0.5 + 0.5 * level)
    mean, std = moments(model, sample.X)
    inside = int(np.count_nonzero(np.abs(sample.y - mean) <= z * std))
    ax = axes(ax)
    if sample.X.shape[1] == 1:
        x = sample.X[:, 0]
        grid = np.linspace(x.min(), x.max(), FIT_GRID)
        middle, spread = moments(model, grid[:, None])
        ax.plot(x, sample.y, "o", color="0.45", markersize=2.5, alpha=0.6, label="observed")
        band: dict[str, Any] = {
            "color": BLUE,
            "alpha": 0.22,
            "linewidth": 0.0,
            "label": f"{level:.0%} interval",
        }
        ax.fill_between(grid, middle - z * spread, middle + z * spread, **band)
        ax.plot(grid, middle, color=BLUE, linewidth=1.8, label="prediction")
        ax.set_xlabel(model._feature_names()[0])
        ax.set_ylabel(target_name)
        ax.legend(frameon=False)
    else:
        ends = [min(mean.min(), sample.y.min()), max(mean.max(), sample.y.max())]
        ax.plot(ends, ends, color="0.5", linewidth=1.0, linestyle="--")
        ax.plot(mean, sample.y, "o", color=BLUE, markersize=2.5, alpha=0.4)
        ax.set_xlabel(f"{target_name}, predicted")
        ax.set_ylabel(f"{target_name}, observed")
    ax.set_title(f"{inside / len(sample.y):.1%} of {len(sample.y):,} rows in {level:.0%} intervals")
    return ax


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
