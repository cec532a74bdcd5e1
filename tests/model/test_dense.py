"""The dense part of a step equals the plain formulas, automatically differentiated."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import cho_solve, solve_triangular
from numpy.testing import assert_allclose

from mosaicgp.model.bound import Statistics, data_bound, natural_step
from mosaicgp.model.dense import Known, independent, moments
from mosaicgp.model.dense_blocks import correlated
from mosaicgp.model.given_theta import Features, matrices
from mosaicgp.model.lapack import NotPositive
from mosaicgp.model.noise import Residual
from mosaicgp.model.posterior import NaturalParameters, from_natural, kl_inducing

JITTER, WEIGHT, RHO, D = 1e-3, 7.0, 0.3, 3


def positive(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T / n + 0.5 * np.eye(n)


def unit(A, B):
    return jnp.exp(-0.5 * jnp.sum((A[:, None] - B[None]) ** 2, axis=2))


def plain_covariances(noise, n):
    """C of every block (b, n, n)."""
    if not isinstance(noise, Residual):
        return noise
    K_UU = unit(noise.U, noise.U) + JITTER * jnp.eye(len(noise.U))
    each = []
    for first in range(0, len(noise.rows), n):
        E, s = jnp.split(noise.rows[first : first + n], (D,), axis=1)
        K_U = s * unit(E, noise.U)
        R = s * s.T * unit(E, E) - K_U @ jnp.linalg.solve(K_UU, K_U.T)
        each.append(R + jnp.diag(noise.diagonal[first : first + n]))
    return jnp.stack(each)


def plain_statistics(rows, Z, noise, n):
    """Whitened, unweighted, without what ``Features.constant`` holds."""
    L = jnp.linalg.cholesky(unit(Z, Z) + JITTER * jnp.eye(len(Z)))
    C = None if noise is None else plain_covariances(noise, n)
    total = Statistics(0.0, 0.0, 0.0)
    for b in range(len(rows) // n):
        R, s, t = jnp.split(rows[b * n : b * n + n], (D, D + 1), axis=1)
        chol = jnp.eye(n) if C is None else jnp.linalg.cholesky(C[b])
        white = solve_triangular(chol, jnp.concatenate([s * unit(R, Z), t], axis=1), lower=True)
        V, y = solve_triangular(L, white[:, :-1].T, lower=True), white[:, -1]
        constant = -0.5 * y @ y
        if C is not None:
            constant -= jnp.sum(jnp.log(jnp.diagonal(chol)))
            constant -= 0.5 * jnp.trace(cho_solve((chol, True), s * s.T * unit(R, R)))
        total = jax.tree.map(jnp.add, total, Statistics(V @ V.T, V @ y, constant))
    return total


# Kind of noise, number of blocks, rows of a block, m: on both sides of a panel.
SHAPES = [
    ("independent", 1, 9, 4),
    ("independent", 1, 300, 135),
    ("covariance", 3, 6, 4),
    ("residual", 3, 6, 4),
    ("residual", 1, 1, 2),
    ("residual", 1, 140, 135),
]


def scaled(rng, n, d):
    rows = rng.normal(size=(n, d + 1))
    rows[:, D] = rng.uniform(0.5, 2.0, n) * rng.choice([-1.0, 1.0], n)
    return rows


def setting(kind, n_blocks, n, m, dtype=np.float64):
    rng = np.random.default_rng(n_blocks + n + m)
    n_rows = n_blocks * n
    noise = None
    if kind == "covariance":
        noise = np.stack([positive(rng, n) for _ in range(n_blocks)])
    if kind == "residual":
        U, diagonal = 1.5 * rng.normal(size=(m, D)), rng.uniform(0.5, 2.0, n_rows)
        noise = Residual(scaled(rng, n_rows, D), U, diagonal)
    rows = scaled(rng, n_rows, D + 1)
    found = Features(rows, 1.5 * rng.normal(size=(m, D)), np.zeros(()), noise)
    eta = NaturalParameters(rng.normal(size=m), positive(rng, m))
    found, eta = jax.tree.map(lambda part: np.asarray(part, dtype), (found, eta))
    return found, Known(eta, moments(eta), RHO, JITTER, WEIGHT), n_blocks


def by_hand(found, known, n_blocks):
    step = independent if found.noise is None else correlated
    return step(found, jax.tree.map(np.asarray, matrices(found, n_blocks)), known)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bound_slopes_and_q_equal_those_of_the_plain_formulas(shape):
    found, known, n_blocks = setting(*shape)
    q, n = from_natural(known.eta), len(found.rows) // n_blocks

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def bound(parts):
        statistics = jax.tree.map(lambda part: WEIGHT * part, plain_statistics(*parts, n))
        return data_bound(statistics, q) - kl_inducing(q), statistics

    (value, statistics), slopes = bound((found.rows, found.Z, found.noise))
    ours = by_hand(found, known, n_blocks)
    assert_allclose(ours.bound, value, rtol=1e-10)
    for own, plain in zip(jax.tree.leaves(ours.bars), jax.tree.leaves(slopes), strict=True):
        if plain.ndim == 3:  # C is symmetric: so is what is known of its slope
            plain = 0.5 * (plain + plain.transpose(0, 2, 1))
        assert_allclose(own, plain, rtol=1e-7, atol=1e-8 * float(jnp.max(jnp.abs(plain))))
    after = natural_step(known.eta, statistics, RHO)
    for own, plain in zip(ours.eta, after, strict=True):
        assert_allclose(own, plain, rtol=1e-7, atol=1e-8 * float(jnp.max(jnp.abs(plain))))
    expected = from_natural(after)
    assert_allclose(ours.q.mean, expected.v_mean, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.q.cov, expected.v_cov(), rtol=1e-6, atol=1e-8)
    assert_allclose(ours.q.kl(), kl_inducing(expected), rtol=1e-8)


def padded(part, n_blocks, value=0.0):
    """Three rows more for every block."""
    by_block = part.reshape(n_blocks, -1, *part.shape[1:])
    width = [(0, 0), (0, 3)] + [(0, 0)] * (by_block.ndim - 2)
    return np.pad(by_block, width, constant_values=value).reshape(-1, *part.shape[1:])


@pytest.mark.parametrize("kind", ["independent", "residual"])
def test_rows_that_pad_add_exactly_nothing(kind):
    found, known, n_blocks = setting(kind, 2, 6, 4)
    more = found._replace(rows=padded(found.rows, n_blocks))
    if kind == "residual":
        rows, U, diagonal = found.noise
        more = more._replace(
            noise=Residual(padded(rows, n_blocks), U, padded(diagonal, n_blocks, 1.0))
        )
    ours, theirs = by_hand(found, known, n_blocks), by_hand(more, known, n_blocks)
    assert_allclose(theirs.bound, ours.bound, rtol=1e-12)
    assert_allclose(theirs.bars.Z, ours.bars.Z, rtol=1e-9)
    pairs = [(theirs.bars.rows, ours.bars.rows)]
    if kind == "residual":
        pairs.append((theirs.bars.noise.rows, ours.bars.noise.rows))
        assert_allclose(theirs.bars.noise.U, ours.bars.noise.U, rtol=1e-9)
    for long, short in pairs:
        long = long.reshape(n_blocks, -1, long.shape[1])
        assert np.all(long[:, -3:] == 0.0)
        assert_allclose(long[:, :-3].reshape(short.shape), short, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [("independent", 1, 300, 150), ("residual", 2, 140, 20)], ids=str)
def test_one_thread_or_two_give_the_same_bits_and_leave_their_input(shape, monkeypatch):
    arguments = setting(*shape)
    copies = jax.tree.map(np.copy, arguments[:2])
    found = []
    for worth in (0.0, 0.0, np.inf):
        monkeypatch.setattr("mosaicgp.model.lane.WORTH", worth)
        found.append(by_hand(*arguments))
    for pair in zip(found, [*found[1:], found[0]], strict=True), [(arguments[:2], copies)]:
        for one, other in pair:
            for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
                assert np.array_equal(a, b)


def test_single_precision_stays_single():
    ours = by_hand(*setting("residual", 2, 6, 4, np.float32))
    for array in jax.tree.leaves((ours.eta, ours.q.mean, ours.q.cov, ours.bars)):
        assert array.dtype == np.float32


SPOILT = {
    "noise": lambda found, known: (found._replace(noise=-found.noise), known),
    "prior": lambda found, known: (found, known._replace(jitter=-2.0)),
    "precision": lambda found, known: (
        found,
        known._replace(eta=NaturalParameters(*map(np.negative, known.eta)), rho=1e-6),
    ),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_matrix_that_cannot_be_factored_is_named(what, monkeypatch):
    """Wherever it is factored: here, or in the other thread."""
    monkeypatch.setattr("mosaicgp.model.lane.WORTH", 0.0)
    *arguments, n_blocks = setting("covariance", 2, 6, 4)
    with pytest.raises(NotPositive, match="row"):
        by_hand(*SPOILT[what](*arguments), n_blocks)
    by_hand(*arguments, n_blocks)  # and the other thread goes on
