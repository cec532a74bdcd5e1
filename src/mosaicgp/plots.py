"""Pictures of a fitted model, one function a panel.

Each function draws on the matplotlib axes it is given, or on a new figure of pyplot, and returns
the axes. matplotlib is imported by the first call, not with the package, and no backend is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_hyperparameters", "plot_predictions", "plot_training"]

BLUE = "#2c6fbb"
ORANGE = "#d95f02"


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

    ax = _axes(ax)
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


def plot_hyperparameters(model: Any, ax: Axes | None = None, *, max_inputs: int = 25) -> Axes:
    """The 95% intervals of the inverse length-scales, the most relevant input at the top.

    Drawn per standard deviation of each input, so that inputs in different units compare: an
    inverse length-scale near zero says that f hardly varies along that input.

    Parameters
    ----------
    model : fitted estimator with ``hyperparameters_``
    ax : axes to draw on; a new figure if None
    max_inputs : of more inputs than this, only the most relevant are shown
    """
    if max_inputs < 1:
        raise ValueError(f"max_inputs must be at least 1, got {max_inputs!r}.")
    table = model.hyperparameters_
    names = [str(name) for name in table["name"]]
    inputs = {row: lengthscale_input(name) for row, name in enumerate(names)}
    labels = [label for label in inputs.values() if label is not None]
    rows = np.array([row for row, label in inputs.items() if label is not None], dtype=np.intp)
    if rows.size == 0:
        raise ValueError("hyperparameters_ has no inverse length-scale to show.")
    columns = ("standardised", "standardised_lower", "standardised_upper")
    centre, lower, upper = (np.asarray(table[c], dtype=np.float64)[rows] for c in columns)

    order = np.argsort(-np.abs(centre), kind="stable")[:max_inputs][::-1]  # drawn from the bottom
    height = np.arange(order.size)
    ax = _axes(ax)
    ax.axvline(0.0, color="0.7", linewidth=1.0)
    ax.hlines(height, lower[order], upper[order], color=BLUE, alpha=0.35, linewidth=5.0)
    ax.plot(centre[order], height, "o", color=BLUE, markersize=5.0)
    ax.set_yticks(height, [labels[i] for i in order])
    ax.set_ylim(-0.7, order.size - 0.3)
    ax.set_xlabel("inverse length-scale per standard deviation of the input")
    left_out = rows.size - order.size
    ax.set_title(
        "Inverse length-scales, 95% intervals"
        + (f" (of {rows.size} inputs, the top {order.size})" if left_out else "")
    )
    return ax


def plot_training(model: Any, ax: Axes | None = None, *, window: int = 25) -> Axes:
    """The bound by iteration and, where rows were held back, the validation NLPD beside it.

    Parameters
    ----------
    model : fitted estimator with ``history_``
    ax : axes to draw on; a new figure if None
    window : iterations over which a stochastic bound is averaged into the heavy line
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window!r}.")
    history = model.history_
    iteration, bound = history["iteration"], np.asarray(history["bound"], dtype=np.float64)
    ax = _axes(ax)
    stochastic = "validation_nlpd" in history
    ax.plot(iteration, bound, color=BLUE, alpha=0.3 if stochastic else 1.0, linewidth=1.0)
    if stochastic and bound.size >= window:
        smooth = np.convolve(bound, np.full(window, 1.0 / window), mode="valid")
        ax.plot(iteration[window - 1 :], smooth, color=BLUE, linewidth=1.8, label="bound")
        finite = bound[np.isfinite(bound)]
        ax.set_ylim(*np.quantile(finite, [0.02, 1.0]))  # the first steps are far below
    ax.set_xlabel("iteration")
    ax.set_ylabel("bound (nats)", color=BLUE)
    ax.set_title(f"Training: {model.fit_result_.status}, {model.fit_result_.seconds:.0f} s")
    if stochastic and np.any(looked := np.isfinite(history["validation_nlpd"])):
        beside = ax.twinx()
        scores = history["validation_nlpd"][looked]
        beside.plot(iteration[looked], scores, "o-", color=ORANGE, markersize=3.0)
        beside.set_ylabel("validation NLPD (nats a row)", color=ORANGE)
    return ax


def lengthscale_input(name: str) -> str | None:
    """The input of a hyperparameter named ``inverse_lengthscale[input]``; None for any other."""
    prefix = "inverse_lengthscale["
    return name[len(prefix) : -1] if name.startswith(prefix) and name.endswith("]") else None


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]
