"""Moments of rows of one block, averaged over the nodes of θ, in NumPy.

The same as ``local_factor``, ``local_moments`` and ``local_joint`` of ``model/predictive.py``, a
group of rows at a time. BLAS runs on one thread, and NumPy lets go of the interpreter meanwhile:
rows of different blocks go to different threads.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from os import cpu_count
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaicgp.serving import lower_factor, unit_cross, unit_gram

FloatArray = NDArray[np.float64]
Job = TypeVar("Job")
Done = TypeVar("Done")

# A triangular product is cut into so many parts, each without the zeros beside it.
PARTS = 6

# Triangles of up to so many rows are inverted like any matrix, larger ones by halves.
SMALL_TRIANGLE = 32


def in_threads(function: Callable[[Job], Done], jobs: Iterable[Job]) -> Iterator[Done]:
    """The function of every job, in order, on as many threads as there are cores."""
    waiting = list(jobs)
    if len(waiting) == 1:
        yield function(waiting[0])
        return
    with ThreadPoolExecutor(cpu_count()) as pool:
        yield from pool.map(function, waiting)


class Shared(NamedTuple):
    """What all blocks share: k nodes of θ, Z, and q(s), s = Lv, cov(v) = v_rootᵀv_root."""

    lam: FloatArray  # (k, d)
    sigma_f: FloatArray  # (k,)
    Z: FloatArray  # (m, d)
    white: FloatArray  # (m, m): L⁻ᵀ
    v_mean: FloatArray  # (m,)
    v_root: FloatArray  # (m, m)


class NewRows(NamedTuple):
    """Rows of a block to predict, and their noise, whatever θ is: zero where f is predicted."""

    X: FloatArray  # (t, d)
    cross: FloatArray  # (t, n): cov(ε*, ε_b)
    marginal: FloatArray  # (t,): variance of ε*


class BlockFactor(NamedTuple):
    """A block at every node, for new rows v = (K_*Z/σ_f, K_*b + C_*b) (t, m + n).

    mean = v weights, and variance = k_** + C_** − ‖v root‖² + ‖v spread‖², ``root`` upper
    triangular. (x, −½‖Λx‖², 1) columns is the logarithm of v less C_*b, nowhere above ``largest``.
    """

    columns: FloatArray  # (k, d + 2, m + n)
    largest: FloatArray  # (k, m + n)
    weights: FloatArray  # (k, m + n)
    root: FloatArray  # (k, m + n, m + n)
    spread: FloatArray  # (k, m + n, m)


def block_factor(shared: Shared, X: FloatArray, y: FloatArray, C: FloatArray) -> BlockFactor:
    """Factorise a block at every node of θ: X (n, d), y (n,), and the covariance C of its noise."""
    (k, d), m, p = shared.lam.shape, len(shared.Z), len(shared.Z) + len(X)
    shapes = (k, d + 2, p), (k, p), (k, p), (k, p, p), (k, p, m)
    factor = BlockFactor(*map(np.zeros, shapes))
    for lam, sigma_f, *parts in zip(shared.lam, shared.sigma_f, *factor, strict=True):
        _factorise(shared, (X, y, C), lam, float(sigma_f), BlockFactor(*parts))
    return factor


def _factorise(
    shared: Shared,
    block: tuple[FloatArray, FloatArray, FloatArray],
    lam: FloatArray,
    sigma_f: float,
    out: BlockFactor,
) -> None:
    """One node: ``out`` is zero, and without the nodes in front."""
    (X, y, C), Z, m, d = block, shared.Z, len(shared.Z), len(lam)
    rotated = X * lam
    with np.errstate(divide="ignore"):
        out.largest[m:] = np.log(sigma_f**2)
    both = np.concatenate([Z, rotated])
    out.columns[:d] = (both * lam).T
    out.columns[d] = 1.0
    out.columns[d + 1] = out.largest - 0.5 * _squares(both)
    white = sigma_f * shared.white
    V = unit_cross(rotated, Z) @ white
    # R = K_bb − K_bZ Σ⁻¹ K_Zb + C_bb
    R_root = triangular_inverse(lower_factor(sigma_f**2 * unit_gram(rotated) + C - V @ V.T))
    white_V = R_root @ V
    out.root[:m, :m] = white
    out.root[:m, m:] = -white @ white_V.T
    out.root[m:, m:] = R_root.T
    # What s and, given s, y_b have beside their prior mean, whitened; and their spread under q(s).
    known = np.concatenate([shared.v_mean, R_root @ (y - V @ shared.v_mean)])
    unsure = np.concatenate([shared.v_root.T, -white_V @ shared.v_root.T])
    np.matmul(out.root, known, out=out.weights)
    np.matmul(out.root[:m], unsure, out=out.spread[:m])
    np.matmul(R_root.T, unsure[m:], out=out.spread[m:])


def block_moments(
    shared: Shared, factor: BlockFactor, rows: NewRows
) -> tuple[FloatArray, FloatArray]:
    """Mean (t,) and variance (t,) over q(θ), by the law of total variance."""
    means, variances = np.empty((2, len(shared.sigma_f), len(rows.X)))
    for k, v in enumerate(_covariances(shared, factor, rows)):
        np.matmul(v, factor.weights[k], out=means[k])
        prior = shared.sigma_f[k] ** 2 + rows.marginal
        own = prior - _squares_by_upper(v, factor.root[k])
        from_s = _squares(v @ factor.spread[k])
        variances[k] = np.maximum(own, np.finfo(np.float64).eps * prior) + from_s
    return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)


def block_mean(shared: Shared, factor: BlockFactor, rows: NewRows) -> FloatArray:
    """The mean (t,) alone."""
    total = np.zeros(len(rows.X))
    for v, weights in zip(_covariances(shared, factor, rows), factor.weights, strict=True):
        total += v @ weights
    return total / len(shared.sigma_f)


class BlockJoint(NamedTuple):
    """At every node, rows of one block have the covariance own + spread spreadᵀ.

    ``spread`` is what q(s) adds, and is shared with the rows of other blocks.
    """

    mean: FloatArray  # (k, t)
    own: FloatArray  # (k, t, t)
    spread: FloatArray  # (k, t, m)


def block_joint(
    shared: Shared, factor: BlockFactor, rows: NewRows, C_new: FloatArray
) -> BlockJoint:
    """The joint of f* or y* for rows of one block, given the covariance (t, t) of their noise."""
    k, t, m = len(shared.sigma_f), len(rows.X), len(shared.Z)
    joint = BlockJoint(np.empty((k, t)), np.empty((k, t, t)), np.empty((k, t, m)))
    for i, v in enumerate(_covariances(shared, factor, rows)):
        white = v @ factor.root[i]
        gram = unit_gram(rows.X * shared.lam[i])
        joint.mean[i] = v @ factor.weights[i]
        joint.own[i] = shared.sigma_f[i] ** 2 * gram + C_new - white @ white.T
        joint.spread[i] = v @ factor.spread[i]
    return joint


def _covariances(shared: Shared, factor: BlockFactor, rows: NewRows) -> Iterator[FloatArray]:
    """v = (K_*Z/σ_f, K_*b + C_*b) (t, m + n) at each node, in the same memory."""
    X, m, d = rows.X, len(shared.Z), shared.Z.shape[1]
    norms = X**2 @ (shared.lam**2).T
    augmented = np.concatenate([X, np.zeros((len(X), 1)), np.ones((len(X), 1))], axis=1)
    v = np.empty((len(X), factor.weights.shape[1]))
    for k, columns in enumerate(factor.columns):
        augmented[:, d] = -0.5 * norms[:, k]
        np.matmul(augmented, columns, out=v)
        np.minimum(v, factor.largest[k], out=v)
        np.exp(v, out=v)
        v[:, m:] += rows.cross
        yield v


def triangular_inverse(L: NDArray[np.floating]) -> FloatArray:
    """L⁻¹ of a lower triangular matrix (n, n), halved so that most of it are products."""
    n = len(L)
    if n <= SMALL_TRIANGLE:
        return np.tril(np.linalg.inv(L))
    h = n // 2
    out = np.zeros((n, n))
    out[:h, :h] = triangular_inverse(L[:h, :h])
    out[h:, h:] = triangular_inverse(L[h:, h:])
    out[h:, :h] = -out[h:, h:] @ (L[h:, :h] @ out[:h, :h])
    return out


def _squares_by_upper(v: FloatArray, upper: FloatArray) -> FloatArray:
    """‖v upper‖² at each row (t,), for an upper triangular matrix (p, p)."""
    p = len(upper)
    total = np.zeros(len(v))
    for start, end in pairwise(p * k // PARTS for k in range(PARTS + 1)):
        total += _squares(v[:, :end] @ upper[:end, start:end])
    return total


def _squares(A: FloatArray) -> FloatArray:
    """‖a‖² of each row."""
    return np.vecdot(A, A)
