"""The squared exponential kernel with one inverse length-scale per input (SE-ARD)."""

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular


def squared_distance(A: Array, B: Array) -> Array:
    """Squared Euclidean distances between the rows of A (n, d) and of B (m, d): (n, m)."""
    squares = jnp.sum(A**2, axis=1)[:, None] + jnp.sum(B**2, axis=1)[None, :]
    return jnp.maximum(squares - 2.0 * A @ B.T, 0.0)


def se(A: Array, B: Array, lam: Array, variance: Array) -> Array:
    """k(a, b) = variance · exp(−½‖Λ(a − b)‖²) for all pairs of rows: (n, m)."""
    return variance * jnp.exp(-0.5 * squared_distance(A * lam, B * lam))


def gram(A: Array, lam: Array, variance: Array) -> Array:
    """k(A, A) (n, n), its diagonal exact however far the rows lie from zero."""
    K = se(A, A, lam, variance)
    return jnp.fill_diagonal(K, variance, inplace=False)


def cross(X: Array, Z: Array, lam: Array, sigma_f: Array) -> Array:
    """cov(f_x, s_z) = σ_f exp(−½‖Λx − z‖²), with Z in the rotated space: (n, m)."""
    return sigma_f * jnp.exp(-0.5 * squared_distance(X * lam, Z))


def cholesky(A: Array) -> Array:
    """Lower factor of a symmetric positive definite matrix; NaN where it is not one."""
    return jnp.tril(lax.linalg.cholesky(A, symmetrize_input=False))


def inducing_cholesky(Z: Array, jitter: Array) -> Array:
    """Lower factor L of Σ = k(Z, Z) + jitter·I at unit amplitude and unit length-scale (m, m)."""
    Sigma = jnp.exp(-0.5 * squared_distance(Z, Z))
    return cholesky(Sigma + jitter * jnp.eye(Z.shape[0], dtype=Z.dtype))


def right_whiten(K: Array, L: Array) -> Array:
    """K L⁻ᵀ: rows of K (n, m) in the whitened basis of s = Lv."""
    return solve_triangular(L, K.T, lower=True).T
