"""Ω, Υ and Ψ: expectations over q(θ) of K_XZ, K_XX and K_ZX C⁻¹ K_XZ.

Write s² = 1 + ξx², u = (νx − z)/s per dimension. Mehler's formula gives the second moment as the
product of the first moments times a correction that is one at ξ = 0 (docs/mathematics.md, "Mehler
expansion"):

    E[k(z,x) k(x',z')] = (1 + β/α²) ω(z,x) ω(z',x') exp(D),
    D = Σ_k −½log(1−ρ²) + [ρuu' − ½ρ²(u² + u'²)] / (1−ρ²),    ρ = ξxx' / ss'.

So Ψ is its order-0 part, a plain product of whitened matrices, plus a remainder that carries
``expm1(D)``. Both are computed without cancellation, and the order-0 part, which is nearly all of
Ψ, meets Σ⁻¹ only as L⁻¹Ω, where it is well conditioned.

Two routes to Ψ share one interface, ``psi``: ``ClosedForm`` (the sum above) and ``Mehler`` (its
expansion in powers of ξ, every term positive semidefinite).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.linalg import solve_triangular

from mosaicgp.model.kernel import right_whiten
from mosaicgp.model.noise import DiagonalFactor, Factor
from mosaicgp.model.posterior import ThetaPosterior

# Chunks that stay in a core's cache; larger ones are no faster.
DEFAULT_MEMORY = 2 * 2**20

# Inputs whose factors of Υ are multiplied before their logarithm is taken: few enough that the
# product stays finite for inputs that are a thousand standard deviations apart.
UPSILON_GROUP = 8


@dataclass(frozen=True)
class ClosedForm:
    """The exact sum; no temporary is larger than ``memory`` bytes, and few are alive at once."""

    memory: int = DEFAULT_MEMORY


@dataclass(frozen=True)
class Mehler:
    """All terms of total degree at most ``order``."""

    order: int = 1


Route = ClosedForm | Mehler


def unit_omega(X: Array, Z: Array, q: ThetaPosterior) -> Array:
    """E[K_XZ] at σ_f = 1 (n, m); α times this is Ωᵀ."""
    s2 = 1.0 + q.xi * X**2
    centre = q.nu * X
    # −½ Σ_k (νx − z)²/s² + log s² as one product, so that nothing of size n·m·d is formed.
    constant = -0.5 * jnp.sum(centre**2 / s2 + jnp.log(s2), axis=1)[:, None]
    of_rows = jnp.concatenate([centre / s2, -0.5 / s2, constant], axis=1)
    of_Z = jnp.concatenate([Z, Z**2, jnp.ones((Z.shape[0], 1), dtype=Z.dtype)], axis=1)
    return jnp.exp(jnp.minimum(of_rows @ of_Z.T, 0.0))


def omega(X: Array, Z: Array, q: ThetaPosterior) -> Array:
    """Ωᵀ = E[K_XZ] (n, m)."""
    return q.alpha * unit_omega(X, Z, q)


def upsilon(A: Array, B: Array, q: ThetaPosterior) -> Array:
    """Υ = E[K_AB] (n, m); rows are data, and no derivative is taken in them."""
    A, B = lax.stop_gradient((A, B))
    return (q.alpha**2 + q.beta) * unit_upsilon(A, B, q.nu, q.xi)


@jax.custom_vjp
def unit_upsilon(A: Array, B: Array, nu: Array, xi: Array) -> Array:
    """Π_k (1 + ξδ²)^−½ exp(−½ν²δ² / (1 + ξδ²)), δ = a − b, for all pairs of rows (n, m).

    One logarithm serves several inputs, and the derivative, written out, needs none.
    """
    return _upsilon_forward(A, B, nu, xi)[0]


_UpsilonSaved = tuple[Array, Array, Array, Array, Array]


def _upsilon_forward(A: Array, B: Array, nu: Array, xi: Array) -> tuple[Array, _UpsilonSaved]:
    def add(exponent: Array, group: tuple[Array, ...]) -> tuple[Array, None]:
        determinant = jnp.ones_like(exponent)
        for a, b, nu_k, xi_k in zip(*group, strict=True):
            delta2 = (a[:, None] - b[None, :]) ** 2
            s2 = 1.0 + xi_k * delta2
            exponent, determinant = exponent + nu_k**2 * delta2 / s2, determinant * s2
        return exponent + jnp.log(determinant), None

    start = jnp.zeros((A.shape[0], B.shape[0]), dtype=A.dtype)
    exponent, _ = lax.scan(add, start, _grouped(A, B, nu, xi))
    value = jnp.exp(-0.5 * exponent)
    return value, (A, B, nu, xi, value)


def _grouped(A: Array, B: Array, nu: Array, xi: Array) -> tuple[Array, ...]:
    """The inputs in groups, in front, the last filled up with some that change nothing."""
    d = A.shape[1]
    size = min(d, UPSILON_GROUP)
    pad = -d % size
    columns = (jnp.pad(A.T, ((0, pad), (0, 0))), jnp.pad(B.T, ((0, pad), (0, 0))))
    numbers = (jnp.pad(nu, (0, pad)), jnp.pad(xi, (0, pad)))
    return tuple(part.reshape(-1, size, *part.shape[1:]) for part in columns + numbers)


def _upsilon_backward(saved: _UpsilonSaved, bar: Array) -> tuple[Array, Array, Array, Array]:
    A, B, nu, xi, value = saved
    H = bar * value

    def one(column: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        a, b, nu_k, xi_k = column
        delta2 = (a[:, None] - b[None, :]) ** 2
        ratio = delta2 / (1.0 + xi_k * delta2)
        first, second = jnp.sum(H * ratio), jnp.sum(H * ratio**2)
        return -nu_k * first, 0.5 * (nu_k**2 * second - first)

    nu_bar, xi_bar = lax.map(one, (A.T, B.T, nu, xi))
    return jnp.zeros_like(A), jnp.zeros_like(B), nu_bar, xi_bar


unit_upsilon.defvjp(_upsilon_forward, _upsilon_backward)


def psi(
    X: Array,
    mask: Array,
    Z: Array,
    factor: Factor,
    q: ThetaPosterior,
    route: Route,
    L: Array,
    beyond: Array | bool = True,
) -> Array:
    """L⁻¹ΨL⁻ᵀ of one block (m, m), by the given route; L = I gives Ψ itself.

    ``beyond``: whether an expansion goes beyond order zero now.
    """
    unit = unit_omega(X, Z, q) * mask[:, None]
    white = factor.whiten(right_whiten(unit, L))
    total = white.T @ white
    if route != Mehler(0):
        if isinstance(route, ClosedForm):
            rest = _remainder(X, Z, unit, factor, q, route.memory)
        else:
            terms = partial(_mehler_terms, route.order, X)
            rest = where_wanted(beyond, terms, (Z, unit, factor, q), Z.shape[0])
        total = total + solve_triangular(L, solve_triangular(L, rest, lower=True).T, lower=True)
    return (q.alpha**2 + q.beta) * total


# ---------------------------------------------------------------------------------------------
# The Mehler expansion


def where_wanted(
    wanted: Array | bool, terms: Callable[..., Array], arguments: tuple, m: int
) -> Array:
    """The terms (m, m), or zero without their cost where a traced ``wanted`` is false."""
    if isinstance(wanted, bool):
        assert wanted, "to leave them out for good, ask for another route"
        return terms(*arguments)
    zero = jnp.zeros((m, m), dtype=jax.tree.leaves(arguments)[0].dtype)
    # Computed again in the backward pass: to be saved, they would need room even when left out.
    return jax.checkpoint(lambda *parts: lax.cond(wanted, terms, lambda *_: zero, *parts))(
        *arguments
    )


def multi_indices(d: int, order: int) -> list[tuple[int, ...]]:
    """Slots of every term of degree 1 to ``order``: the dimensions differentiated, repeated."""
    return [
        term
        for degree in range(1, order + 1)
        for term in combinations_with_replacement(range(d), degree)
    ]


def term_table(d: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct dimensions of each term and their degrees, zero where padded: (T, order)."""
    terms = multi_indices(d, order)
    dims = np.zeros((len(terms), order), dtype=np.int32)
    degrees = np.zeros((len(terms), order), dtype=np.int32)
    for row, term in enumerate(terms):
        for slot, dim in enumerate(sorted(set(term))):
            dims[row, slot] = dim
            degrees[row, slot] = term.count(dim)
    return dims, degrees


