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


Maker = Callable[[int, int], Callable[[], object]]


def answer(stepper: Maker, predictor: Maker) -> None:
    """Print the seconds of a step, or of predicting n rows, for every line "step n m" or
    "predict n m" of standard input."""
    ready: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        what, n, m = line.split()
        if line not in ready:
            ready[line] = (stepper if what == "step" else predictor)(int(n), int(m))
            ready[line](), ready[line]()
        times = n_steps(int(m)) if what == "step" else 5
        began = time.perf_counter()
        for _ in range(times):
            ready[line]()
        print((time.perf_counter() - began) / times, flush=True)
