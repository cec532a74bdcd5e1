"""The public face: fit, predict, elbo, blocks, hyperparameters, restarts, reproducibility."""

import logging

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import mosaicgp
import reference
from mosaicgp import SparseGPRegressor
from problems import KINDS

N, D = 90, 2
SMALL = {"n_inducing": 12, "block_size": 20, "max_iter": 300}


def table(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of two inputs of very different scale, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, D)) * [1.0, 1e3] + [5.0, 0.0]
    y = 40 + 7 * np.sin(2 * X[:, 0]) + X[:, 1] / 500 + 0.8 * rng.normal(size=n)
    return X, y


@pytest.fixture(scope="module", params=KINDS)
def model(request) -> SparseGPRegressor:
    return SparseGPRegressor(request.param, **SMALL).fit(*table())


def naive_noise(model, X_std) -> np.ndarray:
    post, labels = model.posterior_, model.block_of(table()[0])
    blocks = [np.flatnonzero(labels == b) for b in np.unique(labels)]
    return reference.noise_covariance(
        model.approximation, X_std, blocks, post.U, post.noise_variance, post.eps_variance,
        post.eps_lam, post.jitter,
    )  # fmt: skip


def test_learns_the_function(model):
    X_new, y_new = table(seed=1, n=200)
    mean, std = model.predict(X_new, return_std=True)
    assert np.sqrt(np.mean((mean - y_new) ** 2)) < 0.45 * y_new.std()
    assert 0.85 <= np.mean(np.abs(y_new - mean) < 1.96 * std) <= 1.0
    assert model.fit_result_.status in ("converged", "max_iter")
    assert model.fit_result_.iterations == model.n_iter_ == model.history_.n_rows


def test_elbo_is_the_reference_bound_in_user_units(model):
    X, y = table()
    X_std, y_std = model.scaling_.transform_X(X), model.scaling_.transform_y(y)
    post = model.posterior_
    expected = reference.bound(
        X_std, y_std, naive_noise(model, X_std), post.Z, post.q_mean, post.q_cov, post.nu,
        post.xi, post.alpha, post.beta, post.prior, post.jitter,
    )  # fmt: skip
    assert_allclose(model.elbo(X, y), expected - N * np.log(model.scaling_.y_scale), atol=1e-3)
    assert_allclose(model.elbo(X, y), model.fit_result_.bound, atol=1e-3)


