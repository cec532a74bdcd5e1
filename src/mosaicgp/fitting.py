"""From a table and a plan to a posterior: scaling, partition, blocks, inference.

The estimator makes a ``Plan`` of its arguments and hands it here with the user's rows.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from mosaicgp.checkpoints import Snapshot
from mosaicgp.data.blocks import StoredBlocks, chunk
from mosaicgp.data.division import CHUNK_ROWS, divide
from mosaicgp.data.memory import give_back
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import ArrayRows, Rows, StandardRows, whole
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference import climb, exact
from mosaicgp.inference.initial import starting_values
from mosaicgp.inference.parameters import Free
from mosaicgp.job import Job, Outcome, Start, result
from mosaicgp.origin import Streams, division_streams, origin_of, streams_of
from mosaicgp.plan import Plan, needs_pilot
from mosaicgp.posterior import Posterior
from mosaicgp.stages import Task, in_memory, train_by_blocks, train_by_rows
from mosaicgp.tables import Table

# Rows of a pilot fit, and its share of the time.
PILOT_ROWS = 2**18
PILOT_TIME = 0.4


def fit_rows(rows: Rows, plan: Plan, rng: np.random.Generator, job: Job) -> Outcome:
    """Fit rows in the user's units as planned.

    Progress is reported with bounds in the user's units. Partition, inducing inputs and training
    draw from streams of their own: the same seed divides and selects alike, however it trains.
    """
    began = perf_counter()
    scaling = Scaling.of_chunks(rows.chunks()) if job.before is None else job.before.scaling
    give_back()
    streams = streams_of(rng)
    table = StandardRows(rows, scaling)
    if isinstance(plan.settings, climb.Settings):
        return _fit_exact(table, plan, plan.settings, streams, job)
    task = Task(table, plan, plan.settings, streams, job, began)
    if not plan.switches.approximation.blocked:
        return train_by_rows(task)
    if needs_pilot(plan, rows.count()) and job.before is None:
        return _fit_after_pilot(task)
    return train_by_blocks(task)


# ---------------------------------------------------------------------------------------------
# All rows every iteration


def _fit_exact(
    rows: StandardRows, plan: Plan, settings: climb.Settings, streams: Streams, job: Job
) -> Outcome:
    switches = plan.switches
    partition: Partition | None = None
    if switches.approximation.blocked:
        dividing = division_streams(streams.division, 0)[0]
        partition, found = divide(in_memory(rows), plan.partition, plan.block_rows, dividing)
        blocks = found.in_memory()
    else:
        blocks = chunk(*whole(rows), CHUNK_ROWS)
    origin = origin_of(rows, plan, streams.inducing, job.before)
    if job.before is not None:  # another jitter would be another prior of s
        jitter = max(settings.jitter, job.before.posterior.jitter)
        settings = replace(settings, jitter=jitter, search=False)
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
        climb.Journal(job.checkpoint),
    )
    history = {
        "iteration": [p.iteration for p in outcome.history],
        "bound": [p.bound + shift for p in outcome.history],
        "step": [p.step for p in outcome.history],
        "seconds": [p.seconds for p in outcome.history],
        "coarse": [p.coarse for p in outcome.history],
    }
    return Outcome(
        Posterior.build(outcome.parameters, outcome.q, switches.prior, outcome.jitter),
        rows.scaling,
        partition,
        blocks,
        result(outcome, shift),
        Table(history),
        outcome.error,
        n_rows=rows.count(),
    )


# ---------------------------------------------------------------------------------------------
# A few blocks every iteration, of a large table


def _fit_after_pilot(task: Task) -> Outcome:
    pilot = _piloted(task)
    if isinstance(pilot, Outcome):
        return pilot
    job = task.job._replace(before=Start(pilot.posterior, task.rows.scaling))
    task = task._replace(job=job, plan=replace(task.plan, adapt_partition=False))
    if task.settings.max_time is not None:
        left = task.settings.max_time - pilot.seconds
        settings = replace(task.settings, max_time=max(left, 1e-3))
        task = task._replace(settings=settings, began=perf_counter())
    return train_by_blocks(task)


class Piloted(NamedTuple):
    """What a fit on a sample of the rows learned, and how long it took."""

    posterior: Posterior
    seconds: float


def _piloted(task: Task) -> Piloted | Outcome:
    """What a fit on a sample of the rows learned; all of it, if it was stopped there."""
    rows, settings, rng = task.rows, task.settings, task.streams.pilot
    checkpoint = task.job.checkpoint
    done = None if checkpoint is None else checkpoint.read("piloted")
    if done is not None:
        return Piloted(Posterior.from_arrays(done.arrays), done.header["seconds"])
    chosen = np.sort(rng.choice(rows.count(), PILOT_ROWS, replace=False, shuffle=False))
    if settings.max_time is not None:
        settings = replace(settings, max_time=PILOT_TIME * settings.max_time)
    pilot = Task(
        StandardRows(ArrayRows(*rows.rows.gather(chosen)), rows.scaling),
        replace(task.plan, storage="memory"),
        settings,
        streams_of(rng),
        task.job._replace(snapshots=None),
        task.began,
        "pilot",
    )
    outcome = train_by_blocks(pilot)
    if outcome.fit_result.status in ("interrupted", "failed"):
        assert isinstance(outcome.blocks, StoredBlocks)
        blocks = outcome.blocks.in_memory()
        table = np.append(chosen, -1)  # padding stays -1
        return outcome._replace(blocks=replace(blocks, rows=table[blocks.rows]))
    seconds = perf_counter() - task.began
    if checkpoint is not None:
        arrays = outcome.posterior.to_arrays()
        checkpoint.write("piloted", Snapshot(arrays, {"seconds": seconds}))
    return Piloted(outcome.posterior, seconds)
