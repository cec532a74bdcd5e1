"""Distances between fits, and how sure a fit is of its length-scales."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

import mosaicgp
import reference
from mosaicgp import SparseGPRegressor
from mosaicgp.plots import plot_training
from mosaicgp.posterior import Posterior
from problems import JITTER, random_problem


def fitted(seed):
    """A model that holds a random posterior."""
    problem = random_problem("dtc", seed)
    U = np.random.default_rng(0).normal(size=problem.Z.shape)
    Z = problem.parameters.theta.nu * (U + 0.5)  # moved alike in all of them
    parameters = problem.parameters._replace(Z=Z)
    posterior = Posterior.build(parameters, problem.q, (0.0, 1.0), JITTER)
    model = SparseGPRegressor("dtc")
    model.posterior_ = replace(posterior, U=U, alpha=abs(posterior.alpha))
    return model


def test_kl_is_that_of_the_moments():
    a, b = fitted(0), fitted(1)
    found = mosaicgp.kl(a, b)
    p, q = a.posterior_, b.posterior_
    assert_allclose(
        found.inducing, reference.gaussian_kl(p.q_mean, p.q_cov, q.q_mean, q.q_cov), rtol=1e-6
    )
    mean, other = (np.abs(np.append(x.nu, x.alpha)) for x in (p, q))
    variance, another = (np.diag(np.append(x.xi, x.beta)) for x in (p, q))
    assert_allclose(found.theta, reference.gaussian_kl(mean, variance, other, another), rtol=1e-9)


def test_kl_of_a_model_with_itself_is_nothing():
    model = fitted(3)
    assert_allclose(mosaicgp.kl(model, model), (0.0, 0.0), atol=1e-8)


def test_models_that_cannot_be_compared_are_named():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 1)), rng.normal(size=30)
    few, many = (SparseGPRegressor("dtc", n_inducing=m, max_iter=300).fit(X, y) for m in (3, 4))
    with pytest.raises(ValueError, match="same number of inducing points"):
        mosaicgp.kl(few, many)
    other = SparseGPRegressor("dtc", n_inducing=3, max_iter=300, random_state=1).fit(X, y)
    with pytest.raises(ValueError, match="different inducing inputs"):
        mosaicgp.kl(few, other)
    with pytest.raises(NotFittedError):
        mosaicgp.kl(few, SparseGPRegressor())
    assert_allclose(few.mean_log_variance(), np.mean(np.log(few.posterior_.xi)))


def test_training_is_drawn_with_the_validation_score_beside_it():
    from matplotlib.figure import Figure

    n = 60
    history = {
        "iteration": np.arange(1, n + 1),
        "bound": np.linspace(-100.0, 0.0, n),
        "validation_nlpd": np.where(np.arange(n) % 10 == 9, 1.0, np.nan),
    }
    model = SimpleNamespace(
        history_=history, fit_result_=SimpleNamespace(status="converged", seconds=3.0)
    )
    figure = Figure()
    ax = plot_training(model, figure.subplots(), window=5)
    assert len(ax.lines) == 2 and len(ax.lines[1].get_xdata()) == n - 4
    assert len(figure.axes) == 2 and len(figure.axes[1].lines[0].get_xdata()) == 6
    del history["validation_nlpd"]
    other = Figure()
    assert len(plot_training(model, other.subplots()).lines) == len(other.axes) == 1
    with pytest.raises(ValueError, match="window"):
        plot_training(model, window=0)