def _hermite_factors(u: Array, r: Array, order: int) -> Array:
    """(−r)^j He_j(u) / √j! for j = 0..order, stacked in front: (order + 1, n, m)."""
    powers = [jnp.ones_like(u), u]
    for j in range(2, order + 1):
        powers.append(u * powers[j - 1] - (j - 1) * powers[j - 2])
    return jnp.stack(
        [(-r) ** j * powers[j] / np.sqrt(float(factorial(j))) for j in range(order + 1)]
    )


def mehler_factor(X: Array, Z: Array, q: ThetaPosterior, dims: Array, degrees: Array) -> Array:
    """√(ξ^j/j!) ∂_ν^j ω / ω of one term, given its dimensions and degrees (slots,): (n, m)."""
    order = dims.shape[0]

    def slot(dim: Array, degree: Array) -> Array:
        x, z, nu, xi = X[:, dim], Z[:, dim], q.nu[dim], q.xi[dim]
        s = jnp.sqrt(1.0 + xi * x**2)
        u = (nu * x[:, None] - z[None, :]) / s[:, None]
        r = (jnp.sqrt(xi) * x / s)[:, None]
        if order == 1:  # every term has degree one
            return -r * u
        return _hermite_factors(u, r, order)[degree]

    factor = slot(dims[0], degrees[0])
    for position in range(1, order):
        factor = factor * slot(dims[position], degrees[position])
    return factor


