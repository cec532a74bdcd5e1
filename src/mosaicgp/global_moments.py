"""Moments of rows through s alone, where q(θ) is narrow at them, in NumPy.

Two ways, both of the closed form of ``model/predictive.py`` less what ``quick_error`` and
``first_order_error`` bound (docs/mathematics.md, "Short ways through q(θ)"). BLAS runs on one
thread, and NumPy lets go of the interpreter meanwhile: chunks of rows go to different threads.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.model.predictive import PredictiveState

FloatArray = NDArray[np.float64]

# Every product has so many rows: few enough for BLAS to multiply them without copying them first,
# and a row comes out the same whatever rows come with it.
TILE = 256

# Tiles that a call of NumPy works on: threads wait for the interpreter between calls.
TILES = 8

# Nearer rows than this (−log ω at z = 0) have an exponent that rounding takes above zero by less
# than 1e-11, which is let pass.
FAR = 1e3

# A triangular product is cut into so many parts, each without the zeros beside it.
PARTS = 3


def theta_spread(X: FloatArray, xi: FloatArray) -> FloatArray:
    """Σ_k ξ_k x_k² at each row (n,): how far q(λ) moves a row in the space of Z, squared."""
    return X**2 @ xi


def quick_error(spread: FloatArray, v_square: float) -> FloatArray:
    """A bound on how wrong ``quick`` has the variance, over α² + β, at ``theta_spread``.

    ``v_square`` is mᵀΣ⁻¹m. The first term is the Poincaré inequality of q(λ) with derivatives of a
    process of unit variance, the second its like of second order (docs/mathematics.md).
    """
    return spread + 1.5 * spread**2 * v_square


def first_order_error(spread: FloatArray, v_square: float) -> FloatArray:
    """The same for ``first_order``, which leaves out the second order of all terms."""
    return 1.5 * spread**2 * (1.0 + v_square)


class _Features(NamedTuple):
    """What ω needs of rows: −½ Σ_k (νx − z)²/s² + log s² is a product of (z, ½z², 1) with them."""

    square: FloatArray  # (d, tiles, TILE): ξx²
    of_rows: FloatArray  # (2d + 1, tiles, TILE): νx/s², −1/s², and the part without z

    @property
    def centre(self) -> FloatArray:
        """νx/s² (d, tiles, TILE)."""
        return self.of_rows[: len(self.square)]

    @property
    def minus_one(self) -> FloatArray:
        """−1/s² (d, tiles, TILE)."""
        return self.of_rows[len(self.square) : -1]


class GlobalMoments:
    """Mean and variance of f* for any number of rows; the variance where ``root`` is finite."""

    def __init__(self, state: PredictiveState) -> None:
        theta, self._Z = state.parameters.theta, np.asarray(state.parameters.Z)
        self._nu, self._xi = (np.asarray(part)[:, None] for part in (theta.nu, theta.xi))
        self._alpha, self._beta = float(theta.alpha), float(theta.beta)
        self._weights = np.asarray(state.white @ state.q.v_mean)
        Z, m = self._Z, len(self._Z)
        self._of_Z = np.concatenate([Z.T, 0.5 * Z.T**2, np.ones((1, m))])
        self._slopes = np.column_stack([self._weights, self._weights[:, None] * Z])
        ends = pairwise(m * k // PARTS for k in range(PARTS + 1))
        root = np.asarray(state.root)
        self._root = [(a, b, np.ascontiguousarray(root[:b, a:b])) for a, b in ends]

    def mean(self, X: FloatArray) -> FloatArray:
        """Mean (n,)."""
        features = self._features(X)
        mean = np.empty(features.of_rows.shape[1:])
        for part, unit, _ in self._tiles(features):
            np.matmul(unit, self._weights, out=mean[part])
        return self._alpha * mean.ravel()[: len(X)]

    def quick(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance (n,), (n,), with one triangular product of n × m × m.

        With P = root rootᵀ the variance over q(λ) is (α² + β)[1 − ωᵀPω − Tr(P cov k) +
        var(kᵀΣ⁻¹m)], and β's share. The first order of the last term costs n·m·d and is taken;
        Tr(P cov k) lies between 0 and Σξx², near Σξx² ωᵀPω, which takes its place. ``quick_error``
        bounds what is wrong.
        """
        features = self._features(X)
        _, *shape = features.of_rows.shape
        taken, mean_and_slopes = np.empty(shape), np.empty((*shape, self._slopes.shape[1]))
        for part, unit, white in self._tiles(features):
            self._taken(unit, white, out=taken[part])
            np.matmul(unit, self._slopes, out=mean_and_slopes[part])
        mean, slopes = mean_and_slopes[..., 0], mean_and_slopes[..., 1:].transpose(2, 0, 1)
        slope = features.centre * mean
        slope += features.minus_one * slopes
        slope *= slope
        slope *= features.square
        # Tr(P cov k) can be at most what ωᵀPω leaves of one, and so the variance stays positive.
        correction = np.minimum(features.square.sum(axis=0) * taken, 1.0 - taken)
        return self._moments(mean, 1.0 - taken - correction + slope.sum(axis=0), len(X))

    def first_order(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance (n,), (n,), the kernel's second moments to first order in ρ."""
        features = self._features(X)
        mean, unit_variance = np.empty((2, *features.of_rows.shape[1:]))
        for part, unit, white in self._tiles(features):
            np.matmul(unit, self._weights, out=mean[part])
            total = 1.0 - self._taken(unit, white)
            term = np.empty_like(unit)
            for k, z in enumerate(self._Z.T):
                # ω (νx − z)/s², to which √ξ x belongs.
                of_rows = features.of_rows[[k, len(self._nu) + k], part].transpose(1, 2, 0)
                np.matmul(of_rows, np.stack([np.ones_like(z), z]), out=term)
                term *= unit
                added = (term @ self._weights) ** 2 - self._taken(term, white)
                total += features.square[k, part] * added
            unit_variance[part] = total
        return self._moments(mean, unit_variance, len(X))

    def _moments(
        self, mean: FloatArray, unit_variance: FloatArray, n: int
    ) -> tuple[FloatArray, FloatArray]:
        """Of n rows in tiles, with σ_f; rounding may take a variance, a difference, below zero."""
        mean, second = mean.ravel()[:n], self._alpha**2 + self._beta
        variance = second * unit_variance.ravel()[:n] + self._beta * mean**2
        return self._alpha * mean, np.maximum(variance, np.finfo(np.float64).eps * second)

    def _features(self, X: FloatArray) -> _Features:
        """Of the rows X (n, d), with rows of zeros up to a whole number of tiles."""
        n, d = X.shape
        rows = np.zeros((d, -(-n // TILE) * TILE))
        rows[:, :n] = X.T
        square = self._xi * rows**2
        s2 = 1.0 + square
        centre = self._nu * rows
        of_rows = np.empty((2 * d + 1, rows.shape[1]))
        np.divide(centre, s2, out=of_rows[:d])
        np.divide(-1.0, s2, out=of_rows[d:-1])
        centre *= of_rows[:d]
        centre += np.log(s2)
        np.sum(centre, axis=0, out=of_rows[-1])
        of_rows[-1] *= -0.5
        return _Features(*(a.reshape(len(a), -1, TILE) for a in (square, of_rows)))

    def _tiles(self, features: _Features) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Tiles, their E[K_XZ] at σ_f = 1 (tiles, TILE, m) and room for as much again."""
        n_tiles = features.of_rows.shape[1]
        far = np.any(features.of_rows[-1] < -FAR)
        memory = np.empty((2, min(n_tiles, TILES), TILE, len(self._Z)))
        for start in range(0, n_tiles, TILES):
            part = slice(start, start + TILES)
            of_rows = features.of_rows[:, part].transpose(1, 2, 0)
            unit, free = memory[:, : len(of_rows)]
            np.matmul(of_rows, self._of_Z, out=unit)
            if far:
                np.minimum(unit, 0.0, out=unit)
            np.exp(unit, out=unit)
            yield part, unit, free

    def _taken(
        self, unit: FloatArray, free: FloatArray, out: FloatArray | None = None
    ) -> FloatArray:
        """‖unit root‖² at each row."""
        for start, end, part in self._root:
            np.matmul(unit[..., :end], part, out=free[..., start:end])
        return np.vecdot(free, free, out=out)
