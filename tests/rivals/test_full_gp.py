"""The full GP against dense formulas and against scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import reference
from mosaicgp.rivals import FullGP

UNITS = np.array([3.0, 0.01]), np.array([50.0, -2.0])  # scales and offsets of the inputs


def table(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    y = 100.0 + 20.0 * (np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n))
    return X * UNITS[0] + UNITS[1], y


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return FullGP().fit(X, y), X, y


def test_predictions_are_those_of_the_dense_formula(fitted):
    model, X, y = fitted
    X_new = table(1, 9)[0]
    A, B = model.scaling_.transform_X(X_new), model.scaling_.transform_X(X)
    lam, variance, noise = model.fitted_.kernels
    assert lam.shape == (2, 2)
    K_f, K_eps = (reference.se(B, B, lam[c], variance[c]) for c in (0, 1))
    inverse = np.linalg.inv(K_f + K_eps + noise * np.eye(len(B)))
    r_f, r_eps = (reference.se(A, B, lam[c], variance[c]) for c in (0, 1))
    t = model.scaling_.transform_y(y)
    for of_y, r, prior in (
        (True, r_f + r_eps, variance.sum() + noise),  # y* = f* + ε*, ε* correlated with the data's
        (False, r_f, variance[0]),
    ):
        mean = y.mean() + y.std() * r @ inverse @ t
        var = y.var() * (prior - np.sum(r @ inverse * r, axis=1))
        if of_y:
            got_mean, got_std = model.predict(X_new, return_std=True)
            got_var = got_std**2
        else:
            got_mean, got_var = model.predict_f(X_new)
        np.testing.assert_allclose(got_mean, mean, rtol=1e-7)
        np.testing.assert_allclose(got_var, var, rtol=1e-5, atol=1e-9 * y.var())


def test_without_correlated_noise_it_is_scikit_learns():
    X, y = table()
    model = FullGP(correlated_noise=False).fit(X, y)
    lam, variance, noise = model.fitted_.kernels
    kernel = ConstantKernel(variance[0]) * RBF(1.0 / lam[0]) + WhiteKernel(noise)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
    theirs.fit(model.scaling_.transform_X(X), model.scaling_.transform_y(y))
    X_new = table(1, 9)[0]
    mean, std = theirs.predict(model.scaling_.transform_X(X_new), return_std=True)
    got_mean, got_std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(got_mean, model.scaling_.mean_to_user(mean), rtol=1e-7)
    np.testing.assert_allclose(got_std, model.scaling_.std_to_user(std), rtol=1e-6)
    evidence = theirs.log_marginal_likelihood_value_ + model.scaling_.log_jacobian(len(y))
    np.testing.assert_allclose(model.fit_result_.bound, evidence, rtol=1e-9)
    # It is an optimum: no small change of a hyperparameter raises scikit-learn's evidence.
    slope = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1]
    assert np.max(np.abs(slope)) < 0.05


def test_correlated_noise_can_only_raise_the_evidence(fitted):
    model, X, y = fitted
    plain = FullGP(correlated_noise=False).fit(X, y)
    assert model.fit_result_.bound > plain.fit_result_.bound - 0.1
    assert model.fit_result_.status == plain.fit_result_.status == "converged"


def test_it_learns_and_its_spread_is_right(fitted):
    model, _, _ = fitted
    X_new, y_new = table(2, 400)
    mean, std = model.predict(X_new, return_std=True)
    assert np.sqrt(np.mean((y_new - mean) ** 2)) < 0.25 * y_new.std()
    assert 0.85 < np.mean(np.abs(y_new - mean) < 1.96 * std) < 0.995
    far = np.array([[1e4, 1e4]])
    mean, var = model.predict_f(far)
    np.testing.assert_allclose(mean, model.scaling_.y_mean)
    np.testing.assert_allclose(var, model.scaling_.var_to_user(model.fitted_.kernels.variance[0]))


def test_budgets_restarts_and_seeds():
    X, y = table(n=25)
    with pytest.warns(match="without converging; raise max_iter"):
        short = FullGP(max_iter=1).fit(X, y)
    assert short.fit_result_.status == "max_iter" and short.n_iter_ == 1
    timed = FullGP(max_time=1e-6).fit(X, y)
    assert timed.fit_result_.status == "max_time" and timed.fit_result_.budget_exhausted
    many = FullGP(n_restarts=2)
    again = clone(many).fit(X, y)
    assert again.fit_result_.bound >= FullGP().fit(X, y).fit_result_.bound
    np.testing.assert_array_equal(many.fit(X, y).predict(X), again.predict(X))


def test_rows_that_are_alike_and_columns_that_do_not_vary():
    X = np.array([[1.0, 5.0]] * 3 + [[2.0, 5.0]] * 3)
    mean, std = FullGP().fit(X, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]).predict(X, return_std=True)
    assert np.all(np.isfinite(std)) and np.all(np.abs(mean - [1, 1, 1, 2, 2, 2]) < 0.1)
    mean, std = FullGP().fit(X, np.full(6, 7.0)).predict(X, return_std=True)
    np.testing.assert_allclose(mean, 7.0)
    assert np.all(np.isfinite(std))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_rows": 10}, r"X has 60 rows, and max_rows is 10.*Fit a sample"),
        ({"max_rows": 0}, "max_rows must be at least 1"),
        ({"max_iter": 1.5}, "max_iter must be an integer"),
        ({"max_time": 0.0}, "max_time must be a finite number"),
        ({"n_restarts": -1}, "n_restarts must be at least 0"),
        ({"correlated_noise": "yes"}, "correlated_noise must be a bool"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FullGP(**arguments).fit(*table())


def test_tables_bring_their_names_and_bad_rows_are_named(fitted):
    unnamed, X, y = fitted
    frame = pd.DataFrame(X, columns=["left", "right"])
    model = FullGP(max_time=1e-6).fit(frame, y)
    assert list(model.feature_names_in_) == ["left", "right"] and model.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["right", "left"]])
    with pytest.raises(ValueError, match="expecting 2 features"):
        unnamed.predict(X[:, :1])
    frame.loc[3, "right"] = np.nan
    with pytest.raises(ValueError, match="row 3, column 'right'"):
        model.fit(frame, y)
    with pytest.raises(ValueError, match="row 3, column 'right'"):
        model.predict(frame)
