"""The negative log predictive density of held rows, to watch a fit by."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from mosaicgp.inference.parameters import Fixed, Free, Switches, constrain
from mosaicgp.inference.stochastic import unpacked
from mosaicgp.model.bound import Block
from mosaicgp.model.posterior import NaturalParameters, from_natural
from mosaicgp.model.predictive import (
    local_factor,
    local_moments,
    moments,
    new_rows,
    predictive_state,
)
from mosaicgp.precision import compiled


class HeldRows(NamedTuple):
    """Rows to predict, X (g, t, d), y (g, t), mask (g, t), and the training rows of each group's
    block, stacked in front; the latter are used where predictions are local."""

    rows: Block
    blocks: Block


@partial(compiled, static_argnames="switches")
def held_nlpd(
    learned: Array,
    eta: NaturalParameters,
    free: Free,
    fixed: Fixed,
    held: HeldRows,
    jitter: Array,
    switches: Switches,
) -> Array:
    """Mean of −log p(y) over the held rows, at the means of q(θ), in standardised units."""
    noise = switches.approximation.noise
    parameters = constrain(unpacked(learned, free, switches), fixed, switches)
    state = predictive_state(parameters, from_natural(eta), noise, jitter)
    lam, sigma_f = parameters.theta.nu, parameters.theta.alpha

    def group(pair: tuple[Block, Block]) -> Array:
        (X, y, mask), block = pair
        if switches.approximation.local:
            C = noise.covariance(state.prepared.noise, block.X, block.mask)
            factor = local_factor(state, lam, sigma_f, block, C)
            rows = new_rows(state, X, block, noise, of_y=True)
            mean, variance = local_moments(state, lam, sigma_f, block, factor, rows)
        else:
            mean, variance = moments(state, X, bayesian=False)
            variance = variance + noise.marginal(state.prepared.noise, X)
        density = jnp.log(2 * jnp.pi * variance) + (y - mean) ** 2 / variance
        return 0.5 * jnp.sum(mask * density)

    return jnp.sum(lax.map(group, (held.rows, held.blocks))) / jnp.sum(held.rows.mask)
