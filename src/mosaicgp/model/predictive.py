"""The test conditionals: moments of f* and y* under the fitted q(s), q(θ).

dtc, fitc, fic and pitc predict through s alone and have closed-form moments. pic conditions a
test row on its own block too; given θ that is Gaussian, and the moments over q(θ) follow from the
law of total variance over fixed nodes of θ.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from mosaicgp.model.bound import Block, Parameters, Prepared, prepare
from mosaicgp.model.expectations import (
    cross_remainder,
    mehler_factor,
    quadratic_remainder,
    term_table,
    unit_omega,
    upsilon,
)
from mosaicgp.model.kernel import cross, gram, se
from mosaicgp.model.linalg import cholesky, inner_congruence, triangular_inverse
from mosaicgp.model.noise import Noise
from mosaicgp.model.posterior import InducingPosterior, ThetaPosterior


class PredictiveState(NamedTuple):
    """All that a prediction needs beside the rows of a block.

    ``white`` (m, m) is L⁻ᵀ, and ``spread`` (m, m) the same times the root of cov(v): a row k(x, Z)
    times the first is whitened, times the second it gives what q(s) adds to the variance.
    """

    parameters: Parameters
    prepared: Prepared
    q: InducingPosterior
    white: Array
    spread: Array


def predictive_state(
    parameters: Parameters, q: InducingPosterior, noise: Noise, jitter: Array
) -> PredictiveState:
    """Factor once what every prediction shares."""
    prepared = prepare(parameters, noise, jitter)
    white = triangular_inverse(prepared.L).T
    return PredictiveState(parameters, prepared, q, white, white @ q.v_root.T)


# ---------------------------------------------------------------------------------------------
# Through s alone


def excess(state: PredictiveState) -> Array:
    """Σ⁻¹(S + mmᵀ − Σ)Σ⁻¹ (m, m)."""
    q, L_inv = state.q, state.white.T
    eye = jnp.eye(L_inv.shape[0], dtype=L_inv.dtype)
    return inner_congruence(L_inv, q.v_cov() + jnp.outer(q.v_mean, q.v_mean) - eye)


def mean_of_f(state: PredictiveState, X_new: Array) -> Array:
    """Mean of f* at each row (n,)."""
    theta = state.parameters.theta
    weights = state.white @ state.q.v_mean
    return theta.alpha * (unit_omega(X_new, state.parameters.Z, theta) @ weights)


def moments(
    state: PredictiveState, X_new: Array, bayesian: bool, narrow: bool = False
) -> tuple[Array, Array]:
    """Mean and variance of f* at each row (n,), (n,): the paper's appendix, in closed form.

    ``narrow``: q(θ) is so narrow at these rows that the expansion of the second moments of the
    kernel ends after its first order (``theta_spread``), which costs far less.
    """
    theta, Z = state.parameters.theta, state.parameters.Z
    unit = unit_omega(X_new, Z, theta)
    white = unit @ state.white
    mean = unit @ (state.white @ state.q.v_mean)
    second = theta.alpha**2 + theta.beta
    # k_** − kΣ⁻¹k + kΣ⁻¹SΣ⁻¹k and the variance that β gives the mean: each is positive.
    conditional = 1.0 - jnp.sum(white**2, axis=1) + jnp.sum((unit @ state.spread) ** 2, axis=1)
    variance = second * conditional + theta.beta * mean**2
    if bayesian and narrow:
        variance = variance + second * _first_order(X_new, Z, unit, excess(state), theta)
    elif bayesian:
        variance = variance + quadratic_remainder(X_new, Z, excess(state), theta)
    return theta.alpha * mean, _above_rounding(variance, second)


def _first_order(X: Array, Z: Array, unit: Array, A: Array, theta: ThetaPosterior) -> Array:
    """Σ_zz' A_zz' (E[k k']/σ² − ω ω') at each row (n,), to first order in ρ."""

    def add(total: Array, indices: tuple[Array, Array]) -> tuple[Array, None]:
        term = unit * mehler_factor(X, Z, theta, *indices)
        return total + jnp.sum((term @ A) * term, axis=1), None

    dims, degrees = map(jnp.asarray, term_table(Z.shape[1], 1))
    return lax.scan(add, jnp.zeros_like(X[:, 0]), (dims, degrees))[0]


def theta_spread(X: NDArray[np.float64], xi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_k ρ_k, ρ = ξx²/(1 + ξx²), at each row (n,): order p of the expansion leaves out
    about its power p + 1."""
    square = xi * X**2
    return np.sum(square / (1.0 + square), axis=1)


def joint_moments(
    state: PredictiveState, X_new: Array, bayesian: bool, order: int | None
) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) of f*.

    The second moments of the kernel come in closed form (``order`` None, cost n²m²) or as the
    Mehler expansion to the given order (cost n²m a term).
    """
    theta, Z, q = state.parameters.theta, state.parameters.Z, state.q
    unit = unit_omega(X_new, Z, theta)
    white = unit @ state.white
    mean = white @ q.v_mean
    second = theta.alpha**2 + theta.beta
    spread = unit @ state.spread
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

    With R = chol cholᵀ and V = K_bZ L⁻ᵀ: white = chol⁻ᵀ (n, n), V (n, m), its dual L⁻ᵀVᵀ (m, n),
    white_residual = chol⁻¹(y − V v_mean) (n,), and white_spread = chol⁻¹V times the root of cov(v)
    (n, m).
    """

    white: Array
    V: Array
    dual: Array
    white_residual: Array
    white_spread: Array


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
    V = (cross(X, state.parameters.Z, lam, sigma_f) * mask[:, None]) @ state.white
    root = triangular_inverse(cholesky(gram(X, lam, sigma_f**2) * both + C - V @ V.T))
    return LocalFactor(
        root.T,
        V,
        state.white @ V.T,
        root @ (y - V @ state.q.v_mean),
        (root @ V) @ state.q.v_root.T,
    )


class _Conditional(NamedTuple):
    """mean (t,), V_* (t, m), T = r chol⁻ᵀ (t, n), and what q(s) adds, spread (t, m)."""

    mean: Array
    V_new: Array
    T: Array
    spread: Array


def _condition(
    state: PredictiveState,
    lam: Array,
    sigma_f: Array,
    block: Block,
    factor: LocalFactor,
    rows: NewRows,
) -> _Conditional:
    K = cross(rows.X, state.parameters.Z, lam, sigma_f)
    prior = se(rows.X, block.X, lam, sigma_f**2) + rows.cross
    V_new = K @ state.white
    T = (prior * block.mask[None, :] - K @ factor.dual) @ factor.white
    mean = V_new @ state.q.v_mean + T @ factor.white_residual
    return _Conditional(mean, V_new, T, K @ state.spread - T @ factor.white_spread)


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
    conditional = prior - jnp.sum(c.V_new**2, axis=1) - jnp.sum(c.T**2, axis=1)
    return c.mean, _above_rounding(conditional, prior) + jnp.sum(c.spread**2, axis=1)


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
    own = gram(rows.X, lam, sigma_f**2) + C_new - c.V_new @ c.V_new.T - c.T @ c.T.T
    return LocalJoint(c.mean, own, c.spread)
