"""The intervals of the inverse length-scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mosaicgp.plots.canvas import BLUE, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax = axes(ax)
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


def lengthscale_input(name: str) -> str | None:
    """The input of a hyperparameter named ``inverse_lengthscale[input]``; None for any other."""
    prefix = "inverse_lengthscale["
    return name[len(prefix) : -1] if name.startswith(prefix) and name.endswith("]") else None
