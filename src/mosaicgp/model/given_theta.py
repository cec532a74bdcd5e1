"""Statistics of blocks given draws of θ, with gradients derived by hand.

Given θ the expectations are plain kernel matrices, K = k(X, Z) and K_bb = k(X, X), and a block
enters the bound through Q = KᵀC⁻¹K, g = KᵀC⁻¹y and its constant. Drawn before anything is seen of
the block, θ = ν + √ξ·e leaves the bound and its gradient unbiased: one draw for each row where the
noise is independent (rows then meet only in sums), one for each block where it is correlated.

The functions below carry their own derivatives: reverse-mode differentiation through a
factorisation costs several times what the formulas do (docs/mathematics.md, "Cheap gradients").
"""

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from mosaicgp.model.bound import Block, Parameters, Statistics
from mosaicgp.model.dense import dense_statistics, probed_statistics
from mosaicgp.model.kernel import cross, gram, inducing_gram, squared_distance
from mosaicgp.model.linalg import (
    cholesky,
    gram_of_rows,
    inner_congruence,
    mirrored_product,
    outer_congruence,
    transposed,
    triangular_inverse,
)
from mosaicgp.model.noise import Noise
from mosaicgp.model.posterior import nodes_to_theta

# Signs a row that traces are estimated from, and the rows of a block from which that is worth it.
# With more than PROBE_INPUTS inputs nothing is: most of them hardly matter to k^ε, and their faint
# slopes drown in signs. Of 8 inputs they do not, of 280 they do; what lies between was not measured
# (docs/mathematics.md, "Cheap gradients").
PROBES, PROBE_FROM, PROBE_INPUTS = 16, 64, 32


def nodes_shape(noise: Noise, n_blocks: int, block_size: int, d: int) -> tuple[int, ...]:
    """Shape of the standard-normal numbers that a step draws for θ."""
    return (n_blocks, 1 if noise.correlated else block_size, d + 1)


