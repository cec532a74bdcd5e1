"""The stochastic step: its fixed point, its natural gradient, what it does with bad numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.inference.parameters import Switches, release
from mosaicgp.inference.stochastic import Batch, Control, initial_state, step, unpacked
from mosaicgp.model.bound import Block, optimal_inducing, total_statistics
from mosaicgp.model.expectations import Mehler
from mosaicgp.model.given_theta import nodes_shape
from mosaicgp.model.posterior import from_natural, to_natural
from problems import JITTER, random_problem


def setting(kind, bayesian=True, seed=0, learn_inducing=False):
    problem = random_problem(kind, seed)
    switches = Switches(
        problem.approximation, bayesian, learn_inducing=learn_inducing, rotate=False
    )
    free, fixed = release(problem.parameters, switches)
    return problem, switches, free, fixed


def batch_of(problem, nodes=None, weight=1.0):
    n_blocks, block_size, d = problem.stacked.X.shape
    shape = nodes_shape(problem.approximation.noise, n_blocks, block_size, d)
    nodes = np.zeros(shape) if nodes is None else nodes
    return Batch(problem.stacked, jnp.asarray(nodes), jnp.asarray(weight))


def control(rho=0.0, rate=0.0, average=1.0):
    return jnp.asarray(Control(rho, rate, average, JITTER))


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pic"])
def test_a_full_natural_step_over_all_blocks_is_the_optimum(kind):
    problem, switches, free, fixed = setting(kind, bayesian=False)
    state, info = step(
        initial_state(free, switches), free, fixed, batch_of(problem), control(rho=1.0), switches
    )
    assert bool(info.accepted)
    noise = problem.approximation.noise
    theta = problem.parameters.theta._replace(
        xi=jnp.zeros_like(problem.parameters.theta.xi), beta=jnp.zeros(())
    )
    parameters = problem.parameters._replace(theta=theta)
    expected = optimal_inducing(
        total_statistics(parameters, problem.stacked, noise, Mehler(0), JITTER)
    )
    q = from_natural(state.eta)
    assert_allclose(q.v_mean, expected.v_mean, rtol=1e-7, atol=1e-9)
    assert_allclose(q.v_cov(), expected.v_cov(), rtol=1e-7, atol=1e-9)


def test_without_step_sizes_nothing_moves():
    problem, switches, free, fixed = setting("pic")
    before = initial_state(free, switches)
    after, _ = step(before, free, fixed, batch_of(problem), control(), switches)
    for old, new in zip(
        jax.tree.leaves((before.learned, before.eta)),
        jax.tree.leaves((after.learned, after.eta)),
        strict=True,
    ):
        assert np.array_equal(old, new)


def test_every_learned_parameter_moves():
    problem, switches, free, fixed = setting("pic", learn_inducing=True)
    before = initial_state(free, switches, to_natural(problem.q))
    rng = np.random.default_rng(0)
    batch = batch_of(problem)
    batch = batch._replace(nodes=jnp.asarray(rng.normal(size=batch.nodes.shape)))
    after, _ = step(before, free, fixed, batch, control(0.5, 0.01), switches)
    moved, start = (unpacked(state.learned, free, switches) for state in (after, before))
    assert set(switches.learned()) == set(free._fields)
    for name in switches.learned():
        assert np.all(np.asarray(getattr(moved, name)) != np.asarray(getattr(start, name))), name


@pytest.mark.parametrize(("kind", "least"), [("dtc", 3.0), ("fitc", 3.0), ("pic", 0.1)])
def test_inverse_length_scales_and_signal_move_by_shares_of_their_size(kind, least):
    """The first step of Adam has the rate as its size: times ν and α, but for a least size."""
    problem, switches, free, fixed = setting(kind)
    d = free.nu.size
    nu = jnp.asarray(np.geomspace(1e-4, 3.0, d) * np.resize([1.0, -1.0], d))
    for alpha in (0.001, 0.5):
        start = free._replace(nu=nu, alpha=jnp.asarray(alpha))
        before = initial_state(start, switches, to_natural(problem.q))
        after, _ = step(before, start, fixed, batch_of(problem), control(0.0, 0.01), switches)
        moved, stood = (unpacked(state.learned, start, switches) for state in (after, before))
        sizes = jax.tree.map(lambda a, b: np.abs(np.asarray(a - b)), moved, stood)
        expected = 0.01 * np.maximum(np.abs(nu), min(1.0, least / np.sqrt(d)))
        assert_allclose(sizes.nu, expected, rtol=1e-3)
        assert_allclose(sizes.alpha, 0.01 * max(alpha, 0.02), rtol=1e-3)
        assert_allclose(sizes.log_noise, 0.01, rtol=1e-3)


def test_a_step_that_is_not_finite_is_refused_and_the_next_is_smaller():
    problem, switches, free, fixed = setting("dtc")
    good = batch_of(problem)
    bad = good._replace(blocks=Block(good.blocks.X, good.blocks.y * jnp.inf, good.blocks.mask))
    before, _ = step(initial_state(free, switches), free, fixed, good, control(0.5, 0.1), switches)
    after, info = step(before, free, fixed, bad, control(0.5, 0.1), switches)
    assert not bool(info.accepted)
    assert int(after.rejected) == int(after.streak) == 1
    assert float(after.scale) == 0.5 * float(before.scale)
    for old, new in zip(
        jax.tree.leaves((before.learned, before.eta, before.optimiser)),
        jax.tree.leaves((after.learned, after.eta, after.optimiser)),
        strict=True,
    ):
        assert np.array_equal(old, new)
    again, info = step(after, free, fixed, good, control(0.5, 0.1), switches)
    assert bool(info.accepted) and int(again.streak) == 0
    moved = np.abs(np.asarray(again.learned) - np.asarray(after.learned))
    whole, _ = step(before, free, fixed, good, control(0.5, 0.1), switches)
    assert np.all(moved < np.abs(np.asarray(whole.learned) - np.asarray(before.learned)))
