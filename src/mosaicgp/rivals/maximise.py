"""Two ways up: SciPy's optimiser on the evidence of all rows, and annealed steps of Adam."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize

from mosaicgp.inference.result import FitResult, Status, Stop
from mosaicgp.rivals.dense_gp import FloatArray, bounds, log_evidence

if TYPE_CHECKING:
    import optax

# What an optimiser is shown where a covariance cannot be factored, so that it turns back.
WALL = 1e10

# Share of the budget after which steps of Adam fall to zero.
ANNEAL_FROM = 0.5


def maximise_evidence(
    X: FloatArray,
    y: FloatArray,
    starts: list[FloatArray],
    max_iter: int,
    max_time: float | None,
) -> tuple[FloatArray, FitResult]:
    """The hyperparameters, as logarithms, of the largest log evidence found from these starts."""
    began = perf_counter()
    best, highest = starts[0], -np.inf
    iterations = 0

    def objective(free: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, highest
        if max_time is not None and np.isfinite(highest) and perf_counter() > began + max_time:
            raise Stop("max_time", f"the time budget of {max_time:g} s ran out")
        try:
            value, gradient = log_evidence(free, X, y)
        except LinAlgError:
            if not np.isfinite(highest):
                raise
            return WALL, np.zeros_like(free)
        if value > highest:
            best, highest = free.copy(), value
        return -value / len(y), -gradient / len(y)

    def iterated(_: FloatArray) -> None:
        nonlocal iterations
        iterations += 1

    limits = bounds(len(best), X.shape[1])
    ends: list[tuple[float, bool]] = []
    status: Status = "converged"
    message = "converged: the log evidence no longer improves"
    try:
        for start in starts:
            found = minimize(
                objective,
                np.clip(start, *limits.T),
                jac=True,
                method="L-BFGS-B",
                bounds=limits,
                callback=iterated,
                options={"maxiter": max_iter, "ftol": 1e-10, "gtol": 1e-8, "maxcor": 20},
            )
            ends.append((-found.fun, found.status == 1))
        if max(ends)[1]:
            status = "max_iter"
            message = f"stopped after {max_iter} iterations without converging; raise max_iter"
    except Stop as end:
        status, message = end.status, f"{end.message}; the best state so far is kept"
    seconds = perf_counter() - began
    return best, FitResult(status, message, iterations, seconds, highest, status != "converged")


def annealed(rate: float, max_iter: int, max_time: float | None) -> Iterator[float]:
    """Step sizes, one at least, until the iterations or the seconds end: constant, then falling."""
    began = perf_counter()
    for iteration in range(max_iter):
        progress = iteration / max_iter
        if max_time is not None and iteration > 0:
            progress = max(progress, (perf_counter() - began) / max_time)
        if progress >= 1.0:
            return
        yield rate * min(1.0, (1.0 - progress) / (1.0 - ANNEAL_FROM))


def annealed_result(
    taken: int, max_iter: int, seconds: float, bound: float, rejected: int = 0
) -> FitResult:
    """How ``taken`` annealed steps ended: with all of them made, or with the time used up."""
    in_time = taken == max_iter
    status: Status = "max_iter" if in_time else "max_time"
    message = f"trained {'all ' if in_time else ''}{taken} annealed steps"
    if not in_time:
        message += f" of {max_iter} before the time ran out"
    if rejected:
        message += f", {rejected} of them not finite and refused; a lower learning_rate may help"
    return FitResult(status, message, taken, seconds, bound, True, rejected)


@cache
def adam() -> optax.GradientTransformation:
    """Adam with the decay rates that the stochastic inference of ``SparseGPRegressor`` uses."""
    import optax  # here: slow to import, and predictions do without

    return optax.scale_by_adam(b1=0.9, b2=0.99)


@jax.jit
def adam_direction(slope: Any, state: optax.OptState) -> tuple[Any, optax.OptState]:
    """Where Adam goes, of length about one in every coordinate, and its state after that."""
    with jax.numpy_dtype_promotion("standard"):  # optax mixes its integer counter with floats
        return adam().update(slope, state)
