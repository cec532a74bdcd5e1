"""One stage of stochastic inference: rows divided, some held back, batches drawn, trained on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.checkpoints import Snapshot
from mosaicgp.data.disk import Workspace, bytes_of, written
from mosaicgp.data.division import divide
from mosaicgp.data.rows import ArrayRows, StandardRows, whole
from mosaicgp.data.sampling import Ahead, BlockSampler, RowSampler, hold_in_blocks, hold_rows
from mosaicgp.inference import records
from mosaicgp.inference.result import FitResult
from mosaicgp.inference.resuming import Stage
from mosaicgp.inference.training import fit_stochastic
from mosaicgp.job import Job, Outcome, on_its_way, result
from mosaicgp.origin import Streams, division_streams, origin_of
from mosaicgp.plan import Plan, dividing_bytes, n_held, on_disk, rows_a_step
from mosaicgp.posterior import Posterior
from mosaicgp.precision import in_double
from mosaicgp.prelude import after_prelude
from mosaicgp.tables import Table

FloatArray = NDArray[np.float64]


class Task(NamedTuple):
    """All that a stage needs: standardised rows, what is planned for them, and what comes with it.

    ``began`` is when its time began to count, ``name`` what its checkpoints go by.
    """

    rows: StandardRows
    plan: Plan
    settings: records.Settings
    streams: Streams
    job: Job
    began: float
    name: str = "main"


def train_by_rows(task: Task) -> Outcome:
    """Noise is independent: any rows make a batch."""
    rows, plan = task.rows, task.plan
    n = rows.count()
    # Rows at random places of the table are asked for at every step.
    if isinstance(rows.rows, ArrayRows) or not on_disk(plan, n, rows.n_features):
        return _by_rows(task._replace(rows=in_memory(rows)), ahead=False)
    workspace = Workspace(plan.work_dir)
    try:
        workspace.require(bytes_of(n, rows.n_features))
        with workspace.scratch() as folder:
            mapped = written(rows.rows.chunks(), folder / "rows.f64")
            return _by_rows(task._replace(rows=StandardRows(mapped, rows.scaling)), ahead=True)
    finally:
        workspace.release(keep=False)


def _by_rows(task: Task, ahead: bool) -> Outcome:
    rows, plan = task.rows, task.plan
    n = rows.count()
    resumed = _Resumed.of(task)
    holding, sampling = map(np.random.default_rng, task.streams.division.spawn(2))
    held, held_rows = None, np.empty(0, dtype=np.int64)
    if (n_to_hold := n_held(plan, n)) > 0:
        held, held_rows = hold_rows(rows, n_to_hold, holding)
    sampler = RowSampler(rows, rows_a_step(plan, n), held_rows, sampling)
    data = records.TrainingData(Ahead(sampler) if ahead else sampler, held)
    return _trained(task, data, resumed)


def train_by_blocks(task: Task) -> Outcome:
    """Divide the rows, or divide them again as a checkpoint had them; train."""
    rows, plan = task.rows, task.plan
    workspace = None
    if on_disk(plan, rows.count(), rows.n_features):
        workspace = Workspace(plan.work_dir)
    else:
        task = task._replace(rows=in_memory(rows))
    try:
        if workspace is not None:
            workspace.require(dividing_bytes(plan, rows.count(), rows.n_features))
        outcome = _by_blocks(task, workspace)
    except BaseException:
        if workspace is not None:
            workspace.release(keep=False)
        raise
    return outcome._replace(workspace=workspace)


def _by_blocks(task: Task, workspace: Workspace | None) -> Outcome:
    resumed, before = _Resumed.of(task), task.job.before
    partitioned = _Partitioned(task.rows, task.plan, task.streams.division, workspace)
    if (snapshot := resumed.snapshot) is not None:
        scale, division = snapshot.header["scale"], snapshot.header["division"]
        data = partitioned.data(None if scale is None else np.array(scale), division)
    else:
        # Before anything is learned all inputs count alike; a fitted model knows better.
        data = partitioned.data(None if before is None else before.posterior.eps_lam, 0)
    return _trained(task, data, resumed)


def _trained(task: Task, data: records.TrainingData, resumed: _Resumed) -> Outcome:
    rows, switches, job = task.rows, task.plan.switches, task.job
    origin = origin_of(rows, task.plan, task.streams.inducing, job.before, data.blocks)
    if task.plan.prelude and job.before is None and resumed.snapshot is None:
        origin = after_prelude(
            rows, task.plan, task.settings, task.streams.prelude, origin, task.began
        )
    n = rows.count()
    nlpd_shift = -rows.scaling.log_jacobian(1)

    def in_user_units(progress: records.Progress) -> records.Progress:
        # The bound is that of the rows trained on; the held ones have no part in it.
        bound = progress.bound + rows.scaling.log_jacobian(n - progress.n_held)
        return progress._replace(bound=bound, validation_nlpd=progress.validation_nlpd + nlpd_shift)

    def standing(
        fit: records.StochasticFit | records.Look, how: FitResult, error: Exception | None
    ) -> Outcome:
        trace = [in_user_units(progress) for progress in fit.history]
        names = ("iteration", "bound", "validation_nlpd", "rho", "rate", "accepted", "seconds")
        history = {name: [getattr(record, name) for record in trace] for name in names}
        return Outcome(
            Posterior.build(fit.parameters, fit.q, switches.prior, fit.jitter),
            rows.scaling,
            fit.data.partition,
            fit.data.blocks,
            how,
            Table(history),
            error,
            n_rows=n,
        )

    looks = None
    if (wanted := job.snapshots) is not None:
        looks = records.Looks(
            wanted.at, lambda look: wanted.take(standing(look, on_its_way(look), None))
        )
    outcome = fit_stochastic(
        origin.free,
        origin.fixed,
        data,
        switches,
        task.settings,
        task.streams.training,
        origin.eta,
        lambda progress: job.report(in_user_units(progress)),
        task.began,
        resumed.stage,
        resumed.snapshot,
        looks,
    )
    shift = rows.scaling.log_jacobian(n - outcome.n_held)
    ended = result(outcome, shift, outcome.validation_nlpd + nlpd_shift)
    return standing(outcome, ended, outcome.error)


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
    def data(self, scale: FloatArray | None, division: int) -> records.TrainingData:
        """Blocks of rows that are near each other in the space of X times ``scale``."""
        plan = self._plan
        dividing, holding, sampling = division_streams(self._seeds, division)
        partition, blocks = divide(
            self._rows, plan.partition, plan.block_rows, dividing, scale, self._workspace
        )
        n_to_hold = n_held(plan, self._rows.count())
        held = hold_in_blocks(blocks, n_to_hold, holding) if n_to_hold > 0 else None
        n_blocks = rows_a_step(plan, self._rows.count()) // plan.block_rows
        sampler = BlockSampler(blocks, held, n_blocks, sampling)
        return records.TrainingData(
            Ahead(sampler),
            held,
            partition,
            blocks,
            division,
            scale,
            self.data if plan.adapt_partition else None,
        )


class _Resumed(NamedTuple):
    """A stage of a fit with checkpoints, and where it goes on from; each None if there is none."""

    stage: Stage | None
    snapshot: Snapshot | None

    @classmethod
    def of(cls, task: Task) -> _Resumed:
        """Read before any work: it says whether the fit can go on."""
        if task.job.checkpoint is None:
            return cls(None, None)
        stage = Stage(task.job.checkpoint, task.name, task.settings.max_iter)
        return cls(stage, stage.read())


def in_memory(rows: StandardRows) -> StandardRows:
    """The same rows, read if they are not in memory yet."""
    if isinstance(rows.rows, ArrayRows):
        return rows
    return StandardRows(ArrayRows(*whole(rows.rows)), rows.scaling)