def first_terms(X: Array, Z: Array, unit: Array, q: ThetaPosterior) -> Array:
    """√ξ_k ∂ω/∂ν_k for every k at unit amplitude (n, d, m), given ω.

    Ψ to first order is that to order zero plus (α² + β) Σ_k K_kᵀC⁻¹K_k of these.
    """
    slope = -jnp.sqrt(q.xi) * X / (1.0 + q.xi * X**2)
    factors = slope[:, :, None] * ((q.nu * X)[:, :, None] - Z.T[None])
    return unit[:, None] * factors


def _mehler_terms(
    order: int, X: Array, Z: Array, unit: Array, factor: Factor, q: ThetaPosterior
) -> Array:
    """Σ over the terms of degree 1 to ``order``, at unit amplitude (m, m)."""

    def add(total: Array, term: tuple[Array, Array]) -> tuple[Array, None]:
        white = factor.whiten(unit * mehler_factor(X, Z, q, *term))
        return total + white.T @ white, None

    dims, degrees = term_table(X.shape[1], order)
    start = jnp.zeros((Z.shape[0], Z.shape[0]), dtype=X.dtype)
    total, _ = lax.scan(jax.checkpoint(add), start, (jnp.asarray(dims), jnp.asarray(degrees)))
    return total


# ---------------------------------------------------------------------------------------------
# The closed form


