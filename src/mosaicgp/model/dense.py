"""The dense part of a stochastic step, forward and backward, with NumPy and LAPACK.

Given θ a batch enters the bound through the Gram matrix G = AᵀC⁻¹A (m + 1, m + 1) of its kernel
matrix and targets, A = [W, t]: Q, g and yᵀC⁻¹y in one. The bound is linear in G, with the slope

    Ḡ = w [[−½L⁻ᵀEL⁻¹, ½L⁻ᵀm_v], [½m_vᵀL⁻¹, −½]],    E = S_v + m_v m_vᵀ − I,

which needs only q(v), Σ = LLᵀ and the weight w of the batch, not G itself (docs/mathematics.md,
"Cheap gradients"). So the way back starts before the way forth has ended, and a second thread does
half of the work. What each does is fixed, and with it every bit of the result.

A matrix that should be positive definite and is not raises ``NotPositive``.
"""

from typing import Any, NamedTuple

import numpy as np

from mosaicgp.model.given_theta import Features, Matrices
from mosaicgp.model.lane import Job, beside
from mosaicgp.model.lapack import (
    Matrix,
    cholesky,
    gram_of_lower,
    inner_congruence,
    inverse,
    log_det,
    mirrored_product,
    outer_congruence,
)
from mosaicgp.model.posterior import NaturalParameters

# Rows multiplied at a time: what they give is used while it is in the cache.
ROWS = 256

# The share of C̄'s rows that the second thread computes, which has more to do beside.
SHARE = 0.4


class Moments(NamedTuple):
    """q(v) = N(mean, cov), and log|cov|."""

    mean: Matrix
    cov: Matrix
    log_det: float

    def kl(self) -> float:
        """KL(q(v) ‖ N(0, I))."""
        squares = float(np.trace(self.cov) + self.mean @ self.mean)
        return 0.5 * (squares - len(self.mean) - self.log_det)

    def excess(self) -> Matrix:
        """E = S_v + m_v m_vᵀ − I (m, m)."""
        E = np.multiply.outer(self.mean, self.mean)
        E += self.cov
        E.flat[:: len(E) + 1] -= 1.0
        return E


class Known(NamedTuple):
    """What a step knows before it sees a batch: q(v), twice, the step size ρ for it, the jitter of
    Σ and the weight of the batch."""

    eta: NaturalParameters
    q: Moments
    rho: float
    jitter: float
    weight: float


class Bars(NamedTuple):
    """Slopes of the bound in ``rows`` (n, d + 2), Z (m, d) and C of ``Features``."""

    rows: Matrix
    Z: Matrix
    C: Any


class Seen(NamedTuple):
    """The bound by a batch, but for the constant of its features; q(v) after it; and slopes."""

    bound: float
    eta: NaturalParameters
    q: Moments
    bars: Bars


def moments(eta: NaturalParameters) -> Moments:
    """q(v) of its natural parameters."""
    chol = cholesky(eta.precision)
    root = inverse(chol)
    return Moments((root @ eta.precision_mean) @ root, gram_of_lower(root), -log_det(chol))


def seen(features: Features, matrices: Matrices, known: Known) -> Seen:
    """The dense part of a step; ``features`` and ``matrices`` are of NumPy arrays."""
    with np.errstate(all="ignore"):  # what is not finite is looked for in the result
        if features.C is None:
            return _independent(features, matrices, known)
        return _correlated(features, matrices, known)


def _independent(features: Features, matrices: Matrices, known: Known) -> Seen:
    A, Z = matrices.A, features.Z
    gram = beside(lambda: A.T @ A)
    at = _inducing(Z, matrices.K, known)
    ahead = beside(lambda: _ahead(at, gram.result(), known))
    rows_bar, Z_bar = _pull(A, A, features.rows, at)
    bound = float(np.vdot(at.slope, gram.result())) - known.q.kl()
    eta, q, Z_bar_Sigma = ahead.result()
    return Seen(bound, eta, q, Bars(rows_bar, Z_bar + Z_bar_Sigma, None))


def _correlated(features: Features, matrices: Matrices, known: Known) -> Seen:
    (rows, Z, C, _), (A, K, K_bb) = features, matrices
    n = C.shape[1]
    parts = [slice(b * n, b * n + n) for b in range(len(C))]
    at = beside(lambda: _inducing(Z, K, known))
    begun = [
        _begin(A[part], K_bb[b], C[b], rows[part, :-2], at, known.weight)
        for b, part in enumerate(parts)
    ]
    gram = beside(lambda: np.sum([block.forward.result()[1] for block in begun], axis=0))
    ahead = beside(lambda: _ahead(at.result(), gram.result(), known))
    bars = Bars(np.empty_like(rows), np.zeros_like(Z), np.empty_like(C))
    bound = float(np.vdot(at.result().slope, gram.result())) - known.q.kl()
    for b, (part, block) in enumerate(zip(parts, begun, strict=True)):
        V, _ = block.forward.result()
        bars.rows[part], Z_bar = _pull(A[part], V, rows[part], at.result())
        bars.Z[:] += Z_bar
        top, by_row = block.upper.result()
        h = len(top)
        bars.C[b, :h, :h], bars.C[b, h:] = top, block.lower
        bars.C[b, :h, h:] = block.lower[:, :h].T
        R, scale = rows[part, :-2], rows[part, -2]
        bars.rows[part, :-2] += by_row[:, :-1] - by_row[:, -1:] * R
        bars.rows[part, -2] += _divided(by_row[:, -1], scale)
        bound += 0.5 * float(np.sum(by_row[:, -1])) - 0.5 * known.weight * block.log_det
    eta, q, Z_bar = ahead.result()
    bars.Z[:] += Z_bar
    return Seen(bound, eta, q, bars)


