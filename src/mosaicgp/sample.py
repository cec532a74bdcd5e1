"""Rows in memory with their targets, and predictions of them: what pictures and reports show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.rows import is_dataset

FloatArray = NDArray[np.float64]


def targets(model: Any, X: Any, y: Any) -> tuple[Any, FloatArray]:
    """X as ``model.predict`` takes it, and the target (n,) of each of its rows.

    The target of a dataset is in it: then y must be left out, and the rows are those that the
    model sees, which with ``missing="drop"`` depends on the columns it uses.
    """
    if not is_dataset(X):
        if y is None:
            raise ValueError("y: pass the targets, or a dataset that has its target in it.")
        return X, np.asarray(y, dtype=np.float64)
    dataset = _labelled_dataset(model, X, y)
    return dataset, np.concatenate([part for _, part in dataset.chunks()])


def _labelled_dataset(model: Any, X: Any, y: Any) -> Any:
    if y is not None:
        raise ValueError("y: the dataset has its target in it; leave y out.")
    if X.target is None:
        raise ValueError("X: the dataset has no target. Name it: open_dataset(..., target=column).")
    return model._as_dataset(X)
