"""The dense GP against SciPy's Gaussian, finite differences and the naive kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import reference
from mosaicgp.rivals import dense_gp


def problem(seed, n_kernels, n=7, d=2):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    return X, y, rng.normal(scale=0.5, size=n_kernels * (d + 1) + 1)


def naive_covariance(kernels, A, B):
    parts = zip(kernels.lam, kernels.variance, strict=True)
    return sum(reference.se(A, B, lam, variance) for lam, variance in parts)


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_covariance_and_log_evidence(seed, n_kernels):
    X, y, free = problem(seed, n_kernels)
    kernels = dense_gp.from_free(free, X.shape[1])
    np.testing.assert_allclose(dense_gp.to_free(kernels), free)
    K = naive_covariance(kernels, X, X)
    np.testing.assert_allclose(dense_gp.covariance(kernels, X, X), K, atol=1e-12)
    expected = multivariate_normal(cov=K + kernels.noise_variance * np.eye(len(y))).logpdf(y)
    np.testing.assert_allclose(dense_gp.log_evidence(free, X, y)[0], expected, rtol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 2))
def test_gradient_of_the_log_evidence(seed, n_kernels):
    X, y, free = problem(seed, n_kernels)
    moved = 1e-5 * np.eye(len(free))
    above, below = (
        np.array([dense_gp.log_evidence(free + sign * by, X, y)[0] for by in moved])
        for sign in (1.0, -1.0)
    )
    gradient = dense_gp.log_evidence(free, X, y)[1]
    np.testing.assert_allclose(gradient, (above - below) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("apart", [0.0, 50.0])
@pytest.mark.parametrize("variance", [0, 1])
@pytest.mark.parametrize("log_lam", [dense_gp.LOG_LAM[0], 0.0, 4.0, 6.0, dense_gp.LOG_LAM[1]])
def test_every_corner_of_the_bounds_can_be_factored(log_lam, variance, apart):
    X, y, free = problem(0, 2, n=200)
    X[100:] = X[:100]  # rows that are alike
    X[::2] += apart  # and such that are far from them
    X[:, 1] *= 1e-3
    limits = dense_gp.bounds(len(free), X.shape[1])
    corner = np.concatenate([np.full(4, log_lam), limits[4:6, variance], limits[-1:, 0]])
    value, gradient = dense_gp.log_evidence(corner, X, y)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_what_is_added_to_the_diagonal_is_told_by_no_well_conditioned_factor():
    X, y, free = problem(0, 1)
    kernels = dense_gp.from_free(free, X.shape[1])
    L, _ = dense_gp.factor(kernels, X, y)
    K = naive_covariance(kernels, X, X) + kernels.noise_variance * np.eye(len(y))
    np.testing.assert_allclose(L @ L.T, K, rtol=1e-13, atol=1e-13)
