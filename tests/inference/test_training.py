"""Stochastic inference through the estimator: it converges, obeys its budgets, survives faults."""

import warnings
from copy import deepcopy

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import mosaicgp
from mosaicgp import SparseGPRegressor, arguments, stages
from mosaicgp.estimator import CallbackError
from mosaicgp.inference import training
from mosaicgp.inference.parameters import Switches, constrain, release
from mosaicgp.inference.stochastic import step
from mosaicgp.inference.verdict import LEAST_SEARCH
from mosaicgp.model.bound import Parameters
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.noise import NoiseParameters
from mosaicgp.model.posterior import ThetaPosterior

rng = np.random.default_rng(0)
N = 600
X = rng.normal(size=(N, 2)) * [1.0, 50.0] + [3.0, -7.0]
y = 10.0 * np.sin(X[:, 0]) + 0.05 * X[:, 1] + rng.normal(size=N)

SMALL = {"n_inducing": 12, "inference": "stochastic", "batch_size": 128, "block_size": 64}


def quiet(model, X=X, y=y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def small(kind="dtc", **arguments):
    return SparseGPRegressor(kind, **{**SMALL, "max_iter": 150, **arguments})


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pic"])
@pytest.mark.parametrize("hyperparameters", ["bayesian", "point"])
def test_it_learns(kind, hyperparameters):
    model = quiet(small(kind, hyperparameters=hyperparameters, max_iter=300))
    mean, std = model.predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 1.3
    assert 0.9 < np.mean(np.abs(mean - y) < 1.96 * std) <= 1.0
    assert model.history_.n_rows == model.fit_result_.iterations == model.n_iter_
    assert np.mean(model.history_["bound"][-20:]) > np.mean(model.history_["bound"][:5])


@pytest.mark.parametrize("kind", ["dtc", pytest.param("pic", marks=pytest.mark.slow)])
def test_it_converges_to_the_exact_fit(kind):
    """The paper's Figure 1, small: fixed Z, both KL distances to the exact posterior fall."""
    common = {
        "n_inducing": 12,
        "block_size": 64,
        "adapt_partition": False,
        "rotate_inducing": False,
    }
    exact = quiet(SparseGPRegressor(kind, inference="exact", tol=1e-3, **common))
    arguments = {**common, "inference": "stochastic", "batch_size": 256, "learning_rate": 0.02}
    early = quiet(SparseGPRegressor(kind, max_iter=5, **arguments))
    late = quiet(SparseGPRegressor(kind, max_iter=4000 if kind == "dtc" else 10_000, **arguments))
    before, after = mosaicgp.kl(early, exact), mosaicgp.kl(late, exact)
    assert after.inducing < before.inducing / 30
    assert after.theta < before.theta / 30
    assert late.elbo(X, y) <= exact.elbo(X, y) + 1e-3 < late.elbo(X, y) + 2.0


def test_the_same_seed_gives_the_same_bits():
    first, second = (quiet(small("pic", max_iter=40)) for _ in range(2))
    assert np.array_equal(first.predict(X), second.predict(X))
    other = quiet(small("pic", max_iter=40, random_state=1))
    assert not np.array_equal(first.predict(X), other.predict(X))


def test_a_fit_compiles_its_step_once():
    quiet(small(max_iter=30))
    compiled = step._cache_size()
    quiet(small(max_iter=60, random_state=3))
    assert step._cache_size() == compiled


def test_validation_is_held_back_and_reported():
    model = quiet(small("pic", validation_rows=60, max_iter=200))
    scores = model.history_["validation_nlpd"]
    assert 4 <= np.isfinite(scores).sum() <= 8
    assert np.nanmin(scores) < scores[np.isfinite(scores)][0]
    assert model.blocks_.mask.sum() == N  # they rejoin their blocks


def test_it_stops_when_the_validation_no_longer_improves():
    model = quiet(small(validation_rows=100, max_iter=4000, tol=0.05))
    assert model.fit_result_.status == "converged"
    assert LEAST_SEARCH <= model.fit_result_.iterations < 3000
    assert not model.fit_result_.budget_exhausted


def test_few_iterations_are_not_called_convergence():
    with pytest.warns(ConvergenceWarning, match="all 100 iterations of the fit, too few to tell"):
        model = small(max_iter=100).fit(X, y)
    assert model.fit_result_.status == "max_iter" and model.fit_result_.budget_exhausted


def test_a_time_budget_is_kept():
    quiet(small())  # compiled
    model = quiet(small(max_iter=10**6, max_time=1.0))
    assert 0.5 < model.fit_result_.seconds < 3.0
    assert model.fit_result_.status in ("max_time", "converged")
    assert np.all(np.isfinite(model.predict(X)))
    assert model.history_["rate"][-1] == 0.0  # annealed within it


def test_robbins_monro_steps_shrink_as_they_must():
    model = quiet(small(schedule="robbins-monro", decay=0.8, max_iter=400))
    rate = model.history_["rate"][50:]
    t = np.arange(50, 400)
    assert np.allclose(rate, 0.04 * (1 + t / 100.0) ** -0.8)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 2.0


def test_callbacks_see_every_iteration_and_can_stop():
    seen = []

    def callback(progress):
        seen.append(progress.iteration)
        return progress.iteration >= 20

    model = quiet(small(callback=callback))
    assert seen == list(range(1, len(seen) + 1)) and 20 <= len(seen) < 40
    assert model.fit_result_.status == "interrupted"
    assert "callback" in model.fit_result_.message
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("inference", ["exact", "stochastic"])
def test_a_callback_that_raises_leaves_a_fitted_model(inference):
    def callback(progress):
        if progress.iteration == 10:
            raise KeyError("oops")

    model = small(callback=callback, inference=inference)
    with pytest.raises(CallbackError, match=r"iteration 10.*fitted") as raised:
        model.fit(X, y)
    assert isinstance(raised.value.__cause__, KeyError)
    assert model.fit_result_.status == "interrupted"
    assert np.all(np.isfinite(model.predict(X)))


def test_an_interrupt_keeps_the_state():
    def callback(progress):
        if progress.iteration == 30:
            raise KeyboardInterrupt

    model = quiet(small(callback=callback))
    assert model.fit_result_.status == "interrupted"
    assert 30 <= model.fit_result_.iterations < 60
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < y.std()


def test_warm_start_goes_on_where_it_was():
    model = quiet(small("pic", warm_start=True, max_iter=200))
    first, scaling = model.history_["bound"], model.scaling_
    quiet(model.set_params(max_iter=40))
    assert model.scaling_ is scaling
    assert np.mean(model.history_["bound"][:5]) > np.mean(first[:20])
    with pytest.raises(ValueError, match="same columns"):
        model.fit(X[:, :1], y)


def test_exact_inference_goes_on_with_the_same_prior_of_s():
    model = quiet(small(warm_start=True))
    jitter = model.posterior_.jitter
    quiet(model.set_params(inference="exact", max_iter=5))
    assert model.posterior_.jitter == jitter


def test_single_precision_is_close():
    double, single = (quiet(small("pic", dtype=dtype)) for dtype in ("float64", "float32"))
    difference = double.predict(X) - single.predict(X)
    assert 0.0 < np.sqrt(np.mean(difference**2)) < 0.1 * y.std()


def in_the_space_of_x(posterior):
    return posterior.Z / posterior.nu


def test_inducing_inputs_move_unless_they_are_kept():
    free = quiet(small(sampling="reshuffle", learn_inducing=True))
    kept = quiet(small(sampling="reshuffle"))
    assert_allclose(in_the_space_of_x(kept.posterior_), kept.posterior_.U, rtol=1e-9)
    assert not np.allclose(in_the_space_of_x(free.posterior_), free.posterior_.U, atol=0.1)
    for model in (free, kept):
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 1.5
    with pytest.raises(ValueError, match="different inducing inputs"):
        mosaicgp.kl(free, kept)


def test_large_tables_move_inducing_inputs_unless_told_otherwise():
    n = arguments.EXACT_ROWS + 1

    def moving(n, **told):
        return arguments.plan(small(**{"max_iter": 1000, **told}), n).switches.learn_inducing

    assert moving(n) and moving(n, max_iter=999, learn_inducing=True)
    assert not moving(n - 1)
    for told in ("learn_inducing", "rotate_inducing"):
        assert not moving(n, **{told: False})
    assert not moving(n, inference="exact") and not moving(n, max_iter=999)
    large = SparseGPRegressor(block_size=1200)
    assert not arguments.plan(large, n).switches.learn_inducing


def test_moved_inducing_inputs_are_taken_up_and_stay_in_an_update():
    model = quiet(small(learn_inducing=True))
    before, moved = deepcopy(model), in_the_space_of_x(model.posterior_)
    model.partial_fit(X[:50] + 0.01, y[:50])
    assert_allclose(in_the_space_of_x(model.posterior_), moved, rtol=1e-9, atol=1e-9)
    assert mosaicgp.kl(before, model).inducing > 0.0
    model.set_params(warm_start=True, max_iter=1, learning_rate=1e-9, learn_inducing=False)
    further = quiet(model)
    assert_allclose(in_the_space_of_x(further.posterior_), moved, atol=1e-5)


FAULTS = {
    "one target of 1e9": lambda X, y: (X, np.where(np.arange(N) == 5, 1e9, y)),
    "duplicated rows": lambda X, y: (np.repeat(X[:200], 3, axis=0), np.repeat(y[:200], 3)),
    "sorted by target": lambda X, y: (X[np.argsort(y)], np.sort(y)),
    "a column constant but for one block": lambda X, y: (
        np.column_stack([X, (X[:, 0] > 4.5) * X[:, 1]]),
        y,
    ),
    "a constant target": lambda X, y: (X, np.full(N, 3.0)),
    "nine rows": lambda X, y: (X[:9], y[:9]),
}


@pytest.mark.parametrize("kind", ["dtc", "pic"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_data_give_a_usable_model(fault, kind):
    X_odd, y_odd = FAULTS[fault](X, y)
    model = quiet(small(kind, max_iter=60), X_odd, y_odd)
    mean, std = model.predict(X_odd, return_std=True)
    assert np.all(np.isfinite(mean)) and np.all(std > 0)
    assert np.all(np.isfinite(model.hyperparameters_["mean"]))


def test_blocks_of_one_row_train():
    model = quiet(small("pic", block_size=1, batch_size=8, max_iter=30), X[:40], y[:40])
    assert np.all(np.isfinite(model.predict(X[:40])))


def test_the_largest_learning_rate_still_ends_with_a_model():
    model = quiet(small("pic", learning_rate=1.0))
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("max_iter", [100, 400])
def test_rows_are_divided_anew_early_also_in_long_fits(max_iter, monkeypatch):
    monkeypatch.setattr(training, "ADAPT_WITHIN", 100)
    original, reported, divided = stages._Partitioned.data, [0], []

    def spy(self, scale, division):
        divided.append(reported[-1])
        return original(self, scale, division)

    monkeypatch.setattr(stages._Partitioned, "data", spy)
    callback = lambda progress: reported.append(progress.iteration)  # noqa: E731
    quiet(small("pic", max_iter=max_iter, callback=callback))
    due = np.array([0, 10, 20, 30, 40, 50])
    assert len(divided) == 6
    assert np.all(np.array(divided) <= due) and np.all(np.array(divided) >= due - training.LAG)


def test_a_moved_inducing_input_of_a_rare_flag_is_taken_up():
    """All inducing inputs are chosen among rows without the flag: U is small there, and Z moves."""
    theta = ThetaPosterior(jnp.array([0.7, 0.3]), jnp.ones(2), jnp.ones(()), jnp.ones(()))
    U = jnp.array([[1.0, -0.05], [-1.0, -0.05]])
    noise = NoiseParameters(jnp.ones(()), jnp.ones(()), jnp.ones(2), U)
    Z = theta.nu * jnp.array([[1.0, 3.5], [-1.2, -0.05]])
    switches = Switches(APPROXIMATIONS["pic"], bayesian=True)
    again = constrain(*release(Parameters(theta, Z, noise), switches), switches)
    assert_allclose(again.Z, Z, rtol=1e-6)
