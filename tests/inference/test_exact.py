"""Exact inference where the estimator's own tests cannot reach: the climb itself."""

import numpy as np

from mosaicgp.data.blocks import group
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
