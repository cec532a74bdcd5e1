"""Moments of rows of one block, averaged over the nodes of θ, in NumPy.

The same as ``local_moments`` of ``model/predictive.py``, a group of rows at a time. BLAS runs on
one thread, and NumPy lets go of the interpreter meanwhile: rows of different blocks go to
different threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from os import cpu_count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaicgp.model.bound import Block
from mosaicgp.model.predictive import LocalFactor, NewRows

FloatArray = NDArray[np.float64]
Job = TypeVar("Job")

# A triangular product is cut into so many parts, each without the zeros beside it.
PARTS = 6


def in_threads(function: Callable[[Job], None], jobs: Iterable[Job]) -> None:
    """Call the function with every job, on as many threads as there are cores."""
    waiting = list(jobs)
    if len(waiting) == 1:
        function(waiting[0])
        return
    with ThreadPoolExecutor(cpu_count()) as pool:
        for _ in pool.map(function, waiting):
            pass


class BlockMoments:
    """Mean and variance of rows of one block; ``factors`` and θ have the nodes in front."""

    def __init__(
        self,
        Z: FloatArray,
        block: Block,
        theta: tuple[FloatArray, FloatArray],
        factors: LocalFactor,
    ) -> None:
        self._Z = Z
        self._X, _, self._mask = (np.asarray(part) for part in block)
        self._theta = theta
        self._weights, self._root, self._spread = (np.asarray(part) for part in factors)

    def __call__(self, rows: NewRows) -> tuple[FloatArray, FloatArray]:
        """Mean (t,) and variance (t,) over q(θ), by the law of total variance."""
        X, noise, marginal = (np.asarray(part) for part in rows)
        noise = noise * self._mask
        n_nodes, t = len(self._theta[1]), len(X)
        means, variances = np.empty((n_nodes, t)), np.empty((n_nodes, t))
        v = np.empty((t, self._root.shape[1]))
        for k, (lam, sigma_f) in enumerate(zip(*self._theta, strict=True)):
            self._covariance(X, lam, sigma_f, noise, out=v)
            means[k] = v @ self._weights[k]
            prior = sigma_f**2 + marginal
            own = prior - _squares_by_upper(v, self._root[k])
            spread = v @ self._spread[k]
            from_s = np.einsum("ij,ij->i", spread, spread)
            variances[k] = np.maximum(own, np.finfo(np.float64).eps * prior) + from_s
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def mean(self, rows: NewRows) -> FloatArray:
        """The mean (t,) alone."""
        X, noise = np.asarray(rows.X), np.asarray(rows.cross) * self._mask
        v = np.empty((len(X), self._root.shape[1]))
        total = np.zeros(len(X))
        for k, (lam, sigma_f) in enumerate(zip(*self._theta, strict=True)):
            total += self._covariance(X, lam, sigma_f, noise, out=v) @ self._weights[k]
        return total / len(self._theta[1])

    def _covariance(
        self, X: FloatArray, lam: FloatArray, sigma_f: float, noise: FloatArray, out: FloatArray
    ) -> FloatArray:
        """v = (K_*Z, K_*b + C_*b) (t, m + n), zero at rows that pad the block."""
        m = len(self._Z)
        rows, columns = X * lam, np.concatenate([self._Z, self._X * lam])
        # −½‖r − c‖² as one product.
        one, half = np.ones((len(rows), 1)), -0.5 * np.sum(columns**2, axis=1)
        of_rows = np.concatenate([rows, -0.5 * np.sum(rows**2, axis=1)[:, None], one], axis=1)
        of_columns = np.concatenate([columns.T, np.ones((1, len(columns))), half[None, :]])
        np.matmul(of_rows, of_columns, out=out)
        np.minimum(out, 0.0, out=out)
        np.exp(out, out=out)
        out *= np.concatenate([np.full(m, sigma_f), sigma_f**2 * self._mask])
        out[:, m:] += noise
        return out


def _squares_by_upper(v: FloatArray, upper: FloatArray) -> FloatArray:
    """‖v upper‖² at each row (t,), for an upper triangular matrix (p, p)."""
    p = len(upper)
    ends = [p * k // PARTS for k in range(PARTS + 1)]
    total = np.zeros(len(v))
    for start, end in pairwise(ends):
        part = v[:, :end] @ upper[:end, start:end]
        total += np.einsum("ij,ij->i", part, part)
    return total
