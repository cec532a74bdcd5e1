"""Export for serving: what a prediction needs, in the form that ``serving`` reads."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from mosaicgp._version import __version__
from mosaicgp.atomic import whole_file
from mosaicgp.block_moments import triangular_inverse
from mosaicgp.data.blocks import Blocks
from mosaicgp.data.disk import DiskBlocks
from mosaicgp.model.posterior import nodes_to_theta
from mosaicgp.model.predictive import PredictiveState, excess
from mosaicgp.precision import in_double
from mosaicgp.prediction import Local, Predictor
from mosaicgp.serving import FORMAT, FORMAT_VERSION, Noise

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

Arrays = dict[str, np.ndarray]


def export(model: SparseGPRegressor, path: str | Path) -> None:
    """Write a fitted model for ``serving.load``, whole or not at all."""
    path = Path(path)
    approximation = model._fitted.switches.approximation
    if approximation.local and (model.partition_ is None or model.blocks_ is None):
        raise ValueError(
            f"export: {approximation.name!r} predicts from its training rows, and this model has "
            "none (blocks_ is None). Fit it again, or load it from a file that `save` wrote."
        )
    partition = model.partition_ if approximation.local else None
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "mosaicgp_version": __version__,
        "approximation": approximation.name,
        "partition": None if partition is None else partition.kind,
        "feature_names": [str(name) for name in model._feature_names()],
        "named": hasattr(model, "feature_names_in_"),
        "encoded": model.encoding_ is not None
        and any(column.kind not in ("number", "onehot") for column in model.encoding_.columns),
    }
    arrays = predictor_arrays(model._predictor)
    for name in ("X_mean", "X_scale", "y_mean", "y_scale"):
        arrays[name] = np.asarray(getattr(model.scaling_, name), dtype=np.float64)
    try:
        with whole_file(path) as beside, open(beside, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise OSError(f"could not write the predictor to {path}: {error}") from error


@in_double
def predictor_arrays(predictor: Predictor) -> Arrays:
    """The arrays of ``serving``'s records, but for the scaling."""
    state = predictor.state
    arrays = {field.name: getattr(predictor.noise, field.name) for field in fields(Noise)}
    L = np.asarray(state.prepared.L)
    arrays |= {
        "Z": np.asarray(state.parameters.Z),
        "white": triangular_inverse(L),
        "v_root": np.asarray(state.q.v_root),
    }
    if predictor.local is not None:
        return arrays | _local_arrays(state, predictor.local)
    empty = np.zeros((0, 0))
    return arrays | {
        **{name: np.asarray(part) for name, part in state.parameters.theta._asdict().items()},
        "weights": solve_triangular(L, np.asarray(state.q.v_mean), lower=True, trans="T"),
        "excess": np.asarray(excess(state)) if predictor.bayesian else empty,
    }


def _local_arrays(state: PredictiveState, local: Local) -> Arrays:
    lam, sigma_f = nodes_to_theta(jnp.asarray(local.nodes), state.parameters.theta)
    return {
        "lam": np.asarray(lam),
        "sigma_f": np.asarray(sigma_f),
        "v_mean": np.asarray(state.q.v_mean),
        **local.partition.to_arrays(),
        **_rows(local.blocks, local.partition.n_blocks),
    }


def _rows(blocks: Blocks | DiskBlocks, n_cells: int) -> Arrays:
    """Training rows without padding, of the blocks that predictions use: a cell's first."""
    used = np.searchsorted(blocks.label, np.arange(n_cells))
    kept, block_of_cell = np.unique(used, return_inverse=True)
    X, y, mask = blocks.take(kept)
    real = mask > 0
    return {
        "X": X[real].astype(np.float64),
        "y": y[real].astype(np.float64),
        "start": np.concatenate([[0], np.cumsum(np.count_nonzero(real, axis=1))]),
        "block_of_cell": block_of_cell,
    }
