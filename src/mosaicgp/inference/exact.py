"""Exact inference: all rows every iteration, on the bound collapsed at q*(s).

SciPy's L-BFGS-B or CG climbs the bound in the unconstrained parameters. Where the closed form of
Ψ would be slow, the climb uses the Mehler expansion to first order; at its end the bound is
evaluated by a finer route, and if that differs the climb goes on with the finer one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize

from mosaicgp.checkpoints import Checkpoint, Snapshot
from mosaicgp.data.blocks import Blocks
from mosaicgp.inference.anchor import Anchor, distance
from mosaicgp.inference.evaluate import closed_form_cost
from mosaicgp.inference.parameters import Fixed, Free, Switches, constrain
from mosaicgp.inference.result import Status, Stop, call_back
from mosaicgp.model.bound import (
    Block,
    Parameters,
    Statistics,
    collapsed_bound,
    optimal_inducing,
    total_statistics,
)
from mosaicgp.model.expectations import ClosedForm, Mehler, Route
from mosaicgp.model.posterior import InducingPosterior, kl_theta
from mosaicgp.precision import in_double

JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

# Exponentials in the closed form of Ψ (about 70 ns each with their gradient): below the first it
# is used from the start, above the second never, with dense noise.
CLOSED_FORM_ALWAYS = 1e5
CLOSED_FORM_DENSE = 2e7

# Iterations in a row that gain less than the tolerance before a climb has converged.
PATIENCE = 4

# A ν below the first share of its start has gone to sleep: the bound is stationary at ν = 0 and a
# long step can land there. It is woken at the second share, where that raises the bound.
ASLEEP, AWAKE = 0.1, 0.5

# A line search that fails after an iteration that gained more than this (nats) has stalled.
STALL_GAIN = 1.0

# A coarser route is good enough to climb by when a finer one changes the bound by less than this
# (nats): about what one standard deviation of a hyperparameter is worth.
ROUTE_TOLERANCE = 1.0


@dataclass(frozen=True)
class Settings:
    """How to climb."""

    optimizer: Literal["l-bfgs-b", "cg"] = "l-bfgs-b"
    max_iter: int = 300
    tol: float = 0.02
    max_time: float | None = None
    n_restarts: int = 0
    jitter: float = JITTERS[0]


class Progress(NamedTuple):
    """One iteration: the bound in standardised units, seconds since the start, step length."""

    iteration: int
    bound: float
    seconds: float
    step: float


class ExactFit(NamedTuple):
    """The best state found, how it was found, and the trace of iterations.

    ``bound`` is that of the finest route to Ψ that the cost allows.
    """

    parameters: Parameters
    q: InducingPosterior
    bound: float
    status: Status
    message: str
    seconds: float
    rejected: int
    jitter: float
    history: list[Progress]
    error: Exception | None = None


class Journal:
    """Evaluations of the bound, in order, in a checkpoint.

    SciPy's optimisers keep their state to themselves; but they are deterministic, so a fit goes on
    by starting again and being told, for as long as the journal lasts, what it found before. Where
    it asks for another point, as one with a larger ``max_iter`` does in the end, the rest of the
    journal is of a course it does not take, and is dropped.
    """

    STAGE = "exact"

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self._checkpoint = checkpoint
        before = None if checkpoint is None else checkpoint.read(self.STAGE)
        self._points = [] if before is None else list(before.arrays["points"])
        self._entries = [] if before is None else list(before.arrays["entries"])
        self._told = 0

    def evaluate(self, point: np.ndarray, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The bound and its gradient (1 + p,) at a point: the next entry, or what ``compute``
        returns. All that the bound depends on is in ``point``."""
        if self._checkpoint is None:
            return compute()
        k = self._told
        if k < len(self._entries) and not np.array_equal(self._points[k], point):
            del self._points[k:], self._entries[k:]
        if k == len(self._entries):
            self._entries.append(compute())
            self._points.append(point)
            if self._checkpoint.due():
                arrays = {"points": np.array(self._points), "entries": np.array(self._entries)}
                self._checkpoint.write(self.STAGE, Snapshot(arrays, {}))
        self._told += 1
        return self._entries[k]


