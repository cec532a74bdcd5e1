"""Statistics of one block of correlated noise, given its matrices, with derivatives by hand.

Reverse-mode differentiation through a factorisation costs several times what the formulas do
(docs/mathematics.md, "Cheap gradients").
"""

import jax
import jax.numpy as jnp
from jax import Array

from mosaicgp.model.linalg import (
    cholesky,
    congruence,
    gram_of_lower,
    transposed,
    triangular_inverse,
)


@jax.custom_vjp
def dense_statistics(
    K: Array, K_bb: Array, C: Array, y: Array, probes: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """KᵀC⁻¹K (m, m), KᵀC⁻¹y (m,), −½[log|C| + yᵀC⁻¹y + Tr(C⁻¹K_bb)] and C⁻¹ of one block, K (n, m).

    No derivative goes through C⁻¹: it is there for ``terms_statistics``. With ``probes`` (n, t),
    independent signs, the slope in C is an estimate without bias; all values stay exact.
    """
    return _forward(K, K_bb, C, y, probes)[0]


_Saved = tuple[Array, Array, Array, Array, Array | None]


def _forward(
    K: Array, K_bb: Array, C: Array, y: Array, probes: Array | None
) -> tuple[tuple[Array, Array, Array, Array], _Saved]:
    chol = cholesky(C)
    C_inv = gram_of_lower(triangular_inverse(chol))
    W, u = C_inv @ K, C_inv @ y
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol)))
    constant = -0.5 * (log_det + y @ u + jnp.sum(C_inv * K_bb))
    return (transposed(K) @ W, K.T @ u, constant, C_inv), (K_bb, C_inv, W, u, probes)


def _backward(
    saved: _Saved, bars: tuple[Array, Array, Array, Array]
) -> tuple[Array, Array, Array, Array, Array | None]:
    K_bb, C_inv, W, u, probes = saved
    Q_bar, g_bar, constant_bar, _ = bars
    WQ, Wg = W @ Q_bar, W @ g_bar
    K_bar = 2.0 * WQ + jnp.outer(u, g_bar)
    # −½c̄(C⁻¹ − uuᵀ − C⁻¹K_bbC⁻¹) − WQ̄Wᵀ − sym(u(Wḡ)ᵀ)
    cross_term = 0.5 * constant_bar * u - Wg
    rank_one = 0.5 * (jnp.outer(u, cross_term) + jnp.outer(cross_term, u))
    y_bar = Wg - constant_bar * u
    K_bb_bar = -0.5 * constant_bar * C_inv
    if probes is None:
        inner = congruence(C_inv, K_bb)
        C_bar = 0.5 * constant_bar * (inner - C_inv) + rank_one - WQ @ W.T
        return K_bar, K_bb_bar, C_bar, y_bar, None
    # C⁻¹K_bbC⁻¹ = E[abᵀ], a = C⁻¹K_bb z and b = C⁻¹z: columns beside those of WQ̄ and W.
    n_probes = probes.shape[1]
    b = C_inv @ probes
    a = C_inv @ (K_bb @ probes)
    weight = 0.25 * constant_bar / n_probes
    left = jnp.column_stack([WQ, -weight * a, -weight * b])
    C_bar = K_bb_bar + rank_one - left @ jnp.column_stack([W, b, a]).T
    return K_bar, K_bb_bar, C_bar, y_bar, jnp.zeros_like(probes)


dense_statistics.defvjp(_forward, _backward)


@jax.custom_vjp
def terms_statistics(K: Array, C: Array, C_inv: Array) -> Array:
    """Σ_t K_tᵀC⁻¹K_t (m, m) of several matrices K (n, t, m), given C⁻¹ without a derivative.

    First derivatives only: the second would miss how C⁻¹ depends on C.
    """
    return _terms_forward(K, C, C_inv)[0]


def _terms_forward(K: Array, C: Array, C_inv: Array) -> tuple[Array, Array]:
    n, t, m = K.shape
    W = C_inv @ K.reshape(n, t * m)
    return transposed(K.reshape(n * t, m)) @ W.reshape(n * t, m), W.reshape(n, t, m)


def _terms_backward(W: Array, Q_bar: Array) -> tuple[Array, Array, Array]:
    n, t, m = W.shape
    WQ = (W.reshape(n * t, m) @ Q_bar).reshape(n, t * m)
    C_bar = -WQ @ W.reshape(n, t * m).T
    return 2.0 * WQ.reshape(n, t, m), C_bar, jnp.zeros((n, n), dtype=W.dtype)


terms_statistics.defvjp(_terms_forward, _terms_backward)
