"""Ω, Υ and Ψ against naive loops, quadrature over q(θ) and Monte Carlo; the routes to Ψ."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from mosaicgp.model.bound import Block, prepare
from mosaicgp.model.expectations import (
    ClosedForm,
    Mehler,
    Route,
    cross_remainder,
    multi_indices,
    omega,
    psi,
    quadratic_remainder,
    unit_omega,
    upsilon,
)
from mosaicgp.model.posterior import nodes_to_theta
from problems import JITTER, random_problem

seeds = st.integers(0, 2**32 - 1)
small = st.sampled_from([(1, 3, (4,)), (2, 4, (5,))])


omega = jax.jit(omega)
upsilon = jax.jit(upsilon)
quadratic_remainder = jax.jit(quadratic_remainder, static_argnames="memory")


@partial(jax.jit, static_argnames=("noise", "route"))
def _block_psi(parameters, X, mask, noise, route) -> jax.Array:
    prepared = prepare(parameters, noise, JITTER)
    factor = noise.factor(prepared.noise, X, mask)
    eye = jnp.eye(parameters.Z.shape[0])
    return psi(X, mask, parameters.Z, factor, parameters.theta, route, eye)


def block_psi(problem, route: Route, block: int = 0) -> np.ndarray:
    """Ψ of one block by a route, not whitened."""
    X, _, mask = (part[block] for part in problem.stacked)
    noise = problem.approximation.noise
    return np.asarray(_block_psi(problem.parameters, X, mask, noise, route))


def naive_psi(problem, block: int = 0) -> np.ndarray:
    rows = problem.blocks[block]
    C_inv = np.linalg.inv(problem.C[np.ix_(rows, rows)])
    return reference.psi(problem.Z, problem.X[rows], C_inv, *problem.theta)


@given(seeds, small)
def test_closed_forms_equal_naive_loops(seed, shape):
    problem = random_problem("dtc", seed, *shape)
    X, Z, theta = problem.X, problem.Z, problem.parameters.theta
    nu, xi, alpha, _ = problem.theta
    assert_allclose(omega(X, Z, theta), reference.omega(Z, X, nu, xi, alpha).T, atol=1e-12)
    assert_allclose(upsilon(X, X, theta), reference.upsilon(X, *problem.theta), atol=1e-12)


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pitc"])
@given(seed=seeds, memory=st.sampled_from([1, 200, 2**20]))
def test_closed_psi_equals_naive_loops_at_any_memory(kind, seed, memory):
    problem = random_problem(kind, seed)
    assert_allclose(
        block_psi(problem, ClosedForm(memory)), naive_psi(problem), rtol=1e-10, atol=1e-11
    )


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pitc"])
@given(seed=seeds, shape=small)
@example(seed=93631, shape=(2, 4, (5,)))  # needs more than 60 nodes a dimension
@settings(max_examples=4)
def test_expectations_equal_quadrature(kind, seed, shape):
    problem = random_problem(kind, seed, *shape)
    rows = problem.blocks[0]
    X, Z = problem.X[rows], problem.Z
    C_inv = np.linalg.inv(problem.C[np.ix_(rows, rows)])
    lams, sigmas, weights = reference.quadrature_theta(*problem.theta, 240 // X.shape[1], 3)
    rotated = lams[:, None, :] * X
    K = np.exp(-0.5 * np.sum((rotated[:, :, None] - Z) ** 2, axis=-1)) * sigmas[:, None, None]
    delta = rotated[:, :, None] - rotated[:, None]
    K_XX = np.exp(-0.5 * np.sum(delta**2, axis=-1)) * sigmas[:, None, None] ** 2
    first = np.einsum("q,qxz->xz", weights, K)
    second = np.einsum("q,qxz,qxw->zw", weights, K, C_inv @ K)
    prior = np.einsum("q,qxy->xy", weights, K_XX)
    theta = problem.parameters.theta
    assert_allclose(omega(jnp.asarray(X), Z, theta), first, atol=1e-9)
    assert_allclose(upsilon(jnp.asarray(X), jnp.asarray(X), theta), prior, atol=1e-9)
    assert_allclose(block_psi(problem, ClosedForm()), second, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kind", ["dtc", "pitc"])
@given(seed=seeds)
@settings(max_examples=5, derandomize=True)
def test_expectations_at_eight_inputs_equal_monte_carlo(kind, seed):
    problem = random_problem(kind, seed, d=8, m=5, sizes=(6,))
    theta, Z = problem.parameters.theta, problem.parameters.Z
    X = jnp.asarray(problem.X[problem.blocks[0]])
    C_inv = jnp.linalg.inv(jnp.asarray(problem.C)[jnp.ix_(*[problem.blocks[0]] * 2)])
    lams, sigmas = nodes_to_theta(jax.random.normal(jax.random.key(seed), (20_000, 9)), theta)
    distance = jnp.sum((X[:, None] * lams[:, None, None] - Z) ** 2, axis=-1)
    K = sigmas[:, None, None] * jnp.exp(-0.5 * distance)
    delta = (X[:, None] - X) * lams[:, None, None]
    prior = sigmas[:, None, None] ** 2 * jnp.exp(-0.5 * jnp.sum(delta**2, axis=-1))
    rng = np.random.default_rng(seed)
    draws = {
        "omega": (K, omega(X, Z, theta)),
        "upsilon": (prior, upsilon(X, X, theta)),
        "psi": (
            jnp.einsum("sxz,xy,syw->szw", K, C_inv, K),
            block_psi(problem, ClosedForm()),
        ),
    }
    for name, (samples, exact) in draws.items():
        # One random contraction of each matrix: a single number with a known standard error.
        direction = rng.normal(size=exact.shape)
        values = np.asarray(jnp.sum(samples * direction, axis=(1, 2)))
        error = abs(values.mean() - np.sum(direction * exact))
        assert error <= 4 * values.std() / np.sqrt(len(values)), name


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pitc"])
@given(seed=seeds)
@settings(max_examples=8)
def test_mehler_sums_increase_to_the_closed_form(kind, seed):
    problem = random_problem(kind, seed)
    sums = [block_psi(problem, Mehler(order)) for order in (0, 1, 2, 4, 8)]
    closed = block_psi(problem, ClosedForm())
    scale = np.abs(closed).max()
    for lower, upper in zip(sums, [*sums[1:], closed], strict=True):
        assert np.linalg.eigvalsh(upper - lower).min() >= -1e-12 * scale
    errors = [np.abs(closed - partial).max() for partial in sums]
    assert errors[-1] <= 0.05 * errors[0] + 1e-12 * scale


@given(seed=seeds, order=st.integers(0, 3))
@settings(max_examples=8)
def test_mehler_terms_equal_the_naive_expansion(seed, order):
    problem = random_problem("pitc", seed)
    rows = problem.blocks[0]
    C_inv = np.linalg.inv(problem.C[np.ix_(rows, rows)])
    terms = [(0, 0)] + [tuple(t.count(k) for k in range(2)) for t in multi_indices(2, order)]
    expected = sum(
        reference.mehler_term(problem.Z, problem.X[rows], C_inv, *problem.theta, term)
        for term in terms
    )
    assert_allclose(block_psi(problem, Mehler(order)), expected, rtol=1e-9, atol=1e-11)


def test_mehler_converges_at_eight_inputs():
    problem = random_problem("pitc", 0, d=8, m=4, sizes=(6,))
    theta = problem.parameters.theta._replace(xi=jnp.full(8, 0.0014))
    problem = problem.__class__(
        **{**problem.__dict__, "parameters": problem.parameters._replace(theta=theta)}
    )
    closed = block_psi(problem, ClosedForm())
    errors = [
        np.linalg.norm(block_psi(problem, Mehler(k)) - closed) / np.linalg.norm(closed)
        for k in range(4)
    ]
    assert errors[1] < 1e-3 and errors[3] < 1e-6
    assert all(after < before for before, after in pairwise(errors))


@given(seed=seeds)
@settings(max_examples=8)
def test_remainders_contract_the_second_moment(seed):
    problem = random_problem("dtc", seed)
    theta, Z = problem.parameters.theta, problem.parameters.Z
    X = jnp.asarray(problem.X[:5])
    A = np.random.default_rng(seed).normal(size=(4, 4))
    A = A + A.T
    nu, xi, alpha, beta = problem.theta
    expected = np.zeros((5, 5))
    for a in range(5):
        for b in range(5):
            for i in range(4):
                for j in range(4):
                    moment = reference.psi_pair(
                        problem.Z[i], problem.X[a], problem.X[b], problem.Z[j], nu, xi, alpha, beta
                    )
                    expected[a, b] += A[i, j] * moment
    unit = unit_omega(X, Z, theta)
    plain = (alpha**2 + beta) * unit @ A @ unit.T
    assert_allclose(plain + cross_remainder(X, Z, jnp.asarray(A), theta), expected, atol=1e-11)
    assert_allclose(
        jnp.diagonal(plain) + quadratic_remainder(X, Z, jnp.asarray(A), theta, memory=100),
        np.diagonal(expected),
        atol=1e-11,
    )


@pytest.mark.parametrize("route", [ClosedForm(), Mehler(2)])
@pytest.mark.parametrize("kind", ["dtc", "pitc"])
def test_padding_rows_add_nothing(kind, route):
    problem = random_problem(kind, 3)
    X, y, mask = problem.stacked
    wider = Block(
        jnp.pad(X, ((0, 0), (0, 4), (0, 0)), constant_values=7.0),
        jnp.pad(y, ((0, 0), (0, 4))),
        jnp.pad(mask, ((0, 0), (0, 4))),
    )
    padded = problem.__class__(**{**problem.__dict__, "stacked": wider})
    assert_allclose(block_psi(padded, route), block_psi(problem, route), rtol=1e-12)
