"""Factors, inverses and products on NumPy arrays equal the plain ones, on both sides of a panel."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp.model import lapack
from mosaicgp.model.lane import Lane

TOLERANCE = {np.float64: 1e-10, np.float32: 2e-4}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("m", [1, 7, 128, 129, 300])
def test_products_and_factors_equal_plain_ones(m, dtype):
    rng = np.random.default_rng(m)
    L = np.tril(rng.normal(size=(m, m))) / np.sqrt(m) + 2.0 * np.eye(m)
    A, B = rng.normal(size=(m, m)) / np.sqrt(m), rng.normal(size=(m, m)) / np.sqrt(m)
    S = A + A.T
    single = [part.astype(dtype) for part in (L, S, A, B, L @ L.T)]
    own_L, own_S, own_A, own_B, own_LLt = single
    lower = np.tril(A @ B)
    found = {
        "cholesky": (lapack.cholesky(own_LLt), L),
        "inverse": (lapack.inverse(own_L), np.linalg.inv(L)),
        "gram": (lapack.gram_of_lower(own_L), L.T @ L),
        "outer": (lapack.outer_congruence(own_L, own_S), L @ S @ L.T),
        "inner": (lapack.inner_congruence(own_L, own_S), L.T @ S @ L),
        "mirrored": (lapack.mirrored_product(own_A, own_B), lower + np.tril(lower, -1).T),
    }
    for name, (ours, plain) in found.items():
        assert ours.dtype == dtype
        assert_allclose(ours, plain, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=name)
    for name in ("cholesky", "inverse"):
        assert np.all(np.triu(found[name][0], 1) == 0.0)
    assert_allclose(lapack.log_det(own_L), 2 * np.linalg.slogdet(L)[1], rtol=TOLERANCE[dtype])
    for before, after in zip((L, S, A, B, L @ L.T), single, strict=True):
        assert np.array_equal(before.astype(dtype), after)  # nothing is overwritten


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_what_cannot_be_factored_raises(bad):
    A = np.eye(5)
    A[3, 3] = bad
    with np.errstate(all="ignore"), pytest.raises(lapack.NotPositive, match=r"row 4|finite"):
        lapack.cholesky(A)


@pytest.mark.parametrize(("flops", "name"), [(1e9, "mosaicgp"), (1.0, "MainThread")])
def test_the_lane_keeps_the_order_and_hands_on_errors(flops, name):
    lane = Lane(flops)
    first = lane.beside(lambda: threading.current_thread().name)
    second = lane.beside(lambda: (first.result(), "after"))
    assert second.result() == (name, "after")
    assert second.result() == (name, "after")  # as often as asked

    def fails():
        raise KeyError("oops")

    failed = lane.beside(fails)
    with pytest.raises(KeyError, match="oops"):
        failed.result()
    assert lane.beside(lambda: 3).result() == 3
