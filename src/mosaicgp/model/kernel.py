"""The squared exponential kernel with one inverse length-scale per input (SE-ARD)."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from mosaicgp.model.linalg import cholesky, transposed


def squared_distance(A: Array, B: Array) -> Array:
    """Squared Euclidean distances between the rows of A (n, d) and of B (m, d): (n, m)."""
    squares = jnp.sum(A**2, axis=1)[:, None] + jnp.sum(B**2, axis=1)[None, :]
    return jnp.maximum(squares - 2.0 * A @ B.T, 0.0)


def se(A: Array, B: Array, lam: Array, variance: Array) -> Array:
    """k(a, b) = variance · exp(−½‖Λ(a − b)‖²) for all pairs of rows: (n, m)."""
    return variance * unit_cross(A * lam, B * lam)


def gram(A: Array, lam: Array, variance: Array) -> Array:
    """k(A, A) (n, n), its diagonal exact however far the rows lie from zero."""
    return variance * unit_gram(A * lam)


@jax.custom_vjp
def unit_gram(R: Array) -> Array:
    """exp(−½‖r − r'‖²) among the rows of R (n, d), with ones on the diagonal."""
    n = R.shape[0]
    exponent = -0.5 * squared_distance(R, R)
    return jnp.exp(jnp.where(jnp.eye(n, dtype=bool), 0.0, exponent))


def _unit_gram_forward(R: Array) -> tuple[Array, tuple[Array, Array]]:
    K = unit_gram(R)
    return K, (R, K)


def _unit_gram_backward(saved: tuple[Array, Array], K_bar: Array) -> tuple[Array]:
    # H = A + Aᵀ with A = K̄ ∘ K, without laying out Aᵀ.
    R, K = saved
    A = K_bar * K
    by_row = jnp.sum(A, axis=1) + jnp.sum(A, axis=0)
    return (A @ R + (transposed(R) @ A).T - by_row[:, None] * R,)


unit_gram.defvjp(_unit_gram_forward, _unit_gram_backward)


def cross(X: Array, Z: Array, lam: Array, sigma_f: Array) -> Array:
    """cov(f_x, s_z) = σ_f exp(−½‖Λx − z‖²), with Z in the rotated space: (n, m)."""
    return sigma_f * unit_cross(X * lam, Z)


@jax.custom_vjp
def unit_cross(R: Array, Z: Array) -> Array:
    """exp(−½‖r − z‖²) between the rows of R (n, d) and of Z (m, d)."""
    return jnp.exp(-0.5 * squared_distance(R, Z))


def _unit_cross_forward(R: Array, Z: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    K = unit_cross(R, Z)
    return K, (R, Z, K)


def _unit_cross_backward(saved: tuple[Array, Array, Array], K_bar: Array) -> tuple[Array, Array]:
    R, Z, K = saved
    H = K_bar * K
    R_bar = H @ Z - jnp.sum(H, axis=1)[:, None] * R
    return R_bar, (transposed(R) @ H).T - jnp.sum(H, axis=0)[:, None] * Z


unit_cross.defvjp(_unit_cross_forward, _unit_cross_backward)


def inducing_gram(Z: Array, jitter: Array) -> Array:
    """Σ = k(Z, Z) + jitter·I at unit amplitude and unit length-scale (m, m)."""
    return unit_gram(Z) + jitter * jnp.eye(Z.shape[0], dtype=Z.dtype)


def inducing_cholesky(Z: Array, jitter: Array) -> Array:
    """Lower factor L of Σ = k(Z, Z) + jitter·I at unit amplitude and unit length-scale (m, m)."""
    return cholesky(inducing_gram(Z, jitter))


def right_whiten(K: Array, L: Array) -> Array:
    """K L⁻ᵀ: rows of K (n, m) in the whitened basis of s = Lv."""
    return solve_triangular(L, K.T, lower=True).T
