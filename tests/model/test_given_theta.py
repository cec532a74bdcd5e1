"""Statistics given θ: equal to the reference, unbiased over θ and blocks, gradients included."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.scipy.linalg import cho_solve, solve_triangular
from numpy.testing import assert_allclose, assert_array_equal

import reference
from mosaicgp.model.bound import Block, data_bound, total_statistics
from mosaicgp.model.dense import dense_statistics, probed_statistics, terms_statistics
from mosaicgp.model.expectations import ClosedForm, unit_upsilon
from mosaicgp.model.given_theta import (
    mirrored_nodes,
    nodes_shape,
    probing_signs,
    row_statistics,
    sampled_statistics,
    whiten,
)
from mosaicgp.model.kernel import unit_cross, unit_gram
from mosaicgp.model.linalg import cholesky, triangular_inverse
from mosaicgp.model.noise import projected_gram
from problems import JITTER, KINDS, random_problem

seeds = st.integers(0, 2**32 - 1)


def positive(rng, n):
    root = rng.normal(size=(n, n))
    return jnp.asarray(root @ root.T / n + 0.5 * np.eye(n))


def plain_dense(K, K_bb, C, y):
    chol = jnp.linalg.cholesky(C)
    u = cho_solve((chol, True), y)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol)))
    trace = jnp.trace(cho_solve((chol, True), K_bb))
    return K.T @ cho_solve((chol, True), K), K.T @ u, -0.5 * (log_det + y @ u + trace)


def plain_terms(K, C):
    return sum(K[:, t].T @ jnp.linalg.solve(C, K[:, t]) for t in range(K.shape[1]))


def own_terms(K, C):
    return terms_statistics(K, C, jax.lax.stop_gradient(jnp.linalg.inv(C)))


ROWS = np.random.default_rng(1).normal(size=(7, 11))


def plain_upsilon(A, B, nu, xi):
    delta2 = (A[:, None] - B[None]) ** 2
    s2 = 1.0 + xi * delta2
    return jnp.prod(jnp.exp(-0.5 * nu**2 * delta2 / s2) / jnp.sqrt(s2), axis=2)


def plain_whiten(Sigma, Q, g):
    L = jnp.linalg.cholesky(Sigma)
    half = solve_triangular(L, Q, lower=True)
    return solve_triangular(L, half.T, lower=True), solve_triangular(L, g, lower=True)


def plain_projected(K_UU, K_UX):
    return K_UX.T @ jnp.linalg.solve(K_UU, K_UX)


def own_projected(K_UU, K_UX):
    root = triangular_inverse(cholesky(K_UU))
    return projected_gram(K_UU, jax.lax.stop_gradient(root), K_UX)


def plain_cross(R, Z):
    return jnp.exp(-0.5 * jnp.sum((R[:, None] - Z[None]) ** 2, axis=2))


def plain_rows(W, t):
    return W.T @ W, W.T @ t


def symmetric(A):
    return 0.5 * (A + A.T)


def dense_arguments(rng, n):
    return rng.normal(size=(n, 5)), positive(rng, n), positive(rng, n), rng.normal(size=n)


SIGNS = np.sqrt(300) * np.linalg.qr(np.random.default_rng(5).normal(size=(300, 300)))[0]

PAIRS = {
    "row_statistics": (
        row_statistics,
        lambda R, Z, scale, t: plain_rows(scale[:, None] * plain_cross(R, Z), t),
        lambda rng: (
            rng.normal(size=(9, 3)),
            rng.normal(size=(4, 3)),
            rng.uniform(0.5, 2.0, size=9) * rng.choice([-1.0, 1.0], size=9),
            rng.normal(size=9),
        ),
    ),
    "whiten": (
        lambda S, Q, g: whiten(symmetric(S), symmetric(Q), g),
        lambda S, Q, g: plain_whiten(symmetric(S), symmetric(Q), g),
        lambda rng: (positive(rng, 70), positive(rng, 70), rng.normal(size=70)),
    ),
    "dense_statistics": (
        lambda K, B, C, y: dense_statistics(K, symmetric(B), symmetric(C), y)[:3],
        lambda K, B, C, y: plain_dense(K, symmetric(B), symmetric(C), y),
        partial(dense_arguments, n=80),
    ),
    # Columns with SSᵀ = tI leave nothing to chance: the estimates are the value and the slope.
    "probed_statistics": (
        lambda K, B, C, y: probed_statistics(K, symmetric(B), symmetric(C), y, jnp.asarray(SIGNS)),
        lambda K, B, C, y: plain_dense(K, symmetric(B), symmetric(C), y),
        partial(dense_arguments, n=300),
    ),
    "terms_statistics": (
        lambda K, C: (own_terms(K, symmetric(C)),),
        lambda K, C: (plain_terms(K, symmetric(C)),),
        lambda rng: (rng.normal(size=(80, 3, 5)), positive(rng, 80)),
    ),
    "unit_upsilon": (
        lambda nu, xi: (unit_upsilon(jnp.asarray(ROWS), jnp.asarray(ROWS[:4]), nu, xi),),
        lambda nu, xi: (plain_upsilon(ROWS, ROWS[:4], nu, xi),),
        lambda rng: (rng.normal(size=11), rng.uniform(0.1, 2.0, size=11)),
    ),
    "projected_gram": (
        lambda U, X: (own_projected(symmetric(U), X),),
        lambda U, X: (plain_projected(symmetric(U), X),),
        lambda rng: (positive(rng, 6), rng.normal(size=(6, 9))),
    ),
    "unit_gram": (
        lambda R: (unit_gram(R),),
        lambda R: (jnp.exp(-0.5 * jnp.sum((R[:, None] - R[None]) ** 2, axis=2)),),
        lambda rng: (rng.normal(size=(7, 3)),),
    ),
    "unit_cross": (
        lambda R, Z: (unit_cross(R, Z),),
        lambda R, Z: (plain_cross(R, Z),),
        lambda rng: (rng.normal(size=(7, 3)), rng.normal(size=(4, 3))),
    ),
}


SYMMETRIC = (
    "row_statistics",
    "whiten",
    "dense_statistics",
    "probed_statistics",
    "terms_statistics",
    "projected_gram",
)


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_by_hand_equal_automatic_ones(name):
    own, plain, draw = PAIRS[name]
    rng = np.random.default_rng(0)
    arguments = tuple(map(jnp.asarray, draw(rng)))
    values, pull = jax.vjp(own, *arguments)
    expected, plain_pull = jax.vjp(plain, *arguments)
    for ours, theirs in zip(values, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    bars = tuple(jnp.asarray(rng.normal(size=np.shape(value))) for value in values)
    # Slopes in symmetric matrices are symmetric (model/linalg.py).
    bars = tuple(symmetric(bar) if bar.ndim == 2 and name in SYMMETRIC else bar for bar in bars)
    for ours, theirs in zip(pull(bars), plain_pull(bars), strict=True):
        assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8 * float(jnp.max(jnp.abs(theirs))))


@partial(jax.jit, static_argnames="noise")
def drawn_bound(parameters, stacked, nodes, q, noise, probes=None):
    """Σ_b L_b at the θ of the nodes, and its gradient in everything the model knows."""

    def value(parameters):
        found = sampled_statistics(parameters, stacked, nodes, noise, JITTER, probes)
        return data_bound(found, q)

    return jax.value_and_grad(value)(parameters)


@partial(jax.jit, static_argnames="noise")
def exact_bound(parameters, stacked, q, noise):
    """The same in expectation, in closed form."""

    def value(parameters):
        statistics = total_statistics(parameters, stacked, noise, ClosedForm(), JITTER)
        return data_bound(statistics, q)

    return jax.value_and_grad(value)(parameters)


def standard_normal(problem, rng):
    n_blocks, block_size, d = problem.stacked.X.shape
    shape = nodes_shape(problem.approximation.noise, n_blocks, block_size, d)
    return jnp.asarray(mirrored_nodes(rng, shape))


@pytest.mark.parametrize("kind", ["pitc", "pic"])
@given(seed=seeds)
def test_a_block_given_theta_equals_the_reference(kind, seed):
    problem = random_problem(kind, seed)
    nodes = standard_normal(problem, np.random.default_rng(seed))
    noise = problem.approximation.noise
    value, gradient = drawn_bound(problem.parameters, problem.stacked, nodes, problem.q, noise)
    nu, xi, alpha, beta = problem.theta
    C, moments = problem.C, problem.moments
    total, by_lam, by_sigma = 0.0, np.zeros_like(nu), 0.0
    for node, rows in zip(np.asarray(nodes), problem.blocks, strict=True):
        lam = nu + np.sqrt(xi) * node[0, :-1]
        sigma_f = alpha + np.sqrt(beta) * node[0, -1]
        part, slope = reference.block_given_theta(
            problem.X[rows],
            problem.y[rows],
            C[np.ix_(rows, rows)],
            problem.Z,
            *moments,
            lam,
            sigma_f,
            JITTER,
        )
        total, by_lam, by_sigma = total + part, by_lam + slope["lam"], by_sigma + slope["sigma_f"]
    assert_allclose(value, total, rtol=1e-8, atol=1e-8)
    assert_allclose(gradient.theta.nu, by_lam, rtol=1e-6, atol=1e-6)
    assert_allclose(gradient.theta.alpha, by_sigma, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=8)
def test_at_the_means_of_theta_it_is_the_exact_bound_with_its_gradients(kind, seed):
    """With ξ, β → 0 nothing is left to chance: every gradient, unequal blocks."""
    problem = random_problem(kind, seed)
    theta = problem.parameters.theta._replace(
        xi=jnp.zeros_like(problem.parameters.theta.xi), beta=jnp.zeros(())
    )
    parameters = problem.parameters._replace(theta=theta)
    nodes = jnp.zeros_like(standard_normal(problem, np.random.default_rng(0)))
    noise = problem.approximation.noise
    value, slope = drawn_bound(parameters, problem.stacked, nodes, problem.q, noise)
    expected, expected_slope = exact_bound(parameters, problem.stacked, problem.q, noise)
    assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
    # At ξ = β = 0 a draw has no derivative in them: √ξ is not smooth there.
    for a, b in (
        (slope.theta.nu, expected_slope.theta.nu),
        (slope.theta.alpha, expected_slope.theta.alpha),
        (slope.Z, expected_slope.Z),
        *zip(slope.noise, expected_slope.noise, strict=True),
    ):
        assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_over_blocks_is_the_exact_bound_and_gradient(kind):
    """Closed form: B·L_b and B·∂L_b averaged over every choice of one block, unequal sizes."""
    problem = random_problem(kind, 5, sizes=(5, 1, 6, 2))
    noise, n_blocks = problem.approximation.noise, len(problem.blocks)
    value, slope = exact_bound(problem.parameters, problem.stacked, problem.q, noise)
    drawn = []
    for b in range(n_blocks):
        block = Block(*(part[b : b + 1] for part in problem.stacked))
        drawn.append(
            jax.tree.map(
                lambda part: n_blocks * part,
                exact_bound(problem.parameters, block, problem.q, noise),
            )
        )
    assert_allclose(np.mean([v for v, _ in drawn]), value, rtol=1e-9)
    average = jax.tree.map(lambda *parts: sum(parts) / n_blocks, *[s for _, s in drawn])
    for a, b in zip(jax.tree.leaves(average), jax.tree.leaves(slope), strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_theta_is_unbiased_for_the_bound_and_its_gradients(kind):
    problem = random_problem(kind, 11)
    noise, n_draws = problem.approximation.noise, 800
    rng = np.random.default_rng(3)
    nodes = jnp.stack([standard_normal(problem, rng) for _ in range(n_draws)])
    each = jax.jit(
        lambda nodes: jax.lax.map(
            lambda e: drawn_bound(problem.parameters, problem.stacked, e, problem.q, noise), nodes
        )
    )
    values, slopes = each(nodes)
    value, slope = exact_bound(problem.parameters, problem.stacked, problem.q, noise)
    pairs = zip([values, *jax.tree.leaves(slopes)], [value, *jax.tree.leaves(slope)], strict=True)
    for drawn, expected in pairs:
        error = np.std(drawn, axis=0) / np.sqrt(n_draws)
        assert np.all(np.abs(np.mean(drawn, axis=0) - expected) <= 4.0 * error + 1e-8)


@pytest.mark.parametrize("kind", ["pitc", "pic"])
def test_probes_leave_the_bound_and_its_gradients_unbiased(kind):
    problem = random_problem(kind, 7)
    noise, n_draws = problem.approximation.noise, 800
    nodes = standard_normal(problem, np.random.default_rng(0))
    known = (problem.parameters, problem.stacked, nodes, problem.q, noise)
    exact = drawn_bound(*known)
    shape = (n_draws, *problem.stacked.y.shape, 2)
    signs = jnp.asarray(np.random.default_rng(1).choice((-1.0, 1.0), size=shape))
    drawn = jax.jit(lambda signs: jax.lax.map(lambda some: drawn_bound(*known, some), signs))(signs)
    errors = []
    for found, expected in zip(jax.tree.leaves(drawn), jax.tree.leaves(exact), strict=True):
        error = np.std(found, axis=0) / np.sqrt(n_draws)
        assert np.all(np.abs(np.mean(found, axis=0) - expected) <= 4.0 * error + 1e-8)
        errors.append(float(np.max(error)))
    assert min(errors[0], max(errors[1:])) > 1e-6  # estimates were in use


def test_probes_are_signs_and_only_where_they_save_work():
    noise = {kind: random_problem(kind, 0).approximation.noise for kind in ("dtc", "fitc", "pic")}
    rng = np.random.default_rng(0)
    signs = probing_signs(rng, noise["pic"], (2, 256, 8))
    assert signs.shape == (2, 256, 16)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.05
    assert probing_signs(rng, noise["pic"], (2, 32, 8)) is None
    assert probing_signs(rng, noise["pic"], (2, 256, 280)) is None
    assert probing_signs(rng, noise["dtc"], (1, 1024, 8)) is None
    assert probing_signs(rng, noise["fitc"], (1, 1024, 8)) is None


@pytest.mark.parametrize("shape", [(2, 1, 3), (3, 1, 2), (1, 5, 4), (1, 1, 2)])
def test_half_of_the_draws_mirror_the_others(shape):
    nodes = mirrored_nodes(np.random.default_rng(0), shape)
    assert nodes.shape == shape
    flat = nodes.reshape(-1, shape[-1])
    n_mirrored = len(flat) // 2
    assert_array_equal(flat[len(flat) - n_mirrored :], -flat[:n_mirrored])
    many = np.stack([mirrored_nodes(np.random.default_rng(seed), shape) for seed in range(2000)])
    assert np.all(np.abs(many.mean(axis=0)) < 0.12)
    assert_allclose(many.std(axis=0), 1.0, atol=0.08)
