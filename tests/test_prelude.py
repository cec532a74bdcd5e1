"""f learns beside independent noise before the noise of blocks of a large table does."""

import warnings

import numpy as np
import pytest

from mosaicgp import SparseGPRegressor, arguments, checkpoints, stages

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
    monkeypatch.setattr(stages, "PRELUDE_ROWS", 700)


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


@pytest.mark.parametrize("hyperparameters", ["bayesian", "point"])
def test_f_starts_where_independent_noise_left_it(large, fits, hyperparameters):
    fitted(model(hyperparameters=hyperparameters, learn_inducing=True))
    (start, switches, settings, eta, prelude), (free, later, _, begun, _) = fits
    assert switches.approximation.noise.correlated is False and eta is None
    assert settings.max_iter == 60 and later.approximation.noise.correlated is True
    np.testing.assert_allclose(free.nu, prelude.parameters.theta.nu)
    np.testing.assert_allclose(free.alpha, prelude.parameters.theta.alpha)
    np.testing.assert_allclose(free.nu * free.inducing, prelude.parameters.Z, atol=1e-9)
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


def test_its_time_is_a_tenth(large, fits):
    fitted(model(max_time=50.0))
    assert fits[0][2].max_time == 5.0


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
    own = stages.fit_stochastic

    def interrupted(*given):
        return own(*given)._replace(status="interrupted")

    monkeypatch.setattr(stages, "fit_stochastic", interrupted)
    unfitted = model()
    with pytest.raises(KeyboardInterrupt):
        fitted(unfitted)
    assert not hasattr(unfitted, "posterior_")
