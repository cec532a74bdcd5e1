"""The bound of a block, of all blocks, and collapsed at q*(s), with every constant.

A block enters only through three whitened statistics (s = Lv, Σ = LLᵀ):

    psi         L⁻¹ΨL⁻ᵀ                                                        (m, m)
    projection  L⁻¹ΩC⁻¹y                                                       (m,)
    constant    −½[n log 2π + log|C| + yᵀC⁻¹y + Tr(C⁻¹Υ)]

and its bound is L_b = constant + v_meanᵀ projection − ½Tr((S_v + v_mean v_meanᵀ − I) psi). They
add over blocks, so the bound of all data is that of the summed statistics.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from mosaicgp.model.dense import dense_statistics
from mosaicgp.model.expectations import Mehler, Route, first_order, omega, psi, upsilon
from mosaicgp.model.kernel import inducing_cholesky, right_whiten
from mosaicgp.model.linalg import cholesky, triangular_inverse
from mosaicgp.model.noise import DiagonalFactor, Noise, NoiseParameters, NoiseState
from mosaicgp.model.posterior import (
    InducingPosterior,
    NaturalParameters,
    ThetaPosterior,
    from_natural,
)

# Matrices of an expansion that are held at once; larger ones go term by term.
STACK_BYTES = 2**26
SAVED_SQUARES = 9


class Parameters(NamedTuple):
    """Everything the bound depends on beside q(s) and the data."""

    theta: ThetaPosterior
    Z: Array
    noise: NoiseParameters


class Block(NamedTuple):
    """Rows of one block: X (n, d), y (n,), mask (n,) of ones and, where padded, zeros."""

    X: Array
    y: Array
    mask: Array


class Prepared(NamedTuple):
    """What all blocks share: the factor L of Σ, its inverse, and the state of the noise."""

    L: Array
    L_inverse: Array
    noise: NoiseState


class Statistics(NamedTuple):
    """See the module's docstring."""

    psi: Array
    projection: Array
    constant: Array


def prepare(parameters: Parameters, noise: Noise, jitter: Array) -> Prepared:
    """Factor Σ and the noise kernel's inducing covariance."""
    L = inducing_cholesky(parameters.Z, jitter)
    return Prepared(L, triangular_inverse(L), noise.prepare(parameters.noise, jitter))


def block_statistics(
    parameters: Parameters,
    prepared: Prepared,
    block: Block,
    noise: Noise,
    route: Route,
) -> Statistics:
    """The statistics of one block."""
    theta, Z = parameters.theta, parameters.Z
    X, y, mask = block
    if noise.correlated and _stack_bytes(route, X.shape[0], Z) <= STACK_BYTES:
        return _by_products(parameters, prepared, block, noise, route)
    factor = noise.factor(prepared.noise, X, mask)
    white_y = factor.whiten(y[:, None])[:, 0]
    mean = right_whiten(omega(X, Z, theta) * mask[:, None], prepared.L)
    projection = factor.whiten(mean).T @ white_y
    if isinstance(factor, DiagonalFactor):
        trace = (theta.alpha**2 + theta.beta) * jnp.sum(mask / factor.variance)
    else:
        both = mask[:, None] * mask[None, :]
        trace = jnp.sum(factor.inverse() * upsilon(X, X, theta) * both)
    n = jnp.sum(mask)
    constant = -0.5 * (n * jnp.log(2 * jnp.pi) + factor.log_det() + white_y @ white_y + trace)
    return Statistics(psi(X, mask, Z, factor, theta, route, prepared.L), projection, constant)


def _stack_bytes(route: Route, n: int, Z: Array) -> float:
    """Memory of all matrices of an expansion of first order for n rows; of others, infinite."""
    m, d = Z.shape
    if not isinstance(route, Mehler) or route.order > 1:
        return jnp.inf
    return float((1 + d * route.order) * n * m * Z.dtype.itemsize)


def _saved_bytes(route: Route, blocks: Block, Z: Array, noise: Noise) -> float:
    """Memory that the backward pass of all blocks would find: the matrices of the expansion, and
    of correlated noise some nine of a block's rows by its rows."""
    rows, item = blocks.y.size, blocks.y.dtype.itemsize
    squares = SAVED_SQUARES * rows * blocks.y.shape[1] * item if noise.correlated else 0
    return _stack_bytes(route, rows, Z) + squares


