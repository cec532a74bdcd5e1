"""The test conditionals: moments of f* and y* under the fitted q(s), q(θ).

dtc, fitc, fic and pitc predict through s alone and have closed-form moments. pic conditions a
test row on its own block too; given θ that is Gaussian, and the moments over q(θ) follow from the
law of total variance over fixed nodes of θ.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular

from mosaicgp.model.bound import Block, Parameters, Prepared, prepare
from mosaicgp.model.expectations import (
    cross_remainder,
    mehler_factor,
    quadratic_remainder,
    term_table,
    unit_omega,
    upsilon,
)
from mosaicgp.model.kernel import cross, gram, right_whiten, se
from mosaicgp.model.linalg import cholesky
from mosaicgp.model.noise import Noise
from mosaicgp.model.posterior import InducingPosterior


class PredictiveState(NamedTuple):
    """All that a prediction needs beside the rows of a block."""

    parameters: Parameters
    prepared: Prepared
    q: InducingPosterior


def predictive_state(
    parameters: Parameters, q: InducingPosterior, noise: Noise, jitter: Array
) -> PredictiveState:
    """Factor once what every prediction shares."""
    return PredictiveState(parameters, prepare(parameters, noise, jitter), q)


# ---------------------------------------------------------------------------------------------
# Through s alone


def excess(state: PredictiveState) -> Array:
    """Σ⁻¹(S + mmᵀ − Σ)Σ⁻¹ (m, m)."""
    q, L = state.q, state.prepared.L
    eye = jnp.eye(L.shape[0], dtype=L.dtype)
    excess = q.v_cov() + jnp.outer(q.v_mean, q.v_mean) - eye
    half = solve_triangular(L, excess, lower=True, trans="T")
    return solve_triangular(L, half.T, lower=True, trans="T")


def moments(state: PredictiveState, X_new: Array, bayesian: bool) -> tuple[Array, Array]:
    """Mean and variance of f* at each row (n,), (n,): the paper's appendix, in closed form."""
    theta = state.parameters.theta
    Z, q = state.parameters.Z, state.q
    white = right_whiten(unit_omega(X_new, Z, theta), state.prepared.L)
    mean = white @ q.v_mean
    second = theta.alpha**2 + theta.beta
    # k_** − kΣ⁻¹k + kΣ⁻¹SΣ⁻¹k and the variance that β gives the mean: each is positive.
    conditional = 1.0 - jnp.sum(white**2, axis=1) + jnp.sum((white @ q.v_root.T) ** 2, axis=1)
    variance = second * conditional + theta.beta * mean**2
    if bayesian:
        variance = variance + quadratic_remainder(X_new, Z, excess(state), theta)
    return theta.alpha * mean, _above_rounding(variance, second)


