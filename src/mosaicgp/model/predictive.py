"""The test conditionals: moments of f* and y* under the fitted q(s), q(θ).

dtc, fitc, fic and pitc predict through s alone and have closed-form moments. pic conditions a
test row on its own block too; given θ that is Gaussian, and the moments over q(θ) follow from the
law of total variance over fixed nodes of θ.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

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
from mosaicgp.model.linalg import cholesky, inner_congruence, triangular_inverse, upper_root
from mosaicgp.model.noise import Noise
from mosaicgp.model.posterior import InducingPosterior

# How much more than the prior's variance q(s) may have in any direction, by rounding alone.
WIDER = 1e-12


class PredictiveState(NamedTuple):
    """All that a prediction needs beside the rows of a block.

    ``white`` (m, m) is L⁻ᵀ, and ``spread`` (m, m) the same times the root of cov(v): a row k(x, Z)
    times the first is whitened, times the second it gives what q(s) adds to the variance.
    ``root`` (m, m) is upper triangular, root rootᵀ = Σ⁻¹ − Σ⁻¹SΣ⁻¹: a row times it gives what
    knowing s takes off the variance; NaN where q(s) is wider than the prior in some direction.
    """

    parameters: Parameters
    prepared: Prepared
    q: InducingPosterior
    white: Array
    spread: Array
    root: Array


def predictive_state(
    parameters: Parameters, q: InducingPosterior, noise: Noise, jitter: Array
) -> PredictiveState:
    """Factor once what every prediction shares."""
    prepared = prepare(parameters, noise, jitter)
    white = triangular_inverse(prepared.L).T
    eye = jnp.eye(white.shape[0], dtype=white.dtype)
    root = white @ upper_root((1.0 + WIDER) * eye - q.v_cov())
    return PredictiveState(parameters, prepared, q, white, white @ q.v_root.T, root)


# ---------------------------------------------------------------------------------------------
# Through s alone


def excess(state: PredictiveState) -> Array:
    """Σ⁻¹(S + mmᵀ − Σ)Σ⁻¹ (m, m)."""
    q, L_inv = state.q, state.white.T
    eye = jnp.eye(L_inv.shape[0], dtype=L_inv.dtype)
    return inner_congruence(L_inv, q.v_cov() + jnp.outer(q.v_mean, q.v_mean) - eye)


def moments(state: PredictiveState, X_new: Array, bayesian: bool) -> tuple[Array, Array]:
    """Mean and variance of f* at each row (n,), (n,): the paper's appendix, in closed form."""
    theta, Z = state.parameters.theta, state.parameters.Z
    unit = unit_omega(X_new, Z, theta)
    white = unit @ state.white
    mean = unit @ (state.white @ state.q.v_mean)
    second = theta.alpha**2 + theta.beta
    # k_** − kΣ⁻¹k + kΣ⁻¹SΣ⁻¹k and the variance that β gives the mean: each is positive.
    conditional = 1.0 - jnp.sum(white**2, axis=1) + jnp.sum((unit @ state.spread) ** 2, axis=1)
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
    """A block prepared at one θ, for new rows v = (K_*Z, K_*b + C_*b) (t, m + n).

    mean = v weights, and variance = k_** + C_** − ‖v root‖² + ‖v spread‖². ``root`` (m + n, m + n)
    is upper triangular, the inverse of the transposed factor of cov(s, y_b); ``spread`` (m + n, m)
    is what q(s) adds.
    """

    weights: Array
    root: Array
    spread: Array


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
    q, both = state.q, mask[:, None] * mask[None, :]
    V = (cross(X, state.parameters.Z, lam, sigma_f) * mask[:, None]) @ state.white
    # R = K_bb − K_bZ Σ⁻¹ K_Zb + C_bb
    R_root = triangular_inverse(cholesky(gram(X, lam, sigma_f**2) * both + C - V @ V.T))
    white_V = R_root @ V
    top = jnp.concatenate([state.white, -state.white @ white_V.T], axis=1)
    bottom = jnp.pad(R_root.T, ((0, 0), (V.shape[1], 0)))
    root = jnp.concatenate([top, bottom], axis=0)
    # What s and, given s, y_b have beside their prior mean, whitened; and their spread under q(s).
    known = jnp.concatenate([q.v_mean, R_root @ (y - V @ q.v_mean)])
    unsure = jnp.concatenate([q.v_root.T, -white_V @ q.v_root.T], axis=0)
    return LocalFactor(root @ known, root, root @ unsure)


def _covariance_with_block(
    state: PredictiveState, lam: Array, sigma_f: Array, block: Block, rows: NewRows
) -> Array:
    """v = (K_*Z, K_*b + C_*b) (t, m + n), zero at rows that pad the block."""
    K_b = se(rows.X, block.X, lam, sigma_f**2) + rows.cross
    K_Z = cross(rows.X, state.parameters.Z, lam, sigma_f)
    return jnp.concatenate([K_Z, K_b * block.mask[None, :]], axis=1)


def local_moments(
    state: PredictiveState,
    lam: Array,
    sigma_f: Array,
    block: Block,
    factor: LocalFactor,
    rows: NewRows,
) -> tuple[Array, Array]:
    """Mean and variance (t,), (t,) of f* or y* for rows of one block, given θ."""
    v = _covariance_with_block(state, lam, sigma_f, block, rows)
    prior = sigma_f**2 + rows.marginal
    own = _above_rounding(prior - jnp.sum((v @ factor.root) ** 2, axis=1), prior)
    return v @ factor.weights, own + jnp.sum((v @ factor.spread) ** 2, axis=1)


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
    v = _covariance_with_block(state, lam, sigma_f, block, rows)
    white = v @ factor.root
    own = gram(rows.X, lam, sigma_f**2) + C_new - white @ white.T
    return LocalJoint(v @ factor.weights, own, v @ factor.spread)
