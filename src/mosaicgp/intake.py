"""What a user hands to a model, as the model takes it: checked, encoded, standardised.

A table comes as arrays, as a frame, or as a dataset that need not fit in memory. The ``model`` is
an estimator; only ``training_rows`` does without a fitted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from mosaicgp import validation
from mosaicgp.data.rows import ArrayRows, StandardRows, UserRows, is_dataset

if TYPE_CHECKING:
    from mosaicgp.data.dataset import Dataset
    from mosaicgp.estimator import SparseGPRegressor

FloatArray = NDArray[np.float64]


def training_rows(model: SparseGPRegressor, X: Any, y: Any) -> UserRows:
    """Arrays and tables checked and copied to float64; a dataset as it is."""
    if not is_dataset(X):
        return ArrayRows(*validation.training_data(X, y, model))
    if y is not None:
        raise ValueError("y: the dataset has its target in it; leave y out.")
    if X.target is None:
        raise ValueError("X: the dataset has no target. Name it: open_dataset(..., target=column).")
    return X


def as_dataset(model: SparseGPRegressor, X: Any) -> Dataset | None:
    """Rows encoded as those that the model was fitted on, if they are a dataset, or a frame and it
    was fitted on a dataset."""
    if not is_dataset(X):
        if model.encoding_ is None or not hasattr(X, "columns"):
            return None
        from mosaicgp.data.opening import open_dataset

        X = open_dataset(X)
    dataset: Dataset = X
    if model.encoding_ is not None:
        return dataset.with_encoding(model.encoding_)
    if list(dataset.feature_names) != model._feature_names():
        raise ValueError(
            f"X: the dataset has the features {list(dataset.feature_names)}, but the model was "
            f"fitted with {model._feature_names()}. Open it with columns=... in that order."
        )
    return dataset


def labelled(model: SparseGPRegressor, X: Any, y: Any) -> UserRows:
    """New rows with their targets, as a fitted model reads them."""
    check_is_fitted(model)
    if model.encoding_ is not None and hasattr(X, "columns"):
        if y is None:
            raise ValueError("y: pass the targets, or a dataset that has its target in it.")
        from mosaicgp.data.opening import open_dataset

        X, y = open_dataset(X, target=np.asarray(y)), None
    if is_dataset(X):
        return training_rows(model, as_dataset(model, X), y)
    rows = ArrayRows(*validation.training_data(X, y, model))
    validate_data(model, X, reset=False, skip_check_array=True)
    return rows


def standardised(model: SparseGPRegressor, X: Any, y: Any) -> StandardRows:
    """New rows with their targets; those of a dataset stay where they are."""
    return StandardRows(labelled(model, X, y), model.scaling_)


def new_rows(model: SparseGPRegressor, X: Any, at_once: bool = False) -> Iterator[FloatArray]:
    """Standardised rows, as many at a time as there is memory for."""
    check_is_fitted(model)
    if (dataset := as_dataset(model, X)) is not None:
        size = dataset.count() if at_once else model._predictor.rows_at_once
        return (model.scaling_.transform_X(part) for part, _ in dataset.chunks(size))
    X_user = validation.new_rows(X, model)
    validate_data(model, X, reset=False, skip_check_array=True)
    size = len(X_user) if at_once else model._predictor.rows_at_once
    parts = (X_user[start : start + size] for start in range(0, len(X_user), size))
    return map(model.scaling_.transform_X, parts)
