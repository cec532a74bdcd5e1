"""The dense part of a step equals the plain formulas, automatically differentiated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import cho_solve, solve_triangular
from numpy.testing import assert_allclose

from mosaicgp.model.bound import Statistics, data_bound, natural_step
from mosaicgp.model.dense import Known, moments, seen
from mosaicgp.model.given_theta import Features, matrices
from mosaicgp.model.lapack import NotPositive
from mosaicgp.model.posterior import NaturalParameters, from_natural, kl_inducing

JITTER, WEIGHT, RHO, D = 1e-3, 7.0, 0.3, 3


def positive(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T / n + 0.5 * np.eye(n)


def unit(A, B):
    return jnp.exp(-0.5 * jnp.sum((A[:, None] - B[None]) ** 2, axis=2))


def plain_statistics(rows, Z, C):
    """Whitened, unweighted, without what ``Features.constant`` holds."""
    L = jnp.linalg.cholesky(unit(Z, Z) + JITTER * jnp.eye(len(Z)))
    n_blocks, n = (1, len(rows)) if C is None else C.shape[:2]
    total = None
    for b in range(n_blocks):
        R, s, t = jnp.split(rows[b * n : b * n + n], (D, D + 1), axis=1)
        chol = jnp.eye(n) if C is None else jnp.linalg.cholesky(C[b])
        white = solve_triangular(chol, jnp.concatenate([s * unit(R, Z), t], axis=1), lower=True)
        W, y = white[:, :-1], white[:, -1]
        V = solve_triangular(L, W.T, lower=True)
        constant = -0.5 * y @ y
        if C is not None:
            constant -= jnp.sum(jnp.log(jnp.diagonal(chol)))
            constant -= 0.5 * jnp.trace(cho_solve((chol, True), s * s.T * unit(R, R)))
        part = Statistics(V @ V.T, V @ y, constant)
        total = part if total is None else jax.tree.map(jnp.add, total, part)
    return total


# n_blocks (0: independent rows), rows of a block, m: sizes on both sides of a panel.
SHAPES = [(0, 9, 4), (0, 300, 135), (3, 6, 4), (1, 1, 2), (1, 140, 135)]


def setting(n_blocks, n, m, dtype=np.float64):
    rng = np.random.default_rng(n_blocks + n + m)
    n_rows = max(n_blocks, 1) * n
    rows = rng.normal(size=(n_rows, D + 2))
    rows[:, D] = rng.uniform(0.5, 2.0, n_rows) * rng.choice([-1.0, 1.0], n_rows)
    C = np.stack([positive(rng, n) for _ in range(n_blocks)]) if n_blocks else None
    found = Features(rows, 1.5 * rng.normal(size=(m, D)), C, np.zeros(()))
    eta = NaturalParameters(rng.normal(size=m), positive(rng, m))
    found, eta = jax.tree.map(lambda part: np.asarray(part, dtype), (found, eta))
    return found, Known(eta, moments(eta), RHO, JITTER, WEIGHT)


def by_hand(found, known):
    return seen(found, jax.tree.map(np.asarray, matrices(found)), known)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bound_slopes_and_q_equal_those_of_the_plain_formulas(shape):
    found, known = setting(*shape)
    q = from_natural(known.eta)

    def bound(rows, Z, C):
        statistics = jax.tree.map(lambda part: WEIGHT * part, plain_statistics(rows, Z, C))
        return data_bound(statistics, q) - kl_inducing(q), statistics

    arguments = (0, 1) if found.C is None else (0, 1, 2)
    gradient = jax.jit(jax.value_and_grad(bound, arguments, has_aux=True))
    (value, statistics), slopes = gradient(*map(jnp.asarray, found[:2]), found.C)
    ours = by_hand(found, known)
    assert_allclose(ours.bound, value, rtol=1e-10)
    for own, plain in zip(ours.bars, slopes, strict=False):
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


@pytest.mark.parametrize("shape", [(0, 9, 4), (2, 6, 4)], ids=str)
def test_rows_that_pad_add_exactly_nothing(shape):
    found, known = setting(*shape)
    n_blocks, n, _ = shape
    by_block = found.rows.reshape(max(n_blocks, 1), n, D + 2)
    rows = np.pad(by_block, ((0, 0), (0, 3), (0, 0))).reshape(-1, D + 2)
    C = found.C
    if C is not None:
        C = np.zeros((n_blocks, n + 3, n + 3)) + np.eye(n + 3)
        C[:, :n, :n] = found.C
    padded = by_hand(found._replace(rows=rows, C=C), known)
    ours = by_hand(found, known)
    assert_allclose(padded.bound, ours.bound, rtol=1e-12)
    assert_allclose(padded.bars.Z, ours.bars.Z, rtol=1e-9)
    rows_bar = padded.bars.rows.reshape(*by_block.shape[:1], n + 3, D + 2)
    assert_allclose(rows_bar[:, :n].reshape(-1, D + 2), ours.bars.rows, rtol=1e-9, atol=1e-9)
    assert np.all(rows_bar[:, n:] == 0.0)


@pytest.mark.parametrize("shape", [(0, 300, 150), (2, 140, 20)], ids=str)
def test_the_same_arrays_give_the_same_bits_and_stay_as_they_were(shape):
    found, known = setting(*shape)
    copies = jax.tree.map(np.copy, (found, known))
    first, second = by_hand(found, known), by_hand(found, known)
    for pair in (first, second), ((found, known), copies):
        for a, b in zip(*map(jax.tree.leaves, pair), strict=True):
            assert np.array_equal(a, b)


def test_single_precision_stays_single():
    found, known = setting(2, 6, 4, np.float32)
    ours = by_hand(found, known)
    for array in jax.tree.leaves((ours.eta, ours.q.mean, ours.q.cov, ours.bars)):
        assert array.dtype == np.float32


def not_positive_noise(found, known):
    return found._replace(C=-found.C), known


def not_positive_prior(found, known):
    return found, known._replace(jitter=-2.0)


def not_positive_precision(found, known):
    return found, known._replace(eta=known.eta._replace(precision=-1e6 * known.eta.precision))


@pytest.mark.parametrize("spoil", [not_positive_noise, not_positive_prior, not_positive_precision])
def test_a_matrix_that_cannot_be_factored_is_named(spoil):
    """Wherever it is factored: here, or in the other thread."""
    with pytest.raises(NotPositive, match="row"):
        by_hand(*spoil(*setting(2, 6, 4)))
    by_hand(*setting(2, 6, 4))  # and the other thread goes on
