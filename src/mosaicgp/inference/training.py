"""The loop around the stochastic step: draws, schedule, validation, budgets, faults."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.checkpoints import Snapshot
from mosaicgp.data.sampling import Held
from mosaicgp.inference.exact import FitError
from mosaicgp.inference.parameters import Fixed, Free, Switches
from mosaicgp.inference.records import (
    Kept,
    Look,
    Looks,
    Position,
    Progress,
    Settings,
    StochasticFit,
    TrainingData,
)
from mosaicgp.inference.result import Status, Stop, call_back
from mosaicgp.inference.resuming import Stage, Standing, snapshot_of, standing_of
from mosaicgp.inference.schedule import (
    ANNEAL_END,
    LONGEST_MEMORY,
    RHO,
    SEARCH_END,
    Phase,
    Sizes,
)
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
from mosaicgp.inference.verdict import search_over, verdict
from mosaicgp.model.bound import Block, Parameters
from mosaicgp.model.given_theta import mirrored_nodes, nodes_shape, probing_signs
from mosaicgp.model.posterior import InducingPosterior, NaturalParameters, from_natural
from mosaicgp.precision import in_double

# The bound of a step is looked at this many steps late, so that the next ones are under way.
LAG = 8

# Rejected steps in a row after which the jitter is raised, and where that ends.
STREAK = 10
LARGEST_JITTER = 1e-2

# A final state may be worse than the best seen by this much (nats a row) before that is preferred.
REGRET = 0.05

# Iterations that count as the whole budget for when to divide rows anew, if it has more: a noise
# kernel that has long learned from blocks in which all inputs count alike stays in a worse optimum
# (an error of 34.9 minutes against 31.9 on nycflights13).
ADAPT_WITHIN = 2000

# Batches that the bound of the final state is estimated from.
BOUND_BATCHES = 20


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
        checkpoint: Stage | None,
        looks: Looks | None,
    ) -> None:
        self._began = began
        self._looks = looks
        self._dtype = np.dtype(settings.dtype)
        self._free: Free = self._cast(start)
        self._fixed: Fixed = self._cast(fixed)
        self._switches, self._settings, self._rng = switches, settings, rng
        self._report = report
        self._state = initial_state(self._free, switches, None if eta is None else self._cast(eta))
        self._warm = eta is not None
        self._at = Position(settings.max_iter, settings.jitter, list(settings.adapt_at))
        self._at.waited = perf_counter() - began
        self._pending: list[tuple[int, Info, Sizes, float]] = []
        self.history: list[Progress] = []
        self.best: Kept | None = None
        self._checkpoint = checkpoint
        self._take_data(data)

    def _cast(self, tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, self._dtype), tree)

    def _take_data(self, data: TrainingData) -> None:
        self.data = data
        self._held = None if data.held is None else self._held_rows(data, data.held)

    @property
    def n_held(self) -> int:
        """Rows held back now."""
        return 0 if self.data.held is None else int(self.data.held.mask.sum())

    def _held_rows(self, data: TrainingData, held: Held) -> HeldRows:
        rows = Block(*self._cast((held.X, held.y, held.mask)))
        if data.blocks is None:
            return HeldRows(rows, rows)
        X, y, _ = data.blocks.take(held.block)
        return HeldRows(rows, Block(*self._cast((X, y * held.left, held.left))))

    # -- the loop --------------------------------------------------------------------------------

    def run(self) -> tuple[Status, str, Exception | None]:
        """Train until something ends it: status, message, and a callback's exception."""
        at = self._at
        try:
            while True:
                progress = self._progress(at.iteration)
                if progress >= 1.0 or self._settled(at.iteration):
                    self._flush()
                    break
                self._adapt_if_due(progress)
                self._one(at.iteration, progress)
                at.iteration += 1
                checked = at.iteration % self._settings.check_every == 0
                if checked:
                    self._check(at.iteration)
                # Before the checkpoint: what is interrupted in a look comes to it again.
                if self._looks is not None and at.iteration in self._looks.at:
                    self._show(self._looks.show)
                if checked and self._checkpoint is not None and self._checkpoint.due():
                    self._checkpoint.write(self.snapshot())
        except KeyboardInterrupt:
            self._flush(report=False)
            if not self.history:
                raise
            return "interrupted", f"interrupted after {len(self.history)} iterations", None
        except Stop as stop:
            self._flush(report=False)
            return stop.status, stop.message, stop.error
        return *verdict(self.history, at, self._settings), None

    def _progress(self, iteration: int, within: float = np.inf, waited: float = 0.0) -> float:
        """The share of the budget, in iterations (no more than ``within``) or in time (but for the
        seconds ``waited``), that is used."""
        share = iteration / min(self._at.max_iter, within)
        if (limit := self._settings.max_time) is not None and iteration > 0:
            seconds = perf_counter() - self._began - waited
            share = max(share, seconds / max(limit - waited, 1e-3))
        return share

    def _settled(self, iteration: int) -> bool:
        """Whether q(s) has settled: every block was seen, and a few batches at least."""
        passes = max(self.data.sampler.batches_per_pass, 50)
        return self._at.phase == "settle" and iteration - self._at.phase_began >= passes

    def _one(self, iteration: int, progress: float) -> None:
        sizes = self._sizes(iteration, progress)
        if sizes.phase != self._at.phase:
            self._enter(sizes.phase, iteration)
            sizes = self._sizes(iteration, progress)
        passing = self._at.phase == "settle" and self._whole_pass_ahead()
        batch = self._batch(passing or self._settings.sampling == "reshuffle")
        control = Control(sizes.rho, sizes.rate, sizes.average, self._at.jitter)
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
        since = iteration - self._at.phase_began
        # What q(s) was counts as so many batches where not all are seen while it settles; in single
        # precision one batch alone may not have a precision that can be factored.
        known = min(1.0 / self._settings.schedule.rho, LONGEST_MEMORY * self._at.phase_began)
        if self._whole_pass_ahead():
            known = 0.0 if self._dtype == np.float64 else 1.0 / RHO
        return self._settings.schedule.sizes(iteration, progress, since, self._warm, known)

    def _whole_pass_ahead(self) -> bool:
        """Whether the settling phase is long enough to see every block."""
        ahead = (1.0 - ANNEAL_END) * self._at.max_iter
        return self._settings.max_time is None and ahead >= self.data.sampler.batches_per_pass

    def _enter(self, phase: Phase, iteration: int) -> None:
        self._at.phase, self._at.phase_began = phase, iteration
        if phase == "settle":
            self._state = self._state._replace(learned=self._state.average)

    def _batch(self, reshuffled: bool) -> Batch:
        sample = self.data.sampler.next(reshuffled)
        n_blocks, block_size, d = sample.X.shape
        noise = self._switches.approximation.noise
        shape = nodes_shape(noise, n_blocks, block_size, d)
        nodes = mirrored_nodes(self._rng, shape) if self._switches.bayesian else np.zeros(shape)
        probes = probing_signs(self._rng, noise, sample.X.shape)
        return Batch(Block(*self._cast(sample[:3])), *self._cast((nodes, sample.weight, probes)))

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
                self.n_held,
                sizes.phase,
                seconds,
            )
            self.history.append(record)
            if report:
                call_back(self._report, record)
        if pending and report:
            self._look_after_rejections()

    def _look_after_rejections(self) -> None:
        streak = int(self._state.streak)
        if streak < STREAK:
            return
        self._at.jitter *= 10.0
        if self._at.jitter > LARGEST_JITTER:
            what = (
                f"{streak} steps in a row gave a bound that is not finite, however much was added "
                "to the diagonal of the covariances. Likely causes: a target with one huge value, "
                "inputs with a few extreme rows, or a learning_rate that is too large; look for "
                "outliers in X and y, or lower learning_rate or n_inducing"
            )
            if not any(record.accepted for record in self.history):
                raise FitError(what + ".")
            raise Stop("failed", what + "; the last good state is kept")
        self._state = self._state._replace(streak=jnp.zeros_like(self._state.streak))

    # -- looking -----------------------------------------------------------------------------------

    def _adapt_if_due(self, progress: float) -> None:
        # Before it began to train it learned nothing to divide by.
        used = self._progress(self._at.iteration, ADAPT_WITHIN, self._at.waited)
        due = [share for share in self._at.to_adapt if used >= share]
        self._at.to_adapt = self._at.to_adapt[len(due) :]
        if not due or self.data.adapt is None or progress >= SEARCH_END:
            return
        free = unpacked(self._state.learned, self._free, self._switches)
        lam = np.exp(np.asarray(free.log_eps_lam, dtype=np.float64))
        if np.all(np.isfinite(lam)):
            before, adapted = self.data, self.data.adapt(lam, self.data.division + 1)
            self._take_data(adapted)
            before.sampler.close()
            self._at.adapted = len(self.history) + len(self._pending)
            # Scores on other held rows do not compare.
            self.best, self._at.stale = None, 0

    def _candidate(self) -> Array:
        """What would be kept if the fit ended now."""
        return self._state.average if self._at.phase == "anneal" else self._state.learned

    def nlpd(self, learned: Array, eta: NaturalParameters) -> float:
        """The validation NLPD of a state; NaN without held rows."""
        if self._held is None:
            return np.nan
        jitter = jnp.asarray(self._at.jitter, self._dtype)
        return float(
            held_nlpd(learned, eta, self._free, self._fixed, self._held, jitter, self._switches)
        )

    def _show(self, show: Callable[[Look], Any]) -> None:
        """Show what would be kept if the fit ended now; the time that takes is not the fit's."""
        parameters, q = self._finished(self._candidate(), self._state.eta)
        paused = perf_counter()
        seconds, at = paused - self._began, self._at
        show(Look(at.iteration, seconds, parameters, q, at.jitter, list(self.history), self.data))
        self._began += perf_counter() - paused

    def _finished(
        self, learned: Array, eta: NaturalParameters
    ) -> tuple[Parameters, InducingPosterior]:
        final = finished(learned, eta, self._free, self._fixed, self._switches)
        return jax.block_until_ready(
            jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), final)
        )

    def _check(self, iteration: int) -> None:
        learned, eta = self._candidate(), self._state.eta
        nlpd = self.nlpd(learned, eta)
        self._flush(nlpd=nlpd)
        if not np.isfinite(nlpd):
            return
        gained = self.best is None or nlpd < self.best.nlpd - self._settings.tol
        if self.best is None or nlpd < self.best.nlpd:
            self.best = Kept(nlpd, learned, eta)
        self._at.stale = 0 if gained else self._at.stale + 1
        if search_over(self._at, self._settings, self.data):
            # The budget shrinks so that the search ends here.
            self._at.plateaued = True
            self._at.max_iter = min(self._at.max_iter, int(np.ceil(iteration / SEARCH_END)))

    # -- stopping and going on -----------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All that the rest of the fit depends on; taken when no step is pending."""
        seconds = perf_counter() - self._began
        standing = Standing(self._state, self._at, self.history, self.best, seconds)
        return snapshot_of(standing, self.data, self._rng)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, the rows divided already as they were then."""
        standing = standing_of(snapshot, self._state, self.data, self._rng)
        self._state, self._at, self.history, self.best, seconds = standing
        self._began = perf_counter() - seconds

    # -- the end -----------------------------------------------------------------------------------

    def final(self) -> Kept:
        """The state to keep: the present one, unless the best seen is clearly better."""
        learned, eta = self._candidate(), self._state.eta
        last = Kept(self.nlpd(learned, eta), learned, eta)
        best = self.best
        regret = REGRET if self._at.phase == "settle" else 0.0
        if best is not None and not last.nlpd <= best.nlpd + regret:
            return best
        return last

    def bound_estimate(self, kept: Kept) -> float:
        """The mean of a few fresh stochastic bounds at the state that is kept."""
        still = jnp.asarray(Control(0.0, 0.0, 0.0, self._at.jitter), self._dtype)
        state = self._state._replace(learned=kept.learned, eta=kept.eta, q=from_natural(kept.eta))
        arguments = (self._free, self._fixed)
        infos = [
            step(state, *arguments, self._batch(False), still, self._switches)[1]
            for _ in range(BOUND_BATCHES)
        ]
        return float(np.mean([float(info.bound) for info in infos]))

    def fit(self) -> StochasticFit:
        """Run to the end and collect the result."""
        try:
            status, message, error = self.run()
            kept = self.final()
            bound = self.bound_estimate(kept)
        finally:
            self.data.sampler.close()
        parameters, q = self._finished(kept.learned, kept.eta)
        return StochasticFit(
            parameters,
            q,
            bound,
            kept.nlpd,
            status,
            message,
            perf_counter() - self._began,
            int(self._state.rejected),
            self._at.jitter,
            self.history,
            self.data,
            error,
            self.n_held,
        )


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
    stage: Stage | None = None,
    snapshot: Snapshot | None = None,
    looks: Looks | None = None,
) -> StochasticFit:
    """Maximise the bound by stochastic steps from ``start``, with q(s) = p(s) or ``eta``.

    ``began`` is the time (``perf_counter``) from which the budget counts: now, if None. With a
    ``snapshot`` the fit goes on from there, on ``data`` divided as it was then. ``looks`` are not
    counted in its time.
    """
    began = perf_counter() if began is None else began
    training = _Training(
        start, fixed, data, switches, settings, eta, rng, report, began, stage, looks
    )
    if snapshot is not None:
        training.restore(snapshot)
    return training.fit()