class _Begun(NamedTuple):
    """A block under way: V = C⁻¹A and AᵀV; the first rows of C̄, up to the diagonal, and the slopes
    through K_bb; the other rows of C̄; log|C|."""

    forward: Job[tuple[Matrix, Matrix]]
    upper: Job[tuple[Matrix, Matrix]]
    lower: Matrix
    log_det: float


def _begin(
    A: Matrix, K_bb: Matrix, C: Matrix, R: Matrix, at: Job["_Inducing"], weight: float
) -> _Begun:
    """C̄ = C⁻¹[½w(K_bb − C) − AḠAᵀ]C⁻¹ and K̄_bb = −½wC⁻¹."""

    def middle() -> Matrix:
        inner = mirrored_product(A @ at.result().slope, A.T)
        return (0.5 * weight) * (K_bb - C) - inner

    between = beside(middle)
    chol = cholesky(C)
    C_inverse = gram_of_lower(inverse(chol))
    h = int(SHARE * len(C))

    def forward() -> tuple[Matrix, Matrix]:
        V = C_inverse @ A
        return V, A.T @ V

    def upper() -> tuple[Matrix, Matrix]:
        top = (C_inverse[:h] @ between.result()) @ C_inverse[:, :h]
        H = C_inverse * K_bb
        return top, (-weight) * (H @ _with_ones(R))

    jobs = beside(forward), beside(upper)
    lower = (C_inverse[h:] @ between.result()) @ C_inverse
    return _Begun(*jobs, lower, log_det(chol))


class _Inducing(NamedTuple):
    """Inducing inputs Z (m, d), K = k(Z, Z), L⁻¹ of its factor and Ḡ (m + 1, m + 1)."""

    Z: Matrix
    K: Matrix
    L_inverse: Matrix
    slope: Matrix


def _inducing(Z: Matrix, K: Matrix, known: Known) -> _Inducing:
    m, q, w = len(Z), known.q, known.weight
    Sigma = K.copy()
    Sigma.flat[:: m + 1] += known.jitter
    L_inverse = inverse(cholesky(Sigma))
    slope = np.empty((m + 1, m + 1), K.dtype)
    np.multiply(inner_congruence(L_inverse, q.excess()), -0.5 * w, out=slope[:m, :m])
    slope[:m, m] = slope[m, :m] = (0.5 * w) * (q.mean @ L_inverse)
    slope[m, m] = -0.5 * w
    return _Inducing(Z, K, L_inverse, slope)


def _ahead(at: _Inducing, G: Matrix, known: Known) -> tuple[NaturalParameters, Moments, Matrix]:
    """q(v) after a natural step towards what G says, and the slope in Z through Σ.

    With psi = L⁻¹QL⁻ᵀ, p = L⁻¹g, N = w(E psi − m_v pᵀ) and Φ the lower triangle with half its
    diagonal, the derivative of the Cholesky factor gives Σ̄ = L⁻ᵀ sym(Φ(N)) L⁻¹.
    """
    m, (eta, q, rho, _, w) = len(at.Z), known
    psi = outer_congruence(at.L_inverse, G[:m, :m])
    projection = at.L_inverse @ G[:m, m]
    after = NaturalParameters(
        (1.0 - rho) * eta.precision_mean + (rho * w) * projection,
        (1.0 - rho) * eta.precision + (rho * w) * psi,
    )
    after.precision.flat[:: m + 1] += rho
    N = mirrored_product(np.column_stack([q.excess(), -q.mean]), np.vstack([psi, projection]))
    H = inner_congruence(at.L_inverse, N)  # 2 sym(Φ(N)) is N's lower triangle, mirrored
    H *= at.K
    by_row = w * (H @ _with_ones(at.Z))
    return after, moments(after), by_row[:, :-1] - by_row[:, -1:] * at.Z


def _pull(A: Matrix, V: Matrix, rows: Matrix, at: _Inducing) -> tuple[Matrix, Matrix]:
    """Slopes in ``rows`` (n, d + 2) and Z (m, d) of a bound with the slope Ā = 2VḠ."""
    m, d = at.Z.shape
    double, Z_1, R_1 = 2.0 * at.slope, _with_ones(at.Z), _with_ones(rows[:, :d])
    rows_bar, by_column = np.empty_like(rows), np.zeros((m, d + 1), A.dtype)
    for first in range(0, len(A), ROWS):
        part = slice(first, first + ROWS)
        A_bar = V[part] @ double
        rows_bar[part, d + 1] = A_bar[:, m]
        H = A_bar[:, :m]
        H *= A[part, :m]
        by_row = H @ Z_1
        rows_bar[part, :d] = by_row[:, :d] - by_row[:, d:] * rows[part, :d]
        rows_bar[part, d] = _divided(by_row[:, d], rows[part, d])
        by_column += H.T @ R_1[part]
    return rows_bar, by_column[:, :d] - by_column[:, d:] * at.Z


def _with_ones(A: Matrix) -> Matrix:
    """A (n, d) and a column of ones."""
    return np.column_stack([A, np.ones(len(A), A.dtype)])


def _divided(total: Matrix, scale: Matrix) -> Matrix:
    """total / scale, and zero for a row that pads, whose scale is zero."""
    return np.divide(total, scale, out=np.zeros_like(total), where=scale != 0.0)
