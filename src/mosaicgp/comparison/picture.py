"""Error against time, a point for each method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from mosaicgp.comparison.scores import Score
from mosaicgp.plots.canvas import BLUE, ORANGE, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "os^vDPX*"  # points may lie on each other


def plot_comparison(
    scores: Sequence[Score], ax: Axes | None = None, target_name: str = "y"
) -> Axes:
    """RMSE on the test rows against the seconds that training and predicting took.

    The best corner is at the lower left.
    """
    ax = axes(ax)
    for score, marker in zip(scores, cycle(MARKERS)):
        color = BLUE if score.name.startswith("mosaicgp") else ORANGE
        point = ([score.seconds], [score.rmse])
        ax.plot(*point, marker, color=color, markersize=9.0, alpha=0.8, label=score.name)
    ax.set_xscale("log")
    ax.margins(x=0.15, y=0.15)
    ax.grid(color="0.92")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    ax.set_xlabel("seconds, training and predicting")
    ax.set_ylabel(f"RMSE of {target_name}")
    ax.set_title("Error against time")
    return ax
