"""The committee machine against its formula, against the full GP, and at its limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import reference
from mosaicgp.rivals import RobustBCM
from mosaicgp.rivals.dense_gp import Kernels, factor
from mosaicgp.rivals.full_gp import FullPosterior
from mosaicgp.rivals.robust_bcm import Committee, Expert


def committee(seed, sizes=(6, 4, 5), d=2):
    rng = np.random.default_rng(seed)
    kernels = Kernels(
        rng.uniform(0.3, 1.5, size=(1, d)),
        rng.uniform(0.5, 2.0, size=1),
        float(rng.uniform(0.01, 0.3)),
    )
    experts = tuple(Expert(rng.normal(size=(n, d)), rng.normal(size=n)) for n in sizes)
    return Committee(kernels, experts), rng.normal(size=(8, d))


def naive(kernels, experts, X):
    """Deisenroth & Ng (2015), eqs. 20 and 21, a row and an expert at a time."""
    (lam,), (prior,), noise = kernels
    means, variances = [], []
    for x in X:
        precision, pull, betas = 0.0, 0.0, 0.0
        for A, y in experts:
            inverse = np.linalg.inv(reference.se(A, A, lam, prior) + noise * np.eye(len(A)))
            k = reference.se(x[None], A, lam, prior)[0]
            m, v = k @ inverse @ y, prior - k @ inverse @ k
            beta = 0.5 * (np.log(prior) - np.log(v))
            precision, pull, betas = precision + beta / v, pull + beta * m / v, betas + beta
        variances.append(1.0 / (precision + (1.0 - betas) / prior))
        means.append(variances[-1] * pull)
    return np.array(means), np.array(variances)


@given(st.integers(0, 10**6))
def test_predictions_are_those_of_the_formula(seed):
    fitted, X = committee(seed)
    mean, var = naive(fitted.kernels, fitted.experts, X)
    got_mean, got_var = fitted.moments(X, of_y=False)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(got_var, var, rtol=1e-7)
    of_y = fitted.moments(X, of_y=True)
    np.testing.assert_array_equal(of_y[0], got_mean)
    np.testing.assert_allclose(of_y[1], got_var + fitted.kernels.noise_variance)


@given(st.integers(0, 10**6))
def test_one_expert_is_the_full_gp(seed):
    fitted, X = committee(seed, sizes=(9,))
    (expert,) = fitted.experts
    full = FullPosterior(fitted.kernels, expert.X, *factor(fitted.kernels, *expert))
    for of_y in (True, False):
        got, expected = fitted.moments(X, of_y), full.moments(X, of_y)
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-12)


def test_far_from_the_data_it_is_the_prior():
    fitted, _ = committee(0)
    mean, var = fitted.moments(np.full((1, 2), 1e3), of_y=True)
    assert mean[0] == 0.0
    np.testing.assert_allclose(var, fitted.kernels.variance[0] + fitted.kernels.noise_variance)


def test_experts_that_are_silent_at_a_row_change_nothing_there():
    """Rows on both sides of the distance from which an expert is not asked."""
    kernels = Kernels(np.ones((1, 1)), np.ones(1), 1e-6)
    expert = Expert(np.array([[0.0], [0.5]]), np.array([1.0, -1.0]))
    X = np.linspace(6.0, 9.0, 61)[:, None]
    mean, var = Committee(kernels, (expert, expert)).moments(X, of_y=False)
    expected = naive(kernels, (expert, expert), X)
    np.testing.assert_allclose(mean, expected[0], atol=1e-12)
    np.testing.assert_allclose(var, expected[1], rtol=1e-12)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    y = 10.0 + 5.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    return 100.0 * X, y


@pytest.fixture(scope="module")
def model():
    return RobustBCM(expert_size=60, max_iter=80, n_jobs=2).fit(*table(500))


def test_it_learns_and_its_spread_is_right(model):
    X, y = table(400, seed=1)
    mean, std = model.predict(X, return_std=True)
    assert np.sqrt(np.mean((y - mean) ** 2)) < 0.75
    assert 0.88 < np.mean(np.abs(y - mean) < 1.96 * std) < 0.995
    noise = np.sqrt(model.fitted_.kernels.noise_variance) * model.scaling_.y_scale
    assert 0.4 < noise < 0.6
    assert len(model.fitted_.experts) == 9
    assert model.fit_result_.status == "max_iter" and model.n_iter_ == 80


def test_every_row_belongs_to_one_expert(model):
    X, y = table(500)
    found = np.concatenate([np.column_stack(expert) for expert in model.fitted_.experts])
    given = np.column_stack([model.scaling_.transform_X(X), model.scaling_.transform_y(y)])
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(given, axis=0))


def test_training_climbs_the_sum_of_the_evidences():
    """With all experts in a step it ends where no direction raises the sum."""
    X, y = table(120)
    fitted = RobustBCM(expert_size=40, max_iter=300).fit(X, y).fitted_
    (lam,), (variance,), noise = fitted.kernels

    def total(free):
        lam, (variance, noise) = np.exp(free[:2]), np.exp(free[2:])
        parts = []
        for A, t in fitted.experts:
            K = reference.se(A, A, lam, variance) + noise * np.eye(len(A))
            parts.append(-0.5 * (t @ np.linalg.solve(K, t) + np.linalg.slogdet(2 * np.pi * K)[1]))
        return sum(parts)

    at = np.log([*lam, variance, noise])
    for step in np.eye(4):
        assert total(at) > max(total(at + 0.3 * step), total(at - 0.3 * step))


def test_seeds_threads_and_the_limit_of_experts():
    X, y = table(300)
    few = RobustBCM(expert_size=20, max_experts=4, max_iter=5, n_jobs=1).fit(X, y)
    assert sum(len(expert.y) for expert in few.fitted_.experts) == 80
    again = clone(few).set_params(n_jobs=3).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), few.predict(X))
    other = clone(few).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict(X), few.predict(X))
    alike = RobustBCM(expert_size=5, max_iter=2).fit(np.ones((40, 2)), y[:40])
    assert max(len(expert.y) for expert in alike.fitted_.experts) <= 10


def test_time_ends_training():
    hurried = RobustBCM(expert_size=50, max_time=1e-9).fit(*table(300))
    assert hurried.n_iter_ == 1 and hurried.fit_result_.status == "max_time"
    assert "1 annealed steps of 200 before the time ran out" in hurried.fit_result_.message
    timed = RobustBCM(expert_size=50, max_time=0.2, max_iter=10**6).fit(*table(300))
    assert timed.fit_result_.budget_exhausted and timed.fit_result_.seconds < 5.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"expert_size": 0}, "expert_size must be at least 1"),
        ({"max_experts": 2.0}, "max_experts must be an integer"),
        ({"experts_per_step": 0}, "experts_per_step must be at least 1"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number greater than 0"),
        ({"max_time": -1.0}, "max_time must be a finite number greater than 0"),
        ({"n_jobs": 0}, "n_jobs must be at least 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        RobustBCM(**arguments).fit(*table(10))
