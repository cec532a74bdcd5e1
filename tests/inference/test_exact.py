"""Exact inference where the estimator's own tests cannot reach: the climb itself."""

from dataclasses import replace

import numpy as np
import pytest

from mosaicgp import SparseGPRegressor
from mosaicgp.data.blocks import group
from mosaicgp.inference import exact
from mosaicgp.inference.climb import Settings
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


@pytest.mark.parametrize("kind", ["dtc", "fitc", "pic"])
def test_a_coarse_climb_first_ends_no_lower_and_looks_less_often_at_the_whole(kind, monkeypatch):
    X, y = smooth(300, 4, 0)
    data = group(X, y, np.arange(300) // 100)
    approximation = APPROXIMATIONS[kind]
    start = starting_values(X[:40], approximation)
    fixed, switches = Fixed(start.inducing, start.nu), Switches(approximation, bayesian=True)
    original, whole = exact.value_and_gradient, []

    def counted(*arguments):
        whole.append(arguments[-1])
        return original(*arguments)

    monkeypatch.setattr(exact, "value_and_gradient", counted)

    def fitted(search: bool) -> tuple[float, int]:
        whole.clear()
        settings = replace(Settings(), search=search)
        found = fit_exact(start, fixed, data, switches, settings, lambda: start)
        assert found.status == "converged"
        assert np.all(np.diff([p.iteration for p in found.history]) == 1)
        return found.bound, sum(whole)

    (coarse, few), (alone, many) = fitted(True), fitted(False)
    assert coarse > alone - 1.0
    assert few < many


def test_a_budget_holds_for_both_climbs_together():
    X, y = smooth(300, 4, 1)
    data = group(X, y, np.zeros(300, dtype=int))
    start = starting_values(X[:40], APPROXIMATIONS["dtc"])
    fixed, switches = Fixed(start.inducing, start.nu), Switches(APPROXIMATIONS["dtc"], True)
    for n in (1, 3):
        found = fit_exact(start, fixed, data, switches, Settings(max_iter=n), lambda: start)
        assert found.status == "max_iter" and len(found.history) == n


@pytest.mark.parametrize("seed", [0, 1])
def test_where_no_finer_route_is_asked_it_would_change_nothing(seed):
    X, y = smooth(400, 3, seed)
    model = SparseGPRegressor("dtc", n_inducing=25).fit(X, y)
    standard = (X - model.scaling_.X_mean) / model.scaling_.X_scale
    spread = float(np.sum(model.posterior_.xi * np.mean(standard**2, axis=0)))
    assert spread <= exact.NARROW
    assert abs(model.fit_result_.bound - model.elbo(X, y)) < 0.05
