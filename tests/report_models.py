"""Small fitted models that the tests of the report share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from mosaicgp import SparseGPRegressor

EVIL = "<script>alert('x')</script>"
NAMES = [EVIL, "b & c", "constant"]


def table(n: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Rows of three inputs, one of them constant and one with a name to be careful with."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.full(n, 3.0)])
    y = 10.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)
    return pd.DataFrame(X, columns=NAMES), pd.Series(y, name="y <b>")


def fitted(X: Any, y: Any, kind: str = "pic", **arguments: Any) -> SparseGPRegressor:
    """A fit of few iterations, which need not converge."""
    settings: dict[str, Any] = {"n_inducing": 8, "max_iter": 6, "inference": "exact"}
    if kind in ("pic", "pitc"):
        settings["block_size"] = 32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SparseGPRegressor(kind, **(settings | arguments)).fit(X, y)
