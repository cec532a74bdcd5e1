"""C of a block, its factor and its covariance with new rows, for every noise structure."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from problems import JITTER, KINDS, random_problem

seeds = st.integers(0, 2**32 - 1)


def naive_residual(problem, A, B):
    noise = problem.parameters.noise
    return reference.noise_residual(
        A, B, np.asarray(noise.U), float(noise.eps_variance), np.asarray(noise.eps_lam), JITTER
    )


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=6)
def test_factor_is_that_of_the_dense_covariance(kind, seed):
    problem = random_problem(kind, seed)
    noise = problem.approximation.noise
    state = noise.prepare(problem.parameters.noise, JITTER)
    for b, rows in enumerate(problem.blocks):
        n = len(rows)
        X, mask = problem.stacked.X[b], problem.stacked.mask[b]
        factor = noise.factor(state, X, mask)
        C = problem.C[np.ix_(rows, rows)]
        assert_allclose(factor.log_det(), np.linalg.slogdet(C)[1], rtol=1e-8, atol=1e-9)
        white = np.asarray(factor.whiten(jnp.eye(len(mask))))
        inverse = white.T @ white
        assert_allclose(inverse[:n, :n], np.linalg.inv(C), rtol=1e-6, atol=1e-7)
        assert_allclose(inverse[n:, n:], np.eye(len(mask) - n))
        assert_allclose(inverse[:n, n:], 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=6)
def test_new_rows_see_the_same_covariance(kind, seed):
    problem = random_problem(kind, seed)
    noise = problem.approximation.noise
    state = noise.prepare(problem.parameters.noise, JITTER)
    A, B = problem.X[:4], problem.X[4:9]
    variance = float(problem.parameters.noise.noise_variance)
    R = naive_residual(problem, A, A)
    joint = {
        "dtc": 0 * R,
        "fitc": np.diag(np.diag(R)),
        "fic": np.diag(np.diag(R)),
        "pitc": R,
        "pic": R,
    }[kind] + variance * np.eye(4)
    cross = naive_residual(problem, A, B) if kind in ("pitc", "pic") else np.zeros((4, 5))
    assert_allclose(noise.joint(state, jnp.asarray(A)), joint, rtol=1e-7, atol=1e-9)
    assert_allclose(noise.marginal(state, jnp.asarray(A)), np.diag(joint), rtol=1e-7, atol=1e-9)
    assert_allclose(noise.cross(state, jnp.asarray(A), jnp.asarray(B)), cross, atol=1e-8)
