"""Error against time, a point for each method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mosaicgp.comparison.scores import Score
from mosaicgp.plots.canvas import BLUE, ORANGE, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_comparison(
    scores: Sequence[Score], ax: Axes | None = None, target_name: str = "y"
) -> Axes:
    """RMSE on the test rows against the seconds that training and predicting took.

    The best corner is at the lower left.
    """
    ax = axes(ax)
    for score in scores:
        color = BLUE if score.name.startswith("mosaicgp") else ORANGE
        ax.plot([score.seconds], [score.rmse], "o", color=color, markersize=7.0)
        ax.annotate(
            score.name, (score.seconds, score.rmse), textcoords="offset points", xytext=(7, 4)
        )
    ax.set_xscale("log")
    ax.margins(x=0.25, y=0.15)
    ax.set_xlabel("seconds, training and predicting")
    ax.set_ylabel(f"RMSE of {target_name}")
    ax.set_title("Error against time")
    return ax
