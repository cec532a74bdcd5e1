"""Dense linear algebra that knows what is triangular or symmetric.

XLA has no product for triangular or symmetric matrices. Cut into halves, such a product leaves out
the part that is zero or known by symmetry; for small matrices the cutting costs more than it saves.

Derivatives by hand in this package take the slope in a symmetric matrix to be symmetric, and give
one that is: laying out a transposed matrix takes as long as a small product.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular

# Matrices with fewer rows are multiplied whole; triangles of up to so many are inverted and solved
# with by substitution, and matrices of up to so many factored by LAPACK, on one thread. The halves
# of larger ones are worked on by different threads.
CUT_FROM = 96
SUBSTITUTE_UP_TO = 64
FACTOR_UP_TO = 256


def cholesky(A: Array) -> Array:
    """Lower factor of a symmetric positive definite matrix; NaN where it is not one."""
    return jnp.tril(lax.linalg.cholesky(symmetric_slope(A), symmetrize_input=False))


def halved_cholesky(A: Array) -> Array:
    """The same, large matrices halved so that most of it are products.

    For use inside derivatives by hand: a slope through it is not made symmetric.
    """
    n = A.shape[-1]
    if n <= FACTOR_UP_TO:
        return jnp.tril(lax.linalg.cholesky(A, symmetrize_input=False))
    h = n // 2
    first = halved_cholesky(A[:h, :h])
    corner = solve_lower(first, A[:h, h:]).T
    return _lower(first, corner, halved_cholesky(A[h:, h:] - gram_of_rows(corner)))


def log_det(L: Array) -> Array:
    """log|LLᵀ| of a triangular L."""
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(L)))


def solve_lower(L: Array, B: Array) -> Array:
    """L⁻¹B of a lower triangular L (n, n) and B (n, k), large ones halved."""
    n = L.shape[-1]
    if n <= SUBSTITUTE_UP_TO:
        return solve_triangular(L, B, lower=True)
    h = n // 2
    first = solve_lower(L[:h, :h], B[:h])
    return jnp.concatenate([first, solve_lower(L[h:, h:], B[h:] - L[h:, :h] @ first)])


def solve_upper(L: Array, B: Array) -> Array:
    """L⁻ᵀB of a lower triangular L (n, n) and B (n, k), large ones halved."""
    n = L.shape[-1]
    if n <= SUBSTITUTE_UP_TO:
        return solve_triangular(L, B, lower=True, trans="T")
    h = n // 2
    second = solve_upper(L[h:, h:], B[h:])
    return jnp.concatenate([solve_upper(L[:h, :h], B[:h] - L[h:, :h].T @ second), second])


@jax.custom_vjp
def symmetric_slope(A: Array) -> Array:
    """A itself; a slope that comes back is made symmetric."""
    return A


symmetric_slope.defvjp(lambda A: (A, None), lambda _, A_bar: (0.5 * (A_bar + A_bar.T),))


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


def gram_of_rows(V: Array) -> Array:
    """VVᵀ (m, m) of V (m, n)."""
    m = V.shape[0]
    if m < CUT_FROM:
        return V @ V.T
    h = m // 2
    below = V[h:] @ V.T
    return _symmetric(V[:h] @ V[:h].T, below[:, :h], below[:, h:])


def gram_of_lower(L: Array) -> Array:
    """LᵀL of a lower triangular matrix (m, m)."""
    m, L_t = L.shape[0], transposed(L)
    if m < CUT_FROM:
        return L_t @ L
    h = m // 2
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
    m, L_t = L.shape[0], transposed(L)
    if m < CUT_FROM:
        return L_t @ (A @ L)
    h = m // 2
    half, corner = A @ L[:, :h], L_t[h:, h:]
    below = corner @ half[h:]
    return _symmetric(L_t[:h] @ half, below, corner @ (A[h:, h:] @ L[h:, h:]))


def congruence(S: Array, A: Array) -> Array:
    """S A S of symmetric matrices (m, m)."""
    m = S.shape[0]
    half = A @ S
    if m < CUT_FROM:
        return S @ half
    h = m // 2
    below = S[h:] @ half
    return _symmetric(S[:h] @ half[:, :h], below[:, :h], below[:, h:])


def mirrored_product(A: Array, B: Array) -> Array:
    """½(Φ + Φᵀ) (m, m), Φ the lower triangle of AB with half its diagonal."""
    m = A.shape[0]
    if m < CUT_FROM:
        product = A @ B
        lower = jnp.tril(product, -1)
        return 0.5 * (lower + lower.T + jnp.diag(jnp.diagonal(product)))
    h = m // 2
    corner = 0.5 * (A[h:] @ B[:, :h])
    return _symmetric(mirrored_product(A[:h], B[:, :h]), corner, mirrored_product(A[h:], B[:, h:]))


def _lower(first: Array, corner: Array, second: Array) -> Array:
    """The lower triangular matrix with these blocks on and below its diagonal."""
    top = jnp.pad(first, ((0, 0), (0, len(second))))
    return jnp.concatenate([top, jnp.concatenate([corner, second], axis=1)], axis=0)


def _symmetric(first: Array, corner: Array, second: Array) -> Array:
    """The symmetric matrix with these blocks on and below its diagonal."""
    top = jnp.concatenate([first, corner.T], axis=1)
    return jnp.concatenate([top, jnp.concatenate([corner, second], axis=1)], axis=0)
