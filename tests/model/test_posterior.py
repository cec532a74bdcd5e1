"""q(s) and q(θ): natural parameters, KL divergences, draws and nodes."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from mosaicgp.model.kernel import inducing_cholesky
from mosaicgp.model.posterior import (
    from_natural,
    kl_inducing,
    kl_theta,
    nodes_to_theta,
    theta_nodes,
    to_natural,
)
from problems import JITTER, random_problem

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_natural_parameters_round_trip(seed):
    q = random_problem("dtc", seed).q
    again = from_natural(to_natural(q))
    assert_allclose(again.v_mean, q.v_mean, rtol=1e-8, atol=1e-10)
    assert_allclose(again.v_cov(), q.v_cov(), rtol=1e-8, atol=1e-10)


@given(seeds)
def test_kl_divergences_equal_the_reference(seed):
    problem = random_problem("dtc", seed)
    mean, covariance = problem.moments
    prior = reference.prior_cov(problem.Z, JITTER)
    expected = reference.gaussian_kl(mean, covariance, np.zeros_like(mean), prior)
    assert_allclose(kl_inducing(problem.q), expected, rtol=1e-7)
    assert_allclose(
        kl_theta(problem.parameters.theta, (0.2, 0.5)),
        reference.theta_kl(*problem.theta, (0.2, 0.5)),
        rtol=1e-10,
    )


@given(seeds)
def test_moments_undo_whitening(seed):
    problem = random_problem("dtc", seed)
    L = inducing_cholesky(problem.parameters.Z, JITTER)
    mean, covariance = problem.q.moments(L)
    assert_allclose(np.linalg.solve(L, mean), problem.q.v_mean, rtol=1e-7, atol=1e-9)
    assert_allclose(covariance, L @ problem.q.v_cov() @ L.T, rtol=1e-9, atol=1e-12)


def test_draws_have_the_posteriors_moments():
    theta = random_problem("dtc", 5, d=3).parameters.theta
    lams, sigmas = nodes_to_theta(jax.random.normal(jax.random.key(1), (50_000, 4)), theta)
    for draws, mean, variance in ((lams, theta.nu, theta.xi), (sigmas, theta.alpha, theta.beta)):
        error = 4 * np.sqrt(variance / 50_000)
        assert np.all(np.abs(draws.mean(axis=0) - mean) <= error)
        assert_allclose(draws.var(axis=0), variance, rtol=0.05)


@given(st.sampled_from([1, 2, 3, 16, 64]), st.integers(1, 20), st.integers(0, 2**31))
def test_nodes_are_standardised_and_reproducible(n, d, seed):
    nodes = theta_nodes(n, d, seed)
    assert nodes.shape == (n, d + 1)
    assert np.all(np.isfinite(nodes))
    assert np.array_equal(nodes, theta_nodes(n, d, seed))
    assert_allclose(nodes.mean(axis=0), 0.0, atol=1e-12)
    if n > 1:
        assert_allclose(nodes.var(axis=0), 1.0)


def test_nodes_integrate_smooth_functions():
    theta = random_problem("dtc", 2, d=2).parameters.theta
    lams, sigmas = nodes_to_theta(jnp.asarray(theta_nodes(256, 2, 0)), theta)
    estimate = jnp.mean(sigmas**2 * jnp.exp(-0.5 * jnp.sum(lams**2, axis=1)))
    exact = (theta.alpha**2 + theta.beta) * jnp.prod(
        jnp.exp(-0.5 * theta.nu**2 / (1 + theta.xi)) / jnp.sqrt(1 + theta.xi)
    )
    assert_allclose(estimate, exact, rtol=0.02)
