"""Exact inference where the estimator's own tests cannot reach: the climb itself."""

from dataclasses import replace
from time import perf_counter, sleep

import numpy as np
import pytest

from mosaicgp import SparseGPRegressor
from mosaicgp.data.blocks import group
from mosaicgp.inference import climb as climb_module
from mosaicgp.inference import exact
from mosaicgp.inference.climb import Climb, Journal, Settings, Watch
from mosaicgp.inference.exact import fit_exact
from mosaicgp.inference.initial import starting_values
from mosaicgp.inference.parameters import Fixed, Switches
from mosaicgp.model.family import APPROXIMATIONS


def test_an_inverse_length_scale_asleep_at_zero_is_woken() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)
    data = group(X, y, np.zeros(120, dtype=int))
    kind = APPROXIMATIONS["dtc"]
    start = starting_values(X[:20], kind)
    fixed = Fixed(start.inducing, start.nu)
    switches = Switches(kind, bayesian=False)

    def climbed(nu: tuple[float, float]) -> float:
        free = start._replace(nu=np.array(nu))
        return fit_exact(free, fixed, data, switches, Settings(), lambda: free).bound

    awake, asleep = climbed((0.7, 0.7)), climbed((0.0, 0.7))
    np.testing.assert_allclose(asleep, awake, atol=0.5)


