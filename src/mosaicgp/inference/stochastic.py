"""The stochastic step: a few blocks, a natural gradient for q(s), Adam for everything else.

``step(state, free, fixed, batch, control, switches) -> state, info`` is pure. jax computes what the
batch is to the model (``_looked_at``) and, at the end, takes the slopes back to the learned numbers
and steps by Adam (``_moved``); both are compiled once. The dense part between them is NumPy's
(``model/dense.py``). The loop, the schedule and the draws of blocks and of θ live outside. Blocks
and θ are drawn before anything about them is seen, so the bound of a step and its gradients are
unbiased (docs/mathematics.md, "Stochastic bound").
"""

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.inference.parameters import Fixed, Free, Switches, constrain
from mosaicgp.model import given_theta
from mosaicgp.model.bound import Block, Parameters
from mosaicgp.model.dense import Bars, Known, Moments, independent, moments
from mosaicgp.model.dense_blocks import correlated
from mosaicgp.model.given_theta import Features, Matrices
from mosaicgp.model.lapack import NotPositive
from mosaicgp.model.posterior import InducingPosterior, NaturalParameters, from_natural, kl_theta

if TYPE_CHECKING:
    import optax


@cache
def _adam() -> "optax.GradientTransformation":
    import optax  # here: slow to import, and exact inference does without

    return optax.scale_by_adam(b1=0.9, b2=0.99)


class Batch(NamedTuple):
    """Blocks stacked in front, standard-normal ``nodes`` for θ, and the weight B/|S| of a block;
    arrays of NumPy."""

    blocks: Block
    nodes: Any
    weight: Any


class Control(NamedTuple):
    """Step sizes: ρ of the natural gradient, the rate of Adam, the weight of this iterate in the
    running average, and the jitter of Σ."""

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
    q: Moments
    optimiser: "optax.OptState"
    average: Array
    scale: float
    rejected: int
    streak: int


class Info(NamedTuple):
    """The stochastic bound of a step at the state before it, and whether the step was taken."""

    bound: float
    accepted: bool


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


def initial_state(free: Free, switches: Switches, eta: NaturalParameters | None = None) -> State:
    """Start at ``free`` with q(s) = p(s), or at the given q(s)."""
    learned = packed(free, switches)
    m, dtype = free.inducing.shape[0], learned.dtype
    eta = eta or NaturalParameters(np.zeros(m, dtype), np.eye(m, dtype=dtype))
    eta = NaturalParameters(*map(np.asarray, eta))
    return State(learned, eta, moments(eta), _adam().init(learned), learned, 1.0, 0, 0)


@partial(jax.jit, static_argnames="switches")
def _looked_at(
    learned: Array, free: Free, fixed: Fixed, batch: Batch, jitter: Array, switches: Switches
) -> tuple[Features, Matrices]:
    """The batch as the dense part sees it."""
    found = _features(learned, free, fixed, batch, jitter, switches)
    return found, given_theta.matrices(found, len(batch.blocks.X))


def _features(
    learned: Array, free: Free, fixed: Fixed, batch: Batch, jitter: Array, switches: Switches
) -> Features:
    """The features of a batch; the constant is weighted, and less KL(q(θ) ‖ p(θ))."""
    parameters = constrain(unpacked(learned, free, switches), fixed, switches)
    noise = switches.approximation.noise
    found = given_theta.features(parameters, batch.blocks, batch.nodes, noise, jitter)
    constant = batch.weight * found.constant
    if switches.bayesian:
        constant = constant - kl_theta(parameters.theta, switches.prior)
    return found._replace(constant=constant)


@partial(jax.jit, static_argnames="switches")
def _moved(
    before: tuple[Array, "optax.OptState", Array],
    bars: Bars,
    sizes: Array,
    free: Free,
    fixed: Fixed,
    batch: Batch,
    switches: Switches,
) -> tuple[Array, "optax.OptState", Array, Array]:
    """A step of Adam by the slopes ``bars`` of the bound.

    ``before`` and the result are the learned vector, the optimiser and the average; then whether
    the vector is finite. ``sizes`` (3,) are the rate, the weight in the average and the jitter.
    """
    learned, optimiser, average = before
    rate, weight, jitter = sizes

    def of(learned: Array) -> Features:
        return _features(learned, free, fixed, batch, jitter, switches)

    _, pull = jax.vjp(of, learned)
    one = jnp.ones((), learned.dtype)
    (slope,) = pull(Features(bars.rows, bars.Z, one, bars.noise))
    with jax.numpy_dtype_promotion("standard"):  # optax mixes its integer counter with floats
        direction, optimiser = _adam().update(slope, optimiser)
    learned = learned + rate * direction
    average = average + weight * (learned - average)
    return learned, optimiser, average, jnp.isfinite(jnp.sum(learned))


def step(
    state: State, free: Free, fixed: Fixed, batch: Batch, control: Control, switches: Switches
) -> tuple[State, Info]:
    """One iteration; a step that gives anything not finite leaves the state as it was."""
    scale, given = state.scale, (free, fixed, batch)
    # Without a step of Adam q(s) settles, by sizes that must stay as they are.
    rho = control.rho * scale if control.rate > 0 else control.rho
    sizes = np.array([control.rate * scale, control.average, control.jitter], state.learned.dtype)
    known = Known(state.eta, state.q, rho, control.jitter, float(batch.weight))
    refused = state._replace(
        scale=0.5 * scale, rejected=state.rejected + 1, streak=state.streak + 1
    )
    found = _looked_at(state.learned, *given, sizes[2], switches)
    features, matrices = jax.tree.map(np.asarray, found)
    by_hand = correlated if switches.approximation.noise.correlated else independent
    try:
        dense = by_hand(features, matrices, known)
    except NotPositive:
        return refused, Info(np.nan, False)
    before = (state.learned, state.optimiser, state.average)
    learned, optimiser, average, finite = _moved(before, dense.bars, sizes, *given, switches)
    bound = dense.bound + float(features.constant)
    # A sum is finite only if all its terms are.
    if not (np.isfinite(bound + dense.eta.precision.sum() + dense.q.mean.sum()) and finite):
        return refused, Info(bound, False)
    scale = min(1.0, 1.02 * scale)
    taken = State(learned, dense.eta, dense.q, optimiser, average, scale, state.rejected, 0)
    return taken, Info(bound, True)


@partial(jax.jit, static_argnames="switches")
def finished(
    learned: Array, eta: NaturalParameters, free: Free, fixed: Fixed, switches: Switches
) -> tuple[Parameters, InducingPosterior]:
    """The model's parameters and q(s) of a state."""
    return constrain(unpacked(learned, free, switches), fixed, switches), from_natural(eta)


# What is compiled for a fit, to see whether another fit compiles anew.
COMPILED = (_looked_at, _moved)
