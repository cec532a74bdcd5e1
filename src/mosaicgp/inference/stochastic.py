"""The stochastic step: a few blocks, a natural gradient for q(s), Adam for everything else.

``step(state, batch, control) -> state, info`` is pure and compiled once; the loop, the schedule
and the draws of blocks and of θ live outside. Blocks and θ are drawn before anything about them is
seen, so the bound of a step and its gradients are unbiased (docs/mathematics.md, "Stochastic
bound").
"""

from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.inference.parameters import Fixed, Free, Switches, constrain, price
from mosaicgp.model.bound import Block, Parameters, Statistics, data_bound, natural_step
from mosaicgp.model.given_theta import sampled_statistics
from mosaicgp.model.posterior import (
    InducingPosterior,
    NaturalParameters,
    from_natural,
    kl_inducing,
    kl_theta,
)
from mosaicgp.precision import compiled

if TYPE_CHECKING:
    import optax

# Steps of ν and α are shares of their size, as those of their logarithms would be, but can cross
# zero: sizes below these count as these. That of ν is in units of 1/√d, where ν starts, and one at
# most: Adam's steps, all of one size, throw many small ν about (blog, 280 inputs, dtc: 26.6 and
# 22.8 comments). Beside noise in blocks the slopes in ν are faint, and it takes small steps; the
# larger ones did as well on the four fits compared (docs/mathematics.md, "Stochastic bound").
LEAST_NU = {"independent": 3.0, "in blocks": 0.1}
LEAST_ALPHA = 0.02


@cache
def _adam() -> "optax.GradientTransformation":
    import optax  # here: slow to import, and exact inference does without

    return optax.scale_by_adam(b1=0.9, b2=0.99)


class Batch(NamedTuple):
    """Blocks stacked in front, standard-normal ``nodes`` for θ, and the weight B/|S| of a block.

    ``probes`` are the signs that estimate traces; None computes them.
    """

    blocks: Block
    nodes: Array
    weight: Array
    probes: Array | None = None


class Control(NamedTuple):
    """Step sizes: ρ of the natural gradient, the rate of Adam, the weight of this iterate in the
    running average, and the jitter of Σ. Handed to a step as one array, which is one transfer."""

    rho: float
    rate: float
    average: float
    jitter: float


class State(NamedTuple):
    """All that a step changes.

    ``learned`` (p,) are the fields of ``Free`` under optimisation, ``packed`` into one vector so
    that a step updates one array and not twenty; ``average`` (p,) is their running average.
    ``q`` is q(v) of the natural parameters ``eta``. ``scale`` (≤ 1) multiplies both step sizes and
    is halved when a step is rejected.
    """

    learned: Array
    eta: NaturalParameters
    q: InducingPosterior
    optimiser: "optax.OptState"
    average: Array
    scale: Array
    rejected: Array
    streak: Array


class Info(NamedTuple):
    """The stochastic bound of a step at the state before it, and whether the step was taken."""

    bound: Array
    accepted: Array


def packed(free: Free, switches: Switches) -> Array:
    """The learned fields of ``free`` as one vector."""
    return jnp.concatenate([jnp.ravel(getattr(free, name)) for name in switches.learned()])


def unpacked(learned: Array, free: Free, switches: Switches) -> Free:
    """``free`` with its learned fields taken from the vector."""
    fields, start = {}, 0
    for name in switches.learned():
        shape = jnp.shape(getattr(free, name))
        size = int(np.prod(shape))
        fields[name] = learned[start : start + size].reshape(shape)
        start += size
    return free._replace(**fields)


@partial(compiled, static_argnames="switches")  # op by op it would take a second to compile
def initial_state(free: Free, switches: Switches, eta: NaturalParameters | None = None) -> State:
    """Start at ``free`` with q(s) = p(s), or at the given q(s)."""
    learned = packed(free, switches)
    m, dtype = free.inducing.shape[0], jnp.asarray(free.nu).dtype
    eta = eta or NaturalParameters(jnp.zeros(m, dtype), jnp.eye(m, dtype=dtype))
    zero = jnp.zeros((), dtype=jnp.int32)
    q = from_natural(eta)
    return State(learned, eta, q, _adam().init(learned), learned, jnp.ones((), dtype), zero, zero)


