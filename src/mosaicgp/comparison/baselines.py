"""Point predictors with a width, so that they can be scored as Gaussian predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mosaicgp.metrics import rmse

FloatArray = NDArray[np.float64]


class OneWidth:
    """A point predictor with one Gaussian width for all rows.

    The width is the RMSE on a fifth of the training rows, held out once; the predictions are those
    of a second fit on all of them.
    """

    def __init__(self, make: Callable[[], Any], seed: int) -> None:
        self._make, self._seed = make, seed

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Learn from X (n, d) and y (n,)."""
        from sklearn.model_selection import train_test_split

        X_fit, X_held, y_fit, y_held = train_test_split(
            X, y, test_size=0.2, random_state=self._seed
        )
        # One thread: the trees are the same, and tables this small gain nothing from more. On a
        # busy machine the threads of gradient boosting wait for each other, up to a hundred times
        # as long.
        with threadpool_limits(1, user_api="openmp"):
            width = rmse(y_held, self._make().fit(X_fit, y_fit).predict(X_held))
            self._model = self._make().fit(X, y)
        # Of targets that a model hits exactly no width is left, and a density needs one.
        self._width = max(width, 1e-9 * float(np.std(y)))
        return self

    def predict(self, X: FloatArray, return_std: bool = False) -> Any:
        """Mean (n,), and with ``return_std`` the width (n,), the same everywhere."""
        with threadpool_limits(1, user_api="openmp"):
            mean = self._model.predict(X)
        return (mean, np.full(len(mean), self._width)) if return_std else mean


def baselines(seed: int) -> dict[str, Callable[[], Any]]:
    """Point predictors that everybody has, by name."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    return {
        "linear": LinearRegression,
        "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=seed),
    }
