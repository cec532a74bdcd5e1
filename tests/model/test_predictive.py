"""The test conditionals against dense evaluations of the joint Gaussian."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from mosaicgp.model.bound import Block, Parameters, optimal_inducing, total_statistics
from mosaicgp.model.expectations import Mehler
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.noise import NoiseParameters
from mosaicgp.model.posterior import ThetaPosterior
from mosaicgp.model.predictive import (
    joint_moments,
    local_factor,
    local_joint,
    local_moments,
    moments,
    predictive_state,
)
from mosaicgp.model.predictive import (
    new_rows as rows_of_block,
)
from problems import JITTER, random_problem

seeds = st.integers(0, 2**32 - 1)
closed = jax.jit(moments, static_argnames="bayesian")
joint = jax.jit(joint_moments, static_argnames=("bayesian", "order"))


def state_of(problem):
    return predictive_state(
        problem.parameters, problem.q, problem.approximation.noise, jnp.asarray(JITTER)
    )


def new_rows(seed: int, n: int = 4) -> np.ndarray:
    return np.random.default_rng(seed + 1).normal(scale=1.5, size=(n, 2))


@given(seed=seeds)
def test_moments_through_s_equal_the_reference(seed):
    problem = random_problem("dtc", seed)
    X_new = new_rows(seed)
    mean, covariance = reference.predict_given_s(
        X_new, problem.Z, *problem.moments, *problem.theta, JITTER
    )
    found_mean, variance = closed(state_of(problem), jnp.asarray(X_new), True)
    assert_allclose(found_mean, mean, rtol=1e-7, atol=1e-8)
    assert_allclose(variance, np.diag(covariance), rtol=1e-7, atol=1e-7)
    joint_mean, joint_covariance = joint(state_of(problem), jnp.asarray(X_new), True, None)
    assert_allclose(joint_mean, mean, rtol=1e-7, atol=1e-8)
    assert_allclose(joint_covariance, covariance, rtol=1e-6, atol=1e-7)


@given(seed=seeds)
@settings(max_examples=6)
def test_joint_by_the_expansion_tends_to_the_closed_form(seed):
    problem = random_problem("dtc", seed)
    theta = problem.parameters.theta
    narrow = problem.parameters._replace(theta=theta._replace(xi=0.05 * theta.xi))
    state = state_of(problem)._replace(parameters=narrow)
    X_new = jnp.asarray(new_rows(seed))
    exact = joint(state, X_new, True, None)[1]
    errors = [float(jnp.abs(joint(state, X_new, True, k)[1] - exact).max()) for k in (0, 2, 4)]
    assert errors[2] <= errors[1] <= errors[0]
    assert errors[2] <= 1e-3 * float(jnp.abs(exact).max())


def test_moments_equal_quadrature_over_theta():
    problem = random_problem("dtc", 4)
    X_new = new_rows(4)
    mean, covariance = problem.moments
    Sigma_inv = np.linalg.inv(reference.prior_cov(problem.Z, JITTER))
    nodes = reference.quadrature_theta(*problem.theta, 48, 3)

    def conditional(lam, sigma_f):
        K = reference.cross_kernel(X_new, problem.Z, lam, sigma_f)
        H = K @ Sigma_inv
        own = reference.se(X_new, X_new, lam, sigma_f**2) - H @ K.T
        return H @ mean, own + H @ covariance @ H.T

    means, covs = zip(*(conditional(*node) for node in zip(*nodes[:2], strict=True)), strict=True)
    mixed_mean, mixed_cov = reference.mix_moments(nodes[2], means, covs)
    found_mean, variance = closed(state_of(problem), jnp.asarray(X_new), True)
    assert_allclose(found_mean, mixed_mean, atol=1e-8)
    assert_allclose(variance, np.diag(mixed_cov), atol=1e-7)


@partial(jax.jit, static_argnames=("noise", "of_y"))
def local(state, lam, sigma_f, block, X_new, noise, of_y):
    shared = state.prepared.noise
    factor = local_factor(state, lam, sigma_f, block, noise.covariance(shared, block.X, block.mask))
    arguments = (
        state,
        lam,
        sigma_f,
        block,
        factor,
        rows_of_block(state, X_new, block, noise, of_y),
    )
    C_new = noise.joint(shared, X_new) if of_y else jnp.zeros((len(X_new), len(X_new)))
    return local_moments(*arguments), local_joint(*arguments, C_new)


@pytest.mark.parametrize("of_y", [False, True])
@given(seed=seeds)
def test_conditioning_on_the_block_equals_the_dense_joint(of_y, seed):
    problem = random_problem("pic", seed)
    rng = np.random.default_rng(seed)
    lam, sigma_f = rng.normal(size=2), rng.uniform(0.5, 1.5)
    rows, X_new = problem.blocks[1], new_rows(seed)
    noise = problem.parameters.noise
    eps = (np.asarray(noise.U), float(noise.eps_variance), np.asarray(noise.eps_lam), JITTER)
    C_sb = reference.noise_residual(X_new, problem.X[rows], *eps)
    C_ss = reference.noise_residual(X_new, X_new, *eps) + noise.noise_variance * np.eye(4)
    mean, covariance = reference.pic_given_theta(
        X_new, problem.X[rows], problem.y[rows], problem.Z, *problem.moments, lam, sigma_f,
        problem.C[np.ix_(rows, rows)], of_y * C_sb, of_y * np.asarray(C_ss), JITTER,
    )  # fmt: skip
    block = Block(*(part[1] for part in problem.stacked))
    arguments = (jnp.asarray(lam), jnp.asarray(sigma_f), block, jnp.asarray(X_new))
    (found_mean, variance), together = local(
        state_of(problem), *arguments, problem.approximation.noise, of_y
    )
    assert_allclose(found_mean, mean, rtol=1e-6, atol=1e-7)
    assert_allclose(variance, np.diag(covariance), rtol=1e-6, atol=1e-7)
    assert_allclose(together.mean, mean, rtol=1e-6, atol=1e-7)
    assert_allclose(
        together.own + together.spread @ together.spread.T, covariance, rtol=1e-6, atol=1e-7
    )


def classical(kind: str, seed: int, sizes=(6, 5, 7)):
    """A point-estimate model whose noise kernel is its own kernel, at q*(s)."""
    problem = random_problem(kind, seed, m=5, sizes=sizes)
    nu, _, alpha, _ = problem.theta
    U = problem.Z / nu
    noise = NoiseParameters(
        *map(jnp.asarray, (0.1, alpha**2, nu, U)),
    )
    zeros = jnp.zeros(2)
    theta = ThetaPosterior(jnp.asarray(nu), zeros, jnp.asarray(alpha), jnp.zeros(()))
    parameters = Parameters(theta, problem.parameters.Z, noise)
    structure = APPROXIMATIONS[kind].noise
    summed = jax.jit(total_statistics, static_argnums=(2, 3))(
        parameters, problem.stacked, structure, Mehler(0), JITTER
    )
    state = predictive_state(parameters, optimal_inducing(summed), structure, jnp.asarray(JITTER))
    return problem, U, state


@given(seed=seeds)
@settings(max_examples=6)
def test_fitc_with_the_kernel_as_noise_kernel_is_fitc(seed):
    problem, U, state = classical("fitc", seed)
    nu, _, alpha, _ = problem.theta
    X_new = new_rows(seed)
    mean, covariance, _ = reference.fitc_dense(
        problem.X, problem.y, X_new, U, nu, alpha, 0.1, JITTER
    )
    found_mean, variance = closed(state, jnp.asarray(X_new), False)
    assert_allclose(found_mean, mean, rtol=1e-5, atol=1e-6)
    assert_allclose(variance, np.diag(covariance), rtol=1e-5, atol=1e-6)


@given(seed=seeds)
@settings(max_examples=6)
def test_pitc_with_the_kernel_as_noise_kernel_is_pitc(seed):
    problem, U, state = classical("pitc", seed)
    nu, _, alpha, _ = problem.theta
    X_new = new_rows(seed)
    mean, covariance, _ = reference.pitc_dense(
        problem.X, problem.y, X_new, problem.blocks, U, nu, alpha, 0.1, JITTER
    )
    found_mean, variance = closed(state, jnp.asarray(X_new), False)
    assert_allclose(found_mean, mean, rtol=1e-5, atol=1e-6)
    assert_allclose(variance, np.diag(covariance), rtol=1e-5, atol=1e-6)


@given(
    seed=seeds,
    distance=st.floats(3.0, 13.0),
    ratio=st.floats(0.5, 12.0),
    both=st.booleans(),
)
def test_far_from_the_data_the_prior_returns(seed, distance, ratio, both):
    """At any distance, and however wide q(λ) is beside its mean."""
    problem = random_problem("dtc", seed)
    theta = problem.parameters.theta
    theta = theta._replace(xi=(theta.nu / ratio) ** 2 + 1e-9)
    state = state_of(problem)._replace(parameters=problem.parameters._replace(theta=theta))
    rng = np.random.default_rng(seed)
    far = 10.0**distance * rng.choice([-1.0, 1.0], size=(4, 2)) * rng.uniform(1, 9, size=(4, 2))
    if not both:
        far[:, 1] = rng.normal(size=4)
    mean, variance = closed(state, jnp.asarray(far), True)
    second = theta.alpha**2 + theta.beta
    reach = 50.0 * 10.0**-distance / float(jnp.sqrt(theta.xi).min())  # ω falls as 1/(√ξ|x|)
    scale = float(jnp.abs(problem.q.v_mean).max()) * 100.0
    assert_allclose(mean, 0.0, atol=scale * reach)
    assert_allclose(variance, second, rtol=min(scale**2 * reach, 1.0) + 1e-9)
    assert np.all(variance > 0)


def test_a_posterior_wider_than_the_prior_has_no_root():
    problem = random_problem("dtc", 0)
    wide = problem.q._replace(v_root=1.1 * jnp.eye(len(problem.q.v_mean)))
    state = predictive_state(
        problem.parameters, wide, problem.approximation.noise, jnp.asarray(JITTER)
    )
    assert np.any(np.isnan(state.root))
    narrow = state_of(problem)
    taken = narrow.white @ (jnp.eye(len(narrow.white)) - problem.q.v_cov()) @ narrow.white.T
    if np.all(np.isfinite(narrow.root)):
        assert_allclose(narrow.root @ narrow.root.T, taken, rtol=1e-6, atol=1e-6)
