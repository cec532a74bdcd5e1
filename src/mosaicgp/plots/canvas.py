"""What the panels share: colours, and axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#2c6fbb"
ORANGE = "#d95f02"


def axes(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure of pyplot."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]
