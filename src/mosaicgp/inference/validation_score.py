"""The negative log predictive density of held rows, to watch a fit by."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from mosaicgp.inference.parameters import Fixed, Free, Switches, constrain
from mosaicgp.model.bound import Block
from mosaicgp.model.posterior import NaturalParameters, from_natural
from mosaicgp.model.predictive import local_factor, local_moments, moments, predictive_state


class HeldRows(NamedTuple):
    """Rows to predict, X (g, t, d), y (g, t), mask (g, t), and the training rows of each group's
    block, stacked in front; the latter are used where predictions are local."""

    rows: Block
    blocks: Block


@partial(jax.jit, static_argnames="switches")
def held_nlpd(
    learned: dict[str, Array],
    eta: NaturalParameters,
    free: Free,
    fixed: Fixed,
    held: HeldRows,
    jitter: Array,
    switches: Switches,
) -> Array:
    """Mean of −log p(y) over the held rows, at the means of q(θ), in standardised units."""
    noise = switches.approximation.noise
    parameters = constrain(free._replace(**learned), fixed, switches)
    state = predictive_state(parameters, from_natural(eta), noise, jitter)
    lam, sigma_f = parameters.theta.nu, parameters.theta.alpha

    def group(pair: tuple[Block, Block]) -> Array:
        (X, y, mask), block = pair
        if switches.approximation.local:
            factor = local_factor(state, lam, sigma_f, block, noise)
            mean, variance = local_moments(state, lam, sigma_f, block, factor, X, noise, of_y=True)
        else:
            mean, variance = moments(state, X, bayesian=False)
            variance = variance + noise.marginal(state.prepared.noise, X)
        density = jnp.log(2 * jnp.pi * variance) + (y - mean) ** 2 / variance
        return 0.5 * jnp.sum(mask * density)

    return jnp.sum(lax.map(group, (held.rows, held.blocks))) / jnp.sum(held.rows.mask)