class FitError(RuntimeError):
    """No state with a finite bound was found; the message names the likely cause."""


def routes(blocks: Block, m: int, switches: Switches) -> list[Route]:
    """Routes to Ψ from coarse to fine; the next is taken only where it changes the bound."""
    if not switches.bayesian:
        return [Mehler(0)]
    n_blocks, block_size, d = blocks.X.shape
    dense = switches.approximation.blocked
    cost = closed_form_cost(n_blocks, block_size, m, dense)
    if cost <= CLOSED_FORM_ALWAYS:
        return [ClosedForm()]
    if not dense or cost <= CLOSED_FORM_DENSE:
        return [Mehler(1), ClosedForm()]
    return [Mehler(1), Mehler(2)] if d <= 16 else [Mehler(1)]


def _evaluate(
    free: Free,
    fixed: Fixed,
    blocks: Block,
    jitter: Array,
    switches: Switches,
    route: Route,
    anchor: Anchor | None,
) -> tuple[Array, Parameters, Statistics]:
    """The collapsed bound, and what it was made of."""
    parameters = constrain(free, fixed, switches)
    noise = switches.approximation.noise
    statistics = total_statistics(parameters, blocks, noise, route, jitter)
    if anchor is not None:
        bound = collapsed_bound(statistics, anchor.eta)
        return bound - distance(anchor, free, parameters, switches), parameters, statistics
    bound = collapsed_bound(statistics)
    if switches.bayesian:
        bound = bound - kl_theta(parameters.theta, switches.prior)
    return bound, parameters, statistics


@partial(jax.jit, static_argnames=("switches", "route"))
def value_and_gradient(
    learned: dict[str, Array],
    free: Free,
    fixed: Fixed,
    blocks: Block,
    jitter: Array,
    switches: Switches,
    route: Route,
    anchor: Anchor | None = None,
) -> tuple[Array, dict[str, Array]]:
    def bound(learned: dict[str, Array]) -> Array:
        moved = free._replace(**learned)
        return _evaluate(moved, fixed, blocks, jitter, switches, route, anchor)[0]

    return jax.value_and_grad(bound)(learned)


@partial(jax.jit, static_argnames=("switches", "route"))
def _finish(
    free: Free,
    fixed: Fixed,
    blocks: Block,
    jitter: Array,
    switches: Switches,
    route: Route,
    anchor: Anchor | None = None,
) -> tuple[Array, Parameters, InducingPosterior]:
    arguments = (free, fixed, blocks, jitter, switches, route, anchor)
    bound, parameters, statistics = _evaluate(*arguments)
    before = None if anchor is None else anchor.eta
    return bound, parameters, optimal_inducing(statistics, before)


def climbing_route(
    free: Free, fixed: Fixed, blocks: Block, jitter: float, switches: Switches
) -> Route:
    """The coarsest route of the plan that agrees with the finest at this point."""
    plan = routes(blocks, free.inducing.shape[0], switches)
    bounds = [float(_finish(free, fixed, blocks, jitter, switches, route)[0]) for route in plan]
    return next(
        route
        for route, bound in zip(plan, bounds, strict=True)
        if route is plan[-1] or abs(bound - bounds[-1]) <= ROUTE_TOLERANCE
    )


