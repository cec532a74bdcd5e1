"""Standardisation of inputs and target, and the way back to the user's units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler

Array = NDArray[np.float64]

# A column that varies by no more than this many units in the last place of its mean is constant
# up to rounding (0.3 against 0.1 + 0.2): standardising it would make a feature out of the rounding.
_ROUNDING_ULPS = 10

_CHUNK_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class Scaling:
    """Means and scales: standardised = (user - mean) / scale. Constant columns have scale 1."""

    X_mean: Array  # (d,)
    X_scale: Array  # (d,)
    y_mean: float
    y_scale: float

    @classmethod
    def fit(cls, X: ArrayLike, y: ArrayLike) -> Scaling:
        """Means and standard deviations of the columns of X (n, d) and of y (n,)."""
        X_mean, X_scale = _mean_and_scale(np.asarray(X, dtype=np.float64))
        y_mean, y_scale = _mean_and_scale(np.asarray(y, dtype=np.float64).reshape(-1, 1))
        return cls(X_mean, X_scale, float(y_mean[0]), float(y_scale[0]))

    def transform_X(self, X: ArrayLike) -> Array:
        """User's inputs (n, d) to standardised inputs (n, d)."""
        out: Array = np.asarray(X, dtype=np.float64) - self.X_mean
        out /= self.X_scale
        return out

    def transform_y(self, y: ArrayLike) -> Array:
        """User's target (n,) to standardised target (n,)."""
        out: Array = np.asarray(y, dtype=np.float64) - self.y_mean
        out /= self.y_scale
        return out

    def mean_to_user(self, mean: ArrayLike) -> Array:
        """Standardised mean (n,) to the user's units."""
        out: Array = np.asarray(mean, dtype=np.float64) * self.y_scale + self.y_mean
        return out

    def std_to_user(self, std: ArrayLike) -> Array:
        """Standardised standard deviation (n,) to the user's units."""
        out: Array = np.asarray(std, dtype=np.float64) * self.y_scale
        return out

    def var_to_user(self, var: ArrayLike) -> Array:
        """Standardised variance (n,) to the user's units."""
        out: Array = np.asarray(var, dtype=np.float64) * self.y_scale**2
        return out

    def log_jacobian(self, n: int) -> float:
        """What a log density of n standardised targets gains to be one in the user's units."""
        return -n * float(np.log(self.y_scale))


def _mean_and_scale(A: Array) -> tuple[Array, Array]:
    """Mean (k,) and standard deviation (k,), 1 where constant, of the columns of A (n, k)."""
    # Shifting by the first row and scaling by a power of two (which is exact) keeps small variation
    # on a huge offset, and squares of tiny or huge values, within what StandardScaler can see. A
    # part at a time, so that the memory needed does not grow with the table.
    first = A[0]
    parts = [A[start : start + _CHUNK_ROWS] for start in range(0, len(A), _CHUNK_ROWS)]
    low = np.min([part.min(axis=0) for part in parts], axis=0) - first
    high = np.max([part.max(axis=0) for part in parts], axis=0) - first
    unit = np.ldexp(1.0, np.clip(np.frexp(np.maximum(high, -low))[1], -1000, 1000))
    scaler = StandardScaler()
    for part in parts:
        scaler.partial_fit((part - first) / unit)
    mean = first + unit * scaler.mean_
    std = unit * np.sqrt(scaler.var_)
    constant = scaler.scale_ != np.sqrt(scaler.var_)  # StandardScaler's own verdict
    constant |= std <= _ROUNDING_ULPS * np.spacing(np.abs(mean))
    constant |= std < np.finfo(np.float64).tiny
    return mean, np.where(constant, 1.0, std)