def stochastic_bound(
    learned: Array,
    q: InducingPosterior,
    free: Free,
    fixed: Fixed,
    batch: Batch,
    jitter: Array,
    switches: Switches,
) -> tuple[Array, Statistics]:
    """The estimate of L from one batch, and the (weighted) statistics it is made of."""
    parameters = constrain(unpacked(learned, free, switches), fixed, switches)
    noise = switches.approximation.noise
    statistics = sampled_statistics(
        parameters, batch.blocks, batch.nodes, noise, jitter, batch.probes
    )
    statistics = jax.tree.map(lambda part: batch.weight * part, statistics)
    bound = data_bound(statistics, q) - kl_inducing(q)
    if switches.bayesian:
        bound = bound - kl_theta(parameters.theta, switches.prior)
    return bound, statistics


def pace(free: Free, switches: Switches) -> Array:
    """How far a step of size one takes each learned number (p,)."""
    one = jax.tree.map(jnp.ones_like, free)
    noise = "in blocks" if switches.approximation.noise.correlated else "independent"
    least = min(1.0, LEAST_NU[noise] / float(np.sqrt(free.nu.size)))
    relative = one._replace(
        nu=jnp.maximum(jnp.abs(free.nu), least),
        alpha=jnp.maximum(jnp.abs(free.alpha), LEAST_ALPHA),
    )
    return packed(relative, switches)


@partial(compiled, static_argnames="switches")
def step(
    state: State, free: Free, fixed: Fixed, batch: Batch, control: Array, switches: Switches
) -> tuple[State, Info]:
    """One iteration; a step that gives anything not finite leaves the state as it was.

    ``control`` (4,) holds the fields of ``Control``.
    """
    rho, rate, weight, jitter = control

    def objective(learned: Array) -> tuple[Array, tuple[Array, Statistics]]:
        parts = stochastic_bound(learned, state.q, free, fixed, batch, jitter, switches)
        return parts[0] - price(unpacked(learned, free, switches), switches), parts

    (_, (bound, statistics)), slope = jax.value_and_grad(objective, has_aux=True)(state.learned)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes its integer counter with floats
        direction, optimiser = _adam().update(slope, state.optimiser)
    stride = rate * state.scale * pace(unpacked(state.learned, free, switches), switches)
    learned = state.learned + stride * direction
    # Without a step of Adam q(s) settles, by sizes that must stay as they are.
    eta = natural_step(state.eta, statistics, jnp.where(rate > 0, rho * state.scale, rho))
    average = state.average + weight * (learned - state.average)
    # A sum is finite only if all its terms are; a precision that cannot be factored has a
    # factor of NaN, and would leave every later step without a q(s).
    total = sum((jnp.sum(leaf) for leaf in (learned, *eta)), start=bound)
    q = from_natural(eta)
    accepted = jnp.isfinite(total + jnp.sum(q.v_root))
    taken = State(
        learned,
        eta,
        q,
        optimiser,
        average,
        jnp.minimum(1.0, 1.02 * state.scale),
        state.rejected,
        jnp.zeros_like(state.streak),
    )
    refused = state._replace(
        scale=0.5 * state.scale, rejected=state.rejected + 1, streak=state.streak + 1
    )
    after = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), taken, refused)
    return after, Info(bound, accepted)


@partial(compiled, static_argnames="switches")
def finished(
    learned: Array, eta: NaturalParameters, free: Free, fixed: Fixed, switches: Switches
) -> tuple[Parameters, InducingPosterior]:
    """The model's parameters and q(s) of a state."""
    return constrain(unpacked(learned, free, switches), fixed, switches), from_natural(eta)
