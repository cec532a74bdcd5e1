"""f learns beside independent noise before the noise of blocks of a large table does."""

import warnings

import jax
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mosaicgp import SparseGPRegressor, arguments, checkpoints, fitting, prelude, stages
from mosaicgp.inference import training
from mosaicgp.inference.exact import FitError

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 2))
y = np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=900)


def model(**given):
    few = {"n_inducing": 12, "block_size": 64, "validation_rows": 100, "max_iter": 60}
    return SparseGPRegressor("pic", inference="stochastic", random_state=0, **{**few, **given})


def fitted(model, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **given)


@pytest.fixture
def large(monkeypatch):
    """The rows here count as a large table."""
    monkeypatch.setattr(arguments, "EXACT_ROWS", 500)
    monkeypatch.setattr(prelude, "PRELUDE_ROWS", 700)


@pytest.fixture
def fits(monkeypatch):
    """Every fit by stochastic steps: where it started, by which noise, and how it ended."""
    seen = []
    own = stages.fit_stochastic

    def spy(free, fixed, data, switches, settings, rng, eta=None, *rest):
        found = own(free, fixed, data, switches, settings, rng, eta, *rest)
        seen.append((free, switches, settings, eta, found))
        return found

    monkeypatch.setattr(stages, "fit_stochastic", spy)
    monkeypatch.setattr(prelude, "fit_stochastic", spy)
    return seen


def test_only_large_tables_with_noise_in_blocks_have_one():
    def has(n, **given):
        return arguments.plan(SparseGPRegressor(**given), n).prelude

    assert has(100_000)
    assert has(100_000, approximation="pitc", hyperparameters="point")
    assert not has(10_000) and not has(10_000, inference="stochastic")
    assert not has(100_000, inference="exact")
    assert not has(100_000, approximation="dtc") and not has(100_000, approximation="fitc")
    assert not has(100_000, rotate_inducing=False)


def test_large_tables_with_noise_in_blocks_average_more_batches_for_q_of_s():
    def rho(n, **given):
        return arguments.plan(SparseGPRegressor(**given), n).settings.schedule.rho

    assert rho(100_000) == rho(100_000, approximation="pitc", max_iter=50_000) == 0.01
    assert rho(100_000, max_iter=500) == 0.04
    assert rho(100_000, max_iter=50) == 0.1
    assert rho(100_000, approximation="fitc") == rho(10_000, inference="stochastic") == 0.1
    assert rho(100_000, schedule="robbins-monro") == 0.1  # which shrinks by itself


@pytest.mark.parametrize("hyperparameters", ["bayesian", "point"])
def test_f_starts_where_independent_noise_left_it(large, fits, hyperparameters, monkeypatch):
    monkeypatch.setattr(arguments, "LONGEST_MEMORY", 1.0)
    fitted(model(hyperparameters=hyperparameters, learn_inducing=True))
    (start, switches, settings, eta, before), (free, later, main, begun, _) = fits
    assert switches.approximation.noise.correlated is False and eta is None
    assert settings.max_iter == 60 and later.approximation.noise.correlated is True
    assert settings.schedule.rho == 0.1 and main.schedule.rho < 0.02
    np.testing.assert_allclose(free.nu, before.parameters.theta.nu)
    np.testing.assert_allclose(free.alpha, before.parameters.theta.alpha)
    np.testing.assert_allclose(free.nu * free.inducing, before.parameters.Z, atol=1e-9)
    assert begun is not None
    # The sine is of the first input alone, and f has begun to see it.
    assert abs(free.nu[0]) > 1.5 * abs(free.nu[1])
    for name in ("log_noise", "log_eps_variance", "log_eps_lam"):
        np.testing.assert_array_equal(getattr(free, name), getattr(start, name))
    if hyperparameters == "point":
        np.testing.assert_array_equal(free.log_xi, start.log_xi)


def test_what_is_fitted_already_needs_none(large, fits):
    first = fitted(model(warm_start=True))
    assert len(fits) == 2
    fitted(first)
    assert len(fits) == 3


def test_its_time_is_a_tenth_and_short_fits_have_none(large, fits, monkeypatch):
    fitted(model(max_time=50.0))
    assert fits[0][2].max_time == 5.0 and len(fits) == 2
    fitted(model(max_time=20.0))
    assert len(fits) == 3


def test_with_a_time_limit_rows_are_not_divided_anew_before_anything_is_learned(large, monkeypatch):
    """The seconds before training are no progress of it."""
    at = []
    own = training._Training._adapt_if_due

    def spy(self, progress):
        before = list(self._at.to_adapt)
        own(self, progress)
        if self._at.to_adapt != before:
            at.append(self._at.iteration)

    monkeypatch.setattr(training._Training, "_adapt_if_due", spy)
    started = training.perf_counter() - 900.0  # reading, dividing, a prelude
    monkeypatch.setattr(fitting, "perf_counter", lambda: started)
    fitted(model(max_time=1000.0))
    assert len(at) == 5 and at[0] >= 5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_it_is_in_double_precision_whatever_the_process_has(large, fits, dtype):
    with jax.enable_x64(False), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*truncated.*")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        model(dtype=dtype).fit(X, y)
    (_, _, settings, _, _), (free, _, _, eta, _) = fits
    assert settings.dtype == "float64"
    assert settings.jitter == {"float64": 1e-6, "float32": 1e-4}[dtype]
    assert all(np.asarray(leaf).dtype == np.float64 for leaf in (*free, *eta))


def raising(*given):
    raise FitError("no step was finite.")


OUTCOMES = {
    "failed": lambda fit: fit._replace(status="failed"),
    "jitter": lambda fit: fit._replace(jitter=1e-4),
}


@pytest.mark.parametrize("how", [*OUTCOMES, "raises"])
def test_where_nothing_comes_of_it_the_fit_starts_as_it_would_without(
    large, fits, monkeypatch, how
):
    own = prelude.fit_stochastic
    spoiled = raising if how == "raises" else lambda *given: OUTCOMES[how](own(*given))
    monkeypatch.setattr(prelude, "fit_stochastic", spoiled)
    fitted(model())
    free, _, _, eta, _ = fits[-1]
    assert eta is None
    np.testing.assert_array_equal(free.nu, np.full(2, 1.0 / np.sqrt(2.0)))


def test_steps_with_blocks_probe(large, monkeypatch):
    seen = []
    own = training._Training._batch

    def spy(self, reshuffled):
        seen.append(own(self, reshuffled))
        return seen[-1]

    monkeypatch.setattr(training._Training, "_batch", spy)
    fitted(model())
    assert seen[0].probes is None  # the prelude's
    assert seen[-1].probes.shape == (*seen[-1].blocks.y.shape, 16)


def test_a_killed_fit_goes_on_to_the_same_bits(large, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    whole = fitted(model())

    def kill(progress):
        if progress.iteration >= 40:
            raise SystemExit

    with pytest.raises(SystemExit):
        fitted(model(callback=kill), checkpoint=tmp_path / "run")
    resumed = fitted(model(), checkpoint=tmp_path / "run", resume=True)
    for name, array in whole.posterior_.to_arrays().items():
        np.testing.assert_array_equal(array, resumed.posterior_.to_arrays()[name], err_msg=name)


def test_an_interruption_leaves_no_half_model(large, monkeypatch):
    own = prelude.fit_stochastic

    def interrupted(*given):
        return own(*given)._replace(status="interrupted")

    monkeypatch.setattr(prelude, "fit_stochastic", interrupted)
    unfitted = model()
    with pytest.raises(KeyboardInterrupt):
        fitted(unfitted)
    assert not hasattr(unfitted, "posterior_")