class _Climb:
    """One run of the optimiser: the objective it calls, and the best point it has seen."""

    def __init__(
        self,
        start: Free,
        data: tuple[Fixed, Block, float],
        switches: Switches,
        route: Route,
        settings: Settings,
        began: float,
        history: list[Progress],
        report: Callable[[Progress], Any],
        journal: Journal,
        anchor: Anchor | None,
    ) -> None:
        self._journal = journal
        self.free = self.best = start
        self.best_bound = -np.inf
        self.error: Exception | None = None
        self.rejected = 0
        self._arguments = (*data, switches, route, anchor)
        self._jitter_and_route = (data[2], getattr(route, "order", -1))
        self._names = switches.learned()
        self._n = float(np.sum(data[1].mask))
        self._settings, self._began = settings, began
        self._history, self._report = history, report
        self._last = self._pack(start)
        self._last_bound = -np.inf
        self._last_gain = 0.0
        self._idle = 0

    def _pack(self, free: Free) -> np.ndarray:
        return np.concatenate([np.ravel(getattr(free, name)) for name in self._names])

    def _unpack(self, vector: np.ndarray) -> dict[str, Any]:
        learned, start = {}, 0
        for name in self._names:
            shape = np.shape(getattr(self.free, name))
            size = int(np.prod(shape))
            learned[name] = vector[start : start + size].reshape(shape)
            start += size
        return learned

    def objective(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """−L/N and its gradient; a point that is not finite is a wall, not an error."""
        limit = self._settings.max_time
        late = limit is not None and perf_counter() > self._began + limit
        if late and np.isfinite(self.best_bound):
            raise Stop(
                "max_time",
                f"the time budget of {limit:g} s ran out after {len(self._history)} iterations, "
                "before the fit converged; the best state so far is kept",
            )
        learned = self._unpack(vector)

        def compute() -> np.ndarray:
            value, gradient = value_and_gradient(learned, self.free, *self._arguments)
            return np.concatenate([[value], *(np.ravel(gradient[name]) for name in self._names)])

        found = self._journal.evaluate(np.append(vector, self._jitter_and_route), compute)
        bound, flat = float(found[0]), found[1:]
        if not (np.isfinite(bound) and np.all(np.isfinite(flat))):
            self.rejected += 1
            if not np.isfinite(self.best_bound):
                raise Stop("failed", "the bound is not finite at the start")
            return 1e10, np.zeros_like(vector)
        if bound > self.best_bound:
            self.best, self.best_bound = self.free._replace(**learned), bound
        return -bound / self._n, -flat / self._n

    def iterated(self, vector: np.ndarray) -> None:
        """Called by SciPy after each iteration."""
        step = float(np.linalg.norm(vector - self._last))
        seconds = perf_counter() - self._began
        progress = Progress(len(self._history) + 1, self.best_bound, seconds, step)
        self._history.append(progress)
        call_back(self._report, progress)
        gain = self.best_bound - self._last_bound
        self._last_gain = gain
        self._idle = self._idle + 1 if gain < self._settings.tol else 0
        self._last, self._last_bound = vector.copy(), self.best_bound
        if self._idle >= PATIENCE:
            raise StopIteration

    def run(self) -> tuple[Status, str]:
        """Climb until something ends it."""
        try:
            status, message = self._minimise()
            if status == "converged" and self._woken():
                return self._minimise()
        except Stop as end:
            self.error = end.error
            return end.status, end.message
        except KeyboardInterrupt:
            if not np.isfinite(self.best_bound):
                raise
            return "interrupted", "interrupted; the best state so far is kept"
        return status, message

    def _woken(self) -> bool:
        """Whether the bound rises by waking one of the ν that went to sleep, one at a time."""
        converged, best_bound = self.best, self.best_bound
        start = 1.0 / np.sqrt(np.size(converged.nu))
        for i in np.flatnonzero(np.abs(converged.nu) < ASLEEP * start):
            nu = np.array(converged.nu)
            nu[i] = AWAKE * start
            self.objective(self._pack(converged._replace(nu=nu)))
        return self.best_bound > best_bound + self._settings.tol

    def _minimise(self) -> tuple[Status, str]:
        """One call of SciPy, from the best point so far."""
        self._idle = 0
        left = max(self._settings.max_iter - len(self._history), 1)
        # The tolerance is applied in ``iterated``, alike for both optimisers.
        options: dict[str, Any] = {"maxiter": left, "gtol": 1e-12}
        if self._settings.optimizer == "l-bfgs-b":
            options |= {"ftol": 0.0, "maxcor": 20, "maxfun": 10 * left}
        result = minimize(
            self.objective,
            self._pack(self.best),
            jac=True,
            method=self._settings.optimizer.upper(),
            callback=self.iterated,
            options=options,
        )
        if self._idle >= PATIENCE:
            return "converged", "converged: the bound no longer improves"
        if result.nit >= left or result.status == 1:
            return "max_iter", (
                f"stopped after {len(self._history)} iterations without converging; raise "
                "max_iter, or tol if the bound in history_ is flat enough"
            )
        if self._last_gain > STALL_GAIN:
            return "stalled", (
                f"the line search failed while the bound was still rising ({result.message}); "
                "try another optimizer, fewer inducing points, or look for outliers in X and y"
            )
        # What SciPy calls an abnormal line search is mostly one that finds no gain at the
        # precision of the bound.
        return "converged", "converged: no direction improves the bound"


def _fit_from(
    start: Free,
    fixed: Fixed,
    blocks: Block,
    switches: Switches,
    settings: Settings,
    began: float,
    report: Callable[[Progress], Any],
    journal: Journal,
    anchor: Anchor | None,
) -> ExactFit:
    """All stages from one start, raising the jitter when a matrix cannot be factored."""
    plan = routes(blocks, start.inducing.shape[0], switches)
    history: list[Progress] = []
    free, rejected = start, 0
    jitters = [settings.jitter, *(jitter for jitter in JITTERS if jitter > settings.jitter)]
    while True:
        data = (fixed, blocks, jitters[0])
        climb = _Climb(
            free, data, switches, plan[0], settings, began, history, report, journal, anchor
        )
        status, message = climb.run()
        free, rejected = climb.best, rejected + climb.rejected
        if status != "failed":
            bound, parameters, q = _finish(free, *data, switches, plan[-1], anchor)
            gap = abs(float(bound) - climb.best_bound)
            if np.isfinite(gap) and not (status == "converged" and gap > ROUTE_TOLERANCE):
                break
            if np.isfinite(gap) and len(plan) > 1:
                plan = plan[1:]
                continue
        jitters.pop(0)
        if not jitters:
            raise FitError(
                "The bound is not finite however much is added to the diagonal of the "
                "covariances. Likely causes: a target with one huge value, or inputs with a few "
                "extreme rows; look for outliers in X and y, or lower n_inducing."
            )
    seconds = perf_counter() - began
    return ExactFit(
        parameters,
        q,
        float(bound),
        status,
        message,
        seconds,
        rejected,
        jitters[0],
        history,
        climb.error,
    )


@in_double
def fit_exact(
    start: Free,
    fixed: Fixed,
    data: Blocks,
    switches: Switches,
    settings: Settings,
    random_start: Callable[[], Free],
    report: Callable[[Progress], Any] = lambda progress: None,
    journal: Journal | None = None,
    anchor: Anchor | None = None,
) -> ExactFit:
    """Maximise the collapsed bound from ``start`` and from ``n_restarts`` random starts.

    With an ``anchor``, that of new rows given what is known before them.
    """
    began = perf_counter()
    journal = journal or Journal()
    blocks = Block(*map(jnp.asarray, (data.X, data.y, data.mask)))
    fixed = jax.tree.map(jnp.asarray, fixed)
    best: ExactFit | None = None
    rejected = 0
    for attempt in range(1 + settings.n_restarts):
        point = start if attempt == 0 else random_start()
        try:
            outcome = _fit_from(
                point, fixed, blocks, switches, settings, began, report, journal, anchor
            )
        except FitError:
            if best is None:
                raise
            rejected += 1
            continue
        rejected += outcome.rejected
        if best is None or outcome.bound > best.bound:
            best = outcome
        if outcome.status in ("interrupted", "max_time"):
            best = best._replace(
                status=outcome.status, message=outcome.message, error=outcome.error
            )
            break
    assert best is not None
    return best._replace(seconds=perf_counter() - began, rejected=rejected)
