"""What comes with a fit beside its rows and its plan, and what a fit leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mosaicgp.checkpoints import Checkpoint
from mosaicgp.data.blocks import Blocks, StoredBlocks
from mosaicgp.data.disk import Workspace
from mosaicgp.data.partition import Partition
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference import exact, records
from mosaicgp.inference.result import FitResult
from mosaicgp.posterior import Posterior
from mosaicgp.tables import Table


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

    report: Callable[[Any], Any]
    before: Start | None = None
    checkpoint: Checkpoint | None = None
    snapshots: Snapshots | None = None


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


def result(
    outcome: exact.ExactFit | records.StochasticFit, shift: float, nlpd: float = np.nan
) -> FitResult:
    """How a fit ended; ``shift`` takes its bound to the user's units, in which ``nlpd`` is."""
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


def on_its_way(look: records.Look) -> FitResult:
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
