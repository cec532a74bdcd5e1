"""Moments of rows of a block in NumPy, against the formulas that they repeat."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.block_moments import (
    SMALL_TRIANGLE,
    NewRows,
    Shared,
    block_factor,
    block_joint,
    block_mean,
    block_moments,
    in_threads,
    triangular_inverse,
)
from mosaicgp.model.bound import Block
from mosaicgp.model.predictive import (
    local_factor,
    local_joint,
    local_moments,
    new_rows,
    predictive_state,
)
from mosaicgp.serving import lower_factor, unit_gram
from problems import JITTER, random_problem

THETA = np.random.default_rng(0).normal(size=(4, 2)), np.array([0.7, 1.3, -0.9, 0.0])


@pytest.fixture(scope="module")
def prepared():
    """A padded block of a problem, and the same without its padding, at four nodes of θ."""
    problem = random_problem("pic", 3, m=6, sizes=(9, 5))
    noise = problem.approximation.noise
    state = predictive_state(problem.parameters, problem.q, noise, jnp.asarray(JITTER))
    block = Block(*(part[1] for part in problem.stacked))
    n = int(np.count_nonzero(block.mask))
    assert n < len(block.mask)
    C = noise.covariance(state.prepared.noise, block.X, block.mask)
    shared = Shared(*map(np.asarray, (*THETA, state.parameters.Z, state.white, *state.q)))
    rows = (np.asarray(part)[:n] for part in (block.X, block.y, C[:, :n]))
    return state, noise, block, C, shared, block_factor(shared, *rows)


@pytest.mark.parametrize("of_y", [False, True])
def test_they_are_those_of_the_model(prepared, of_y):
    state, noise, block, C, shared, factor = prepared
    X = jnp.asarray(np.random.default_rng(1).normal(size=(8, 2)))
    rows = new_rows(state, X, block, noise, of_y)
    C_new = noise.joint(state.prepared.noise, X) if of_y else jnp.zeros((8, 8))

    @jax.jit
    def at_node(lam, sigma_f):
        made = local_factor(state, lam, sigma_f, block, C)
        arguments = state, lam, sigma_f, block, made, rows
        return local_moments(*arguments), local_joint(*arguments, C_new)

    given = [at_node(*map(jnp.asarray, node)) for node in zip(*THETA, strict=True)]
    means, variances = (np.array(part) for part in zip(*(pair for pair, _ in given), strict=True))
    new = NewRows(*map(np.asarray, (X, rows.cross[:, : factor.root.shape[1] - 6], rows.marginal)))
    mean, variance = block_moments(shared, factor, new)
    assert_allclose(mean, means.mean(axis=0), rtol=1e-10)
    assert_allclose(variance, variances.mean(axis=0) + means.var(axis=0), rtol=1e-9)
    assert_allclose(block_mean(shared, factor, new), mean, rtol=1e-12)
    joint = block_joint(shared, factor, new, np.asarray(C_new))
    for k, (_, expected) in enumerate(given):
        for found, wanted in zip(joint, expected, strict=True):
            assert_allclose(found[k], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, SMALL_TRIANGLE, SMALL_TRIANGLE + 1, 5 * SMALL_TRIANGLE + 3])
def test_the_inverse_of_a_triangle(n):
    L = np.tril(np.random.default_rng(n).normal(size=(n, n))) / n + np.eye(n)
    inverse = triangular_inverse(L)
    assert_allclose(inverse @ L, np.eye(n), atol=1e-12)
    assert np.array_equal(inverse, np.tril(inverse))


def test_a_covariance_that_rounding_leaves_short_of_positive_is_factored():
    """Rows that repeat, of a function without noise."""
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 2)), 3, axis=0)
    R = 1e3 * unit_gram(X)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(R)
    L = lower_factor(R)
    assert_allclose(L @ L.T, R, atol=1e-5)
    positive = R + np.eye(30)
    np.testing.assert_array_equal(lower_factor(positive), np.linalg.cholesky(positive))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_what_cannot_be_factored_is_named(value):
    R = np.eye(3)
    R[1, 1] = value
    with pytest.raises(np.linalg.LinAlgError, match="block of 3 training rows cannot be factored"):
        lower_factor(R)


@pytest.mark.parametrize("n", [0, 1, 50])
def test_every_job_is_done_once(n):
    done = np.zeros(n)

    def add(k: int) -> int:
        done[k] += 1
        return k

    assert list(in_threads(add, range(n))) == list(range(n))
    assert np.all(done == 1)


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda k: 1 // k, [1, 0, 2]))
