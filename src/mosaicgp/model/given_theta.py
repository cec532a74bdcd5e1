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
from mosaicgp.model.noise import Noise, NoiseState
from mosaicgp.model.posterior import nodes_to_theta


class Features(NamedTuple):
    """Of every row of a batch, ``rows`` (n, d + 2): R = Λx, the scale that multiplies its kernel
    values, and its target; Z (m, d); C (b, n_b, n_b) where the noise is correlated, else None; and
    the part of the bound that depends on nothing else. Arrays of jax or, read from it, of NumPy."""

    rows: Any
    Z: Any
    C: Any
    constant: Any


class Matrices(NamedTuple):
    """A = [W, t] (n, m + 1) with W = scale_i exp(−½‖r_i − z_j‖²), K = k(Z, Z) (m, m), and K_bb
    (b, n_b, n_b) of correlated rows."""

    A: Any
    K: Any
    K_bb: Any


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
    state = noise.prepare(parameters.noise, jitter)
    X, y, mask = (part.reshape(-1, *part.shape[2:]) for part in blocks)
    size = jnp.sum(mask) * jnp.log(2 * jnp.pi)
    if noise.correlated:
        R = (blocks.X * lam[:, None, :]).reshape(-1, d)
        scale = (blocks.mask * sigma_f[:, None]).reshape(-1)
        rows = jnp.column_stack([R, scale, y])
        return Features(rows, parameters.Z, _covariances(blocks, noise, state), -0.5 * size)
    variance = noise.marginal(state, X)
    root = mask / jnp.sqrt(variance)
    rows = jnp.column_stack([X * lam, root * sigma_f, root * y])
    second = theta.alpha**2 + theta.beta
    constant = -0.5 * (size + jnp.sum(mask * jnp.log(variance) + root**2 * second))
    return Features(rows, parameters.Z, None, constant)


def matrices(found: Features) -> Matrices:
    """The kernel matrices of features."""
    d, rows = found.Z.shape[1], found.rows
    R, scale, t = rows[:, :d], rows[:, d], rows[:, d + 1]
    W = scale[:, None] * jnp.exp(-0.5 * squared_distance(R, found.Z))
    A = jnp.concatenate([W, t[:, None]], axis=1)
    K_bb = None
    if found.C is not None:
        n_blocks, n, _ = found.C.shape
        s = scale.reshape(n_blocks, n)
        K_bb = jax.vmap(unit_gram)(R.reshape(n_blocks, n, d)) * (s[:, :, None] * s[:, None, :])
    return Matrices(A, unit_gram(found.Z), K_bb)


def _covariances(blocks: Block, noise: Noise, state: NoiseState) -> Array:
    """C of every block (b, n, n)."""
    if blocks.X.shape[0] == 1:  # a loop would only be compiled in vain
        return noise.covariance(state, blocks.X[0], blocks.mask[0])[None]
    # One block after the other: batched factorisations can wait for each other for ever on a
    # machine with few threads.
    return lax.map(lambda pair: noise.covariance(state, *pair), (blocks.X, blocks.mask))