def test_blocks_hold_every_row_and_the_rule_finds_them_again(model):
    X, y = table()
    rows = model.blocks_.rows[model.blocks_.rows >= 0]
    assert sorted(rows) == list(range(N))
    if model.approximation in ("pitc", "pic"):
        assert model.blocks_.n_blocks == -(-N // 20)
        labels = model.block_of(X)
        for b in range(model.blocks_.n_blocks):
            members = model.blocks_.rows[b][model.blocks_.mask[b] > 0]
            assert np.all(labels[members] == model.blocks_.label[b])
            assert_allclose(
                model.blocks_.y[b][: len(members)], model.scaling_.transform_y(y[members])
            )


def test_joint_prediction_agrees_with_the_marginal_one(model):
    X_new, _ = table(seed=3, n=40)
    for predict in (model.predict, model.predict_f):
        mean, covariance = predict(X_new, return_cov=True)
        if predict == model.predict:
            marginal, std = model.predict(X_new, return_std=True)
            variance = std**2
        else:
            marginal, variance = model.predict_f(X_new)
        assert_allclose(mean, marginal, rtol=1e-8)
        assert_allclose(np.diag(covariance), variance, rtol=1e-6, atol=1e-9)
        assert np.linalg.eigvalsh(covariance).min() > -1e-8 * np.trace(covariance)


def test_prediction_of_y_has_the_noise_of_f_on_top(model):
    X_new, _ = table(seed=4, n=30)
    _, std = model.predict(X_new, return_std=True)
    _, variance = model.predict_f(X_new)
    assert np.all(variance > 0)
    if model.approximation != "pic":  # there y also learns from the noise of its own block
        floor = model.scaling_.var_to_user(model.posterior_.noise_variance)
        assert np.all(std**2 >= variance + 0.999 * floor)


@pytest.mark.parametrize("model", ["pic"], indirect=True)
@pytest.mark.parametrize("of_y", [False, True])
def test_pic_mixes_the_dense_conditionals_of_each_rows_own_block(model, of_y):
    """Mean and variance over the nodes of θ, from the reference."""
    X_new, _ = table(seed=12, n=7)
    X_std = model.scaling_.transform_X(X_new)
    post, blocks, labels = model.posterior_, model.blocks_, model.block_of(X_new)
    assert len(np.unique(labels)) > 1
    lams = post.nu + np.sqrt(post.xi) * model.theta_nodes_[:, :-1]
    sigmas = post.alpha + np.sqrt(post.beta) * model.theta_nodes_[:, -1]
    eps = (post.U, post.eps_variance, post.eps_lam, post.jitter)
    expected = np.empty((7, 2))
    for k, label in enumerate(labels):
        b = int(np.flatnonzero(blocks.label == label)[0])
        real = blocks.mask[b] > 0
        X_b, y_b, row = blocks.X[b][real], blocks.y[b][real], X_std[k : k + 1]
        noise = post.noise_variance
        C_bb = reference.noise_residual(X_b, X_b, *eps) + noise * np.eye(len(X_b))
        C_sb = of_y * reference.noise_residual(row, X_b, *eps)
        C_ss = of_y * (reference.noise_residual(row, row, *eps) + noise)
        mixed = [
            reference.pic_given_theta(
                row, X_b, y_b, post.Z, post.q_mean, post.q_cov, lam, sigma_f, C_bb, C_sb, C_ss,
                post.jitter,
            )
            for lam, sigma_f in zip(lams, sigmas, strict=True)
        ]  # fmt: skip
        weights = np.full(len(lams), 1 / len(lams))
        mean, covariance = reference.mix_moments(weights, *zip(*mixed, strict=True))
        expected[k] = mean[0], covariance[0, 0]
    if of_y:
        mean, std = model.predict(X_new, return_std=True)
        variance = std**2
    else:
        mean, variance = model.predict_f(X_new)
    assert_allclose(mean, model.scaling_.mean_to_user(expected[:, 0]), rtol=1e-4)
    assert_allclose(variance, model.scaling_.var_to_user(expected[:, 1]), rtol=1e-3)


def test_samples_have_the_predicted_moments(model):
    X_new, _ = table(seed=5, n=3)
    mean, covariance = model.predict(X_new, return_cov=True)
    draws = model.sample_y(X_new, n_samples=20_000, random_state=1)
    assert draws.shape == (3, 20_000)
    error = 4 * np.sqrt(np.diag(covariance) / 20_000)
    assert np.all(np.abs(draws.mean(axis=1) - mean) <= error)
    assert_allclose(np.cov(draws), covariance, atol=0.06 * np.abs(covariance).max())
    assert np.array_equal(draws, model.sample_y(X_new, 20_000, random_state=1))


def test_a_row_is_predicted_alike_alone_and_in_company(model):
    X_new, _ = table(seed=6, n=70)
    mean, std = model.predict(X_new, return_std=True)
    alone = [model.predict(X_new[k : k + 1], return_std=True) for k in (0, 33, 69)]
    assert [m[0] for m, _ in alone] == [mean[0], mean[33], mean[69]]
    assert [s[0] for _, s in alone] == [std[0], std[33], std[69]]


def test_far_rows_return_to_the_prior(model):
    # 1e9 standard deviations away, where whatever q(λ) has near zero no longer reaches
    far = model.scaling_.X_mean + 1e9 * model.scaling_.X_scale * np.array([[1.0, -1.0]])
    mean, variance = model.predict_f(far)
    post, scaling = model.posterior_, model.scaling_
    assert_allclose(mean, scaling.y_mean, atol=0.05 * scaling.y_scale)
    assert_allclose(variance, scaling.var_to_user(post.alpha**2 + post.beta), rtol=0.15)


def test_hyperparameters_are_in_user_units(model):
    found, post, scaling = model.hyperparameters_, model.posterior_, model.scaling_
    row = found.row("inverse_lengthscale[x0]")
    assert row["lower"] <= row["mean"] <= row["upper"]
    assert_allclose(row["mean"] * scaling.X_scale[0], row["standardised"])
    assert_allclose(row["mean"], abs(post.nu[0]) / scaling.X_scale[0], rtol=0.05)
    assert_allclose(found.row("sigma_f")["std"], np.sqrt(post.beta) * scaling.y_scale, rtol=0.05)
    assert_allclose(found.row("noise_std")["mean"], np.sqrt(post.noise_variance) * scaling.y_scale)
    assert ("eps_std" in found["name"]) == (model.approximation != "dtc")
    assert str(found).count("\n") == found.n_rows
    assert found.to_pandas().shape == (found.n_rows, len(found))
    with pytest.raises(KeyError, match="there are"):
        found.row("nonsense")


def test_the_same_seed_gives_the_same_bits(model):
    again = clone(model).fit(*table())
    for name, value in model.posterior_.to_arrays().items():
        assert np.array_equal(value, again.posterior_.to_arrays()[name]), name
    X_new, _ = table(seed=7, n=20)
    assert np.array_equal(model.predict(X_new), again.predict(X_new))


def test_a_second_fit_compiles_nothing(model, caplog):
    X, y = table(seed=8)
    X_new, _ = table(seed=9, n=20)
    clone(model).fit(X, y).predict(X_new)
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        clone(model).fit(X, y + np.cos(X[:, 0])).predict(X_new)
    compiled = [r.getMessage() for r in caplog.records if "Compiling" in r.getMessage()]
    assert compiled == []


@pytest.mark.parametrize("hyperparameters", ["bayesian", "point"])
@pytest.mark.parametrize("optimizer", ["l-bfgs-b", "cg"])
def test_both_optimisers_climb_to_the_same_bound(hyperparameters, optimizer):
    X, y = table()
    settings = {**SMALL, "max_iter": 400, "tol": 1e-3, "hyperparameters": hyperparameters}
    model = SparseGPRegressor("dtc", optimizer=optimizer, **settings).fit(X, y)
    other = SparseGPRegressor("dtc", **settings).fit(X, y)
    assert model.fit_result_.status == "converged"
    assert_allclose(model.fit_result_.bound, other.fit_result_.bound, atol=0.3)


def test_point_estimates_have_no_spread():
    X, y = table()
    model = SparseGPRegressor("dtc", hyperparameters="point", **SMALL).fit(X, y)
    assert np.all(model.posterior_.xi == 0) and model.posterior_.beta == 0
    assert np.all(model.hyperparameters_["std"] == 0)


def test_with_all_rows_inducing_dtc_is_the_exact_gp():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=40)
    model = SparseGPRegressor("dtc", hyperparameters="point", n_inducing=100).fit(X, y)
    post, scaling = model.posterior_, model.scaling_
    assert len(post.Z) == 40
    kernel = ConstantKernel(post.alpha**2, "fixed") * RBF(1 / np.abs(post.nu), "fixed")
    gp = GaussianProcessRegressor(kernel + WhiteKernel(post.noise_variance, "fixed"))
    gp.fit(scaling.transform_X(X), scaling.transform_y(y))
    X_new = rng.normal(size=(25, 3))
    mean, std = gp.predict(scaling.transform_X(X_new), return_std=True)
    found_mean, found_std = model.predict(X_new, return_std=True)
    assert_allclose(found_mean, scaling.mean_to_user(mean), atol=1e-4)
    assert_allclose(found_std, scaling.std_to_user(std), atol=1e-4)
    evidence = gp.log_marginal_likelihood_value_ + scaling.log_jacobian(40)
    assert_allclose(model.elbo(X, y), evidence, atol=1e-2)
    assert model.elbo(X, y) <= evidence + 1e-6


