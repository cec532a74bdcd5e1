"""GPflow's SVGP as the paper's table runs it."""

import numpy as np
import pytest

from mosaicgp.experiments.peer import GPflowSVGP, interpreter
from peers.run import interpreter as python_of

pytestmark = pytest.mark.peers

rng = np.random.default_rng(0)
X = rng.normal(100.0, 5.0, size=(400, 2))
y = 50.0 + 10.0 * np.sin(X[:, 0] / 5.0) + rng.normal(size=400)


@pytest.fixture(scope="module")
def python():
    found = interpreter(str(python_of("gpflow")))
    assert found is not None
    return found


def test_it_learns_in_the_users_units(python):
    model = GPflowSVGP(python, 20, 300, 0).fit(X[:300], y[:300])
    mean, std = model.predict(X[300:], return_std=True)
    assert np.sqrt(np.mean((mean - y[300:]) ** 2)) < 1.5  # the noise is 1, y spreads by 7
    assert 0.8 < np.median(std) < 1.5
