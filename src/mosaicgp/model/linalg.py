"""Dense linear algebra that knows what is triangular or symmetric.

XLA has no product for triangular or symmetric matrices. Cut into halves, such a product leaves out
the part that is zero or known by symmetry; for small matrices the cutting costs more than it saves.
"""

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular

# Matrices with fewer rows are multiplied whole, and triangles of fewer inverted by substitution.
CUT_FROM = 256
SUBSTITUTE_UP_TO = 128


def cholesky(A: Array) -> Array:
    """Lower factor of a symmetric positive definite matrix; NaN where it is not one."""
    return jnp.tril(lax.linalg.cholesky(A, symmetrize_input=False))


def upper_root(A: Array) -> Array:
    """Upper triangular F with FFᵀ = A, symmetric positive definite; NaN where it is not."""
    return jnp.flip(cholesky(jnp.flip(A)))


def triangular_inverse(L: Array) -> Array:
    """L⁻¹ of a lower triangular matrix (n, n), halved so that most of it are products."""
    n = L.shape[-1]
    if n <= SUBSTITUTE_UP_TO:
        return solve_triangular(L, jnp.eye(n, dtype=L.dtype), lower=True)
    h = n // 2
    first, second = triangular_inverse(L[:h, :h]), triangular_inverse(L[h:, h:])
    return _lower(first, -second @ (L[h:, :h] @ first), second)


def transposed(A: Array) -> Array:
    """Aᵀ laid out anew: a product with it runs at full speed, with a transposed view at half."""
    return lax.optimization_barrier(A.T)


def gram_of_columns(W: Array) -> Array:
    """WᵀW (m, m) of W (n, m)."""
    m = W.shape[1]
    if m < CUT_FROM:
        return W.T @ W
    h, W_t = m // 2, transposed(W)
    below = W_t[h:] @ W
    return _symmetric(W_t[:h] @ W[:, :h], below[:, :h], below[:, h:])


def gram_of_lower(L: Array) -> Array:
    """LᵀL of a lower triangular matrix (m, m)."""
    m = L.shape[0]
    if m < CUT_FROM:
        return L.T @ L
    h, L_t = m // 2, transposed(L)
    corner = L_t[h:, h:]
    return _symmetric(L_t[:h] @ L[:, :h], corner @ L[h:, :h], corner @ L[h:, h:])


def outer_congruence(L: Array, Q: Array) -> Array:
    """L Q Lᵀ of a lower triangular L and a symmetric Q (m, m)."""
    m = L.shape[0]
    if m < CUT_FROM:
        return L @ (Q @ L.T)
    h = m // 2
    first, above, below = L[:h, :h], L[:h, :h] @ Q[:h], L[h:] @ Q
    return _symmetric(above[:, :h] @ first.T, below[:, :h] @ first.T, below @ L[h:].T)


def inner_congruence(L: Array, A: Array) -> Array:
    """Lᵀ A L of a lower triangular L and a symmetric A (m, m)."""
    m = L.shape[0]
    if m < CUT_FROM:
        return L.T @ (A @ L)
    h = m // 2
    left, corner = L[:, :h], L[h:, h:]
    half = A @ left
    return _symmetric(left.T @ half, corner.T @ half[h:], corner.T @ (A[h:, h:] @ corner))


def _lower(first: Array, corner: Array, second: Array) -> Array:
    """The lower triangular matrix with these blocks on and below its diagonal."""
    top = jnp.pad(first, ((0, 0), (0, len(second))))
    return jnp.concatenate([top, jnp.concatenate([corner, second], axis=1)], axis=0)


def _symmetric(first: Array, corner: Array, second: Array) -> Array:
    """The symmetric matrix with these blocks on and below its diagonal."""
    top = jnp.concatenate([first, corner.T], axis=1)
    return jnp.concatenate([top, jnp.concatenate([corner, second], axis=1)], axis=0)
