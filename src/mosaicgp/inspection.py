"""What a fitted model says of rows with targets, and of its own hyperparameters."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mosaicgp.data.blocks import Blocks, StoredBlocks
from mosaicgp.data.disk import Workspace
from mosaicgp.data.division import CHUNK_ROWS, arranged, chunked, regroup
from mosaicgp.data.rows import is_dataset, whole
from mosaicgp.inference.evaluate import full_bound
from mosaicgp.inference.response import linear_response
from mosaicgp.intake import standardised
from mosaicgp.posterior import Posterior

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor


def bound_of(model: SparseGPRegressor, X: Any, y: Any) -> float:
    """The bound of these rows at the fitted state, in the user's units."""
    if not is_dataset(X):
        return _bound(model, _blocks(model, X, y))
    rows = standardised(model, X, y)
    workspace = Workspace(None, within=model.work_dir)  # gone when this returns
    if model.partition_ is None:
        return _bound(model, chunked(rows, CHUNK_ROWS, workspace))
    return _bound(model, arranged(rows, model.partition_, model._fitted.block_rows, workspace))


def _bound(model: SparseGPRegressor, blocks: Blocks | StoredBlocks) -> float:
    posterior = model.posterior_
    bound = full_bound(
        posterior.parameters(),
        posterior.inducing(),
        blocks,
        posterior.jitter,
        model._fitted.switches,
    )
    return bound + model.scaling_.log_jacobian(blocks.n)


def response_variances(model: SparseGPRegressor, X: Any, y: Any) -> NDArray[np.float64]:
    """Variances of θ by linear response, from training rows; warns where they mean little."""
    blocks = _blocks(model, X, y)
    if (status := model.fit_result_.status) != "converged":
        warnings.warn(
            "corrected_hyperparameters: spreads are those around an optimum; this fit ended "
            f"before one ({status}); do not rely on them.",
            ConvergenceWarning,
            stacklevel=3,
        )
    posterior, switches = model.posterior_, model._fitted.switches
    return np.diag(linear_response(posterior.parameters(), blocks, switches, posterior.jitter))


def _blocks(model: SparseGPRegressor, X: Any, y: Any) -> Blocks:
    """New rows with targets, standardised and grouped as the training rows were."""
    X_std, y_std = whole(standardised(model, X, y))
    return regroup(X_std, y_std, model.partition_, model._fitted.block_rows)


def mean_log_variance(posterior: Posterior) -> float:
    """Mean over inputs of log ξ; minus infinity for point estimates."""
    with np.errstate(divide="ignore"):
        return float(np.mean(np.log(posterior.xi)))
