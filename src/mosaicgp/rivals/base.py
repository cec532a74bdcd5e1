"""What the rivals share: checked rows in, standardised inside, predictions in the user's units."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mosaicgp import validation
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference.result import FitResult

FloatArray = NDArray[np.float64]


class Fitted(Protocol):
    """What is left of a fit to predict from, in standardised units."""

    def moments(self, X: FloatArray, of_y: bool) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,) of y, or of f, at rows (n, d)."""


class Rival(RegressorMixin, BaseEstimator, ABC):
    """A regressor that learns and predicts in standardised units; a subclass says how."""

    # Steps that fall to zero within ``max_iter``: to come to its end is no failure to converge.
    anneals: ClassVar[bool] = False
    random_state: Any
    max_time: float | None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from X (n, d) and y (n,): arrays, or tables of pandas or polars."""
        self._check_arguments()
        X_user, y_user = validation.training_data(X, y, self)
        self._check_rows(len(y_user))
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31)))
        scaling = Scaling.fit(X_user, y_user)
        fitted, result = self._learn(scaling.transform_X(X_user), scaling.transform_y(y_user), rng)
        # From here on nothing fails: what was fitted before stays whole until now.
        validate_data(self, X, skip_check_array=True)
        self.scaling_, self.fitted_ = scaling, fitted
        bound = result.bound + scaling.log_jacobian(len(y_user))
        self.fit_result_ = replace(result, bound=bound)
        self.n_iter_ = result.iterations
        if result.status == "max_iter" and not self.anneals:
            warnings.warn(f"{type(self).__name__}: {result.message}", ConvergenceWarning, 2)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean (n,) of y at the rows of X, and with ``return_std`` its standard deviation (n,)."""
        mean, var = self._predict(X, of_y=True)
        return (mean, np.sqrt(var)) if return_std else mean

    def predict_f(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,) of the latent f, without noise."""
        return self._predict(X, of_y=False)

    def _predict(self, X: Any, of_y: bool) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        X_user = validation.new_rows(X, self)
        validate_data(self, X, reset=False, skip_check_array=True)
        fitted: Fitted = self.fitted_
        mean, var = fitted.moments(self.scaling_.transform_X(X_user), of_y)
        return self.scaling_.mean_to_user(mean), self.scaling_.var_to_user(var)

    @abstractmethod
    def _check_arguments(self) -> None:
        """Raise, naming the argument, before any work."""

    def _check_counts_and_time(self, *counts: str) -> None:
        """Raise unless the arguments of these names are whole and positive, as are the seconds."""
        for name in counts:
            validation.whole(name, getattr(self, name), 1)
        if self.max_time is not None:
            validation.number("max_time", self.max_time, 0.0)

    def _check_rows(self, n: int) -> None:
        """Raise where so many rows cannot be learned from."""
        return

    @abstractmethod
    def _learn(
        self, X: FloatArray, y: FloatArray, rng: np.random.Generator
    ) -> tuple[Fitted, FitResult]:
        """Learn from standardised rows (n, d) and (n,)."""
