"""The full GP with correlated noise (the paper's FGPR): every row with every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mosaicgp import validation
from mosaicgp.inference.result import FitResult
from mosaicgp.precision import in_double
from mosaicgp.rivals.base import FloatArray, Rival
from mosaicgp.rivals.dense_gp import Kernels, condition, covariance, factor, from_free, to_free
from mosaicgp.rivals.maximise import maximise_evidence

PREDICT_ROWS = 4096


class FullGP(Rival):
    """Gaussian process regression without approximation, for a few thousand rows.

    y(x) = f(x) + ε(x), and the noise ε is a GP of its own, plus white noise: their covariances
    are k, k^ε and σ²I, both kernels SE-ARD. The hyperparameters of all three maximise the log
    evidence log N(y; 0, K + K^ε + σ²I), by L-BFGS-B. A prediction of y is of f* + ε*, and so uses
    what the noise of nearby rows says; ``predict_f`` is of f* alone. This is the model that the
    family of ``SparseGPRegressor`` approximates. A fit costs n³ an iteration.

    Inputs and target are standardised inside; predictions are in the user's units.

    Parameters
    ----------
    correlated_noise : bool, default=True
        False leaves k^ε out: the ordinary GP with white noise.
    max_rows : int, default=5000
        Tables with more rows are refused; memory is about 50 n² bytes.
    max_iter : int, default=200
        Most iterations of the optimiser.
    max_time : float or None, default=None
        Seconds after which the search stops with the best found.
    n_restarts : int, default=0
        Further starts from random values; the best evidence wins.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    fitted_ : FullPosterior
        Kernels, training rows and factor, standardised; ``fitted_.kernels`` has the signal first.
    scaling_ : Scaling
        Means and scales of inputs and target.
    fit_result_ : FitResult
        Status, message, iterations, seconds; ``bound`` is the log evidence in the user's units.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mosaicgp.rivals import FullGP
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = FullGP().fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[2.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.5)) < 0.01)
    True
    """

    def __init__(
        self,
        *,
        correlated_noise: bool = True,
        max_rows: int = 5000,
        max_iter: int = 200,
        max_time: float | None = None,
        n_restarts: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.correlated_noise = correlated_noise
        self.max_rows = max_rows
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_restarts = n_restarts
        self.random_state = random_state

    def _check_arguments(self) -> None:
        if not isinstance(self.correlated_noise, bool | np.bool_):
            raise TypeError(f"correlated_noise must be a bool, got {self.correlated_noise!r}.")
        self._check_counts_and_time("max_rows", "max_iter")
        validation.whole("n_restarts", self.n_restarts, 0)

    def _check_rows(self, n: int) -> None:
        if n > self.max_rows:
            raise ValueError(
                f"X has {n:,} rows, and max_rows is {self.max_rows:,}: a full GP costs n³. Fit a "
                "sample of the rows, raise max_rows, or take SparseGPRegressor or RobustBCM."
            )

    @in_double
    def _learn(
        self, X: FloatArray, y: FloatArray, rng: np.random.Generator
    ) -> tuple[FullPosterior, FitResult]:
        start = to_free(_start(X.shape[1], bool(self.correlated_noise)))
        starts = [start]
        starts += [start + rng.normal(scale=0.5, size=start.shape) for _ in range(self.n_restarts)]
        free, result = maximise_evidence(X, y, starts, self.max_iter, self.max_time)
        kernels = from_free(free, X.shape[1])
        return FullPosterior(kernels, X, *factor(kernels, X, y)), result


def _start(d: int, correlated: bool) -> Kernels:
    """Where ``SparseGPRegressor`` starts too: kernel values of order one whatever d."""
    lam = np.full((1, d), d**-0.5)
    if not correlated:
        return Kernels(lam, np.array([1.0]), 0.2)
    return Kernels(np.concatenate([lam, 2.0 * lam]), np.array([1.0, 0.3]), 0.1)


@dataclass(frozen=True, eq=False)
class FullPosterior:
    """The rows, the factor L of K + K^ε + σ²I and its solution with y; kernels of f, then of ε."""

    kernels: Kernels
    X: FloatArray  # (n, d)
    L: FloatArray  # (n, n)
    weights: FloatArray  # (n,)

    @in_double
    def moments(self, X: FloatArray, of_y: bool) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,) of f* + ε*, or of f*."""
        of = self.kernels if of_y else self.kernels.first()
        parts = []
        for start in range(0, len(X), PREDICT_ROWS):
            K = covariance(of, X[start : start + PREDICT_ROWS], self.X)
            parts.append(condition(K, self.L, self.weights))
        mean, explained = (np.concatenate(part) for part in zip(*parts, strict=True))
        noise = of.noise_variance if of_y else 0.0
        return mean, np.maximum(of.variance.sum() - explained, 0.0) + noise
