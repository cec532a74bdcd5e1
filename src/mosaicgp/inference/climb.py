"""A climb: SciPy's optimisers on a bound that need not be finite everywhere, within a budget, with
a journal and a memory of the best point."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from mosaicgp.checkpoints import Checkpoint, Snapshot
from mosaicgp.inference.parameters import SPREADS, Free
from mosaicgp.inference.result import Status, Stop, call_back

# Iterations in a row that gain less than the tolerance before a climb has converged.
PATIENCE = 4

# A ν below the first share of its start has gone to sleep: the bound is stationary at ν = 0 and a
# long step can land there. It is woken at the second share, where that raises the bound.
ASLEEP, AWAKE = 0.1, 0.5

# Most iterations from the second start, of a climb that has one.
SCOUT_ITERATIONS = 40

INTERRUPTED = "interrupted; the best state so far is kept"

# A line search that fails after an iteration that gained more than this (nats) has stalled.
STALL_GAIN = 1.0

# How often the widths of q(θ) are moved to their own optimum, and by how much at most at once.
PLACINGS, MOST = 2, 6.0


@dataclass(frozen=True)
class Settings:
    """How to climb. ``search``: the start is a guess, and a coarse climb finds a better one."""

    optimizer: Literal["l-bfgs-b", "cg"] = "l-bfgs-b"
    max_iter: int = 300
    tol: float = 0.02
    max_time: float | None = None
    n_restarts: int = 0
    jitter: float = 1e-8
    search: bool = True


class Progress(NamedTuple):
    """One iteration: the bound in standardised units, seconds since the start, step length.

    ``coarse``: the bound is without what is beyond order zero of the expansion of Ψ.
    """

    iteration: int
    bound: float
    seconds: float
    step: float
    coarse: bool = False


class Journal:
    """Evaluations of the bound, in order, in a checkpoint.

    SciPy's optimisers keep their state to themselves; but they are deterministic, so a fit goes on
    by starting again and being told, for as long as the journal lasts, what it found before. Where
    it asks for another point, as one with a larger ``max_iter`` does in the end, the rest of the
    journal is of a course it does not take, and is dropped. ``began`` is when the fit would have
    begun, had it not been interrupted.
    """

    STAGE = "exact"

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self._checkpoint = checkpoint
        before = None if checkpoint is None else checkpoint.read(self.STAGE)
        self._points = [] if before is None else list(before.arrays["points"])
        self._entries = [] if before is None else list(before.arrays["entries"])
        self._seconds = [0.0] * len(self._entries)
        if before is not None and "seconds" in before.arrays:
            self._seconds = before.arrays["seconds"].tolist()
        self._known, self._told = len(self._entries), 0
        self.began = perf_counter() - max(self._seconds, default=0.0)

    @property
    def telling(self) -> bool:
        """Whether what comes next was found before."""
        return self._told < self._known

    def elapsed(self) -> float:
        """Seconds of the fit until what was told last."""
        if 0 < self._told <= self._known:
            return float(self._seconds[self._told - 1])
        return perf_counter() - self.began

    def evaluate(self, point: np.ndarray, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The bound and its gradient (1 + p,) at a point: the next entry, or what ``compute``
        returns. All that the bound depends on is in ``point``."""
        if self._checkpoint is None:
            return compute()
        k = self._told
        if k < len(self._entries) and not np.array_equal(self._points[k], point):
            del self._points[k:], self._entries[k:], self._seconds[k:]
            self._known = min(self._known, k)
        if k == len(self._entries):
            self._entries.append(compute())
            self._points.append(point)
            self._seconds.append(perf_counter() - self.began)
            if self._checkpoint.due():
                arrays = {"points": np.array(self._points), "entries": np.array(self._entries)}
                arrays["seconds"] = np.array(self._seconds)
                self._checkpoint.write(self.STAGE, Snapshot(arrays, {}))
        self._told += 1
        return self._entries[k]


Evaluate = Callable[[Free], tuple[Any, dict[str, Any]]]


class Watch(NamedTuple):
    """What the climbs of one fit share: their budget, their trace, and who is told of it."""

    settings: Settings
    began: float
    history: list[Progress]
    report: Callable[[Progress], Any]
    journal: Journal


