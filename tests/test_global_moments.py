"""The short ways through q(θ) in NumPy, against the closed form and the bounds of their errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mosaicgp.global_moments import (
    TILE,
    TILES,
    GlobalMoments,
    first_order_error,
    quick_error,
    theta_spread,
)
from mosaicgp.model.bound import optimal_inducing, total_statistics
from mosaicgp.model.expectations import Mehler
from mosaicgp.model.predictive import moments, predictive_state
from mosaicgp.prediction import BATCH_ROWS, MOST_QUICK, NARROW, _even_size
from problems import JITTER, random_problem

seeds = st.integers(0, 2**32 - 1)
closed = jax.jit(moments, static_argnames="bayesian")


def _fitted_state(kind, seed, xi, beta):
    """A state whose q(s) is optimal for its rows, and those rows."""
    problem = random_problem(kind, seed, d=3, m=8, sizes=(20,))
    parameters = problem.parameters
    theta = parameters.theta._replace(xi=jnp.full(3, xi), beta=jnp.asarray(beta))
    parameters = parameters._replace(theta=theta)
    structure = problem.approximation.noise
    summed = total_statistics(
        parameters, problem.stacked, structure, Mehler(1), jnp.asarray(JITTER)
    )
    state = predictive_state(parameters, optimal_inducing(summed), structure, jnp.asarray(JITTER))
    return state, problem.X


@pytest.mark.parametrize("kind", ["dtc", "fitc"])
@given(seed=seeds)
def test_a_narrow_posterior_needs_only_the_first_order(kind, seed):
    """Where Σρ is below what predictions call narrow, the rest is below 1e-7 of the variance."""
    state, X = _fitted_state(kind, seed, 1e-6, 1e-6)
    assert np.all(theta_spread(X, np.full(3, 1e-6)) < NARROW)
    mean, variance = closed(state, jnp.asarray(X), True)
    short = GlobalMoments(state)
    assert_allclose(short.first_order(X)[0], mean, rtol=1e-9, atol=1e-12)
    assert_allclose(short.first_order(X)[1], variance, rtol=1e-7)
    assert_allclose(short.mean(X), mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("xi", [0.0, 1e-7, 1e-5, 1e-3])
@given(seed=seeds)
def test_shorter_ways_are_as_wrong_as_their_bounds_allow(xi, seed):
    """Against the closed form, at rows of the data and far from them; exact for a known θ."""
    state, X = _fitted_state("fitc", seed, xi, 0.1 * xi)
    X = np.concatenate([X, 3.0 * X])
    closed_mean, exact = closed(state, jnp.asarray(X), True)
    theta = state.parameters.theta
    second = float(theta.alpha**2 + theta.beta)
    spread, v_square = theta_spread(X, np.full(3, xi)), float(jnp.sum(state.q.v_mean**2))
    short = GlobalMoments(state)
    for found, error in (
        (short.quick(X), quick_error),
        (short.first_order(X), first_order_error),
    ):
        assert_allclose(found[0], closed_mean, rtol=1e-9, atol=1e-12)
        wrong = np.abs(found[1] - exact)
        assert np.all(wrong <= second * error(spread, v_square) + 1e-9)
        assert np.all(found[1] > 0)


def test_a_row_comes_out_the_same_in_any_company():
    """To the bit, whatever its place in a tile and the number of tiles."""
    state, _ = _fitted_state("dtc", 0, 1e-5, 1e-5)
    short = GlobalMoments(state)
    X = np.random.default_rng(0).normal(size=(TILE * TILES + TILE + 3, 3))
    for way in (short.quick, short.first_order):
        together = np.array(way(X))
        for k in (0, 1, TILE - 1, TILE, TILE * TILES - 1, TILE * TILES + 7, len(X) - 1):
            assert np.array_equal(np.array(way(X[k : k + 1]))[:, 0], together[:, k])
    assert np.array_equal(short.mean(X[-2:]), short.mean(X)[-2:])


def test_no_rows():
    short = GlobalMoments(_fitted_state("dtc", 0, 1e-5, 1e-5)[0])
    for way in (short.quick, short.first_order):
        assert [len(part) for part in way(np.zeros((0, 3)))] == [0, 0]


def test_far_rows_return_to_the_prior():
    """However large the squares that are subtracted, beside a row that is near."""
    state, X = _fitted_state("dtc", 1, 0.0, 1e-3)
    short = GlobalMoments(state)
    near, far = X[:1], 1e9 * np.random.default_rng(0).choice([-1.0, 1.0], size=(5, 3))
    theta = state.parameters.theta
    for way in (short.quick, short.first_order):
        mean, variance = way(np.concatenate([near, far]))
        assert_allclose(mean[1:], 0.0, atol=1e-12)
        assert_allclose(variance[1:], float(theta.alpha**2 + theta.beta), rtol=1e-12)
        assert_allclose((mean[:1], variance[:1]), way(near), rtol=1e-9)


def test_jobs_of_many_inputs_have_fewer_rows():
    """So that every thread holds tens of megabytes at most; of few inputs all are MOST_QUICK."""
    for d in (1, 8, 70, 300, 1000, 100_000):
        size = _even_size(10**6, d)
        assert size % TILE == 0 and TILE <= size <= MOST_QUICK
        assert size == TILE or 56 * d * size <= 2**25
    assert _even_size(10**6, 8) > MOST_QUICK / 2
    assert _even_size(1, 8) == BATCH_ROWS
