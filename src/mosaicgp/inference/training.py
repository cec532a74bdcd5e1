"""The loop around the stochastic step: draws, schedule, validation, budgets, faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks
from mosaicgp.data.partition import Partition
from mosaicgp.data.sampling import Held, Sampler
from mosaicgp.inference.exact import FitError
from mosaicgp.inference.parameters import Fixed, Free, Switches
from mosaicgp.inference.result import Status
from mosaicgp.inference.schedule import ANNEAL_END, SEARCH_END, Anneal, Phase, Schedule, Sizes
from mosaicgp.inference.stochastic import (
    Batch,
    Control,
    Info,
    finished,
    initial_state,
    step,
    unpacked,
)
from mosaicgp.inference.validation_score import HeldRows, held_nlpd
from mosaicgp.model.bound import Block, Parameters
from mosaicgp.model.given_theta import nodes_shape
from mosaicgp.model.posterior import InducingPosterior, NaturalParameters, from_natural
from mosaicgp.precision import in_double

# The bound of a step is looked at this many steps late, so that the next ones are under way.
LAG = 8

# Rejected steps in a row after which the jitter is raised, and where that ends.
STREAK = 10
LARGEST_JITTER = 1e-2

# A final state may be worse than the best seen by this much (nats a row) before that is preferred.
REGRET = 0.05

# The second half of a search that gained more than this many times ``tol`` was still improving.
STILL = 5.0

# Batches that the bound of the final state is estimated from.
BOUND_BATCHES = 20


@dataclass(frozen=True)
class Settings:
    """How to train. ``patience`` counts checks of the validation NLPD without a gain of ``tol``."""

    schedule: Schedule
    max_iter: int
    max_time: float | None = None
    tol: float = 2e-3
    patience: int = 6
    check_every: int = 50
    adapt_at: tuple[float, ...] = ()
    sampling: Literal["iid", "reshuffle"] = "iid"
    dtype: str = "float64"
    jitter: float = 1e-6


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Where batches come from, what is held back, and how to divide the rows anew.

    ``blocks`` and their training ``mask`` are there where the noise is correlated; ``adapt`` takes
    the inverse length-scales (d,) of k^ε and returns data partitioned in that scaling.
    """

    sampler: Sampler
    held: Held | None
    partition: Partition | None = None
    blocks: Blocks | None = None
    mask: NDArray[np.floating] | None = None
    adapt: Callable[[NDArray[np.float64]], TrainingData] | None = None


class Progress(NamedTuple):
    """One iteration; ``validation_nlpd`` is NaN between checks. Standardised units."""

    iteration: int
    bound: float
    validation_nlpd: float
    rho: float
    rate: float
    accepted: bool
    phase: Phase
    seconds: float


class StochasticFit(NamedTuple):
    """The state a fit ends with, how it ended, and its trace; ``bound`` is an estimate."""

    parameters: Parameters
    q: InducingPosterior
    bound: float
    validation_nlpd: float
    status: Status
    message: str
    seconds: float
    rejected: int
    jitter: float
    history: list[Progress]
    data: TrainingData
    error: Exception | None


class _Kept(NamedTuple):
    """A state worth keeping, and its validation NLPD."""

    nlpd: float
    learned: Array
    eta: NaturalParameters


