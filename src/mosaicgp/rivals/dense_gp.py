"""The GP of a few rows, dense: covariance, log evidence with its gradient, conditioning.

The covariance is a sum of SE-ARD kernels and white noise. NumPy and LAPACK: their calls leave
Python's lock, so that many such GPs run on as many threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

FloatArray = NDArray[np.float64]

# Within these logarithms a covariance of several thousand standardised rows can be factored, but
# for the digits that clusters of rows far apart lose: for those, shares of the diagonal to add.
LOG_LAM = (-12.0, 8.0)
LOG_VARIANCE = (-12.0, 6.0)
LOG_NOISE = (np.log(1e-6), 4.0)
JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)


class Kernels(NamedTuple):
    """C kernels: inverse length-scales (C, d), variances (C,), and the variance of white noise."""

    lam: FloatArray
    variance: FloatArray
    noise_variance: float

    def first(self) -> "Kernels":
        """The first kernel alone, that of f."""
        return Kernels(self.lam[:1], self.variance[:1], self.noise_variance)


def to_free(kernels: Kernels) -> FloatArray:
    """Logarithms of all hyperparameters as one vector (C d + C + 1,)."""
    parts = (kernels.lam.ravel(), kernels.variance, [kernels.noise_variance])
    return np.log(np.concatenate(parts))


def from_free(free: FloatArray, d: int) -> Kernels:
    """Inverse of ``to_free``."""
    c = len(free) // (d + 1)
    values = np.exp(free)
    return Kernels(values[: c * d].reshape(c, d), values[c * d : -1], float(values[-1]))


def bounds(size: int, d: int) -> FloatArray:
    """Lower and upper bounds (size, 2) of a vector of ``to_free``."""
    c = size // (d + 1)
    return np.array([LOG_LAM] * (c * d) + [LOG_VARIANCE] * c + [LOG_NOISE])


def covariance(kernels: Kernels, A: FloatArray, B: FloatArray) -> FloatArray:
    """Sum of the kernels between the rows of A (n, d) and of B (m, d), without noise: (n, m)."""
    total: FloatArray = _kernel(A, B, kernels.lam[0], kernels.variance[0])
    for lam, variance in zip(kernels.lam[1:], kernels.variance[1:], strict=True):
        total += _kernel(A, B, lam, variance)
    return total


def _kernel(A: FloatArray, B: FloatArray, lam: FloatArray, variance: float) -> FloatArray:
    """variance · exp(−½‖Λ(a − b)‖²): (n, m)."""
    A, B = A * lam, B * lam
    K: FloatArray = A @ B.T
    K -= 0.5 * np.sum(A**2, axis=1)[:, None]
    K -= 0.5 * np.sum(B**2, axis=1)
    np.minimum(K, 0.0, out=K)
    np.exp(K, out=K)
    K *= variance
    return K


def factor(kernels: Kernels, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower factor L (n, n) of K + σ²I, and (K + σ²I)⁻¹y (n,).

    The least of ``JITTERS`` with which it can be factored is added; LinAlgError if none is enough.
    """
    diagonal = kernels.variance.sum() + kernels.noise_variance
    for jitter in JITTERS:
        K = covariance(kernels, X, X)
        K[np.diag_indices_from(K)] = diagonal * (1.0 + jitter)
        try:
            L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        return L, _solve(L, y)
    raise LinAlgError(
        "The covariance of the rows is not positive definite. Likely causes: rows that nearly "
        "repeat beside others that are far away; look for outliers in X."
    )


def condition(K: FloatArray, L: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (n,) at new rows and the variance (n,) that the data explain there, given K (n, m).

    K is overwritten.
    """
    mean = K @ weights
    white = solve_triangular(L, K.T, lower=True, overwrite_b=True, check_finite=False)
    return mean, np.einsum("ij,ij->j", white, white)


def log_evidence(free: FloatArray, X: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """log N(y; 0, K + σ²I) and its gradient in the vector of ``to_free``.

    With G = ½(aaᵀ − (K + σ²I)⁻¹), a = (K + σ²I)⁻¹y, the derivative in any hyperparameter is the
    sum of G times that of K (Rasmussen & Williams 2006, eq. 5.9).
    """
    n, d = X.shape
    kernels = from_free(free, d)
    L, a = factor(kernels, X, y)
    value = -0.5 * (y @ a + n * np.log(2.0 * np.pi)) - np.sum(np.log(np.diag(L)))
    G = dpotri(L, lower=1, overwrite_c=1)[0]  # the lower triangle of the inverse
    G += np.tril(G, -1).T
    np.subtract(np.outer(a, a), G, out=G)
    G *= 0.5
    by_lam, by_variance = [], []
    for lam, variance in zip(kernels.lam, kernels.variance, strict=True):
        H = _kernel(X, X, lam, variance)
        H *= G
        # Σ_ij H_ij (x_i − x_j)² = 2 Σ_i (Σ_j H_ij) x_i² − 2 xᵀHx, for every input.
        apart = H.sum(axis=1) @ X**2 - np.sum(X * (H @ X), axis=0)
        by_lam.append(-2.0 * lam**2 * apart)
        by_variance.append(H.sum())
    by_noise = kernels.noise_variance * np.trace(G)
    return float(value), np.concatenate([*by_lam, by_variance, [by_noise]])


def _solve(L: FloatArray, y: FloatArray) -> FloatArray:
    half = solve_triangular(L, y, lower=True, check_finite=False)
    out: FloatArray = solve_triangular(L, half, lower=True, trans=1, check_finite=False)
    return out
