"""Figures 2 and 3: errors and time against iterations of VBDTC+, VBFITC+ and VBPIC+."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaicgp import arguments
from mosaicgp.experiments import published
from mosaicgp.experiments.datasets import Data
from mosaicgp.experiments.fits import CURVE_ROWS
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.methods import VB_METHODS, make
from mosaicgp.experiments.pages import COLOURS, new_figure, table
from mosaicgp.experiments.settings import Line, Report, Settings
from mosaicgp.experiments.summary import (
    at_point,
    compared,
    difference,
    ends,
    mean_of,
    methods_of,
    values,
)
from mosaicgp.plan import rows_a_step


def report(lines: list[Line], settings: Settings, data: Data) -> Report:
    """Curves by iteration, and where they end beside the paper's figures."""
    methods = methods_of(lines)
    rows = [_point(line) for line in lines]
    return Report(
        "Errors and time by iteration",
        [_curves(rows, methods), *_end(lines, methods, settings), _words()],
        rows,
        _figure(rows, methods),
    )


def _point(line: Line) -> Line:
    """A point of a curve; the last is scored on the same rows as those before it."""
    scores = line["curve"] if line["point"] == END else line
    return {
        "method": line["method"],
        "split": line["split"],
        "iterations": line["iterations"] if line["point"] == END else line["point"],
        "at": END if line["point"] == END else "on its way",
        "seconds": line["fit_s"],
        "rmse": scores["rmse"],
        "mnlp": scores["mnlp"],
    }


def _marks(rows: list[Line]) -> list[int | str]:
    return [*sorted({row["iterations"] for row in rows if row["at"] != END}), END]


def _curves(rows: list[Line], methods: list[str]) -> str:
    header = ["iterations", *(f"{label} {m}" for label in ("RMSE", "MNLP") for m in methods)]
    body = [
        [
            f"{mark:,}" if isinstance(mark, int) else mark,
            *(
                mean_of(at_point([r for r in rows if r["method"] == method], name, mark))
                for name in ("rmse", "mnlp")
                for method in methods
            ),
        ]
        for mark in _marks(rows)
    ]
    return table(header, body)


def _end(lines: list[Line], methods: list[str], settings: Settings) -> list[str]:
    """Where the fits ended, on all test rows."""
    beside = settings.beside or ""
    header = ["at the end, all test rows", *methods]
    body: list[list[Any]] = []
    for name, label, theirs in (
        ("rmse", "RMSE", published.RMSE),
        ("mnlp", "MNLP of y", {}),
        ("mnlp_f", "MNLP of f, as the paper writes it, of the curves' rows", published.MNLP),
    ):
        body.append([label, *(mean_of(values(lines, method, name)) for method in methods)])
        if beside in theirs:
            paper = [theirs[beside].get(method, "") for method in methods]
            body.append([f"the paper's {label.split(' of')[0]} ({beside})", *paper])
    steps = [f"{_pace(lines, m):.4f} s, {_rows_a_step(lines, m, settings):,} rows" for m in methods]
    body.append(["an iteration", *steps])
    if beside in published.SECONDS_AN_ITERATION:
        pace, rows = published.SECONDS_AN_ITERATION[beside], published.ROWS_A_BLOCK[beside]
        paper = [f"{pace[m]} s, about {rows:,} rows" if m in pace else "" for m in methods]
        body.append([f"the paper's ({beside})", *paper])
    said = [table(header, body)]
    ours = ends(lines, "VBPIC+").keys()
    others = [m for m in methods if m != "VBPIC+" and ours & ends(lines, m).keys()]
    if others:
        gaps = "; ".join(
            f"{m} {compared(difference(lines, 'VBPIC+', m, 'rmse'))} "
            f"(VBPIC+ is {_share(lines, m)} it)"
            for m in others
        )
        said.append(f"RMSE above that of VBPIC+, in paired differences over the splits: {gaps}.")
    return said


def _share(lines: list[Line], method: str) -> str:
    """How far VBPIC+ is from a method, on the splits of both."""
    ours, theirs = ends(lines, "VBPIC+"), ends(lines, method)
    both = ours.keys() & theirs.keys()
    share = 1.0 - sum(ours[k]["rmse"] for k in both) / sum(theirs[k]["rmse"] for k in both)
    return f"{abs(share):.0%} {'below' if share >= 0.0 else 'above'}"


def _pace(lines: list[Line], method: str) -> float:
    """Seconds an iteration between the first look and the end: compiling is left out."""
    paces = []
    for split, end in ends(lines, method).items():
        looks = [
            line
            for line in lines
            if (line["method"], line["split"]) == (method, split) and line["point"] != END
        ]
        first = min(looks, key=lambda line: line["point"], default=None)
        begun = (first["point"], first["fit_s"]) if first else (0, 0.0)
        paces.append((end["fit_s"] - begun[1]) / max(end["iterations"] - begun[0], 1))
    return float(np.median(paces))


def _rows_a_step(lines: list[Line], method: str, settings: Settings) -> int:
    n = next(iter(ends(lines, method).values()))["train_rows"]
    return rows_a_step(arguments.plan(make(method, settings, 0), n), n)


def _words() -> str:
    return (
        "Means over the splits and their standard errors. A curve is one fit, scored on its way "
        f"on the first {CURVE_ROWS:,} test rows as it stands, VBPIC+ at the mean of q(θ); where "
        "the fits end, annealed and averaged, is the line `end`. A fit ends before its last "
        "iteration when its validation NLPD no longer improves. With more than 20,000 rows the "
        "iterations of VBPIC+ come after those in which f learned beside independent noise, 600 "
        "at most, which are not counted. Seconds are those of training, without the scoring; the "
        "first fit of a method in a run also compiles, before its first look. Those of an "
        "iteration leave that out."
    )


def _figure(rows: list[Line], methods: list[str]) -> Any:
    figure = new_figure(9.0, 6.4)
    axes = figure.subplots(2, 2)
    panels = (
        ("iterations", "rmse", "RMSE"),
        ("iterations", "mnlp", "MNLP"),
        ("iterations", "seconds", "seconds"),
        ("seconds", "rmse", "RMSE"),
    )
    for ax, (x, y, label) in zip(axes.flat, panels, strict=True):
        for colour, method in zip(COLOURS, VB_METHODS, strict=False):
            if method not in methods:
                continue
            for split in sorted({row["split"] for row in rows}):
                own = [r for r in rows if r["method"] == method and r["split"] == split]
                own.sort(key=lambda row: (row["iterations"], row["at"] == END))
                first = split == min(row["split"] for row in rows)
                ax.plot(
                    [row[x] for row in own],
                    [row[y] for row in own],
                    ".-",
                    color=colour,
                    alpha=0.6,
                    linewidth=1.0,
                    markersize=4,
                    label=method if first else None,
                )
        ax.set_xscale("log")
        if y == "seconds":
            ax.set_yscale("log")
        ax.set_xlabel(x)
        ax.set_ylabel(label)
    axes[0, 0].legend(frameon=False)
    return figure
