"""Figure 5: how sure a fit is of its inverse length-scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mosaicgp.experiments import published
from mosaicgp.experiments.datasets import Data
from mosaicgp.experiments.pages import COLOURS, new_figure, table
from mosaicgp.experiments.settings import Line, Report, Settings
from mosaicgp.experiments.summary import ends, mean_of, methods_of, values

# The paper's intervals: mean ± 2 standard deviations.
WIDTH = 2.0

# A spread from which on an input has kept that of its prior, in standardised units.
PRIOR_STD = 0.5

# Of more inputs than this the page lists the most relevant.
LISTED = 20


NARROW = (
    "These are intervals of q(θ), as in the paper. It is factorised and so too narrow: it holds "
    "the function still, and fits of other splits can differ by more than it says. "
    "`corrected_hyperparameters` of a model counts what it leaves out."
)


def report(lines: list[Line], settings: Settings, data: Data) -> Report:
    """The interval of every inverse length-scale, and the mean log variance."""
    methods = methods_of(lines)
    rows = [row for method in methods for row in _rows(lines, method, data.feature_names)]
    text = [
        _spread(lines, methods, settings),
        NARROW + _kept(rows),
        *(_listed(rows, method) for method in methods),
    ]
    names = data.feature_names if len(data.feature_names) <= LISTED else None
    figure = _figure(rows, methods, names)
    return Report("Posterior of the inverse length-scales", text, rows, figure)


def _kept(rows: list[Line]) -> str:
    """How many intervals are those of the prior, if any."""
    n = sum(row["std"] > PRIOR_STD for row in rows)
    if n == 0:
        return ""
    return (
        f" {n:,} of {len(rows):,} intervals are about as wide as the prior's: those inputs hardly "
        "vary, so nothing is known of them, and the picture leaves them out."
    )


def _rows(lines: list[Line], method: str, names: Sequence[str]) -> list[Line]:
    return [
        {
            "method": method,
            "split": split,
            "number": number,
            "input": names[number],
            "mean": mean,
            "std": std,
            "lower": max(mean - WIDTH * std, 0.0),  # λ and −λ are the same kernel
            "upper": mean + WIDTH * std,
        }
        for split, end in sorted(ends(lines, method).items())
        for number, (mean, std) in enumerate(
            zip(end["lambda_mean"], end["lambda_std"], strict=True)
        )
    ]


def _spread(lines: list[Line], methods: list[str], settings: Settings) -> str:
    parts = [
        f"{method} {mean_of(values(lines, method, 'mean_log_variance'))}" for method in methods
    ]
    theirs = published.MEAN_LOG_VARIANCE.get(settings.beside or "")
    beside = "" if theirs is None else f" The paper's ({settings.beside}) is {theirs}."
    return (
        f"Mean log variance of the inverse length-scales: {', '.join(parts)}.{beside} It is in "
        "standardised units: the lower, the surer. Standard deviations of λ, median over inputs "
        f"and splits: {', '.join(_median_spread(lines, method) for method in methods)}."
    )


def _median_spread(lines: list[Line], method: str) -> str:
    spreads = [end["lambda_std"] for end in ends(lines, method).values()]
    return f"{method} {np.median(np.concatenate(spreads)):.2g}"


def _listed(rows: list[Line], method: str) -> str:
    """Intervals of the first split, the most relevant input first."""
    first = min(row["split"] for row in rows if row["method"] == method)
    own = [row for row in rows if row["method"] == method and row["split"] == first]
    own.sort(key=lambda row: -row["mean"])
    shown = [
        [
            row["input"],
            f"{row['mean']:.3g}",
            f"{row['lower']:.3g} to {row['upper']:.3g}",
            _over_splits([r["mean"] for r in rows if _same(r, row)]),
        ]
        for row in own[:LISTED]
    ]
    more = f" The {LISTED} largest of {len(own)}." if len(own) > LISTED else ""
    return (
        f"{method}, split {first}: λ by input, mean ± {WIDTH:g} standard deviations.{more}\n\n"
        + table(["input", "mean", "95% interval", "means of all splits"], shown)
    )


def _same(one: Line, other: Line) -> bool:
    return one["method"] == other["method"] and one["number"] == other["number"]


def _over_splits(means: list[float]) -> str:
    return f"{min(means):.3g} to {max(means):.3g}"


def _figure(rows: list[Line], methods: list[str], names: Sequence[str] | None) -> Any:
    figure = new_figure(9.0, 2.8 * len(methods))
    for ax, method in zip(np.atleast_1d(figure.subplots(len(methods), 1)), methods, strict=True):
        # An input that hardly varies keeps its prior, and would hide the others.
        own = [row for row in rows if row["method"] == method and row["std"] <= PRIOR_STD]
        splits = sorted({row["split"] for row in own})
        for place, split in enumerate(splits):
            part = [row for row in own if row["split"] == split]
            ax.errorbar(
                [row["number"] + 0.6 * (place + 0.5) / len(splits) - 0.3 for row in part],
                [row["mean"] for row in part],
                yerr=[
                    [row["mean"] - row["lower"] for row in part],
                    [row["upper"] - row["mean"] for row in part],
                ],
                fmt="o",
                markersize=2.5,
                linewidth=1.0,
                color=COLOURS[place % len(COLOURS)],
            )
        highest = max((row["upper"] for row in own), default=1.0)
        ax.set_ylim(-0.03 * highest, 1.05 * highest)
        ax.set_xlabel(f"{'number of the ' if names is None else ''}input; a colour for each split")
        if names is not None:
            ax.set_xticks(range(len(names)), names, rotation=20, ha="right")
        ax.set_ylabel("λ, standardised")
        ax.set_title(method)
    return figure
