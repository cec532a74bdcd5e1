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
    gram_of_rows,
    halved_cholesky,
    log_det,
    solve_lower,
    solve_upper,
    transposed,
    triangular_inverse,
)


@jax.custom_vjp
def dense_statistics(
    K: Array, K_bb: Array, C: Array, y: Array
) -> tuple[Array, Array, Array, Array]:
    """KᵀC⁻¹K (m, m), KᵀC⁻¹y (m,), −½[log|C| + yᵀC⁻¹y + Tr(C⁻¹K_bb)] and C⁻¹ of one block, K (n, m).

    No derivative goes through C⁻¹: it is there for ``terms_statistics``.
    """
    return _forward(K, K_bb, C, y)[0]


_Saved = tuple[Array, Array, Array, Array]


def _forward(
    K: Array, K_bb: Array, C: Array, y: Array
) -> tuple[tuple[Array, Array, Array, Array], _Saved]:
    chol = cholesky(C)
    C_inv = gram_of_lower(triangular_inverse(chol))
    W, u = C_inv @ K, C_inv @ y
    constant = -0.5 * (log_det(chol) + y @ u + jnp.sum(C_inv * K_bb))
    return (transposed(K) @ W, K.T @ u, constant, C_inv), (K_bb, C_inv, W, u)


def _backward(
    saved: _Saved, bars: tuple[Array, Array, Array, Array]
) -> tuple[Array, Array, Array, Array]:
    K_bb, C_inv, W, u = saved
    K_bar, WQ, cross_term, y_bar = _common_slopes(W, u, *bars[:3])
    half = 0.5 * bars[2]
    C_bar = half * (congruence(C_inv, K_bb) - C_inv) + _symmetric_product([cross_term], [u])
    return K_bar, -half * C_inv, C_bar - WQ @ W.T, y_bar


def _common_slopes(
    W: Array, u: Array, Q_bar: Array, g_bar: Array, constant_bar: Array
) -> tuple[Array, Array, Array, Array]:
    """K̄, WQ̄, t = ½c̄u − Wḡ and ȳ, where W = C⁻¹K and u = C⁻¹y.

    The slope in C is −½c̄(C⁻¹ − C⁻¹K_bbC⁻¹) + sym(utᵀ) − WQ̄Wᵀ.
    """
    WQ, Wg = W @ Q_bar, W @ g_bar
    y_bar = Wg - constant_bar * u
    return 2.0 * WQ + jnp.outer(u, g_bar), WQ, 0.5 * constant_bar * u - Wg, y_bar


def _symmetric_product(left: list[Array], right: list[Array]) -> Array:
    """½(ABᵀ + BAᵀ) (n, n) of the columns of A and of B, as one product."""
    A, B = jnp.column_stack(left), jnp.column_stack(right)
    return 0.5 * jnp.column_stack([A, B]) @ jnp.column_stack([B, A]).T


dense_statistics.defvjp(_forward, _backward)


@jax.custom_vjp
def probed_statistics(
    K: Array, K_bb: Array, C: Array, y: Array, probes: Array
) -> tuple[Array, Array, Array]:
    """The first three of ``dense_statistics``, traces estimated from ``probes`` (n, t).

    With independent signs z as columns E[zzᵀ] = I, so that C⁻¹ = E[bzᵀ], Tr(C⁻¹K_bb) = E[bᵀK_bbz]
    and C⁻¹K_bbC⁻¹ = E[abᵀ], where b = C⁻¹z and a = C⁻¹K_bbz: the third number and the slopes in
    K_bb and C have the right mean, and C is factored but never inverted.
    """
    return _probed_forward(K, K_bb, C, y, probes)[0]


_Probed = tuple[Array, Array, Array, Array, Array]


def _probed_forward(
    K: Array, K_bb: Array, C: Array, y: Array, z: Array
) -> tuple[tuple[Array, Array, Array], _Probed]:
    m, t = K.shape[1], z.shape[1]
    cuts = (m, m + 1, m + 1 + t)
    chol = halved_cholesky(C)
    white = solve_lower(chol, jnp.column_stack([K, y, z, K_bb @ z]))
    V, v, white_z, white_K = jnp.split(white, cuts, axis=1)
    W, u, b, a = jnp.split(solve_upper(chol, white), cuts, axis=1)
    constant = -0.5 * (log_det(chol) + jnp.sum(v**2) + jnp.sum(white_z * white_K) / t)
    return (gram_of_rows(transposed(V)), (v.T @ V)[0], constant), (W, u[:, 0], b, a, z)


def _probed_backward(
    saved: _Probed, bars: tuple[Array, Array, Array]
) -> tuple[Array, Array, Array, Array, Array]:
    W, u, b, a, z = saved
    K_bar, WQ, cross_term, y_bar = _common_slopes(W, u, *bars)
    weighted = -0.5 * bars[2] / z.shape[1] * b
    # −½c̄(C⁻¹ − C⁻¹K_bbC⁻¹) is the mean of −½c̄ sym(b(z − a)ᵀ), −½c̄C⁻¹ that of −½c̄ sym(bzᵀ).
    C_bar = _symmetric_product([weighted, cross_term], [z - a, u]) - WQ @ W.T
    return K_bar, _symmetric_product([weighted], [z]), C_bar, y_bar, jnp.zeros_like(z)


probed_statistics.defvjp(_probed_forward, _probed_backward)


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