class Climb:
    """One run of the optimiser: the objective it calls, and the best point it has seen.

    ``key`` is what the bound depends on beside the point, for the journal; ``rows`` what it is
    divided by; ``price`` what ``evaluate`` takes from the bound, and the trace does not; ``scout``
    a second start, tried when the climb has converged.
    """

    def __init__(
        self,
        start: Free,
        names: tuple[str, ...],
        evaluate: Evaluate,
        key: tuple[float, ...],
        rows: float,
        watch: Watch,
        method: str,
        coarse: bool = False,
        price: Callable[[Free], float] = lambda free: 0.0,
        scout: Free | None = None,
    ) -> None:
        self.free = self.best = start
        self.best_bound = -np.inf
        self.error: Exception | None = None
        self.rejected = 0
        self._names, self._evaluate, self._key, self._n = names, evaluate, key, rows
        self._watch, self._settings = watch, watch.settings
        self._method, self._coarse, self._price = method, coarse, price
        self._scout = scout
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
        late = limit is not None and perf_counter() > self._watch.began + limit
        if late and np.isfinite(self.best_bound) and not self._watch.journal.telling:
            raise Stop(
                "max_time",
                f"the time budget of {limit:g} s ran out after {len(self._watch.history)} "
                "iterations, before the fit converged; the best state so far is kept",
            )
        return self._look(vector)

    def _look(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The same, whatever the time is."""
        learned = self._unpack(vector)

        def compute() -> np.ndarray:
            value, gradient = self._evaluate(self.free._replace(**learned))
            return np.concatenate([[value], *(np.ravel(gradient[name]) for name in self._names)])

        found = self._watch.journal.evaluate(np.append(vector, self._key), compute)
        bound, flat = float(found[0]), found[1:]
        if not (np.isfinite(bound) and np.all(np.isfinite(flat))):
            self.rejected += 1
            if not np.isfinite(self.best_bound):
                raise Stop("failed", "the bound is not finite at the start")
            return 1e10, np.zeros_like(vector)
        if bound > self.best_bound:
            self.best, self.best_bound = self.free._replace(**learned), bound
        return -bound / self._n, -flat / self._n

    def place_spreads(self) -> None:
        """Take ξ and β to where the bound is highest in each of them, if all but their entropy is
        linear in them: with g = ∂L/∂log ξ that is ξ / (1 − 2g). Not bound to the time."""
        spreads = np.concatenate(
            [np.full(np.size(getattr(self.free, n)), n in SPREADS) for n in self._names]
        )
        for _ in range(PLACINGS):
            vector, bound = self._pack(self.best), self.best_bound
            slope = -self._n * self._look(vector)[1]
            move = np.clip(-np.log(np.maximum(1.0 - 2.0 * slope, 1e-3)), -MOST, MOST)
            self._look(vector + np.where(spreads, move, 0.0))
            if self.best_bound == bound:
                return

    def iterated(self, vector: np.ndarray) -> None:
        """Called by SciPy after each iteration."""
        self._tell(vector)
        gain = self.best_bound - self._last_bound
        self._last_gain = gain
        self._idle = self._idle + 1 if gain < self._settings.tol else 0
        self._last_bound = self.best_bound
        if self._idle >= PATIENCE:
            raise StopIteration

    def _tell(self, vector: np.ndarray) -> None:
        """Put an iteration into the trace, with the bound at the best point so far; it can fall
        where the price falls by more."""
        step = float(np.linalg.norm(vector - self._last))
        seconds = self._watch.journal.elapsed()
        bound = self.best_bound + self._price(self.best)
        progress = Progress(len(self._watch.history) + 1, bound, seconds, step, self._coarse)
        self._watch.history.append(progress)
        self._last = vector.copy()
        call_back(self._watch.report, progress)

    def run(self) -> tuple[Status, str]:
        """Climb until something ends it."""
        try:
            status, message = self._minimise()
            for higher in (self._woken, self._scouted, self._woken):
                if status == "converged" and higher():
                    status, message = self._minimise()
        except Stop as end:
            self.error = end.error
            return end.status, end.message
        except KeyboardInterrupt:
            if not np.isfinite(self.best_bound):
                raise
            return "interrupted", INTERRUPTED
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

    def _scouted(self) -> bool:
        """Whether a few iterations from the second start come higher than the climb did."""
        most = min(SCOUT_ITERATIONS, self._settings.max_iter - len(self._watch.history))
        if self._scout is None or most <= 0:
            return False
        best_bound, bounds = self.best_bound, [-np.inf]

        def iterated(intermediate_result: Any) -> None:
            self._tell(intermediate_result.x)
            bounds.append(-self._n * intermediate_result.fun)
            if len(bounds) > PATIENCE and bounds[-1] - bounds[-1 - PATIENCE] < self._settings.tol:
                raise StopIteration

        try:
            self._minimise_from(self._scout, iterated, most)
        except Stop as end:
            # Time that runs out on a way that led nowhere takes nothing from what had converged.
            if end.status != "max_time" or self.best_bound > best_bound:
                raise
        return self.best_bound > best_bound

    def _minimise_from(self, start: Free, iterated: Callable[[Any], None], most: int) -> Any:
        """SciPy from ``start``, for so many iterations; the tolerance is for ``iterated``."""
        options: dict[str, Any] = {"maxiter": most, "gtol": 1e-12}
        if self._method == "l-bfgs-b":
            options |= {"ftol": 0.0, "maxcor": 20, "maxfun": 10 * most}
        self._last = self._pack(start)
        return minimize(
            self.objective,
            self._last,
            jac=True,
            method=self._method.upper(),
            callback=iterated,
            options=options,
        )

    def _minimise(self) -> tuple[Status, str]:
        """One call of SciPy, from the best point so far."""
        # What was gained on the way to that point is not of this call.
        self._idle, self._last_gain, self._last_bound = 0, 0.0, self.best_bound
        left = self._settings.max_iter - len(self._watch.history)
        if left <= 0:
            return "max_iter", self._exhausted()
        result = self._minimise_from(self.best, self.iterated, left)
        if self._idle >= PATIENCE:
            return "converged", "converged: the bound no longer improves"
        if result.nit >= left or result.status == 1:
            return "max_iter", self._exhausted()
        if self._last_gain > STALL_GAIN:
            return "stalled", (
                f"the line search failed while the bound was still rising ({result.message}); "
                "try another optimizer, fewer inducing points, or look for outliers in X and y"
            )
        # What SciPy calls an abnormal line search is mostly one that finds no gain at the
        # precision of the bound.
        return "converged", "converged: no direction improves the bound"

    def _exhausted(self) -> str:
        return (
            f"stopped after {len(self._watch.history)} iterations without converging; raise "
            "max_iter, or tol if the bound in history_ is flat enough"
        )