def _row_features(X: Array, X2: Array, q: ThetaPosterior) -> Array:
    """Coefficients of D in the pair features below, for rows x of X and x' of X2: (5d + 1, n)."""
    s2, t2 = 1.0 + q.xi * X**2, 1.0 + q.xi * X2**2
    product = X * X2
    a = 1.0 + q.xi * (X**2 + X2**2)  # = s²t²(1 − ρ²)
    # Every difference of large numbers is taken by hand: far outside the data ρ tends to one.
    cross_term = q.xi * product / a
    square = 0.5 * (q.nu * product) ** 2 * q.xi / a * (1.0 / s2 + 1.0 / t2)
    constant = jnp.sum(0.5 * (jnp.log(s2) + jnp.log(t2) - jnp.log(a)) + square, axis=1)
    columns = [
        constant[:, None],
        -cross_term * q.nu * X2 / s2,  # z
        -cross_term * q.nu * X / t2,  # z'
        -0.5 * cross_term * q.xi * product / s2,  # z²
        -0.5 * cross_term * q.xi * product / t2,  # z'²
        cross_term,  # zz'
    ]
    return jnp.concatenate(columns, axis=1).T


def _pair_features(z: Array, z2: Array) -> Array:
    """(1, z, z', z², z'², zz') of pairs of inducing inputs: (p, 5d + 1)."""
    one = jnp.ones((z.shape[0], 1), dtype=z.dtype)
    return jnp.concatenate([one, z, z2, z**2, z2**2, z * z2], axis=1)


