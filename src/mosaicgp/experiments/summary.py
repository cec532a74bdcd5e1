"""Means over splits, their errors, and what is better than what by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mosaicgp.experiments.journal import END
from mosaicgp.experiments.settings import Line

# Differences on fewer splits than these are given without standard errors, which say little then.
ENOUGH_SPLITS = 4


class Mean(NamedTuple):
    """A mean over ``n`` splits, NaN of none, and its standard error, NaN of one split."""

    mean: float
    error: float
    n: int

    def __str__(self) -> str:
        text = f"{self.mean:.4g}"
        return text if np.isnan(self.error) else f"{text} ± {self.error:.2g}"


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of some values."""
    if len(values) == 0:
        return Mean(np.nan, np.nan, 0)
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return Mean(float(np.mean(values)), float(error), len(values))


def ends(lines: list[Line], method: str) -> dict[int, Line]:
    """The end of every fit of a method, by split."""
    return {
        line["split"]: line for line in lines if line["method"] == method and line["point"] == END
    }


def methods_of(lines: list[Line]) -> list[str]:
    """Methods that have ended on some split, in the order of the lines."""
    return list(dict.fromkeys(line["method"] for line in lines if line["point"] == END))


def values(lines: list[Line], method: str, name: str) -> list[Any]:
    """A score of a method at the end of its fit on each split."""
    found = ends(lines, method)
    return [found[split][name] for split in sorted(found)]


# How a fit may end without having converged, and what that says of its scores.
ENDS = {
    "max_iter": (
        "Ended by their budget of iterations, not converged as far as can be told, so that more "
        "may change their place"
    ),
    "max_time": "Ended by their budget of time",
    "stalled": "Stalled while the bound was still rising, so that their scores may be too bad",
    "failed": "Failed on their way; their scores are those of the last good state",
}


def unfinished(lines: list[Line]) -> list[str]:
    """Which fits ended otherwise than by converging, a sentence for each way."""
    said = []
    for status, meaning in ENDS.items():
        of_methods = []
        for method in methods_of(lines):
            fits = list(ends(lines, method).values())
            cut = [line for line in fits if line.get("status") == status]
            if cut:
                after = max(line["iterations"] for line in cut)
                of_methods.append(
                    f"{method} ({len(cut)} of {len(fits)} splits, after {after:,} iterations)"
                )
        if of_methods:
            said.append(f"{meaning}: {', '.join(of_methods)}.")
    return said


def difference(lines: list[Line], one: str, other: str, name: str) -> Mean:
    """How much ``other`` is above ``one`` in a score: differences on the splits of both."""
    a, b = ends(lines, one), ends(lines, other)
    return mean_of([b[split][name] - a[split][name] for split in sorted(a.keys() & b.keys())])


def compared(found: Mean) -> str:
    """A difference in words, with how many standard errors it is, of how few splits."""
    if found.n == 0:
        return "no split in common"
    if found.n < ENOUGH_SPLITS:
        return f"{found.mean:+.3g} ({'one split' if found.n == 1 else f'{found.n} splits'})"
    errors = abs(found.mean) / found.error if found.error > 0.0 else np.inf
    return f"{found.mean:+.3g}, {errors:.1f} standard errors"


def at_point(rows: list[Line], name: str, point: int | str) -> list[float]:
    """A score of one method after so many iterations, or at the end, by split; a fit that ended
    before stays at what it ended with."""
    found: dict[int, tuple[float, float]] = {}
    for row in rows:
        split, place = row["split"], row["iterations"]
        there = row["at"] == END if isinstance(point, str) else place <= point
        if there and (split not in found or place >= found[split][0]):
            found[split] = (place, row[name])
    return [found[split][1] for split in sorted(found)]
