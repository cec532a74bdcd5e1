"""Writing what came out: a Markdown page, a CSV, and the picture as PNG and SVG."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mosaicgp.atomic import whole_file
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.settings import Line, Report
from mosaicgp.experiments.summary import unfinished

COLOURS = ("#2c6fbb", "#d95f02", "#1b9e77", "#7a3b8f", "#666666", "#a6761d")


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def new_figure(width: float, height: float) -> Any:
    """A figure with a canvas of its own: pyplot's state and backend stay untouched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write(
    folder: Path,
    name: str,
    report: Report,
    settings: Line,
    lines: list[Line],
    commands: Sequence[str],
    notes: Sequence[str],
) -> Path:
    """All files of an experiment; the path of its page."""
    for kind in ("png", "svg"):
        with whole_file(folder / f"{name}.{kind}") as beside:
            # Without a date the same results give the same file.
            metadata = {"Date": None} if kind == "svg" else None
            report.figure.savefig(beside, format=kind, dpi=110, metadata=metadata)
    with whole_file(folder / f"{name}.csv") as beside, beside.open("w", newline="") as file:
        columns = list(dict.fromkeys(key for row in report.rows for key in row))
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(report.rows)
    page = folder / f"{name}.md"
    with whole_file(page) as beside:
        beside.write_text(_page(name, report, settings, lines, commands, notes))
    return page


def _page(
    name: str,
    report: Report,
    settings: Line,
    lines: list[Line],
    commands: Sequence[str],
    notes: Sequence[str],
) -> str:
    parts = [f"# {report.title}: {settings['data']}", f"![{report.title}]({name}.png)"]
    parts += [*report.text, *unfinished(lines), *notes]
    parts += ["## How it was made", "\n".join(_facts(settings, lines, commands))]
    parts += [f"Data: [{name}.csv]({name}.csv), picture: [SVG]({name}.svg)."]
    return "\n\n".join(parts) + "\n"


def _facts(settings: Line, lines: list[Line], commands: Sequence[str]) -> list[str]:
    splits = sorted({line["split"] for line in lines})
    between = len(splits) > 1 and splits[-1] - splits[0] == len(splits) - 1
    seeds = f"{splits[0]} to {splits[-1]}" if between else ", ".join(map(str, splits))
    versions = dict.fromkeys(line["settings"]["mosaicgp"] for line in lines)
    wall = sum(line.get("wall_s", 0.0) for line in lines)
    facts = [
        *(f"- `{command}`" for command in commands),
        f"- {settings['rows']:,} rows a split, {settings['inputs']} inputs, target "
        f"{settings['target']}; {100.0 * settings['test_share']:g}% of them test rows."
        if "test_share" in settings
        else f"- {settings['rows']:,} rows a selection, {settings['inputs']} inputs, target "
        f"{settings['target']}.",
        f"- {len(splits)} random {'splits' if len(splits) > 1 else 'split'}"
        f"{_fewer(lines, len(splits))}, seed "
        f"{seeds}; the seed also starts the fit.",
        f"- At most {settings['iterations']:,} iterations, {settings['inducing']} inducing "
        f"points, blocks of {settings['block_size']} rows, stochastic steps of the family in "
        f"{settings['dtype']}, mosaicgp {', '.join(versions)}.",
        *(f"- {machine}." for machine in _distinct(lines, "machine")),
        *_sources(lines),
        f"- Wall time of all fits and predictions: {_duration(wall)}.",
    ]
    loads = [line["load"] for line in lines if "load" in line]
    if loads:
        facts.append(
            f"- Load of the machine during the fits: {np.median(loads):.1f} (median; with nothing "
            "beside them it is at most the number of cores)."
        )
    return facts


def _fewer(lines: list[Line], n_splits: int) -> str:
    """Methods that were not run on all splits."""
    counts = Counter(line["method"] for line in lines if line["point"] == END)
    few = [f"{method} on {n}" for method, n in counts.items() if n < n_splits]
    return f" ({', '.join(few)} of them)" if few else ""


def _distinct(lines: list[Line], name: str) -> list[str]:
    """What the fits were made with or on, each once."""
    return list(dict.fromkeys(line[name] for line in lines if name in line))


def _sources(lines: list[Line]) -> list[str]:
    """The states of the source, if a folder has fits of several."""
    found = _distinct(lines, "source")
    unknown = any(line["point"] == END and "source" not in line for line in lines)
    if len(found) + unknown < 2:
        return []
    named = ", ".join([*found, *(["one not recorded"] if unknown else [])])
    return [f"- Fits of several states of the source, one after the other: {named}."]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
