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

from mosaicgp.model.dense import dense_statistics, terms_statistics
from mosaicgp.model.expectations import (
    Mehler,
    Route,
    first_terms,
    omega,
    psi,
    unit_omega,
    upsilon,
    where_wanted,
)
from mosaicgp.model.kernel import inducing_cholesky, right_whiten
from mosaicgp.model.linalg import outer_congruence, symmetric_slope, triangular_inverse
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
    beyond: Array | bool = True,
) -> Statistics:
    """The statistics of one block; ``beyond`` as of ``psi``."""
    theta, Z = parameters.theta, parameters.Z
    X, y, mask = block
    if noise.correlated and _stack_bytes(route, X.shape[0], Z) <= STACK_BYTES:
        return _by_products(parameters, prepared, block, noise, route, beyond)
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
    of_block = psi(X, mask, Z, factor, theta, route, prepared.L, beyond)
    return Statistics(of_block, projection, constant)


def _stack_bytes(route: Route, n: int, Z: Array) -> float:
    """Memory of all matrices of an expansion of first order for n rows; of others, infinite."""
    m, d = Z.shape
    if not isinstance(route, Mehler) or route.order > 1:
        return jnp.inf
    return float((1 + d * route.order) * n * m * Z.dtype.itemsize)


def _saved_bytes(
    route: Route, blocks: Block, Z: Array, noise: Noise, beyond: Array | bool
) -> float:
    """Memory that the backward pass of all blocks would find: the matrices of the expansion, if
    they are not computed again there, and of correlated noise some nine of a block's rows by its
    rows."""
    rows, item = blocks.y.size, blocks.y.dtype.itemsize
    squares = SAVED_SQUARES * rows * blocks.y.shape[1] * item if noise.correlated else 0
    saved = route if isinstance(beyond, bool) or route != Mehler(1) else Mehler(0)
    return _stack_bytes(saved, rows, Z) + squares


def _by_products(
    parameters: Parameters,
    prepared: Prepared,
    block: Block,
    noise: Noise,
    route: Route,
    beyond: Array | bool,
) -> Statistics:
    """The same for correlated noise by a few large products, without derivatives of factors (of
    independent noise they would take longer than term by term)."""
    theta, Z = parameters.theta, parameters.Z
    X, y, mask = block
    unit = unit_omega(X, Z, theta) * mask[:, None]
    K_bb = upsilon(X, X, theta) * (mask[:, None] * mask[None, :])
    C = noise.covariance(prepared.noise, X, mask)
    Q, g, constant, C_inv = dense_statistics(unit @ prepared.L_inverse.T, K_bb, C, y)
    if route != Mehler(0):
        C_inv = lax.stop_gradient(C_inv)

        def terms(Z: Array, unit: Array, theta: ThetaPosterior, C: Array) -> Array:
            return terms_statistics(first_terms(X, Z, unit, theta), C, C_inv)

        rest = where_wanted(beyond, terms, (Z, unit, theta, C), Z.shape[0])
        Q = Q + outer_congruence(prepared.L_inverse, symmetric_slope(rest))
    second, size = theta.alpha**2 + theta.beta, jnp.sum(mask)
    constant = constant - 0.5 * size * jnp.log(2 * jnp.pi)
    return Statistics(second * Q, theta.alpha * g, constant)


def total_statistics(
    parameters: Parameters,
    blocks: Block,
    noise: Noise,
    route: Route,
    jitter: Array,
    beyond: Array | bool = True,
) -> Statistics:
    """Summed statistics of all blocks, stacked in front: X (B, n, d), y (B, n), mask (B, n)."""
    prepared = prepare(parameters, noise, jitter)
    if blocks.X.shape[0] == 1:  # a loop would only be compiled in vain
        block = jax.tree.map(lambda part: part[0], blocks)
        return block_statistics(parameters, prepared, block, noise, route, beyond)

    def one(parameters: Parameters, prepared: Prepared, block: Block) -> Statistics:
        return block_statistics(parameters, prepared, block, noise, route, beyond)

    if _saved_bytes(route, blocks, parameters.Z, noise, beyond) > STACK_BYTES:
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


@jax.custom_vjp
def _log_normaliser(eta: NaturalParameters) -> Array:
    """½hᵀP⁻¹h − ½log|P| of natural parameters (h, P)."""
    return _log_normaliser_forward(eta)[0]


def _log_normaliser_forward(eta: NaturalParameters) -> tuple[Array, InducingPosterior]:
    q = from_natural(eta)
    log_det = -2.0 * jnp.sum(jnp.log(jnp.diagonal(q.v_root)))
    return 0.5 * (eta.precision_mean @ q.v_mean - log_det), q


def _log_normaliser_backward(q: InducingPosterior, bar: Array) -> tuple[NaturalParameters]:
    second_moment = q.v_cov() + jnp.outer(q.v_mean, q.v_mean)
    return (NaturalParameters(bar * q.v_mean, -0.5 * bar * second_moment),)


_log_normaliser.defvjp(_log_normaliser_forward, _log_normaliser_backward)
