"""What a batch is to the model given draws of θ: kernel matrices, and the few numbers behind them.

Given θ the expectations are plain kernel matrices. Drawn before anything is seen of a block,
θ = ν + √ξ·e leaves the bound and its gradient unbiased: one draw for each row where the noise is
independent (rows then meet only in sums), one for each block where it is correlated.

``features`` are what automatic differentiation goes through; ``matrices`` follow from them, and
their derivatives and all that is dense are written out in ``model/dense.py``.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from mosaicgp.model.bound import Block, Parameters
from mosaicgp.model.kernel import squared_distance, unit_gram
from mosaicgp.model.noise import Noise, NoiseState, Residual
from mosaicgp.model.posterior import nodes_to_theta


class Features(NamedTuple):
    """Of every row of a batch, ``rows`` (n, d + 2): R = Λx, the scale that multiplies its kernel
    values, and its target; Z (m, d); the part of the bound that depends on nothing else; and where
    the noise is correlated, the ``Residual`` of all rows or, if it has none, C (b, n_b, n_b).
    Arrays of jax or, read from it, of NumPy."""

    rows: Any
    Z: Any
    constant: Any
    noise: Any


class Matrices(NamedTuple):
    """A = [W, t] (n, m + 1) with W = scale_i exp(−½‖r_i − z_j‖²), and K = k(Z, Z) (m, m).

    Where the noise is correlated, K_bb (b, n_b, n_b); of its ``Residual``, K^ε among the rows of
    each block (b, n_b, n_b), between rows and U (n, m), and among U (m, m)."""

    A: Any
    K: Any
    K_bb: Any = None
    eps_bb: Any = None
    eps_U: Any = None
    eps_UU: Any = None


def nodes_shape(noise: Noise, n_blocks: int, block_size: int, d: int) -> tuple[int, ...]:
    """Shape of the standard-normal numbers that a step draws for θ."""
    return (n_blocks, 1 if noise.correlated else block_size, d + 1)


def features(
    parameters: Parameters, blocks: Block, nodes: Array, noise: Noise, jitter: Array
) -> Features:
    """The features of blocks stacked in front, at the θ of ``nodes`` (``nodes_shape``)."""
    theta = parameters.theta
    d = blocks.X.shape[2]
    lam, sigma_f = nodes_to_theta(nodes.reshape(-1, d + 1), theta)
    X, y, mask = (part.reshape(-1, *part.shape[2:]) for part in blocks)
    size = jnp.sum(mask) * jnp.log(2 * jnp.pi)
    if noise.correlated:
        R = (blocks.X * lam[:, None, :]).reshape(-1, d)
        scale = (blocks.mask * sigma_f[:, None]).reshape(-1)
        behind: Any = noise.residual(parameters.noise, X, mask)
        if behind is None:
            behind = _covariances(blocks, noise, noise.prepare(parameters.noise, jitter))
        rows = jnp.column_stack([R, scale, y])
        return Features(rows, parameters.Z, -0.5 * size, behind)
    variance = noise.marginal(noise.prepare(parameters.noise, jitter), X)
    root = mask / jnp.sqrt(variance)
    rows = jnp.column_stack([X * lam, root * sigma_f, root * y])
    second = theta.alpha**2 + theta.beta
    constant = -0.5 * (size + jnp.sum(mask * jnp.log(variance) + root**2 * second))
    return Features(rows, parameters.Z, constant, None)


def matrices(found: Features, n_blocks: int) -> Matrices:
    """The kernel matrices of the features of so many blocks."""
    rows, Z, _, noise = found
    d = Z.shape[1]
    W = _scaled_cross(rows, Z)
    A = jnp.concatenate([W, rows[:, d + 1 :]], axis=1)
    plain = Matrices(A, unit_gram(Z))
    if noise is None:
        return plain
    plain = plain._replace(K_bb=_scaled_grams(rows[:, : d + 1], n_blocks))
    if not isinstance(noise, Residual):
        return plain
    return plain._replace(
        eps_bb=_scaled_grams(noise.rows, n_blocks),
        eps_U=_scaled_cross(noise.rows, noise.U),
        eps_UU=unit_gram(noise.U),
    )


def _scaled_cross(rows: Array, Z: Array) -> Array:
    """s_i exp(−½‖r_i − z_j‖²) (n, m), the rows holding r_i, s_i and perhaps more."""
    d = Z.shape[1]
    return rows[:, d : d + 1] * jnp.exp(-0.5 * squared_distance(rows[:, :d], Z))


def _scaled_grams(rows: Array, n_blocks: int) -> Array:
    """s_i s_j exp(−½‖r_i − r_j‖²) (b, n, n) among the rows (r_i, s_i) of each block."""
    by_block = rows.reshape(n_blocks, -1, rows.shape[1])
    R, s = by_block[..., :-1], by_block[..., -1]
    return jax.vmap(unit_gram)(R) * (s[:, :, None] * s[:, None, :])


def _covariances(blocks: Block, noise: Noise, state: NoiseState) -> Array:
    """C of every block (b, n, n)."""
    if blocks.X.shape[0] == 1:  # a loop would only be compiled in vain
        return noise.covariance(state, blocks.X[0], blocks.mask[0])[None]
    # One block after the other: batched factorisations can wait for each other for ever on a
    # machine with few threads.
    return lax.map(lambda pair: noise.covariance(state, *pair), (blocks.X, blocks.mask))
