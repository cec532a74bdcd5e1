"""Rows in memory with their targets, and predictions of them: what pictures and reports show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.rows import is_dataset

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

FloatArray = NDArray[np.float64]
Rows = NDArray[np.int64]

MOST_BLOCKS = 600  # training blocks from which rows are drawn
RECOGNISED_ROWS = 2000  # rows that are looked up among the training rows
COMPARED_ROWS = 200_000  # training rows that they are looked up in where nothing narrows it down


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows X (n, d) and y (n,) in the user's units, drawn at random from ``total`` of them.

    ``rows`` (n,) are their numbers in the table; ``learned`` says that they are training rows that
    the model keeps.
    """

    X: FloatArray
    y: FloatArray
    rows: Rows
    total: int
    learned: bool


def targets(model: Any, X: Any, y: Any) -> tuple[Any, FloatArray]:
    """X as ``model.predict`` takes it, and the target (n,) of each of its rows.

    The target of a dataset is in it: then y must be left out, and the rows are those that the
    model sees, which with ``missing="drop"`` depends on the columns it uses.
    """
    if not is_dataset(X):
        _require_targets(y)
        return X, np.asarray(y, dtype=np.float64)
    dataset = _labelled(model, X, y)
    return dataset, np.concatenate([part for _, part in dataset.chunks()])


def drawn(model: SparseGPRegressor, X: Any, y: Any, most: int, seed: int = 0) -> Sample:
    """At most so many rows of those given, as features; X may be a dataset of any size."""
    table = _labelled(model, X, y)
    total = table.count()
    rows = _some(total, most, np.random.default_rng(seed))
    X_user, y_user = table.gather(rows)
    return Sample(X_user, y_user, rows, total, learned=False)


def kept(model: SparseGPRegressor, most: int, seed: int = 0) -> Sample | None:
    """At most so many of the training rows that the model keeps, spread evenly over its blocks."""
    blocks = model.blocks_
    if blocks is None:
        return None
    rng = np.random.default_rng(seed)
    parts = []
    units = _some(blocks.n_blocks, min(MOST_BLOCKS, most), rng)
    for unit in units:
        rows = blocks.rows_of(int(unit))
        X, y, _ = blocks.take(np.array([unit]))
        some = _some(len(rows), max(1, most // len(units)), rng)
        parts.append((X[0, some], y[0, some], rows[some]))
    X_std, y_std, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    X_user = X_std.astype(np.float64) * model.scaling_.X_scale + model.scaling_.X_mean
    return Sample(X_user, model.scaling_.mean_to_user(y_std), numbers, blocks.n, learned=True)


def moments(
    model: SparseGPRegressor, X: FloatArray, of_y: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of y, or of f, at rows of features X (n, d)."""
    mean, variance = model._predictor.moments(model.scaling_.transform_X(X), of_y)
    return model.scaling_.mean_to_user(mean), np.sqrt(model.scaling_.var_to_user(variance))


def share_learned(model: SparseGPRegressor, sample: Sample) -> float | None:
    """Share of the rows that are training rows; None where the model does not keep those.

    A score of training rows says how well a model remembers, so whoever shows one must know.
    """
    blocks = model.blocks_
    if blocks is None:
        return None
    some = slice(0, RECOGNISED_ROWS)
    X_std = model.scaling_.transform_X(sample.X[some])
    if model.partition_ is not None:
        units = np.flatnonzero(np.isin(blocks.label, model.partition_.assign(X_std)))
    elif blocks.n <= COMPARED_ROWS:
        units = np.arange(blocks.n_blocks)
    else:
        return None
    learned: set[bytes] = set()
    for unit in units:
        X, y, mask = (part[0] for part in blocks.take(np.array([unit])))
        learned.update(_keys(X[mask > 0], y[mask > 0]))
    wanted = _keys(X_std, model.scaling_.transform_y(sample.y[some]))
    return float(np.mean([key in learned for key in wanted]))


def _labelled(model: Any, X: Any, y: Any) -> Any:
    """Rows as the model reads them, with their targets."""
    from mosaicgp.intake import labelled  # here: metrics, which import this, do without

    if not is_dataset(X):
        _require_targets(y)
    return labelled(model, X, y)


def _require_targets(y: Any) -> None:
    if y is None:
        raise ValueError("y: pass the targets, or a dataset that has its target in it.")


def _some(n: int, most: int, rng: np.random.Generator) -> Rows:
    """Numbers below n, ascending: all of them, or so many at random."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _keys(X: NDArray[np.floating], y: NDArray[np.floating]) -> list[bytes]:
    """Rows as something to look up, in single precision, which blocks may be in."""
    both = np.column_stack([X, y]).astype(np.float32) + np.float32(0.0)  # −0 becomes 0
    return [row.tobytes() for row in both]
