"""The full bound L(q) of given rows at a given state, a few blocks at a time."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.data.blocks import Blocks, StoredBlocks
from mosaicgp.inference.parameters import Switches
from mosaicgp.model.bound import Block, Parameters, Statistics, data_bound, total_statistics
from mosaicgp.model.expectations import ClosedForm, Mehler, Route
from mosaicgp.model.posterior import InducingPosterior, kl_inducing, kl_theta
from mosaicgp.precision import compiled, in_double

# Blocks to a compiled call, and the number of exponentials (about 25 ns each) up to which the
# closed form of Ψ is worth its wait.
BLOCKS_AT_ONCE = 16
CLOSED_FORM_COST = 1e9


@partial(compiled, static_argnames=("switches", "route"))
def _data_part(
    parameters: Parameters,
    q: InducingPosterior,
    blocks: Block,
    jitter: Array,
    switches: Switches,
    route: Route,
) -> Array:
    noise = switches.approximation.noise
    statistics: Statistics = total_statistics(parameters, blocks, noise, route, jitter)
    return data_bound(statistics, q)


def closed_form_cost(n_blocks: int, block_size: int, m: int, dense: bool) -> float:
    """Exponentials in the closed form of Ψ over all blocks."""
    return 0.5 * n_blocks * block_size * (block_size if dense else 1) * float(m) ** 2


def bound_route(blocks: Blocks | StoredBlocks, m: int, switches: Switches) -> Route:
    """The closed form where it can be had in a minute or so, else a high order of Mehler's sum."""
    if not switches.bayesian:
        return Mehler(0)
    dense = switches.approximation.blocked
    if closed_form_cost(blocks.n_blocks, blocks.block_size, m, dense) <= CLOSED_FORM_COST:
        return ClosedForm()
    return Mehler(3 if blocks.n_features <= 10 else 2 if blocks.n_features <= 40 else 1)


@in_double
def full_bound(
    parameters: Parameters,
    q: InducingPosterior,
    blocks: Blocks | StoredBlocks,
    jitter: float,
    switches: Switches,
    route: Route | None = None,
) -> float:
    """L(q) in standardised units, with every constant."""
    route = route or bound_route(blocks, parameters.Z.shape[0], switches)
    total = -float(kl_inducing(q))
    if switches.bayesian:
        total -= float(kl_theta(parameters.theta, switches.prior))
    size = min(BLOCKS_AT_ONCE, blocks.n_blocks)
    for start in range(0, blocks.n_blocks, size):
        part = blocks.take(np.arange(start, min(start + size, blocks.n_blocks)))
        # A block whose rows are all masked adds nothing.
        padded = [np.pad(a, [(0, size - len(a))] + [(0, 0)] * (a.ndim - 1)) for a in part]
        block = Block(*map(jnp.asarray, padded))
        total += float(_data_part(parameters, q, block, jnp.asarray(jitter), switches, route))
    return total
