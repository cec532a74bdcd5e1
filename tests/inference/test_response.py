"""Linear response: exact where it can be known, and wider than the factorised q(θ)."""

import numpy as np
from numpy.testing import assert_allclose

from mosaicgp import SparseGPRegressor
from mosaicgp.inference.parameters import Switches, constrain, release
from mosaicgp.inference.response import linear_response
from problems import random_problem


def test_release_undoes_constrain():
    problem = random_problem("pic", 3)
    for rotate, learn in ((True, True), (False, False), (False, True)):
        switches = Switches(problem.approximation, True, learn_inducing=learn, rotate=rotate)
        again = constrain(*release(problem.parameters, switches), switches)
        assert_allclose(again.Z, problem.parameters.Z, rtol=1e-10)
        for ours, theirs in zip(again.theta, problem.parameters.theta, strict=True):
            assert_allclose(ours, theirs, rtol=1e-10)
        for ours, theirs in zip(again.noise, problem.parameters.noise, strict=True):
            assert_allclose(ours, theirs, rtol=1e-10)


def test_where_the_data_say_nothing_the_prior_returns():
    """With hardly any rows of pure noise, λ has the variance of its prior, about."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3, 1)), rng.normal(size=3)
    model = SparseGPRegressor("dtc", prior=(0.5, 0.01), max_iter=300).fit(X, y)
    covariance = linear_response(
        model.posterior_.parameters(), model.blocks_, model._fitted.switches, 1e-8
    )
    assert_allclose(covariance[0, 0], 0.01, rtol=0.3)


def test_corrected_intervals_hold_the_truth_that_q_misses():
    """λ of six draws from the model: see benchmarks/calibration.py for many."""
    hits, widths = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 2))
        lam = rng.uniform(0.3, 1.5, size=2)
        K = np.exp(-0.5 * np.sum((lam * (X[:, None] - X)) ** 2, axis=-1)) + 0.1 * np.eye(120)
        y = np.linalg.cholesky(K) @ rng.normal(size=120)
        model = SparseGPRegressor("dtc", n_inducing=80).fit(X, y)
        table = model.corrected_hyperparameters(X, y)
        hits += list((table["lower"][:2] <= lam) & (lam <= table["upper"][:2]))
        widths += list(table["std"][:2] / model.hyperparameters_["std"][:2])
    assert np.mean(hits) >= 0.75  # twelve intervals at 95%: 8 hits or fewer in one run of 10,000
    assert np.min(widths) > 1.0