def test_restarts_never_lower_the_bound():
    X, y = table()
    one = SparseGPRegressor("dtc", **SMALL).fit(X, y)
    more = SparseGPRegressor("dtc", n_restarts=2, **SMALL).fit(X, y)
    assert more.fit_result_.bound >= one.fit_result_.bound


def test_learning_inducing_inputs_raises_the_bound():
    X, y = table()
    fixed = SparseGPRegressor("dtc", n_inducing=4, max_iter=100).fit(X, y)
    moved = SparseGPRegressor("dtc", n_inducing=4, max_iter=300, learn_inducing=True).fit(X, y)
    assert moved.fit_result_.bound > fixed.fit_result_.bound


def test_unrotated_inducing_inputs_stay_at_the_start():
    X, y = table()
    model = SparseGPRegressor("dtc", rotate_inducing=False, **SMALL).fit(X, y)
    assert_allclose(model.posterior_.Z, model.posterior_.U / np.sqrt(D))


def test_the_prior_moves_the_posterior():
    X, y = table(n=12)
    tight = SparseGPRegressor("dtc", prior=(3.0, 1e-4), **SMALL).fit(X, y)
    assert_allclose(np.abs(tight.posterior_.nu), 3.0, atol=0.1)
    assert tight.posterior_.prior == (3.0, 1e-4)


