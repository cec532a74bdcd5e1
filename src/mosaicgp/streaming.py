"""Rows that keep coming: a fitted posterior taken further by new rows alone."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mosaicgp import validation
from mosaicgp.data.absorbing import absorb
from mosaicgp.data.division import regroup
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import Rows
from mosaicgp.inference import climb, exact
from mosaicgp.inference.anchor import anchor_of
from mosaicgp.inference.parameters import Fixed, Free, Switches, release
from mosaicgp.inference.result import FitResult, Status
from mosaicgp.intake import standardised
from mosaicgp.kept import Kept
from mosaicgp.posterior import Posterior
from mosaicgp.precision import in_double

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

# Rows of one update: all of them are looked at in every iteration.
UPDATE_ROWS = 8192
MAX_ITER = 30


class Updated(NamedTuple):
    """The posterior after the new rows, their bound given the old ones (nats), and the work.

    ``status`` and ``message`` are those of the first part of the rows that did not converge.
    """

    posterior: Posterior
    bound: float
    iterations: int
    seconds: float
    status: Status
    message: str
    rejected: int


@in_double
def updated(
    posterior: Posterior,
    rows: Rows,
    switches: Switches,
    partition: Partition | None,
    block_rows: int,
    n_seen: float,
    forget: float,
    max_time: float | None = None,
) -> Updated:
    """A posterior that has seen ``n_seen`` rows, after these standardised rows too."""
    began = perf_counter()
    bound, iterations, rejected = 0.0, 0, 0
    status: Status = "converged"
    message = "converged"
    n_seen = (1.0 - forget) * n_seen
    for k, (X, y) in enumerate(rows.chunks(UPDATE_ROWS)):
        left = None if max_time is None else max(max_time - (perf_counter() - began), 1e-3)
        blocks = regroup(X, y, partition, block_rows)
        parameters, q = posterior.parameters(), posterior.inducing()
        free, fixed = release(parameters, switches)
        anchor = anchor_of(parameters, q, free, switches, n_seen, forget if k == 0 else 0.0)
        start = Free(*map(np.asarray, free))
        outcome = exact.fit_exact(
            start,
            Fixed(*map(np.asarray, fixed)),
            blocks,
            switches,
            climb.Settings(max_iter=MAX_ITER, max_time=left, jitter=posterior.jitter, search=False),
            lambda: start,  # noqa: B023 - called, if at all, before the next turn
            anchor=anchor,
        )
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        posterior = Posterior.build(outcome.parameters, outcome.q, switches.prior, outcome.jitter)
        bound, iterations = bound + outcome.bound, iterations + len(outcome.history)
        rejected += outcome.rejected
        if status == "converged":
            status, message = outcome.status, outcome.message
        n_seen += len(y)
    return Updated(posterior, bound, iterations, perf_counter() - began, status, message, rejected)


def taken_further(model: SparseGPRegressor, X_new: Any, y_new: Any, forget: float) -> Kept:
    """A fitted model after new rows too, with a share of what it knew forgotten."""
    if not 0.0 <= validation.number("forget", forget, -1.0) < 1.0:
        raise ValueError(f"forget must be at least 0 and below 1, got {forget}.")
    rows = standardised(model, X_new, y_new)
    n = rows.count()
    fitted, partition, before = model._fitted, model.partition_, model.fit_result_
    after = updated(
        model.posterior_,
        rows,
        replace(fitted.switches, learn_inducing=False),
        partition,
        fitted.block_rows,
        model.n_rows_seen_,
        forget,
        model.max_time,
    )
    blocks, workspace = model.blocks_, model._workspace
    if partition is not None and blocks is not None:
        blocks, workspace = absorb(
            partition,
            blocks,
            rows,
            model._n_rows_numbered,
            fitted.block_rows,
            1.0 - forget,
            np.random.default_rng(model._n_rows_numbered),
            model.work_dir,
        )
    return Kept(
        arguments=model._arguments,
        switches=fitted.switches,
        posterior=after.posterior,
        scaling=model.scaling_,
        partition=partition,
        blocks=blocks,
        nodes=model.theta_nodes_,
        fit_result=FitResult(
            status=after.status,
            message=f"updated by {n} rows: {after.message}",
            iterations=before.iterations + after.iterations,
            seconds=before.seconds + after.seconds,
            bound=before.bound + after.bound + model.scaling_.log_jacobian(n),
            budget_exhausted=after.status in ("max_iter", "max_time"),
            rejected=after.rejected,
            jitter=after.posterior.jitter,
        ),
        history=model.history_,
        block_rows=fitted.block_rows,
        workspace=workspace,
        encoding=model.encoding_,
        rows_seen=((1.0 - forget) * model.n_rows_seen_ + n),
        rows_numbered=model._n_rows_numbered + n,
        trained_on=None if model.trained_on_ is None else model.trained_on_.updated(n),
    )
