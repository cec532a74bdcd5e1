"""The step that every library takes: the same rows, inducing inputs and step sizes."""

import sys
import time
from collections.abc import Callable

import numpy as np

INPUTS = 8
N_DATA = 100_000
RHO = 0.1


def n_steps(m: int) -> int:
    """Steps of a measurement: half a second or more, so that it is not of waking up."""
    return 200 if m <= 100 else 25


def rows(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (n, d), y (n,) and inducing inputs (m, d), standard normal."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, INPUTS)), rng.normal(size=n), rng.normal(size=(m, INPUTS))


def answer(stepper: Callable[[int, int], Callable[[], object]]) -> None:
    """Print the seconds of a step for every line "n m" of standard input."""
    steps: dict[tuple[int, ...], Callable[[], object]] = {}
    for line in sys.stdin:
        n, m = map(int, line.split())
        if (n, m) not in steps:
            steps[n, m] = stepper(n, m)
            steps[n, m](), steps[n, m]()
        began = time.perf_counter()
        for _ in range(n_steps(m)):
            steps[n, m]()
        print((time.perf_counter() - began) / n_steps(m), flush=True)