def mirrored_nodes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard-normal numbers of that shape, the latter half of the draws minus the former.

    Each draw by itself is standard normal, so a step stays unbiased; what two blocks, or two halves
    of the rows, have in common of the response to a draw cancels to first order.
    """
    *before, numbers = shape
    n = prod(before)
    half = rng.standard_normal((n - n // 2, numbers))
    return np.concatenate([half, -half[: n // 2]]).reshape(shape)


def probing_signs(
    rng: np.random.Generator, noise: Noise, shape: tuple[int, int, int]
) -> np.ndarray | None:
    """Signs (n_blocks, block_size, PROBES), from which a step estimates traces of blocks X of that
    ``shape``; None where it has no need of them, or where they save nothing or cost too much."""
    n_blocks, block_size, d = shape
    if not noise.correlated or block_size < PROBE_FROM or d > PROBE_INPUTS:
        return None
    return rng.choice((-1.0, 1.0), size=(n_blocks, block_size, PROBES))


def sampled_statistics(
    parameters: Parameters,
    blocks: Block,
    nodes: Array,
    noise: Noise,
    jitter: Array,
    probes: Array | None = None,
) -> Statistics:
    """Summed statistics of blocks stacked in front, at the θ of ``nodes`` (``nodes_shape``).

    With ``probes`` (``probing_signs``) the constant and the slopes are estimates without bias.
    """
    if noise.correlated:
        Q, g, constant = _correlated(parameters, blocks, nodes, noise, jitter, probes)
    else:
        Q, g, constant = _independent(parameters, blocks, nodes, noise, jitter)
    psi, projection = whiten(inducing_gram(parameters.Z, jitter), Q, g)
    n = jnp.sum(blocks.mask)
    return Statistics(psi, projection, constant - 0.5 * n * jnp.log(2 * jnp.pi))


def _independent(
    parameters: Parameters, blocks: Block, nodes: Array, noise: Noise, jitter: Array
) -> tuple[Array, Array, Array]:
    """Q (m, m), g (m,) and the constant; all rows at once, each with its own θ."""
    theta = parameters.theta
    X, y, mask = (part.reshape(-1, *part.shape[2:]) for part in blocks)
    lam, sigma_f = nodes_to_theta(nodes.reshape(len(y), -1), theta)
    variance = noise.marginal(noise.prepare(parameters.noise, jitter), X)
    root = mask / jnp.sqrt(variance)
    Q, g = row_statistics(X * lam, parameters.Z, root * sigma_f, root * y)
    second = theta.alpha**2 + theta.beta
    constant = -0.5 * jnp.sum(mask * jnp.log(variance) + root**2 * (y**2 + second))
    return Q, g, constant


def _correlated(
    parameters: Parameters,
    blocks: Block,
    nodes: Array,
    noise: Noise,
    jitter: Array,
    probes: Array | None,
) -> tuple[Array, Array, Array]:
    """The same, with one θ a block."""
    state = noise.prepare(parameters.noise, jitter)

    def one(block: Block, node: Array, signs: Array | None) -> tuple[Array, Array, Array]:
        X, y, mask = block
        (lam,), (sigma_f,) = nodes_to_theta(node, parameters.theta)
        K = cross(X, parameters.Z, lam, sigma_f) * mask[:, None]
        K_bb = gram(X, lam, sigma_f**2) * (mask[:, None] * mask[None, :])
        C = noise.covariance(state, X, mask)
        if signs is None:
            return dense_statistics(K, K_bb, C, y)[:3]
        return probed_statistics(K, K_bb, C, y, signs)

    if blocks.X.shape[0] == 1:
        return one(*jax.tree.map(lambda part: part[0], (blocks, nodes, probes)))
    # One block after the other: batched factorisations can wait for each other for ever on a
    # machine with few threads.
    parts = lax.map(lambda each: one(*each), (blocks, nodes, probes))
    Q, g, constant = (jnp.sum(part, axis=0) for part in parts)
    return Q, g, constant


# ---------------------------------------------------------------------------------------------
# Functions with derivatives of their own


@jax.custom_vjp
def row_statistics(R: Array, Z: Array, scale: Array, t: Array) -> tuple[Array, Array]:
    """VVᵀ (m, m) and Vt (m,) for V = scale_i exp(−½‖z_j − r_i‖²) (m, n), R (n, d), Z (m, d).

    Rows of the table are columns here: XLA takes twice as long for a product whose first factor is
    transposed.
    """
    return _row_forward(R, Z, scale, t)[0]


_RowSaved = tuple[Array, Array, Array, Array, Array]


def _row_forward(
    R: Array, Z: Array, scale: Array, t: Array
) -> tuple[tuple[Array, Array], _RowSaved]:
    V = scale * jnp.exp(-0.5 * squared_distance(Z, R))
    return (gram_of_rows(V), V @ t), (R, Z, scale, t, V)


def _row_backward(saved: _RowSaved, bars: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
    R, Z, scale, t, V = saved
    Q_bar, g_bar = bars
    H = (2.0 * Q_bar @ V + g_bar[:, None] * t) * V
    by_row = jnp.sum(H, axis=0)
    R_bar = (transposed(Z) @ H).T - by_row[:, None] * R
    Z_bar = H @ R - jnp.sum(H, axis=1)[:, None] * Z
    real = scale != 0.0  # not a row that pads
    scale_bar = jnp.where(real, by_row, 0.0) / jnp.where(real, scale, 1.0)
    return R_bar, Z_bar, scale_bar, g_bar @ V


row_statistics.defvjp(_row_forward, _row_backward)


@jax.custom_vjp
def whiten(Sigma: Array, Q: Array, g: Array) -> tuple[Array, Array]:
    """L⁻¹QL⁻ᵀ (m, m) and L⁻¹g (m,) with Σ = LLᵀ, for symmetric Q."""
    return _whiten_forward(Sigma, Q, g)[0]


def _whiten_forward(
    Sigma: Array, Q: Array, g: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    L_inv = triangular_inverse(cholesky(Sigma))
    psi = outer_congruence(L_inv, Q)
    projection = L_inv @ g
    return (psi, projection), (L_inv, psi, projection)


def _whiten_backward(
    saved: tuple[Array, Array, Array], bars: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    # With N = −(ψ̄ + ψ̄ᵀ)ψ − p̄pᵀ and Φ the lower triangle with half its diagonal, the derivative of
    # the Cholesky factor gives Σ̄ = L⁻ᵀ sym(Φ(N)) L⁻¹.
    L_inv, psi, projection = saved
    psi_bar, projection_bar = bars
    left = jnp.column_stack([-2.0 * psi_bar, -projection_bar])
    inner = mirrored_product(left, jnp.vstack([psi, projection]))
    Sigma_bar = inner_congruence(L_inv, inner)
    return Sigma_bar, inner_congruence(L_inv, psi_bar), projection_bar @ L_inv


whiten.defvjp(_whiten_forward, _whiten_backward)
