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
from mosaicgp.model.linalg import cholesky, inner_congruence, triangular_inverse, upper_root
from mosaicgp.model.noise import Noise
from mosaicgp.model.posterior import InducingPosterior, ThetaPosterior

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


def quick_moments(state: PredictiveState, X_new: Array) -> tuple[Array, Array]:
    """Mean and variance of f* at each row (n,), (n,), with one triangular product of n × m × m.

    With P = root rootᵀ the variance over q(λ) is (α² + β)[1 − ωᵀPω − Tr(P cov k) + var(kᵀΣ⁻¹m)],
    and β's share. The first order of the last term costs n·m·d and is taken; Tr(P cov k) lies
    between 0 and Σξx², near Σξx² ωᵀPω, which takes its place. ``quick_error`` bounds what is wrong.
    """
    theta, Z = state.parameters.theta, state.parameters.Z
    unit = unit_omega(X_new, Z, theta)
    h = Z.shape[0] // 2
    taken = jnp.sum((unit[:, :h] @ state.root[:h, :h]) ** 2, axis=1)
    taken = taken + jnp.sum((unit @ state.root[:, h:]) ** 2, axis=1)
    weights = state.white @ state.q.v_mean
    mean_and_slopes = unit @ jnp.column_stack([weights, weights[:, None] * Z])
    mean, slopes = mean_and_slopes[:, 0], mean_and_slopes[:, 1:]
    square = theta.xi * X_new**2
    slope = (theta.nu * X_new * mean[:, None] - slopes) / (1.0 + square)
    of_mean = jnp.sum(square * slope**2, axis=1)
    # Tr(P cov k) can be at most what ωᵀPω leaves of one, and so the variance stays positive.
    correction = jnp.minimum(jnp.sum(square, axis=1) * taken, 1.0 - taken)
    second = theta.alpha**2 + theta.beta
    variance = second * (1.0 - taken - correction + of_mean) + theta.beta * mean**2
    return theta.alpha * mean, _above_rounding(variance, second)


def theta_spread(X: NDArray[np.float64], xi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_k ξ_k x_k² at each row (n,): how far q(λ) moves a row in the space of Z, squared."""
    return X**2 @ xi


def quick_error(spread: NDArray[np.float64], v_square: float) -> NDArray[np.float64]:
    """A bound on how wrong ``quick_moments`` has the variance, over α² + β, at ``theta_spread``.

    ``v_square`` is mᵀΣ⁻¹m. The first term is the Poincaré inequality of q(λ) with derivatives of a
    process of unit variance, the second its like of second order (docs/mathematics.md).
    """
    return spread + 1.5 * spread**2 * v_square


def first_order_error(spread: NDArray[np.float64], v_square: float) -> NDArray[np.float64]:
    """The same for ``moments`` with ``narrow``, which leaves out the second order of all terms."""
    return 1.5 * spread**2 * (1.0 + v_square)


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
