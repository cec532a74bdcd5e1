"""The blocks of a fit as tiles over two inputs.

With one or two inputs the tiles are the blocks' own cells. With more, a block has no outline over
two of them: its tile is then the region that is nearer to the middle of its rows than to the
middle of any other's, in standardised units, which is a map and not a boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Voronoi

from mosaicgp.data.partition import BalancedTree, KMeansCells, Partition
from mosaicgp.sample import Sample

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

FloatArray = NDArray[np.float64]
Box = tuple[FloatArray, FloatArray]  # lower and upper corner, (2,) each

MARGIN = 0.04  # of the box, beyond the outermost rows
MOST_CELLS = 3000


@dataclass(frozen=True, eq=False)
class Tile:
    """A block: its outline (k, 2) and the middle (2,) of its rows, in the user's units.

    ``n`` rows were looked at; their root mean squared error and mean predicted standard deviation
    are NaN if there were none. ``spread`` (2, 2) is the range of the middle 80% of them.
    """

    block: int
    outline: FloatArray
    n: int
    rmse: float
    std: float
    spread: FloatArray


@dataclass(frozen=True, eq=False)
class Mosaic:
    """Tiles over two inputs, or over one and a height without meaning (``inputs`` has one)."""

    tiles: list[Tile]
    inputs: tuple[int, ...]
    exact: bool
    n_blocks: int
    lower: FloatArray
    upper: FloatArray


def varying_inputs(model: SparseGPRegressor) -> NDArray[np.int64]:
    """Inputs by relevance, the largest inverse length-scale first, without constant columns.

    Relevance is |λ| per standard deviation of the input.
    """
    standardised = model.hyperparameters_["standardised"]
    return _varying(model, np.asarray(standardised[: model.n_features_in_], dtype=np.float64))


def block_inputs(model: SparseGPRegressor) -> NDArray[np.int64]:
    """The same by the inverse length-scales of k^ε: the noise that the blocks are made for."""
    standardised = model.hyperparameters_["standardised"]
    return _varying(model, np.asarray(standardised[-model.n_features_in_ :], dtype=np.float64))


def _varying(model: SparseGPRegressor, relevance: FloatArray) -> NDArray[np.int64]:
    # Inducing inputs are chosen among the rows: a column in which they are all equal is as good as
    # constant.
    order = np.argsort(-relevance, kind="stable")
    varies = np.ptp(model.posterior_.U, axis=0) > 0.0
    return order[varies[order]]


def mosaic(
    model: SparseGPRegressor,
    sample: Sample | None,
    mean: FloatArray,
    std: FloatArray,
    inputs: tuple[int, ...],
    most: int = 600,
) -> Mosaic | None:
    """Tiles of the blocks, coloured by predictions ``mean`` and ``std`` (n,) of the sample's rows.

    None if the approximation has no blocks, or if it is unknown where they lie: more than two
    inputs, and no rows. Of more blocks than ``most`` some are drawn at random where tiles are not
    exact.
    """
    partition = model.partition_
    if partition is None or not inputs:
        return None
    scaling, chosen = model.scaling_, list(inputs)
    X_std = np.empty((0, model.n_features_in_))
    error = np.empty(0)
    if sample is not None:
        X_std, error = scaling.transform_X(sample.X), mean - sample.y
    label = partition.assign(X_std) if len(X_std) else np.empty(0, dtype=np.int64)
    exact = model.n_features_in_ <= 2 and partition.n_blocks <= MOST_CELLS
    around = np.concatenate([X_std, model.posterior_.U])[:, chosen]
    if len(chosen) == 1:
        around = np.column_stack([around, np.linspace(0.0, 1.0, len(around))])
    box = _box(around)
    if exact:
        order = np.argsort(chosen) if len(chosen) == 2 else np.array([0, 1])
        cells = dict(enumerate(_cells(partition, (box[0][order], box[1][order]))))
        cells = {block: outline[:, np.argsort(order)] for block, outline in cells.items()}
    else:
        middles = _middles(model, X_std, label, chosen, most)
        if not middles:
            return None
        outlines = _nearest(np.array(list(middles.values())), box)
        cells = dict(zip(middles, outlines, strict=True))
    centre, scale = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    centre[: len(chosen)], scale[: len(chosen)] = scaling.X_mean[chosen], scaling.X_scale[chosen]
    tiles = [
        _tile(block, outline * scale + centre, label == block, error, std, sample, inputs)
        for block, outline in cells.items()
    ]
    return Mosaic(
        tiles, inputs, exact, partition.n_blocks, box[0] * scale + centre, box[1] * scale + centre
    )


def _tile(
    block: int,
    outline: FloatArray,
    here: NDArray[np.bool_],
    error: FloatArray,
    std: FloatArray,
    sample: Sample | None,
    inputs: tuple[int, ...],
) -> Tile:
    n = int(np.count_nonzero(here))
    if sample is None or n == 0:
        return Tile(block, outline, 0, np.nan, np.nan, np.full((len(inputs), 2), np.nan))
    rmse = float(np.sqrt(np.mean(error[here] ** 2)))
    spread = np.quantile(sample.X[here][:, list(inputs)], [0.1, 0.9], axis=0).T
    return Tile(block, outline, n, rmse, float(np.mean(std[here])), spread)


def _middles(
    model: SparseGPRegressor,
    X_std: FloatArray,
    label: NDArray[np.int64],
    chosen: list[int],
    most: int,
) -> dict[int, FloatArray]:
    """Middle (2,) of the rows of blocks: of the training rows, or else of those given."""
    rng = np.random.default_rng(0)
    blocks = model.blocks_
    if blocks is None:
        units = np.unique(label)
        units = units if len(units) <= most else np.sort(rng.choice(units, most, replace=False))
        return {int(b): X_std[label == b][:, chosen].mean(axis=0) for b in units}
    shown = np.unique(blocks.label)
    shown = shown if len(shown) <= most else np.sort(rng.choice(shown, most, replace=False))
    found = {}
    for block in shown:
        X, _, mask = blocks.take(np.flatnonzero(blocks.label == block))
        found[int(block)] = X[mask > 0][:, chosen].mean(axis=0, dtype=np.float64)
    return found


def _box(points: FloatArray) -> Box:
    """Where most rows are: single far ones would press all tiles into a corner."""
    lower, upper = np.quantile(points, [0.005, 0.995], axis=0)
    room = MARGIN * np.maximum(upper - lower, 1e-6)
    return lower - room, upper + room


def _cells(partition: Partition, box: Box) -> list[FloatArray]:
    """Outlines (k, 2) of the blocks of a partition of one or two inputs, in order of block."""
    if isinstance(partition, KMeansCells):
        pad = 2 - partition.centres.shape[1]
        centres = np.pad(partition.centres, ((0, 0), (0, pad)), constant_values=0.5)
        scale = np.pad(partition.scale, (0, pad), constant_values=1.0)
        return [cell / scale for cell in _nearest(centres, (box[0] * scale, box[1] * scale))]
    assert isinstance(partition, BalancedTree)
    (x0, y0), (x1, y1) = box
    whole = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    if partition.n_blocks == 1:
        return [whole]
    direction = np.pad(partition.direction, ((0, 0), (0, 2 - partition.direction.shape[1])))
    found: list[FloatArray] = [whole] * partition.n_blocks
    stack = [(0, whole)]
    while stack:
        node, outline = stack.pop()
        along = outline @ direction[node] - partition.threshold[node]
        for child, side in zip(partition.children[node], (-along, along), strict=True):
            part = _clipped(outline, side)
            if child < 0:
                found[~child] = part
            else:
                stack.append((int(child), part))
    return found


def _clipped(outline: FloatArray, side: FloatArray) -> FloatArray:
    """The part of a convex outline where ``side``, linear, is not negative at its corners."""
    corners = []
    for k in range(len(outline)):
        a, b = side[k - 1], side[k]
        if (a < 0.0) != (b < 0.0):
            corners.append(outline[k - 1] + (outline[k] - outline[k - 1]) * (a / (a - b)))
        if b >= 0.0:
            corners.append(outline[k])
    return np.array(corners).reshape(-1, 2)


def _nearest(points: FloatArray, box: Box) -> list[FloatArray]:
    """Outline (k, 2) of what is nearest to each point (n, 2), in the box or beside points outside.

    Points reflected in the four edges close the outer cells at them. Points that coincide are
    moved apart by less than can be seen.
    """
    size = box[1] - box[0]
    points = points + 1e-6 * size * np.random.default_rng(0).uniform(-1.0, 1.0, points.shape)
    lower = np.minimum(box[0], points.min(axis=0) - MARGIN * size)
    upper = np.maximum(box[1], points.max(axis=0) + MARGIN * size)
    mirrored = [points]
    for k in (0, 1):
        for edge in (lower[k], upper[k]):
            other = points.copy()
            other[:, k] = 2.0 * edge - other[:, k]
            mirrored.append(other)
    diagram = Voronoi(np.concatenate(mirrored))
    regions = (diagram.regions[diagram.point_region[k]] for k in range(len(points)))
    return [diagram.vertices[region] for region in regions]
