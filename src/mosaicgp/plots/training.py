"""The course of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mosaicgp.plots.canvas import BLUE, ORANGE, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax = axes(ax)
    stochastic = "validation_nlpd" in history
    coarse = np.asarray(history["coarse"], dtype=bool) if "coarse" in history else np.zeros(0, bool)
    if np.any(coarse):  # another quantity, which does not join with the bound
        ax.plot(iteration[coarse], bound[coarse], color=BLUE, alpha=0.4, label="coarse climb")
        ax.legend(loc="lower right")
        iteration, bound = iteration[~coarse], bound[~coarse]
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