class PairChunks:
    """All pairs i ≤ j of inducing inputs, cut into equal chunks that bound the memory."""

    def __init__(self, m: int, d: int, n: int, memory: int) -> None:
        i, j = np.triu_indices(m)
        size = int(np.clip(memory // (8 * max(n, m, 5 * d + 1)), 1, len(i)))
        n_chunks = -(-len(i) // size)
        padding = n_chunks * size - len(i)
        self.m, self.n_pairs = m, len(i)
        # Symmetric sums count an off-diagonal pair twice and a padding pair not at all.
        weight = np.append(np.where(i == j, 1.0, 2.0), np.zeros(padding))
        self.i = np.append(i, np.zeros(padding, dtype=int)).reshape(n_chunks, size)
        self.j = np.append(j, np.zeros(padding, dtype=int)).reshape(n_chunks, size)
        self.weight = weight.reshape(n_chunks, size)

    def symmetric(self, values: Array) -> Array:
        """The (m, m) matrix whose upper triangle holds the chunked values."""
        i, j = self.i.ravel()[: self.n_pairs], self.j.ravel()[: self.n_pairs]
        flat = values.reshape(-1)[: self.n_pairs]
        upper = jnp.zeros((self.m, self.m), dtype=values.dtype).at[i, j].set(flat)
        return upper + upper.T - jnp.diag(jnp.diagonal(upper))


def pair_terms(Z: Array, left: Array, right: Array, features: Array, i: Array, j: Array) -> Array:
    """ω(z_i,x) ω(z_j,x') expm1(D) at unit amplitude, for a chunk of pairs: (p, n).

    ``left`` (m, 1 or n) and ``right`` (m, n) are the unit ω of x and of x', ``features`` their
    ``_row_features``.
    """
    # Picking rows by a product with unit vectors: its transpose is a product too, where that of
    # indexing is a scatter, ten times slower.
    pick_i, pick_j = (jax.nn.one_hot(k, Z.shape[0], dtype=Z.dtype) for k in (i, j))
    # ω ω' exp(D) is about exp(−D) where D is large, far outside the data: nothing is lost by
    # keeping the exponential from overflowing there.
    D = jnp.minimum(_pair_features(pick_i @ Z, pick_j @ Z) @ features, 300.0)
    correction = jnp.expm1(D)
    return (pick_i @ left) * (pick_j @ right) * correction


def _remainder(
    X: Array, Z: Array, unit: Array, factor: Factor, q: ThetaPosterior, memory: int
) -> Array:
    """Σ_xx' (C⁻¹)_xx' ω ω' expm1(D) at unit amplitude (m, m), symmetric."""
    chunks = PairChunks(Z.shape[0], Z.shape[1], X.shape[0], memory)
    index = (jnp.asarray(chunks.i), jnp.asarray(chunks.j))

    def over_pairs(left: Array, features: Array, weight: Array) -> Array:
        @jax.checkpoint
        def one(pair: tuple[Array, Array]) -> Array:
            return pair_terms(Z, left, unit.T, features, *pair) @ weight

        return lax.map(one, index)

    if isinstance(factor, DiagonalFactor):
        return chunks.symmetric(over_pairs(unit.T, _row_features(X, X, q), 1.0 / factor.variance))

    C_inv = factor.inverse()

    @jax.checkpoint
    def add_row(total: Array, row: tuple[Array, Array, Array]) -> tuple[Array, None]:
        x, unit_x, weight = row
        features = _row_features(jnp.broadcast_to(x, X.shape), X, q)
        return total + over_pairs(unit_x[:, None], features, weight), None

    start = jnp.zeros(chunks.i.shape, dtype=X.dtype)
    total, _ = lax.scan(add_row, start, (X, unit, C_inv))
    # Σ_xx' is symmetric in (z, z') only after summing over both orders of (x, x'), which C⁻¹,
    # symmetric, already does.
    return chunks.symmetric(total)


def quadratic_remainder(
    X: Array, Z: Array, A: Array, q: ThetaPosterior, memory: int = DEFAULT_MEMORY
) -> Array:
    """Σ_zz' A_zz' (E[k k'] − (1 + β/α²) ω ω') at each row of X, for symmetric A (m, m): (n,)."""
    unit = unit_omega(X, Z, q)
    chunks = PairChunks(Z.shape[0], Z.shape[1], X.shape[0], memory)
    features = _row_features(X, X, q)

    def add(total: Array, chunk: tuple[Array, Array, Array]) -> tuple[Array, None]:
        i, j, weight = chunk
        terms = pair_terms(Z, unit.T, unit.T, features, i, j)
        return total + (weight * A[i, j]) @ terms, None

    start = jnp.zeros(X.shape[0], dtype=X.dtype)
    index = (jnp.asarray(chunks.i), jnp.asarray(chunks.j), jnp.asarray(chunks.weight))
    total, _ = lax.scan(add, start, index)
    return (q.alpha**2 + q.beta) * total


@partial(jax.jit, static_argnames="memory")
def cross_remainder(
    X: Array, Z: Array, A: Array, q: ThetaPosterior, memory: int = DEFAULT_MEMORY
) -> Array:
    """The same between all pairs of rows of X: (n, n)."""
    unit = unit_omega(X, Z, q)
    m = Z.shape[0]
    # Every ordered pair of inducing inputs counts here, since x and x' differ.
    size = int(np.clip(memory // (8 * max(X.shape[0], m, 5 * X.shape[1] + 1)), 1, m * m))
    n_chunks = -(-(m * m) // size)
    flat = np.arange(n_chunks * size)
    i, j = np.divmod(np.minimum(flat, m * m - 1), m)
    weight = (flat < m * m).astype(float).reshape(n_chunks, size)
    index = (jnp.asarray(i.reshape(n_chunks, size)), jnp.asarray(j.reshape(n_chunks, size)))

    def row(pair: tuple[Array, Array]) -> Array:
        x, unit_x = pair
        features = _row_features(jnp.broadcast_to(x, X.shape), X, q)

        def add(total: Array, chunk: tuple[Array, Array, Array]) -> tuple[Array, None]:
            a, b, w = chunk
            terms = pair_terms(Z, unit_x[:, None], unit.T, features, a, b)
            return total + (w * A[a, b]) @ terms, None

        start = jnp.zeros(X.shape[0], dtype=X.dtype)
        return lax.scan(add, start, (*index, jnp.asarray(weight)))[0]

    return (q.alpha**2 + q.beta) * lax.map(row, (X, unit))
