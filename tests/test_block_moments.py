"""Moments of rows of a block in NumPy, against the formulas that they repeat."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.block_moments import BlockMoments, in_threads
from mosaicgp.model.bound import Block
from mosaicgp.model.predictive import (
    LocalFactor,
    local_factor,
    local_moments,
    new_rows,
    predictive_state,
)
from problems import JITTER, random_problem

given_theta = jax.jit(local_moments)


@pytest.fixture(scope="module")
def prepared():
    """A padded block of a problem at three nodes of θ."""
    problem = random_problem("pic", 3, m=6, sizes=(9, 5))
    noise = problem.approximation.noise
    state = predictive_state(problem.parameters, problem.q, noise, jnp.asarray(JITTER))
    block = Block(*(part[1] for part in problem.stacked))
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(3, 2)), np.array([0.7, 1.3, -0.9])
    C = noise.covariance(state.prepared.noise, block.X, block.mask)
    factor = jax.jit(jax.vmap(local_factor, in_axes=(None, 0, 0, None, None)))
    factors = factor(state, *map(jnp.asarray, theta), block, C)
    return state, noise, block, theta, factors


@pytest.mark.parametrize("of_y", [False, True])
def test_they_are_those_of_the_model(prepared, of_y):
    state, noise, block, theta, factors = prepared
    assert np.any(np.asarray(block.mask) == 0)
    X = jnp.asarray(np.random.default_rng(1).normal(size=(8, 2)))
    rows = new_rows(state, X, block, noise, of_y)
    nodes = zip(*map(jnp.asarray, theta), *factors, strict=True)
    given = [
        given_theta(state, lam, sigma_f, block, LocalFactor(*factor), rows)
        for lam, sigma_f, *factor in nodes
    ]
    means, variances = (np.array(part) for part in zip(*given, strict=True))
    compute = BlockMoments(np.asarray(state.parameters.Z), block, theta, factors)
    mean, variance = compute(rows)
    assert_allclose(mean, means.mean(axis=0), rtol=1e-10)
    assert_allclose(variance, variances.mean(axis=0) + means.var(axis=0), rtol=1e-9)
    assert_allclose(compute.mean(rows), mean, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 50])
def test_every_job_is_done_once(n):
    done = np.zeros(n)

    def add(k: int) -> None:
        done[k] += 1

    in_threads(add, range(n))
    assert np.all(done == 1)


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k: 1 // k, [1, 0, 2])
