"""The dense part of a stochastic step, forward and backward, with NumPy and LAPACK.

Given θ a batch enters the bound through the Gram matrix G = AᵀC⁻¹A (m + 1, m + 1) of its kernel
matrix and targets, A = [W, t]: Q, g and yᵀC⁻¹y in one. The bound is linear in G, with the slope

    Ḡ = w [[−½L⁻ᵀEL⁻¹, ½L⁻ᵀm_v], [½m_vᵀL⁻¹, −½]],    E = S_v + m_v m_vᵀ − I,

which needs only q(v), Σ = LLᵀ and the weight w of the batch, not G itself (docs/mathematics.md,
"Cheap gradients"). So the way back starts before the way forth has ended, and a second thread does
half of the work. What each does is fixed, and with it every bit of the result.

Here is what all batches share, and batches of independent rows, whose C^−½ is folded into A;
``model/dense_blocks.py`` has those of correlated ones. A matrix that should be positive definite
and is not raises ``NotPositive``.
"""

from typing import Any, NamedTuple

import numpy as np

from mosaicgp.model.given_theta import Features, Matrices
from mosaicgp.model.lane import Lane
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
ROWS = 512

# The share of the rows that the second thread takes back through A.
SHARE = 0.3


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
    """Slopes of the bound in ``rows`` (n, d + 2), Z (m, d) and the noise of ``Features``."""

    rows: Matrix
    Z: Matrix
    noise: Any


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


@np.errstate(all="ignore")  # what is not finite is looked for in the result
def independent(features: Features, matrices: Matrices, known: Known) -> Seen:
    """A step by rows of independent noise."""
    A, rows = matrices.A, features.rows
    lane = Lane(A.size * A.shape[1])
    gram = lane.beside(lambda: A.T @ A)
    at = inducing(features.Z, matrices.K, known)
    ahead = lane.beside(lambda: natural_step(at, gram.result(), known))
    through_Sigma = lane.beside(lambda: slope_through_Sigma(at, *ahead.result()[1:], known))
    cut = len(A) - int(SHARE * len(A))
    rest = lane.beside(lambda: pull(A[cut:], A[cut:], rows[cut:], at))
    rows_bar, Z_bar = pull(A[:cut], A[:cut], rows[:cut], at)
    eta = ahead.result()[0]
    q = moments(eta)
    bound = float(np.vdot(at.slope, gram.result())) - known.q.kl()
    rest_bar, Z_rest = rest.result()
    Z_bar += through_Sigma.result()
    Z_bar += Z_rest
    return Seen(bound, eta, q, Bars(np.concatenate([rows_bar, rest_bar]), Z_bar, None))


# ---------------------------------------------------------------------------------------------
# The inducing inputs


class Inducing(NamedTuple):
    """Z (m, d), K = k(Z, Z), L⁻¹ of the factor of Σ, and Ḡ (m + 1, m + 1)."""

    Z: Matrix
    K: Matrix
    L_inverse: Matrix
    slope: Matrix


def with_jitter(K: Matrix, jitter: float) -> Matrix:
    """K + jitter·I (m, m)."""
    K = K.copy()
    K.flat[:: len(K) + 1] += jitter
    return K


def inducing(Z: Matrix, K: Matrix, known: Known) -> Inducing:
    """Factor Σ, and find the slope that q(v) gives the bound in G."""
    m, q, w = len(Z), known.q, known.weight
    L_inverse = inverse(cholesky(with_jitter(K, known.jitter)))
    slope = np.empty((m + 1, m + 1), K.dtype)
    np.multiply(inner_congruence(L_inverse, q.excess()), -0.5 * w, out=slope[:m, :m])
    slope[:m, m] = slope[m, :m] = (0.5 * w) * (q.mean @ L_inverse)
    slope[m, m] = -0.5 * w
    return Inducing(Z, K, L_inverse, slope)


def natural_step(at: Inducing, G: Matrix, known: Known) -> tuple[NaturalParameters, Matrix, Matrix]:
    """η of q(v) after a step of size ρ towards what G says; psi = L⁻¹QL⁻ᵀ and p = L⁻¹g."""
    m, eta, rho, w = len(at.Z), known.eta, known.rho, known.weight
    psi = outer_congruence(at.L_inverse, G[:m, :m])
    projection = at.L_inverse @ G[:m, m]
    after = NaturalParameters(
        (1.0 - rho) * eta.precision_mean + (rho * w) * projection,
        (1.0 - rho) * eta.precision + (rho * w) * psi,
    )
    after.precision.flat[:: m + 1] += rho
    return after, psi, projection


def slope_through_Sigma(at: Inducing, psi: Matrix, projection: Matrix, known: Known) -> Matrix:
    """The slope in Z (m, d) through Σ.

    With N = w(E psi − m_v pᵀ) and Φ the lower triangle with half its diagonal, the derivative of
    the Cholesky factor gives Σ̄ = L⁻ᵀ sym(Φ(N)) L⁻¹; 2 sym(Φ(N)) is N's lower triangle, mirrored.
    """
    left = np.column_stack([known.q.excess(), -known.q.mean])
    H = inner_congruence(at.L_inverse, mirrored_product(left, np.vstack([psi, projection])))
    H *= at.K
    return known.weight * drift(H, at.Z, at.Z)[0]


# ---------------------------------------------------------------------------------------------
# Back through kernel matrices


def drift(H: Matrix, R: Matrix, Z: Matrix) -> tuple[Matrix, Matrix]:
    """Σ_j H_ij (z_j − r_i) (n, d) and Σ_j H_ij (n,), for R (n, d) and Z (m, d).

    With H = W̄ ∘ W these are the slopes in r_i and in log s_i of W = s_i exp(−½‖r_i − z_j‖²), whose
    slope is W̄; for one in z_j, with Hᵀ, Z and R.
    """
    ones = np.ones((len(Z), 1), Z.dtype)
    sums = H @ np.concatenate([Z, ones], axis=1)
    return sums[:, :-1] - sums[:, -1:] * R, sums[:, -1]


def over_scale(total: Matrix, scale: Matrix) -> Matrix:
    """total / scale, and zero for a row that pads, whose scale is zero."""
    return np.divide(total, scale, out=np.zeros_like(total), where=scale != 0.0)


def pull(A: Matrix, V: Matrix, rows: Matrix, at: Inducing) -> tuple[Matrix, Matrix]:
    """Slopes in ``rows`` (n, d + 2) and Z (m, d) of a bound with the slope Ā = 2VḠ."""
    m, d = at.Z.shape
    double, R = 2.0 * at.slope, rows[:, :d]
    rows_bar, Z_bar = np.empty_like(rows), np.zeros_like(at.Z)
    for first in range(0, len(A), ROWS):
        part = slice(first, first + ROWS)
        A_bar = V[part] @ double
        rows_bar[part, d + 1] = A_bar[:, m]
        H = A_bar[:, :m]
        H *= A[part, :m]
        rows_bar[part, :d], rows_bar[part, d] = drift(H, R[part], at.Z)
        Z_bar += drift(H.T, at.Z, R[part])[0]
    rows_bar[:, d] = over_scale(rows_bar[:, d], rows[:, d])
    return rows_bar, Z_bar
