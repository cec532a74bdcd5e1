"""GPflow's SVGP as the paper's table runs it."""

import numpy as np
import pytest

from mosaicgp.comparison.scores import Split
from mosaicgp.experiments.peer import interpreter, predictions
from peers.run import interpreter as python_of

pytestmark = pytest.mark.peers


def test_it_learns_in_the_users_units():
    rng = np.random.default_rng(0)
    X = rng.normal(100.0, 5.0, size=(400, 2))
    y = 50.0 + 10.0 * np.sin(X[:, 0] / 5.0) + rng.normal(size=400)
    python = interpreter(str(python_of("gpflow")))
    assert python is not None
    mean, std = predictions(python, Split(X[:300], y[:300], X[300:], y[300:]), 20, 300, 0)
    assert np.sqrt(np.mean((mean - y[300:]) ** 2)) < 1.5  # the noise is 1, y spreads by 7
    assert 0.8 < np.median(std) < 1.5
