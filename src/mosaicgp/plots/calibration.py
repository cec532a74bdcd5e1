"""Whether intervals hold what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from mosaicgp import metrics
from mosaicgp.plots.canvas import BLUE, ORANGE, axes
from mosaicgp.sample import targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PIT_BINS = 20


def plot_calibration(model: Any, X: Any, y: Any = None, ax: Axes | None = None) -> Axes:
    """Share of rows inside their central interval against the level of the interval, and PIT.

    Calibrated predictions follow the diagonal; a line below it says that intervals are too
    narrow. The band is where 95% of calibrated predictions of so many independent rows would lie.
    The small panel is the histogram of the probability integral transform: high at both ends says
    too narrow, high in the middle too wide, sloping biased.

    Parameters
    ----------
    model : fitted estimator with ``predict(X, return_std=True)``
    X, y : rows and their observed targets; X may be a dataset with its target in it, y left out
    ax : axes to draw on; a new figure if None
    """
    X, y = targets(model, X, y)
    mean, std = model.predict(X, return_std=True)
    u = metrics.pit(y, mean, std)
    level = np.linspace(0.0, 1.0, 101)
    inside = np.searchsorted(np.sort(np.abs(2.0 * u - 1.0)), level, side="right") / u.size
    slack = ndtri(0.975) * np.sqrt(level * (1.0 - level) / u.size)

    ax = axes(ax)
    ax.fill_between(level, level - slack, level + slack, color="0.85", linewidth=0.0)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.5", linewidth=1.0, linestyle="--")
    ax.plot(level, inside, color=BLUE, linewidth=2.0)
    at_95 = metrics.coverage(y, mean, std, level=0.95)
    ax.plot([0.95], [at_95], "o", color=ORANGE, markersize=5.0)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    ax.set_xlabel("level of the interval")
    ax.set_ylabel("share of rows inside")
    ax.set_title(f"Calibration: {at_95:.1%} of {u.size:,} rows in 95% intervals")

    inset = ax.inset_axes((0.58, 0.11, 0.38, 0.28))
    inset.hist(u, bins=PIT_BINS, range=(0.0, 1.0), density=True, color=BLUE, alpha=0.6)
    inset.axhline(1.0, color="0.5", linewidth=1.0, linestyle="--")
    inset.set(xlim=(0.0, 1.0), xticks=(0.0, 1.0), yticks=())
    inset.set_title("PIT", fontsize="small", pad=2.0)
    inset.tick_params(labelsize="x-small")
    return ax