def _by_products(
    parameters: Parameters, prepared: Prepared, block: Block, noise: Noise, route: Route
) -> Statistics:
    """The same for correlated noise from all matrices of the expansion at once: a few large
    products, without derivatives of factors (of independent noise they would take longer than term
    by term)."""
    theta, Z = parameters.theta, parameters.Z
    X, y, mask = block
    order = route.order if isinstance(route, Mehler) else 0
    stack = first_order(X, Z, theta, order) * mask[:, None, None]
    n, t, m = stack.shape
    white = (stack.reshape(n * t, m) @ prepared.L_inverse.T).reshape(n, t, m)
    K_bb = upsilon(X, X, theta) * (mask[:, None] * mask[None, :])
    C = noise.covariance(prepared.noise, X, mask)
    Q, g, constant = dense_statistics(white, K_bb, C, y)
    second, size = theta.alpha**2 + theta.beta, jnp.sum(mask)
    constant = constant - 0.5 * size * jnp.log(2 * jnp.pi)
    return Statistics(second * Q, theta.alpha * g, constant)


def total_statistics(
    parameters: Parameters,
    blocks: Block,
    noise: Noise,
    route: Route,
    jitter: Array,
) -> Statistics:
    """Summed statistics of all blocks, stacked in front: X (B, n, d), y (B, n), mask (B, n)."""
    prepared = prepare(parameters, noise, jitter)
    if blocks.X.shape[0] == 1:  # a loop would only be compiled in vain
        block = jax.tree.map(lambda part: part[0], blocks)
        return block_statistics(parameters, prepared, block, noise, route)

    def one(parameters: Parameters, prepared: Prepared, block: Block) -> Statistics:
        return block_statistics(parameters, prepared, block, noise, route)

    if _saved_bytes(route, blocks, parameters.Z, noise) > STACK_BYTES:
        # Recomputed in the backward pass, so that memory is that of one block.
        one = jax.checkpoint(one)

    def add(total: Statistics, block: Block) -> tuple[Statistics, None]:
        return jax.tree.map(jnp.add, total, one(parameters, prepared, block)), None

    m = parameters.Z.shape[0]
    dtype = blocks.X.dtype
    zero = Statistics(jnp.zeros((m, m), dtype), jnp.zeros(m, dtype), jnp.zeros((), dtype))
    total, _ = lax.scan(add, zero, blocks)
    return total


def data_bound(statistics: Statistics, q: InducingPosterior) -> Array:
    """Σ_i L_i: the bound without the two KL terms."""
    eye = jnp.eye(q.v_mean.shape[0], dtype=q.v_mean.dtype)
    excess = q.v_cov() + jnp.outer(q.v_mean, q.v_mean) - eye
    return (
        statistics.constant
        + q.v_mean @ statistics.projection
        - 0.5 * jnp.sum(excess * statistics.psi)
    )


def natural_target(
    statistics: Statistics, before: NaturalParameters | None = None
) -> NaturalParameters:
    """Natural parameters of q*(s) given the statistics of all data: (projection, I + psi).

    ``before`` are those of what was known before the data, in place of the prior's (0, I).
    """
    if before is not None:
        return NaturalParameters(
            before.precision_mean + statistics.projection, before.precision + statistics.psi
        )
    eye = jnp.eye(statistics.psi.shape[0], dtype=statistics.psi.dtype)
    return NaturalParameters(statistics.projection, eye + statistics.psi)


def natural_step(
    eta: NaturalParameters, statistics: Statistics, rho: Array | float
) -> NaturalParameters:
    """A natural-gradient step of size ρ towards the q*(s) of these (rescaled) statistics."""
    target = natural_target(statistics)
    return jax.tree.map(lambda old, new: (1.0 - rho) * old + rho * new, eta, target)


def optimal_inducing(
    statistics: Statistics, before: NaturalParameters | None = None
) -> InducingPosterior:
    """q*(s): S* = Σ(Σ+Ψ)⁻¹Σ, m* = Σ(Σ+Ψ)⁻¹ΩC⁻¹y, whitened."""
    return from_natural(natural_target(statistics, before))


def collapsed_bound(statistics: Statistics, before: NaturalParameters | None = None) -> Array:
    """The bound at q*(s), without KL(q(θ) ‖ p(θ)); given ``before``, that of the new data."""
    value = _log_normaliser(natural_target(statistics, before))
    if before is not None:
        value = value - _log_normaliser(before)
    return statistics.constant + 0.5 * jnp.trace(statistics.psi) + value


def _log_normaliser(eta: NaturalParameters) -> Array:
    """½hᵀP⁻¹h − ½log|P| of natural parameters (h, P)."""
    chol = cholesky(eta.precision)
    fit = jax.scipy.linalg.solve_triangular(chol, eta.precision_mean, lower=True)
    return 0.5 * (fit @ fit) - jnp.sum(jnp.log(jnp.diagonal(chol)))
