"""The mosaic: the blocks of a fit over the two inputs most relevant to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mosaicgp.mosaic import block_inputs, mosaic
from mosaicgp.plots.canvas import axes
from mosaicgp.sample import drawn, kept, moments
from mosaicgp.validation import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 10_000


def plot_blocks(
    model: Any,
    ax: Axes | None = None,
    *,
    X: Any = None,
    y: Any = None,
    colour: str = "error",
    inputs: tuple[str, str] | None = None,
) -> Axes:
    """The blocks of "pitc" and "pic" as tiles over two inputs, coloured by error or by size.

    With one or two inputs the tiles are the blocks themselves. With more, a tile is the region
    nearest to the middle of its block's rows: a map of which block is where, not its boundary.

    Parameters
    ----------
    model : fitted estimator
    ax : axes to draw on; a new figure if None
    X, y : rows to take the error of, up to 10,000 at random; X may be a dataset with its target in
        it. None takes training rows, where the model keeps them: their error flatters the model.
    colour : "error", the root mean squared error of each block's rows, or "size", their number
    inputs : names of the two inputs; if None, the most relevant to the noise that rows of a
        block share
    """
    from matplotlib.collections import PolyCollection
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    one_of("colour", colour, ("error", "size"))
    if model.partition_ is None:
        raise ValueError(
            f'approximation="{model.approximation}" has no blocks; "pitc" and "pic" have.'
        )
    names = model._feature_names()
    shown = tuple(int(k) for k in block_inputs(model)[:2])
    if inputs is not None:
        for name in inputs:
            one_of("inputs", name, names)
        shown = tuple(names.index(name) for name in inputs)
    sample = drawn(model, X, y, MOST_ROWS) if X is not None else kept(model, MOST_ROWS)
    if sample is None:
        raise ValueError("this model keeps no training rows: pass rows as X and y.")
    mean, std = moments(model, sample.X)
    picture = mosaic(model, sample, mean, std, shown)
    if picture is None:
        raise ValueError("all inputs of this model are constant; there is nothing to show.")

    ax = axes(ax)
    values = [tile.rmse if colour == "error" else float(tile.n) for tile in picture.tiles]
    tiles = PolyCollection(
        [tile.outline for tile in picture.tiles],
        array=np.ma.masked_invalid(values),
        cmap="Blues",
        edgecolors="white",
        linewidths=0.8,
    )
    ax.add_collection(tiles)
    ax.set_xlim(picture.lower[0], picture.upper[0])
    ax.set_ylim(picture.lower[1], picture.upper[1])
    ax.set_xlabel(names[picture.inputs[0]])
    if len(picture.inputs) == 2:
        ax.set_ylabel(names[picture.inputs[1]])
    else:
        ax.set_yticks([])
    label = "RMSE of the block's rows" if colour == "error" else "rows of the block"
    ax.figure.colorbar(tiles, ax=ax, label=label)
    some = "" if len(picture.tiles) == picture.n_blocks else f"{len(picture.tiles)} of "
    rows = "training rows" if sample.learned else "rows"
    ax.set_title(f"{some}{picture.n_blocks} blocks, {len(sample.y):,} {rows}")
    return ax