class _Training:
    """One fit under way."""

    def __init__(
        self,
        start: Free,
        fixed: Fixed,
        data: TrainingData,
        switches: Switches,
        settings: Settings,
        eta: NaturalParameters | None,
        rng: np.random.Generator,
        report: Callable[[Progress], Any],
        began: float,
    ) -> None:
        self._began = began
        self._dtype = np.dtype(settings.dtype)
        self._free: Free = self._cast(start)
        self._fixed: Fixed = self._cast(fixed)
        self._switches, self._settings, self._rng = switches, settings, rng
        self._report = report
        self._state = initial_state(self._free, switches, None if eta is None else self._cast(eta))
        self._warm = eta is not None
        self._jitter = settings.jitter
        self._max_iter = settings.max_iter
        self._pending: list[tuple[int, Info, Sizes, float]] = []
        self._phase: Phase = "search"
        self._phase_began = 0
        self._to_adapt = list(settings.adapt_at)
        self._adapted = 0
        self.history: list[Progress] = []
        self.best: _Kept | None = None
        self._stale = 0
        self.plateaued = False
        self._take_data(data)

    def _cast(self, tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, self._dtype), tree)

    def _take_data(self, data: TrainingData) -> None:
        self.data = data
        self._held = None if data.held is None else self._held_rows(data, data.held)

    def _held_rows(self, data: TrainingData, held: Held) -> HeldRows:
        rows = Block(*self._cast((held.X, held.y, held.mask)))
        if data.blocks is None or data.mask is None:
            return HeldRows(rows, rows)
        mask = data.mask[held.block]
        blocks = (data.blocks.X[held.block], data.blocks.y[held.block] * mask, mask)
        return HeldRows(rows, Block(*self._cast(blocks)))

    # -- the loop --------------------------------------------------------------------------------

    def run(self) -> tuple[Status, str, Exception | None]:
        """Train until something ends it: status, message, and a callback's exception."""
        iteration = 0
        try:
            while True:
                progress = self._progress(iteration)
                if progress >= 1.0 or self._settled(iteration):
                    self._flush()
                    break
                self._adapt_if_due(progress)
                self._one(iteration, progress)
                iteration += 1
                if iteration % self._settings.check_every == 0:
                    self._check(iteration)
        except KeyboardInterrupt:
            self._flush(report=False)
            if not self.history:
                raise
            return "interrupted", f"interrupted after {len(self.history)} iterations", None
        except _Stop as stop:
            self._flush(report=False)
            return stop.status, stop.message, stop.error
        return self._verdict(iteration)

    def _progress(self, iteration: int) -> float:
        """The share of the budget, in iterations or in time, that is used."""
        share = iteration / self._max_iter
        if self._settings.max_time is not None and iteration > 0:
            share = max(share, (perf_counter() - self._began) / self._settings.max_time)
        return share

    def _settled(self, iteration: int) -> bool:
        """Whether q(s) has settled: every block was seen, and a few batches at least."""
        passes = max(self.data.sampler.batches_per_pass, 50)
        return self._phase == "settle" and iteration - self._phase_began >= passes

    def _one(self, iteration: int, progress: float) -> None:
        sizes = self._sizes(iteration, progress)
        if sizes.phase != self._phase:
            self._enter(sizes.phase, iteration)
            sizes = self._sizes(iteration, progress)
        batch = self._batch(self._phase == "settle" or self._settings.sampling == "reshuffle")
        control = Control(sizes.rho, sizes.rate, sizes.average, self._jitter)
        self._state, info = step(
            self._state,
            self._free,
            self._fixed,
            batch,
            jnp.asarray(control, self._dtype),
            self._switches,
        )
        self._pending.append((iteration, info, sizes, perf_counter() - self._began))
        due = (iteration + 1) % self._settings.check_every == 0
        if not due and (len(self._pending) >= LAG or iteration == 0):
            self._flush()

    def _sizes(self, iteration: int, progress: float) -> Sizes:
        since = iteration - self._phase_began
        # What a warm start or a short settling knows already counts as so many batches.
        known = 0.0 if self._whole_pass_ahead() else 1.0 / self._settings.schedule.rho
        return self._settings.schedule.sizes(iteration, progress, since, self._warm, known)

    def _whole_pass_ahead(self) -> bool:
        """Whether the settling phase is long enough to see every block."""
        ahead = (1.0 - ANNEAL_END) * self._max_iter
        return self._settings.max_time is None and ahead >= self.data.sampler.batches_per_pass

    def _enter(self, phase: Phase, iteration: int) -> None:
        self._phase, self._phase_began = phase, iteration
        if phase == "settle":
            self._state = self._state._replace(learned=self._state.average)

    def _batch(self, reshuffled: bool) -> Batch:
        sampler = self.data.sampler
        sample = sampler.reshuffled() if reshuffled else sampler.iid()
        n_blocks, block_size, d = sample.X.shape
        shape = nodes_shape(self._switches.approximation.noise, n_blocks, block_size, d)
        nodes = self._rng.standard_normal(shape) if self._switches.bayesian else np.zeros(shape)
        return Batch(Block(*self._cast(sample[:3])), *self._cast((nodes, sample.weight)))

    def _flush(self, report: bool = True, nlpd: float = np.nan) -> None:
        """Read what the pending steps returned; ``nlpd`` is that after the last of them."""
        pending = bool(self._pending)
        while self._pending:
            iteration, info, sizes, seconds = self._pending.pop(0)
            record = Progress(
                iteration + 1,
                float(info.bound),
                np.nan if self._pending else nlpd,
                sizes.rho,
                sizes.rate,
                bool(info.accepted),
                sizes.phase,
                seconds,
            )
            self.history.append(record)
            if report:
                self._call_back(record)
        if pending and report:
            self._look_after_rejections()

    def _call_back(self, record: Progress) -> None:
        try:
            stop = self._report(record)
        except Exception as error:
            message = f"the callback raised {error!r} at iteration {record.iteration}"
            raise _Stop("interrupted", message, error) from error
        if isinstance(stop, bool | np.bool_) and stop:
            raise _Stop("interrupted", f"stopped by the callback at iteration {record.iteration}")

    def _look_after_rejections(self) -> None:
        streak = int(self._state.streak)
        if streak < STREAK:
            return
        self._jitter *= 10.0
        if self._jitter > LARGEST_JITTER:
            what = (
                f"{streak} steps in a row gave a bound that is not finite, however much was added "
                "to the diagonal of the covariances. Likely causes: a target with one huge value, "
                "inputs with a few extreme rows, or a learning_rate that is too large; look for "
                "outliers in X and y, or lower learning_rate or n_inducing"
            )
            if not any(record.accepted for record in self.history):
                raise FitError(what + ".")
            raise _Stop("failed", what + "; the last good state is kept")
        self._state = self._state._replace(streak=jnp.zeros_like(self._state.streak))

    # -- looking -----------------------------------------------------------------------------------

    def _adapt_if_due(self, progress: float) -> None:
        due = [share for share in self._to_adapt if progress >= share]
        self._to_adapt = self._to_adapt[len(due) :]
        if not due or self.data.adapt is None or progress >= SEARCH_END:
            return
        free = unpacked(self._state.learned, self._free, self._switches)
        lam = np.exp(np.asarray(free.log_eps_lam, dtype=np.float64))
        if np.all(np.isfinite(lam)):
            self._take_data(self.data.adapt(lam))
            self._adapted = len(self.history) + len(self._pending)
            # Scores on other held rows do not compare.
            self.best, self._stale = None, 0

    def _candidate(self) -> Array:
        """What would be kept if the fit ended now."""
        return self._state.average if self._phase == "anneal" else self._state.learned

    def nlpd(self, learned: Array, eta: NaturalParameters) -> float:
        """The validation NLPD of a state; NaN without held rows."""
        if self._held is None:
            return np.nan
        jitter = jnp.asarray(self._jitter, self._dtype)
        return float(
            held_nlpd(learned, eta, self._free, self._fixed, self._held, jitter, self._switches)
        )

    def _check(self, iteration: int) -> None:
        learned, eta = self._candidate(), self._state.eta
        nlpd = self.nlpd(learned, eta)
        self._flush(nlpd=nlpd)
        if not np.isfinite(nlpd):
            return
        gained = self.best is None or nlpd < self.best.nlpd - self._settings.tol
        if self.best is None or nlpd < self.best.nlpd:
            self.best = _Kept(nlpd, learned, eta)
        self._stale = 0 if gained else self._stale + 1
        searching = self._phase == "search" and isinstance(self._settings.schedule, Anneal)
        adapted = self.data.adapt is None or not self._to_adapt
        if searching and adapted and self._stale >= self._settings.patience:
            # The budget shrinks so that the search ends here.
            self.plateaued = True
            self._max_iter = min(self._max_iter, int(np.ceil(iteration / SEARCH_END)))

    # -- the end -----------------------------------------------------------------------------------

    def _verdict(self, iteration: int) -> tuple[Status, str, None]:
        limit = self._settings.max_time
        if not any(record.accepted for record in self.history):
            raise FitError(
                f"none of {iteration} steps gave a finite bound. Likely causes: a target with one "
                "huge value, or inputs with a few extreme rows; look for outliers in X and y."
            )
        if self.plateaued:
            return "converged", "converged: the validation NLPD no longer improves", None
        if not self._still_improving():
            return "converged", "converged: the second half of the search gained little", None
        if limit is not None and perf_counter() - self._began >= limit:
            message = (
                f"the time budget of {limit:g} s ran out after {iteration} iterations, while the "
                "fit was still improving"
            )
            return "max_time", message, None
        message = (
            f"used all {iteration} iterations while the fit was still improving. Raise max_iter, "
            "or go on with warm_start=True"
        )
        return "max_iter", message, None

    def _still_improving(self) -> bool:
        """Whether the second half of the search lowered the validation NLPD by much, or, without
        held rows, raised the bound beyond its noise."""
        search = [record for record in self.history if record.phase == "search"]
        scores = np.array([record.validation_nlpd for record in search])
        scores = scores[self._scores_compare_from(search) :]
        scores = scores[np.isfinite(scores)]
        if len(scores) >= 4:
            half = len(scores) // 2
            return bool(np.min(scores[:half]) - np.min(scores[half:]) > STILL * self._settings.tol)
        bounds = np.array([record.bound for record in search if record.accepted])
        third, last = np.array_split(bounds[len(bounds) // 2 :], 2)
        if len(third) < 2:
            return True
        error = np.sqrt(np.var(third) / len(third) + np.var(last) / len(last))
        return bool(np.mean(last) - np.mean(third) > 2.0 * error)

    def _scores_compare_from(self, search: list[Progress]) -> int:
        """The first iteration after the rows were last divided anew."""
        return sum(record.iteration <= self._adapted for record in search)

    def final(self) -> _Kept:
        """The state to keep: the present one, unless the best seen is clearly better."""
        learned, eta = self._candidate(), self._state.eta
        last = _Kept(self.nlpd(learned, eta), learned, eta)
        best = self.best
        regret = REGRET if self._phase == "settle" else 0.0
        if best is not None and not last.nlpd <= best.nlpd + regret:
            return best
        return last

    def bound_estimate(self, kept: _Kept) -> float:
        """The mean of a few fresh stochastic bounds at the state that is kept."""
        still = jnp.asarray(Control(0.0, 0.0, 0.0, self._jitter), self._dtype)
        state = self._state._replace(learned=kept.learned, eta=kept.eta, q=from_natural(kept.eta))
        arguments = (self._free, self._fixed)
        infos = [
            step(state, *arguments, self._batch(False), still, self._switches)[1]
            for _ in range(BOUND_BATCHES)
        ]
        return float(np.mean([float(info.bound) for info in infos]))

    def fit(self) -> StochasticFit:
        """Run to the end and collect the result."""
        status, message, error = self.run()
        kept = self.final()
        final = finished(kept.learned, kept.eta, self._free, self._fixed, self._switches)
        parameters, q = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), final)
        return StochasticFit(
            parameters,
            q,
            self.bound_estimate(kept),
            kept.nlpd,
            status,
            message,
            perf_counter() - self._began,
            int(self._state.rejected),
            self._jitter,
            self.history,
            self.data,
            error,
        )


class _Stop(Exception):
    """The loop is over before its budget."""

    def __init__(self, status: Status, message: str, error: Exception | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.error = status, message, error


@in_double
def fit_stochastic(
    start: Free,
    fixed: Fixed,
    data: TrainingData,
    switches: Switches,
    settings: Settings,
    rng: np.random.Generator,
    eta: NaturalParameters | None = None,
    report: Callable[[Progress], Any] = lambda progress: None,
    began: float | None = None,
) -> StochasticFit:
    """Maximise the bound by stochastic steps from ``start``, with q(s) = p(s) or ``eta``.

    ``began`` is the time (``perf_counter``) from which the budget counts: now, if None.
    """
    began = perf_counter() if began is None else began
    return _Training(start, fixed, data, switches, settings, eta, rng, report, began).fit()
