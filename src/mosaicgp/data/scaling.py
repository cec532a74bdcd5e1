"""Standardisation of inputs and target, and the way back to the user's units."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mosaicgp.data.threads import in_threads

Array = NDArray[np.float64]

# A column that varies by no more than this many units in the last place of its mean is constant
# up to rounding (0.3 against 0.1 + 0.2): standardising it would make a feature out of the rounding.
_ROUNDING_ULPS = 10

# Two values of an input lie at most this many scales apart if there are no others. By its standard
# deviation a rare flag would lie a hundred away, and every row that has it far from all others.
_FLAG_SCALES = 4.0

# In fewer rows one always has much of the variance.
_ROWS_TO_JUDGE = 100

_CHUNK_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class Scaling:
    """Means and scales: standardised = (user - mean) / scale.

    The scale is the standard deviation, 1 of a constant column, and of an input with two values at
    least a quarter of their distance.
    """

    X_mean: Array  # (d,)
    X_scale: Array  # (d,)
    y_mean: float
    y_scale: float

    @classmethod
    def fit(cls, X: ArrayLike, y: ArrayLike) -> Scaling:
        """Means and scales of the columns of X (n, d) and of y (n,)."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        starts = range(0, len(y), _CHUNK_ROWS)
        return cls.of_chunks((X[k : k + _CHUNK_ROWS], y[k : k + _CHUNK_ROWS]) for k in starts)

    @classmethod
    def of_chunks(cls, chunks: Iterable[tuple[Array, Array]]) -> Scaling:
        """The same of rows that come a part at a time, in one pass."""
        parts = iter(chunks)
        first = next(parts, None)
        if first is None:
            raise ValueError("no rows to take means and scales of")
        moments = _Moments(np.column_stack(first))
        for found in in_threads(
            lambda part: moments.of(np.column_stack(part)), itertools.chain([first], parts)
        ):
            moments.add(*found)
        mean, scale = moments.mean_and_scale()
        moments.warn_of_one_target(mean[-1], scale[-1])
        return cls(mean[:-1], scale[:-1], float(mean[-1]), float(scale[-1]))

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


class _Moments:
    """Mean and scale of columns, the last of them the target, one pass.

    Shifting by the first row and scaling by a power of two (which is exact) keeps small variation
    on a huge offset, and squares of tiny or huge values, within reach. Parts are joined by the
    update of Chan, Golub & LeVeque (1983); scikit-learn's StandardScaler, which does the same, took
    most of the time that reading a table takes.
    """

    def __init__(self, first: Array) -> None:
        self._origin = first[0]
        largest = np.abs(first - self._origin).max(axis=0)
        self._unit = np.ldexp(1.0, np.clip(np.frexp(largest)[1], -1000, 1000))
        self._n = 0
        self._mean = np.zeros_like(self._origin)
        self._squares = np.zeros_like(self._origin)  # sum of squared deviations from the mean
        # Inputs that have no more than two values in the first part, and their least and greatest.
        self._few = np.arange(first.shape[1] - 1)
        extremes = self._extremes(first)
        self._few = np.flatnonzero(np.isfinite(extremes).all(axis=0))
        self._range = extremes[:, self._few]
        self._targets = np.array([np.inf, -np.inf])  # the least and the greatest

    def _extremes(self, part: Array) -> Array:
        """Least and greatest value of the columns in question (2, ·), NaN of one with others."""
        part = part[:, self._few]
        lowest, highest = part.min(axis=0), part.max(axis=0)
        others = np.any((part != lowest) & (part != highest), axis=0)
        return np.where(others, np.nan, np.stack([lowest, highest]))

    def of(self, part: Array) -> tuple[int, Array, Array, Array, Array]:
        """Rows of a part (k, c), their mean, their squared deviations from it, the two values of
        columns that may have no more, and the least and the greatest target."""
        scaled = (part - self._origin) / self._unit
        mean = scaled.mean(axis=0)
        scaled -= mean
        squares = np.einsum("ij,ij->j", scaled, scaled)
        targets = np.array([part[:, -1].min(), part[:, -1].max()])
        return len(part), mean, squares, self._extremes(part), targets

    def add(self, k: int, mean: Array, squares: Array, extremes: Array, targets: Array) -> None:
        """Count the rows of a part."""
        least, greatest = np.minimum(self._targets, targets), np.maximum(self._targets, targets)
        self._targets = np.array([least[0], greatest[1]])
        both = np.stack([*self._range, *extremes])
        merged = np.stack([both.min(axis=0), both.max(axis=0)])
        others = np.any((both != merged[0]) & (both != merged[1]), axis=0)
        self._range = np.where(others, np.nan, merged)
        shift, n = mean - self._mean, self._n + k
        self._squares += squares + shift**2 * (self._n * k / n)
        self._mean += shift * (k / n)
        self._n = n

    def _flag_scale(self) -> Array:
        """The least scale of columns that have two values (c,), 0 for the others."""
        scale = np.zeros_like(self._origin)
        lowest, highest = self._range / _FLAG_SCALES
        scale[self._few] = np.nan_to_num(highest - lowest)
        return scale

    def warn_of_one_target(self, mean: float, scale: float) -> None:
        """Say so where one row has more than half of the targets' variance to itself."""
        deviations = (self._targets - mean) / scale
        furthest = int(np.argmax(np.abs(deviations)))
        if self._n >= _ROWS_TO_JUDGE and deviations[furthest] ** 2 > 0.5 * self._n:
            warnings.warn(
                f"One target, {self._targets[furthest]:g}, lies {abs(deviations[furthest]):.0f} "
                "standard deviations from the mean of all and decides their scale: next to it the "
                "others hardly differ, and the model will say so. If it is an error in the data, "
                "correct it or leave that row out.",
                UserWarning,
                stacklevel=2,
            )

    def mean_and_scale(self) -> tuple[Array, Array]:
        """Mean (c,) and scale (c,), 1 where the column is constant."""
        variance = self._squares / self._n
        mean, std = self._origin + self._unit * self._mean, self._unit * np.sqrt(variance)
        # What rounding leaves of the sum of squares of a constant column.
        rounding = (self._n * self._mean * np.finfo(np.float64).eps) ** 2
        constant = variance <= rounding
        constant |= std <= _ROUNDING_ULPS * np.spacing(np.abs(mean))
        constant |= std < np.finfo(np.float64).tiny
        return mean, np.where(constant, 1.0, np.maximum(std, self._flag_scale()))