def smooth(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def smooth_and_rough(n: int, block: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise correlated within a block beside it, as large as the function, so that k^ε is known."""
    X, y = smooth(n, 2, seed)
    rng = np.random.default_rng(100 + seed)
    apart = np.sum((X[:, None] - X[None]) ** 2, axis=-1)
    together = (block[:, None] == block) * np.exp(-0.5 * 2.0**2 * apart)
    y = y + np.linalg.cholesky(together + 1e-8 * np.eye(n)) @ rng.normal(size=n)
    return X, y / np.std(y)


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pic"])
def test_a_coarse_climb_first_ends_no_lower_and_looks_less_often_at_the_whole(kind, monkeypatch):
    """On each of four tables, for pic with noise of its own kind: where there is none, its k^ε has
    optima a few nats apart, and which of them a single climb ends in is a matter of rounding."""
    block = np.arange(300) // 100
    approximation = APPROXIMATIONS[kind]
    switches = Switches(approximation, bayesian=True)
    original, whole = exact.value_and_gradient, []

    def counted(*arguments):
        whole.append(arguments[-1])
        return original(*arguments)

    monkeypatch.setattr(exact, "value_and_gradient", counted)

    def fitted(seed: int, search: bool) -> tuple[float, int]:
        whole.clear()
        X, y = smooth_and_rough(300, block, seed) if kind == "pic" else smooth(300, 4, seed)
        data = group(X, y, block)
        start = starting_values(X[:40], approximation)
        fixed, settings = Fixed(start.inducing, start.nu), replace(Settings(), search=search)
        found = fit_exact(start, fixed, data, switches, settings, lambda: start)
        assert found.status == "converged"
        assert np.all(np.diff([p.iteration for p in found.history]) == 1)
        return found.bound, sum(whole)

    coarse, few = np.transpose([fitted(seed, True) for seed in range(4)])
    alone, many = np.transpose([fitted(seed, False) for seed in range(4)])
    assert np.min(coarse - alone) > -1.0
    assert np.mean(few) < np.mean(many)


def two_climbs(**arguments):
    """A problem large enough for both, and what fits it."""
    X, y = smooth(300, 4, 1)
    data = group(X, y, np.zeros(300, dtype=int))
    start = starting_values(X[:40], APPROXIMATIONS["dtc"])
    fixed, switches = Fixed(start.inducing, start.nu), Switches(APPROXIMATIONS["dtc"], True)
    report = arguments.pop("report", lambda progress: None)
    return fit_exact(start, fixed, data, switches, Settings(**arguments), lambda: start, report)


def test_a_budget_holds_for_both_climbs_together():
    for n in (1, 3):
        found = two_climbs(max_iter=n)
        assert found.status == "max_iter" and len(found.history) == n
    assert not found.history[-1].coarse


@pytest.mark.parametrize("ended", ["max_time", "callback", "interrupt"])
def test_a_fit_that_ends_in_the_coarse_climb_knows_how_wide_its_posterior_is(ended):
    """Not as narrow as the coarse climb holds it."""

    def report(progress):
        if ended != "max_time" and progress.iteration == 12:
            if ended == "interrupt":
                raise KeyboardInterrupt
            return True
        return None

    found = two_climbs(report=report, **({"max_time": 1e-6} if ended == "max_time" else {}))
    assert found.status == ("max_time" if ended == "max_time" else "interrupted")
    assert all(progress.coarse for progress in found.history)
    theta = found.parameters.theta
    assert np.median(np.sqrt(theta.xi) / np.abs(theta.nu)) > 2 * exact.COARSE_SPREAD
    if ended != "max_time":
        converged = two_climbs()
        wide = np.sqrt(converged.parameters.theta.xi)
        assert np.all(np.sqrt(theta.xi) > 0.3 * wide) and np.all(np.sqrt(theta.xi) < 3.0 * wide)


def test_an_interrupt_at_any_evaluation_keeps_a_state(monkeypatch):
    original = exact.value_and_gradient

    def interrupted_at(moment):
        calls = []

        def counted(*arguments):
            calls.append(bool(arguments[-1]))
            if len(calls) == moment:
                raise KeyboardInterrupt
            return original(*arguments)

        monkeypatch.setattr(exact, "value_and_gradient", counted)
        return two_climbs(), calls

    first = interrupted_at(None)[1].index(True) + 1
    for moment in (2, first - 1, first, first + 1, first + 5):
        found, _ = interrupted_at(moment)
        assert found.status == "interrupted" and np.isfinite(found.bound)


def test_the_second_start_of_a_coarse_climb_is_as_wide_as_the_first(monkeypatch):
    """The widths of q(θ) stay as they are there, and count: d log 4 nats for nothing otherwise."""
    starts = []

    def captured(start, names, evaluate, key, rows, watch, method, coarse, price, scout):
        starts.append((start, scout))
        return Climb(start, names, evaluate, key, rows, watch, method, coarse, price, scout)

    monkeypatch.setattr(exact, "Climb", captured)
    two_climbs()
    start, scout = starts[0]
    np.testing.assert_array_equal(scout.log_xi, start.log_xi)
    np.testing.assert_allclose(scout.nu, exact.FINER * start.nu)


def two_tops(free):
    """A bound of α with a low top at 1 and a high one at 3, and its slope."""
    low, high = (
        np.array([1.0, -8.0 * (free.alpha - top)]) * height * np.exp(-4.0 * (free.alpha - top) ** 2)
        for top, height in ((1.0, 1.0), (3.0, 2.0))
    )
    value, slope = 100.0 * (low + high)
    return value, {"alpha": slope}


def with_second_start(second, evaluate=two_tops, method="bfgs", **settings):
    start = starting_values(np.zeros((3, 1)), APPROXIMATIONS["dtc"])._replace(alpha=np.array(0.8))
    scout = None if second is None else start._replace(alpha=np.array(second))
    watch = Watch(Settings(**settings), perf_counter(), [], lambda progress: None, Journal())
    return Climb(start, ("alpha",), evaluate, (), 10.0, watch, method, scout=scout), watch.history


@pytest.mark.parametrize("method", ["bfgs", "l-bfgs-b", "cg"])
@pytest.mark.parametrize(("second", "top"), [(None, 1.0), (2.5, 3.0), (1.2, 1.0)])
def test_a_second_start_is_climbed_from_and_taken_where_it_leads_higher(second, top, method):
    climb, history = with_second_start(second, method=method)
    assert climb.run()[0] == "converged"
    np.testing.assert_allclose(climb.best.alpha, top, atol=1e-3)
    assert np.all(np.diff([progress.bound for progress in history]) >= 0.0)


@pytest.mark.parametrize("iterations", [1, 2])
def test_a_second_start_cut_short_goes_on_wherever_it_leads_higher(iterations, monkeypatch):
    """By however little."""
    monkeypatch.setattr(climb_module, "SCOUT_ITERATIONS", iterations)
    climb, _ = with_second_start(2.6, tol=50.0)
    climb.run()
    np.testing.assert_allclose(climb.best.alpha, 3.0, atol=0.05)


def test_a_second_start_keeps_to_the_budget_of_iterations():
    converged = len(_history_of(None))
    climb, history = with_second_start(2.5, max_iter=converged + 1)
    assert climb.run()[0] == "max_iter"
    assert len(history) == converged + 1
    climb, history = with_second_start(2.5, max_iter=converged)
    climb.run()
    assert len(history) == converged


def _history_of(second):
    climb, history = with_second_start(second)
    climb.run()
    return history


def test_time_that_runs_out_on_the_way_from_a_second_start_leaves_a_fit_converged():
    def slow(free):
        if free.alpha < 0.5:  # where only the second start leads
            sleep(0.6)
        return two_tops(free)

    climb, _ = with_second_start(0.1, slow, max_time=0.5)
    assert climb.run()[0] == "converged"
    np.testing.assert_allclose(climb.best.alpha, 1.0, atol=1e-3)


@pytest.mark.parametrize(("search", "rotate"), [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("bayesian", [True, False])
def test_only_a_search_whose_inducing_inputs_follow_has_a_second_start(
    search, rotate, bayesian, monkeypatch
):
    scouts = []

    class Seen(Climb):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            scouts.append(self._scout)

    monkeypatch.setattr(exact, "Climb", Seen)
    X, y = smooth(300, 4, 1)
    start = starting_values(X[:40], APPROXIMATIONS["dtc"])
    switches = Switches(APPROXIMATIONS["dtc"], bayesian, rotate=rotate)
    data, settings = group(X, y, np.zeros(300, dtype=int)), Settings(max_iter=2, search=search)
    fit_exact(start, Fixed(start.inducing, start.nu), data, switches, settings, lambda: start)
    first, *others = scouts
    assert (first is not None) == (search and rotate)
    assert all(scout is None for scout in others)
    if first is not None:
        np.testing.assert_allclose(first.nu, exact.FINER * start.nu)


def test_waves_are_not_taken_for_noise():
    """From long length-scales alone the climb ends at a straight line and noise of 17."""
    rng = np.random.default_rng(0)
    area, city = rng.uniform(20.0, 200.0, 500), rng.integers(4, size=500)
    level = np.array([0.0, 50.0, -30.0, 100.0])[city]
    y = 2.0 * area + level + 20.0 * np.sin(area / 10.0) + 10.0 * rng.normal(size=500)
    X = np.column_stack([area, np.eye(4)[city]])
    model = SparseGPRegressor("dtc", n_inducing=50).fit(X, y)
    assert np.sqrt(model.posterior_.noise_variance) * model.scaling_.y_scale < 12.0


def test_spreads_are_placed_where_each_alone_is_best():
    """Exactly, of a bound that is ½log ξ − cξ in each; and a place that is best is kept."""
    start = starting_values(np.zeros((3, 4)), APPROXIMATIONS["dtc"])
    c = np.array([2.0, 30.0, 400.0, 5.0])

    def evaluate(free):
        xi, beta = np.exp(free.log_xi), np.exp(free.log_beta)
        value = np.sum(0.5 * free.log_xi - c * xi) + 0.5 * free.log_beta - 7.0 * beta
        return value, {"log_xi": 0.5 - c * xi, "log_beta": 0.5 - 7.0 * beta}

    watch = Watch(Settings(), 0.0, [], lambda progress: None, Journal())
    climb = Climb(start, ("log_xi", "log_beta"), evaluate, (), 10.0, watch, "l-bfgs-b")
    for _ in range(2):
        climb.place_spreads()
        np.testing.assert_allclose(np.exp(climb.best.log_xi), 0.5 / c, rtol=1e-12)
        np.testing.assert_allclose(np.exp(climb.best.log_beta), 0.5 / 7.0, rtol=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
def test_where_no_finer_route_is_asked_it_would_change_nothing(seed):
    X, y = smooth(400, 3, seed)
    model = SparseGPRegressor("dtc", n_inducing=25).fit(X, y)
    standard = (X - model.scaling_.X_mean) / model.scaling_.X_scale
    spread = float(np.sum(model.posterior_.xi * np.mean(standard**2, axis=0)))
    assert spread <= exact.NARROW
    assert abs(model.fit_result_.bound - model.elbo(X, y)) < 0.05
