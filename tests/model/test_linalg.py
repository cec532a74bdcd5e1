"""Products that leave out what is zero or known equal the plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.model import linalg


@pytest.mark.parametrize("m", [1, 7, 130, 255, 257, 300, 521])
def test_cut_products_equal_whole_ones(m):
    rng = np.random.default_rng(m)
    L = np.tril(rng.normal(size=(m, m))) / np.sqrt(m) + 2.0 * np.eye(m)
    A = rng.normal(size=(m, m))
    A = jnp.asarray(A + A.T)
    V, B = jnp.asarray(rng.normal(size=(m, 40))), jnp.asarray(rng.normal(size=(40, m)))
    lower = np.tril(V @ B, -1)
    mirrored = 0.5 * (lower + lower.T + np.diag(np.diagonal(V @ B)))
    found = {
        "inverse": (linalg.triangular_inverse(L), np.linalg.inv(L)),
        "rows": (linalg.gram_of_rows(V), V @ V.T),
        "lower": (linalg.gram_of_lower(jnp.asarray(L)), L.T @ L),
        "outer": (linalg.outer_congruence(jnp.asarray(L), A), L @ A @ L.T),
        "inner": (linalg.inner_congruence(jnp.asarray(L), A), L.T @ A @ L),
        "congruence": (linalg.congruence(A, A + jnp.eye(m)), A @ (A + np.eye(m)) @ A),
        "mirrored": (linalg.mirrored_product(V, B), mirrored),
        "factor": (linalg.halved_cholesky(jnp.asarray(L @ L.T)), np.linalg.cholesky(L @ L.T)),
        "below": (linalg.solve_lower(jnp.asarray(L), V), np.linalg.solve(L, V)),
        "above": (linalg.solve_upper(jnp.asarray(L), V), np.linalg.solve(L.T, V)),
    }
    for name, (ours, plain) in found.items():
        assert_allclose(ours, plain, rtol=1e-10, atol=1e-10, err_msg=name)
    assert np.all(np.triu(linalg.triangular_inverse(L), 1) == 0.0)


def test_the_slope_of_a_factor_is_symmetric():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 5))
    slope = jax.grad(lambda A: jnp.sum(linalg.cholesky(A) ** 3))(jnp.asarray(A @ A.T + np.eye(5)))
    assert_allclose(slope, slope.T, rtol=1e-14)
    assert np.ptp(slope) > 0.1


def test_a_matrix_that_cannot_be_factored_gives_nan():
    assert np.isnan(linalg.cholesky(jnp.asarray([[1.0, 2.0], [2.0, 1.0]]))).any()
    not_positive = np.eye(600)
    not_positive[0, 599] = not_positive[599, 0] = 2.0  # found out in the last half
    assert np.isnan(linalg.halved_cholesky(jnp.asarray(not_positive))).any()


def test_log_det_of_a_factor():
    L = np.tril(np.random.default_rng(0).uniform(0.5, 2.0, size=(6, 6)))
    assert_allclose(linalg.log_det(jnp.asarray(L)), np.linalg.slogdet(L @ L.T)[1])
