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
def dense_statistics(K: Array, K_bb: Array, C: Array, y: Array) -> tuple[Array, Array, Array]:
    """Σ_t K_tᵀC⁻¹K_t (m, m), K_0ᵀC⁻¹y (m,) and −½[log|C| + yᵀC⁻¹y + Tr(C⁻¹K_bb)] of one block.

    K (n, t, m) holds several matrices K_t (n, m): those of an expansion of Ψ, or one alone.
    """
    return _forward(K, K_bb, C, y)[0]


_Saved = tuple[Array, Array, Array, Array]


def _forward(
    K: Array, K_bb: Array, C: Array, y: Array
) -> tuple[tuple[Array, Array, Array], _Saved]:
    n, t, m = K.shape
    chol = cholesky(C)
    root = triangular_inverse(chol)
    C_inv = gram_of_lower(root)
    W, u = C_inv @ K.reshape(n, t * m), C_inv @ y
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol)))
    constant = -0.5 * (log_det + y @ u + jnp.sum(C_inv * K_bb))
    Q = transposed(K.reshape(n * t, m)) @ W.reshape(n * t, m)
    return (Q, K[:, 0].T @ u, constant), (K_bb, C_inv, W.reshape(n, t, m), u)


def _backward(saved: _Saved, bars: tuple[Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    K_bb, C_inv, W, u = saved
    Q_bar, g_bar, constant_bar = bars
    n, t, m = W.shape
    WQ = (W.reshape(n * t, m) @ Q_bar).reshape(n, t * m)
    Wg = W[:, 0] @ g_bar
    first = jnp.pad(jnp.outer(u, g_bar)[:, None], ((0, 0), (0, t - 1), (0, 0)))
    K_bar = 2.0 * WQ.reshape(n, t, m) + first
    # −½c̄(C⁻¹ − uuᵀ − C⁻¹K_bbC⁻¹) − Σ_t W_tQ̄W_tᵀ − sym(u(W_0ḡ)ᵀ)
    cross_term = 0.5 * constant_bar * u - Wg
    rank_one = 0.5 * (jnp.outer(u, cross_term) + jnp.outer(cross_term, u))
    of_psi = WQ @ W.reshape(n, t * m).T
    inner = congruence(C_inv, K_bb)
    C_bar = 0.5 * constant_bar * (inner - C_inv) + rank_one - of_psi
    y_bar = Wg - constant_bar * u
    return K_bar, -0.5 * constant_bar * C_inv, C_bar, y_bar


dense_statistics.defvjp(_forward, _backward)
