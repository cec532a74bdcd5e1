"""The dense part of a step by blocks of correlated noise.

With V = C⁻¹A the slopes are Ā = 2VḠ, K̄_bb = −½wC⁻¹ and

    C̄ = C⁻¹ [½w K_bb − AḠAᵀ] C⁻¹ − ½w C⁻¹.

Noise that is a ``Residual`` is written out as well: C = D + K^ε − K^ε_U K^ε_UU⁻¹ K^ε_Uᵀ, with
P = K^ε_U K^ε_UU⁻¹, hands C̄ on as C̄ to K^ε, −2C̄P to K^ε_U, and PᵀC̄P to K^ε_UU.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from mosaicgp.model.dense import (
    Bars,
    Inducing,
    Known,
    Seen,
    drift,
    inducing,
    moments,
    natural_step,
    over_scale,
    pull,
    slope_through_Sigma,
    with_jitter,
)
from mosaicgp.model.given_theta import Features, Matrices
from mosaicgp.model.lane import Job, Lane
from mosaicgp.model.lapack import (
    Matrix,
    cholesky,
    gram_of_lower,
    inverse,
    log_det,
    mirrored_product,
)
from mosaicgp.model.noise import Residual

# The share of the rows of C̄ that the second thread computes.
SHARE = 0.4


@np.errstate(all="ignore")  # what is not finite is looked for in the result
def correlated(features: Features, matrices: Matrices, known: Known) -> Seen:
    """A step by blocks of correlated noise."""
    (rows, Z, _, noise), w = features, known.weight
    n_blocks, n, _ = matrices.K_bb.shape
    parts = [slice(b * n, b * n + n) for b in range(n_blocks)]
    lane = Lane(matrices.A.size * max(n, len(Z)))
    at = lane.beside(lambda: inducing(Z, matrices.K, known))
    explained = _explained(matrices, known.jitter, lane) if isinstance(noise, Residual) else None
    begun = []
    for b, part in enumerate(parts):
        C = noise[b] if explained is None else explained.covariance(noise, b, part)
        begun.append(_begin(matrices.A[part], matrices.K_bb[b], C, at, w, lane))
    gram = lane.beside(lambda: np.sum([block.forward.result()[1] for block in begun], axis=0))
    ahead = lane.beside(lambda: natural_step(at.result(), gram.result(), known))
    through_Sigma = lane.beside(
        lambda: slope_through_Sigma(at.result(), *ahead.result()[1:], known)
    )
    pulled = [
        lane.beside(partial(_pulled, block, rows[part], at, w))
        for part, block in zip(parts, begun, strict=True)
    ]
    C_bar = np.stack([_assembled(block, w) for block in begun])
    noise_bar = C_bar if explained is None else explained.slopes(noise, C_bar)
    eta = ahead.result()[0]
    q = moments(eta)
    bound = float(np.vdot(at.result().slope, gram.result())) - known.q.kl()
    rows_bar, Z_bar = np.empty_like(rows), through_Sigma.result()
    for part, block, job in zip(parts, begun, pulled, strict=True):
        rows_bar[part], Z_part, trace = job.result()
        Z_bar += Z_part
        bound -= 0.5 * w * (block.log_det + trace)
    return Seen(bound, eta, q, Bars(rows_bar, Z_bar, noise_bar))


class _Begun(NamedTuple):
    """A block under way: A, K_bb, C⁻¹, log|C|; V = C⁻¹A and AᵀV; and of C̄ + ½wC⁻¹ the first rows,
    up to the diagonal, and the others."""

    A: Matrix
    K_bb: Matrix
    C_inverse: Matrix
    log_det: float
    forward: Job[tuple[Matrix, Matrix]]
    upper: Job[Matrix]
    lower: Matrix


def _begin(A: Matrix, K_bb: Matrix, C: Matrix, at: Job[Inducing], w: float, lane: Lane) -> _Begun:
    def middle() -> Matrix:
        inner = mirrored_product(A @ at.result().slope, -A.T)
        inner += (0.5 * w) * K_bb
        return inner

    between = lane.beside(middle)
    chol = cholesky(C)
    C_inverse = gram_of_lower(inverse(chol))
    h = int(SHARE * len(C))

    def upper() -> Matrix:
        return C_inverse[:h] @ between.result() @ C_inverse[:, :h]

    def forward() -> tuple[Matrix, Matrix]:
        V = C_inverse @ A
        return V, A.T @ V

    jobs = lane.beside(forward), lane.beside(upper)
    lower = C_inverse[h:] @ between.result() @ C_inverse
    return _Begun(A, K_bb, C_inverse, log_det(chol), *jobs, lower)


def _assembled(block: _Begun, w: float) -> Matrix:
    """C̄ (n, n)."""
    upper, lower = block.upper.result(), block.lower
    h = len(upper)
    C_bar = (-0.5 * w) * block.C_inverse
    C_bar[:h, :h] += upper
    C_bar[h:] += lower
    C_bar[:h, h:] += lower[:, :h].T
    return C_bar


def _pulled(
    block: _Begun, rows: Matrix, at: Job[Inducing], w: float
) -> tuple[Matrix, Matrix, float]:
    """Slopes in ``rows`` and Z through A and K_bb; Tr(C⁻¹K_bb)."""
    rows_bar, Z_bar = pull(block.A, block.forward.result()[0], rows, at.result())
    R, scale = rows[:, :-2], rows[:, -2]
    by_R, total = drift(block.C_inverse * block.K_bb, R, R)
    rows_bar[:, :-2] -= w * by_R
    rows_bar[:, -2] -= w * over_scale(total, scale)
    return rows_bar, Z_bar, float(np.sum(total))


# ---------------------------------------------------------------------------------------------
# Noise that is a residual


class _Explained(NamedTuple):
    """Kernel matrices of the noise among rows of a block (b, n, n), between rows and U (b·n, m) and
    among U; K^ε_U in whitened columns, and P."""

    eps_bb: Matrix
    eps_U: Matrix
    eps_UU: Matrix
    white: Matrix
    P: Job[Matrix]

    def covariance(self, noise: Residual, b: int, part: slice) -> Matrix:
        """C of a block (n, n)."""
        white = self.white[part]
        C = self.eps_bb[b] - white @ white.T
        C.flat[:: len(C) + 1] += noise.diagonal[part]
        return C

    def slopes(self, noise: Residual, C_bar: Matrix) -> Residual:
        """Slopes in the numbers behind C, of slopes in it (b, n, n)."""
        rows, U, _ = noise
        n = C_bar.shape[1]
        rows_bar, U_bar, UU_bar = np.empty_like(rows), np.zeros_like(U), np.zeros_like(self.eps_UU)
        for b, bar in enumerate(C_bar):
            part = slice(b * n, b * n + n)
            R, scale, P = rows[part, :-1], rows[part, -1], self.P.result()[part]
            H = bar @ P
            UU_bar += P.T @ H
            H *= self.eps_U[part]
            H *= -2.0
            by_R, total = drift(H, R, U)
            U_bar += drift(H.T, U, R)[0]
            by_block, total_block = drift(bar * self.eps_bb[b], R, R)
            rows_bar[part, :-1] = by_R + 2.0 * by_block
            rows_bar[part, -1] = over_scale(total + 2.0 * total_block, scale)
        U_bar += 2.0 * drift(UU_bar * self.eps_UU, U, U)[0]
        return Residual(rows_bar, U_bar, np.diagonal(C_bar, axis1=1, axis2=2).reshape(-1))


def _explained(matrices: Matrices, jitter: float, lane: Lane) -> _Explained:
    root = inverse(cholesky(with_jitter(matrices.eps_UU, jitter)))
    white = matrices.eps_U @ root.T
    job = lane.beside(lambda: white @ root)
    return _Explained(matrices.eps_bb, matrices.eps_U, matrices.eps_UU, white, job)