def joint_moments(
    state: PredictiveState, X_new: Array, bayesian: bool, order: int | None
) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) of f*.

    The second moments of the kernel come in closed form (``order`` None, cost n²m²) or as the
    Mehler expansion to the given order (cost n²m a term).
    """
    theta, Z, q = state.parameters.theta, state.parameters.Z, state.q
    unit = unit_omega(X_new, Z, theta)
    white = right_whiten(unit, state.prepared.L)
    mean = white @ q.v_mean
    second = theta.alpha**2 + theta.beta
    spread = white @ q.v_root.T
    covariance = upsilon(X_new, X_new, theta) + second * (spread @ spread.T - white @ white.T)
    covariance = covariance + theta.beta * jnp.outer(mean, mean)
    if bayesian and order is None:
        covariance = covariance + cross_remainder(X_new, Z, excess(state), theta)
    elif bayesian and order:
        A = excess(state)

        def add(total: Array, indices: tuple[Array, Array]) -> tuple[Array, None]:
            term = unit * mehler_factor(X_new, Z, theta, *indices)
            return total + second * (term @ A) @ term.T, None

        dims, degrees = map(jnp.asarray, term_table(Z.shape[1], order))
        covariance, _ = lax.scan(add, covariance, (dims, degrees))
    return theta.alpha * mean, 0.5 * (covariance + covariance.T)


def _above_rounding(variance: Array, scale: Array) -> Array:
    """The variance is a positive number less another; keep what rounding may take away."""
    return jnp.maximum(variance, jnp.finfo(variance.dtype).eps * scale)


# ---------------------------------------------------------------------------------------------
# Through s and the test row's own block, given θ


class LocalFactor(NamedTuple):
    """A block prepared at one θ: R = K_bb − K_bZ Σ⁻¹ K_Zb + C_bb and what meets its inverse.

    chol (n, n) is the factor of R, V = K_bZ L⁻ᵀ (n, m), white_V = chol⁻¹V and
    white_residual = chol⁻¹(y − V v_mean).
    """

    chol: Array
    V: Array
    white_V: Array
    white_residual: Array


class NewRows(NamedTuple):
    """Rows of one block to predict, X (t, d), and the noise they share with it, whatever θ is.

    ``cross`` (t, n) is cov(ε*, ε_b) and ``marginal`` (t,) the variance of ε*; zero where it is f
    that is predicted.
    """

    X: Array
    cross: Array
    marginal: Array


def new_rows(state: PredictiveState, X: Array, block: Block, noise: Noise, of_y: bool) -> NewRows:
    """Rows to predict y at, or f."""
    if of_y:
        shared = state.prepared.noise
        return NewRows(X, noise.cross(shared, X, block.X), noise.marginal(shared, X))
    t, n = X.shape[0], block.X.shape[0]
    return NewRows(X, jnp.zeros((t, n), dtype=X.dtype), jnp.zeros(t, dtype=X.dtype))


def local_factor(
    state: PredictiveState, lam: Array, sigma_f: Array, block: Block, C: Array
) -> LocalFactor:
    """Factorise one block at one θ, given the covariance C (n, n) of its noise."""
    X, y, mask = block
    both = mask[:, None] * mask[None, :]
    V = right_whiten(cross(X, state.parameters.Z, lam, sigma_f) * mask[:, None], state.prepared.L)
    chol = cholesky(gram(X, lam, sigma_f**2) * both + C - V @ V.T)
    white_V = solve_triangular(chol, V, lower=True)
    white_residual = solve_triangular(chol, y - V @ state.q.v_mean, lower=True)
    return LocalFactor(chol, V, white_V, white_residual)


class _Conditional(NamedTuple):
    """mean (t,), V_* (t, m), T = chol⁻¹rᵀ (n, t) and G (t, m), with H = G L⁻¹."""

    mean: Array
    V_new: Array
    T: Array
    G: Array


def _condition(
    state: PredictiveState,
    lam: Array,
    sigma_f: Array,
    block: Block,
    factor: LocalFactor,
    rows: NewRows,
) -> _Conditional:
    V_new = right_whiten(cross(rows.X, state.parameters.Z, lam, sigma_f), state.prepared.L)
    prior = se(rows.X, block.X, lam, sigma_f**2) + rows.cross
    r = prior * block.mask[None, :] - V_new @ factor.V.T
    T = solve_triangular(factor.chol, r.T, lower=True)
    mean = V_new @ state.q.v_mean + T.T @ factor.white_residual
    return _Conditional(mean, V_new, T, V_new - T.T @ factor.white_V)


def local_moments(
    state: PredictiveState,
    lam: Array,
    sigma_f: Array,
    block: Block,
    factor: LocalFactor,
    rows: NewRows,
) -> tuple[Array, Array]:
    """Mean and variance (t,), (t,) of f* or y* for rows of one block, given θ."""
    c = _condition(state, lam, sigma_f, block, factor, rows)
    prior = sigma_f**2 + rows.marginal
    conditional = prior - jnp.sum(c.V_new**2, axis=1) - jnp.sum(c.T**2, axis=0)
    spread = jnp.sum((c.G @ state.q.v_root.T) ** 2, axis=1)
    return c.mean, _above_rounding(conditional, prior) + spread


class LocalJoint(NamedTuple):
    """Given θ, rows of one block have mean (t,) and covariance own (t, t) + spread spreadᵀ.

    ``spread`` (t, m) is what q(s) adds, and is shared with the rows of other blocks.
    """

    mean: Array
    own: Array
    spread: Array


def local_joint(
    state: PredictiveState,
    lam: Array,
    sigma_f: Array,
    block: Block,
    factor: LocalFactor,
    rows: NewRows,
    C_new: Array,
) -> LocalJoint:
    """The joint of f* or y* for rows of one block, given θ and the covariance of their noise."""
    c = _condition(state, lam, sigma_f, block, factor, rows)
    own = gram(rows.X, lam, sigma_f**2) + C_new - c.V_new @ c.V_new.T - c.T.T @ c.T
    return LocalJoint(c.mean, own, c.G @ state.q.v_root.T)
