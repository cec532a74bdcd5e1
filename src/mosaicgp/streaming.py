"""Rows that keep coming: a fitted posterior taken further by new rows alone."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from mosaicgp.data.blocks import chunk
from mosaicgp.data.division import regroup
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import Rows
from mosaicgp.fitting import CHUNK_ROWS
from mosaicgp.inference import exact
from mosaicgp.inference.anchor import anchor_of
from mosaicgp.inference.parameters import Fixed, Free, Switches, release
from mosaicgp.inference.result import Status
from mosaicgp.posterior import Posterior
from mosaicgp.precision import in_double

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
        if partition is None:
            blocks = chunk(X, y, CHUNK_ROWS)
        else:
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
            exact.Settings(max_iter=MAX_ITER, max_time=left, jitter=posterior.jitter),
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
