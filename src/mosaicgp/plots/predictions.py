"""Predictions beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from mosaicgp.plots.canvas import BLUE, ORANGE, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_predictions(
    model: Any,
    X: Any,
    y: ArrayLike,
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
    X, y : the rows to show and their observed targets
    ax : axes to draw on; a new figure if None
    max_rows : of more rows than this, that many drawn at random are shown; all if None
    level : probability of the central intervals
    target_name : label of the vertical axis
    random_state : seed of the drawn rows
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
    if max_rows is not None and max_rows < 1:
        raise ValueError(f"max_rows must be at least 1 or None, got {max_rows!r}.")
    mean, std = (np.asarray(a, dtype=np.float64) for a in model.predict(X, return_std=True))
    y = np.asarray(y, dtype=np.float64)
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
