"""Products that leave out what is zero or known equal the plain ones."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.model import linalg


@pytest.mark.parametrize("m", [1, 7, 130, 255, 257, 300])
def test_cut_products_equal_whole_ones(m):
    rng = np.random.default_rng(m)
    L = np.tril(rng.normal(size=(m, m))) / np.sqrt(m) + 2.0 * np.eye(m)
    A = rng.normal(size=(m, m))
    A = jnp.asarray(A + A.T)
    W = jnp.asarray(rng.normal(size=(40, m)))
    found = {
        "inverse": (linalg.triangular_inverse(L), np.linalg.inv(L)),
        "columns": (linalg.gram_of_columns(W), W.T @ W),
        "lower": (linalg.gram_of_lower(jnp.asarray(L)), L.T @ L),
        "outer": (linalg.outer_congruence(jnp.asarray(L), A), L @ A @ L.T),
        "inner": (linalg.inner_congruence(jnp.asarray(L), A), L.T @ A @ L),
    }
    for name, (ours, plain) in found.items():
        assert_allclose(ours, plain, rtol=1e-10, atol=1e-10, err_msg=name)
    assert np.all(np.triu(linalg.triangular_inverse(L), 1) == 0.0)


def test_a_matrix_that_cannot_be_factored_gives_nan():
    assert np.isnan(linalg.cholesky(jnp.asarray([[1.0, 2.0], [2.0, 1.0]]))).any()
