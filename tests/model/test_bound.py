"""The bound, its collapsed form, its gradients and the natural step, against the reference."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose

import reference
from mosaicgp.model import bound
from mosaicgp.model.bound import (
    Block,
    collapsed_bound,
    data_bound,
    natural_step,
    optimal_inducing,
    total_statistics,
)
from mosaicgp.model.expectations import ClosedForm, Mehler
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.kernel import inducing_cholesky
from mosaicgp.model.posterior import (
    InducingPosterior,
    from_natural,
    kl_inducing,
    kl_theta,
    to_natural,
)
from problems import JITTER, KINDS, Problem, random_problem

seeds = st.integers(0, 2**32 - 1)
PRIOR = (0.3, 0.7)
CLOSED = ClosedForm()


@partial(jax.jit, static_argnames=("noise", "route"))
def statistics(parameters, stacked, noise, route=CLOSED):
    return total_statistics(parameters, stacked, noise, route, JITTER)


def full(problem: Problem, q: InducingPosterior) -> float:
    """L(q) as the library computes it."""
    summed = statistics(problem.parameters, problem.stacked, problem.approximation.noise)
    return data_bound(summed, q) - kl_inducing(q) - kl_theta(problem.parameters.theta, PRIOR)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_bound_equals_the_reference(kind, seed):
    problem = random_problem(kind, seed)
    expected = reference.bound(
        problem.X, problem.y, problem.C, problem.Z, *problem.moments, *problem.theta, PRIOR, JITTER
    )
    assert_allclose(full(problem, problem.q), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_bound_of_a_point_estimate_has_no_prior(kind, seed):
    problem = random_problem(kind, seed)
    theta = problem.parameters.theta
    zero = theta._replace(xi=jnp.zeros_like(theta.xi), beta=jnp.zeros_like(theta.beta))
    parameters = problem.parameters._replace(theta=zero)
    summed = statistics(parameters, problem.stacked, problem.approximation.noise, Mehler(0))
    expected = reference.bound(
        problem.X, problem.y, problem.C, problem.Z, *problem.moments, *problem.theta,
        jitter=JITTER, point=True,
    )  # fmt: skip
    value = data_bound(summed, problem.q) - kl_inducing(problem.q)
    assert_allclose(value, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_collapsed_bound_is_the_bound_at_the_optimum(kind, seed):
    problem = random_problem(kind, seed)
    summed = statistics(problem.parameters, problem.stacked, problem.approximation.noise)
    best = optimal_inducing(summed)
    collapsed = collapsed_bound(summed) - kl_theta(problem.parameters.theta, PRIOR)
    assert_allclose(full(problem, best), collapsed, rtol=1e-10)
    arguments = (problem.X, problem.y, problem.C, problem.Z, *problem.theta)
    assert_allclose(
        collapsed, reference.collapsed_bound(*arguments, PRIOR, JITTER), rtol=1e-9, atol=1e-9
    )
    assert full(problem, problem.q) <= collapsed + 1e-9
    mean, covariance = reference.optimal_q(*arguments, JITTER)
    L = inducing_cholesky(problem.parameters.Z, JITTER)
    assert_allclose(best.moments(L)[0], mean, rtol=1e-7, atol=1e-8)
    assert_allclose(best.moments(L)[1], covariance, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_blocks_add_up(kind, seed):
    problem = random_problem(kind, seed)
    expected = reference.block_bounds(
        problem.X, problem.y, problem.C, problem.blocks, problem.Z, *problem.moments,
        *problem.theta, JITTER,
    )  # fmt: skip
    for b in range(len(problem.blocks)):
        one = Block(*(part[b : b + 1] for part in problem.stacked))
        summed = statistics(problem.parameters, one, problem.approximation.noise)
        assert_allclose(data_bound(summed, problem.q), expected[b], rtol=1e-9, atol=1e-9)


@partial(jax.jit, static_argnames="noise")
def gradients(parameters, stacked, q_mean, q_cov, noise):
    """∂L/∂(parameters, m, S), with q(s) given by its moments."""

    def value(parameters, q_mean, q_cov):
        L = inducing_cholesky(jax.lax.stop_gradient(parameters.Z), JITTER)
        half = jax.scipy.linalg.solve_triangular(L, q_cov, lower=True)
        v_cov = jax.scipy.linalg.solve_triangular(L, half.T, lower=True)
        chol = jnp.linalg.cholesky(v_cov)
        q = InducingPosterior(jax.scipy.linalg.solve_triangular(L, q_mean, lower=True), chol.T)
        summed = total_statistics(parameters, stacked, noise, ClosedForm(), JITTER)
        return data_bound(summed, q) - kl_inducing(q) - kl_theta(parameters.theta, PRIOR)

    return jax.grad(value, argnums=(0, 1, 2))(parameters, q_mean, q_cov)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_gradients_equal_those_of_the_papers_appendix(kind, seed):
    problem = random_problem(kind, seed)
    expected = reference.bound_gradients(
        problem.X, problem.y, problem.C, problem.Z, *problem.moments, *problem.theta, PRIOR, JITTER
    )
    found, d_mean, d_cov = gradients(
        problem.parameters,
        problem.stacked,
        *map(jnp.asarray, problem.moments),
        problem.approximation.noise,
    )
    for name in ("nu", "xi", "alpha", "beta"):
        assert_allclose(getattr(found.theta, name), expected[name], rtol=1e-7, atol=1e-7)
    assert_allclose(d_mean, expected["q_mean"], rtol=1e-6, atol=1e-6)
    symmetric = 0.5 * (d_cov + d_cov.T)
    assert_allclose(symmetric, expected["q_cov"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_noise_and_inducing_inputs_equal_finite_differences(kind):
    problem = random_problem(kind, 11)
    noise = problem.approximation.noise

    @jax.jit
    def value(parameters):
        summed = total_statistics(parameters, problem.stacked, noise, ClosedForm(), JITTER)
        return collapsed_bound(summed)

    gradient = jax.jit(jax.grad(value))(problem.parameters)
    flat, unravel = ravel_pytree(problem.parameters)
    flat_gradient, _ = ravel_pytree(gradient)
    step = 1e-5
    for k in range(len(flat)):
        moved = [value(unravel(flat.at[k].add(sign * step))) for sign in (1.0, -1.0)]
        difference = (moved[0] - moved[1]) / (2 * step)
        assert_allclose(flat_gradient[k], difference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds, rho=st.floats(0.01, 1.0))
@settings(max_examples=5)
def test_natural_step_equals_the_reference_and_lands_on_the_optimum(kind, seed, rho):
    problem = random_problem(kind, seed)
    summed = statistics(problem.parameters, problem.stacked, problem.approximation.noise)
    eta = to_natural(problem.q)
    stepped = natural_step(eta, summed, rho)
    L = np.linalg.cholesky(reference.prior_cov(problem.Z, JITTER))
    stats = [
        reference.block_statistics(
            problem.X[rows], problem.y[rows], problem.C[np.ix_(rows, rows)], problem.Z,
            *problem.theta,
        )
        for rows in problem.blocks
    ]  # fmt: skip
    P, Pm = reference.natural_step(
        np.asarray(eta.precision), np.asarray(eta.precision_mean), stats, len(stats), L, rho
    )
    assert_allclose(stepped.precision, P, rtol=1e-7, atol=1e-7)
    assert_allclose(stepped.precision_mean, Pm, rtol=1e-7, atol=1e-7)
    landed, best = from_natural(natural_step(eta, summed, 1.0)), optimal_inducing(summed)
    assert_allclose(landed.v_mean, best.v_mean, rtol=1e-9, atol=1e-12)
    assert_allclose(landed.v_cov(), best.v_cov(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=5)
def test_bayesian_bound_tends_to_the_point_bound(kind, seed):
    problem = random_problem(kind, seed)
    theta = problem.parameters.theta
    noise = problem.approximation.noise

    def at(scale, route):
        narrow = theta._replace(xi=scale * theta.xi, beta=scale * theta.beta)
        parameters = problem.parameters._replace(theta=narrow)
        return collapsed_bound(statistics(parameters, problem.stacked, noise, route))

    point = at(0.0, Mehler(0))
    gaps = [abs(at(scale, ClosedForm()) - point) for scale in (1e-3, 1e-6)]
    assert gaps[1] <= 1e-4 * (1 + abs(point))
    assert gaps[1] <= 1e-2 * gaps[0] + 1e-8


@given(seed=seeds)
@settings(max_examples=8)
def test_bound_is_below_the_log_evidence(seed):
    """Whatever q(s), Z and noise structure, L_point ≤ log N(y; 0, K + C)."""
    for kind in KINDS:
        problem = random_problem(kind, seed)
        theta = problem.parameters.theta
        zero = theta._replace(xi=jnp.zeros_like(theta.xi), beta=jnp.zeros_like(theta.beta))
        parameters = problem.parameters._replace(theta=zero)
        noise = problem.approximation.noise
        value = collapsed_bound(statistics(parameters, problem.stacked, noise, Mehler(0)))
        nu, _, alpha, _ = problem.theta
        K = reference.se(problem.X, problem.X, nu, alpha**2) + problem.C
        evidence = -0.5 * (
            problem.y @ np.linalg.solve(K, problem.y) + np.linalg.slogdet(2 * np.pi * K)[1]
        )
        assert value <= evidence + 1e-8


@given(seed=seeds)
@settings(max_examples=4)
def test_bayesian_bound_is_below_the_log_evidence(seed):
    """log ∫ N(y; 0, K_θ + C) p(θ) dθ by quadrature over the prior, at one input."""
    problem = random_problem("pitc", seed, d=1, m=3, sizes=(4, 3))
    summed = statistics(problem.parameters, problem.stacked, problem.approximation.noise)
    value = collapsed_bound(summed) - kl_theta(problem.parameters.theta, PRIOR)
    mean, variance = PRIOR
    one = (np.array([mean]), np.array([variance]), mean, variance)
    lams, sigmas, weights = reference.quadrature_theta(*one, 60)
    delta = problem.X - problem.X.T
    kernels = np.exp(-0.5 * (lams[:, :, None] * delta) ** 2) * sigmas[:, None, None] ** 2
    K = kernels + problem.C
    y = np.broadcast_to(problem.y[:, None], (len(K), len(problem.y), 1))
    fit = np.sum(y * np.linalg.solve(K, y), axis=(1, 2))
    log_density = -0.5 * (fit + np.linalg.slogdet(2 * np.pi * K)[1])
    assert value <= np.log(weights @ np.exp(log_density)) + 1e-6


@pytest.mark.parametrize("order", [0, 1])
def test_large_blocks_take_less_memory_and_give_the_same(order, monkeypatch):
    """Correlated noise at once, and term by term with blocks recomputed on the way back."""
    problem = random_problem("pic", 7)

    def value(parameters):
        statistics = total_statistics(
            parameters, problem.stacked, problem.approximation.noise, Mehler(order), JITTER
        )
        return data_bound(statistics, problem.q)

    at_once = jax.value_and_grad(value)(problem.parameters)
    monkeypatch.setattr(bound, "STACK_BYTES", 0)
    by_term = jax.value_and_grad(value)(problem.parameters)
    for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(by_term), strict=True):
        assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_what_the_way_back_keeps_counts_rows_by_rows():
    wide = Block(jnp.zeros((16, 1200, 8)), jnp.zeros((16, 1200)), jnp.ones((16, 1200)))
    Z, noise = jnp.zeros((100, 8)), APPROXIMATIONS["pic"].noise
    assert bound._saved_bytes(Mehler(0), wide, Z, noise, True) > 1e9 > bound.STACK_BYTES
    assert bound._saved_bytes(Mehler(2), wide, Z, noise, True) == np.inf


@pytest.mark.parametrize("kind", [*KINDS, "pic by terms"])
@pytest.mark.parametrize("beyond", [False, True])
def test_an_expansion_that_may_stop_at_order_zero_is_one_of_two(kind, beyond, monkeypatch):
    """Value and gradient, with the choice made while it runs."""
    if kind == "pic by terms":  # as of blocks that are too large for all matrices at once
        monkeypatch.setattr(bound, "STACK_BYTES", 0)
        kind = "pic"
    problem = random_problem(kind, 3)
    noise, plain = problem.approximation.noise, Mehler(1 if beyond else 0)

    def value(parameters, route, beyond):
        summed = total_statistics(parameters, problem.stacked, noise, route, JITTER, beyond)
        return collapsed_bound(summed)

    chosen = jax.jit(jax.value_and_grad(lambda p, b: value(p, Mehler(1), b)))
    own, own_slope = chosen(problem.parameters, beyond)
    expected, slope = jax.value_and_grad(lambda p: value(p, plain, True))(problem.parameters)
    assert_allclose(own, expected, rtol=1e-12)
    for found, wanted in zip(jax.tree.leaves(own_slope), jax.tree.leaves(slope), strict=True):
        assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)
