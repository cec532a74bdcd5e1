"""The step that every library takes: the same rows, inducing inputs and step sizes."""

import numpy as np

INPUTS = 8
N_DATA = 100_000
RHO = 0.1
STEPS = 10


def rows(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (n, d), y (n,) and inducing inputs (m, d), standard normal."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, INPUTS)), rng.normal(size=n), rng.normal(size=(m, INPUTS))