def test_budgets_are_told():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = SparseGPRegressor("dtc", n_inducing=12, max_iter=2).fit(X, y)
    assert model.fit_result_.status == "max_iter" and model.fit_result_.budget_exhausted
    with pytest.warns(ConvergenceWarning, match="time budget"):
        hurried = SparseGPRegressor("dtc", n_inducing=12, max_time=1e-6).fit(X, y)
    assert hurried.fit_result_.status == "max_time" and hurried.fit_result_.budget_exhausted
    assert np.all(np.isfinite(hurried.predict(X)))


def test_an_interrupt_keeps_the_best_state(monkeypatch):
    from mosaicgp.inference import exact

    original, calls = exact.value_and_gradient, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(exact, "value_and_gradient", interrupted)
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="interrupted; the best state so far is kept"):
        model = SparseGPRegressor("dtc", **SMALL).fit(X, y)
    assert model.fit_result_.status == "interrupted"
    assert np.all(np.isfinite(model.predict(X)))


def test_shorthands_set_the_approximation():
    names = ("VBDTC", "VBFITC", "VBFIC", "VBPITC", "VBPIC")
    for name, kind in zip(names, KINDS, strict=True):
        made = getattr(mosaicgp, name)(n_inducing=7)
        assert type(made) is SparseGPRegressor
        assert made.get_params() == SparseGPRegressor(kind, n_inducing=7).get_params()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_keep_their_names(frame):
    X, y = table()
    named = frame(dict(zip(["speed", "height"], X.T, strict=True)))
    model = SparseGPRegressor("dtc", **SMALL).fit(named, y)
    plain = SparseGPRegressor("dtc", **SMALL).fit(X, y)
    assert list(model.feature_names_in_) == ["speed", "height"]
    assert model.hyperparameters_["name"][1] == "inverse_lengthscale[height]"
    assert np.array_equal(model.predict(named), plain.predict(X))


def test_works_inside_scikit_learn():
    X, y = table(n=60)
    base = SparseGPRegressor("dtc", **SMALL)
    pipeline = make_pipeline(MinMaxScaler(), base).fit(X, y)
    assert pipeline.score(X, y) > 0.5
    search = GridSearchCV(base, {"n_inducing": [3, 12]}, cv=2).fit(X, y)
    assert search.best_params_ == {"n_inducing": 12}
    assert cross_val_predict(base, X, y, cv=2).shape == (60,)


def test_verbose_shows_progress(capsys):
    SparseGPRegressor("dtc", verbose=1, **SMALL).fit(*table())
    shown = capsys.readouterr()
    assert "bound" in shown.err and "rows/s" in shown.err
    assert shown.out == ""


def test_pickled_models_predict_the_same(model):
    import pickle

    X_new, _ = table(seed=10, n=15)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.predict(X_new), again.predict(X_new))


def test_unfitted_models_say_so():
    with pytest.raises(NotFittedError):
        SparseGPRegressor().predict([[0.0]])
    with pytest.raises(NotFittedError):
        SparseGPRegressor().save("nowhere")
