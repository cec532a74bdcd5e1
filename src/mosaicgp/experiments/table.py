"""Table 1: errors of the GP models, and of two methods outside the paper, on the same splits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaicgp.experiments import published
from mosaicgp.experiments.datasets import Data
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.methods import ABOUT, NO_GPS
from mosaicgp.experiments.pages import COLOURS, new_figure, table
from mosaicgp.experiments.settings import Line, Report, Settings
from mosaicgp.experiments.summary import compared, difference, mean_of, methods_of, values

OURS = "VBPIC+"
LABELS = {"rmse": "RMSE", "mnlp": "MNLP", "crps": "CRPS", "mnlp_counts": "MNLP of counts"}
OTHERS = ("coverage", "fit_s", "predict_s", "iterations", "status")


def report(lines: list[Line], settings: Settings, data: Data) -> Report:
    """The table, what is better than what, and bars of both scores."""
    methods = methods_of(lines)
    found = [line for line in lines if line["point"] == END]
    # Fits of before it was recorded have no CRPS; only counts have an MNLP of counts.
    scored = {name: label for name, label in LABELS.items() if all(name in line for line in found)}
    rows = [{name: line[name] for name in ("method", "split", *scored, *OTHERS)} for line in found]
    return Report(
        "Errors of the methods",
        [
            _table(lines, methods, settings, scored),
            *_words(lines, methods, scored),
            *_left_out(found, scored),
            _key(methods),
        ],
        rows,
        _figure(lines, methods),
    )


def _table(
    lines: list[Line], methods: list[str], settings: Settings, scored: dict[str, str]
) -> str:
    header = ["method", "splits", *scored.values(), "95% coverage", "fit s", "predict s"]
    theirs = published.RMSE.get(settings.beside or "", {})
    if theirs:
        header.append(f"RMSE in the paper ({settings.beside})")
    body = []
    for method in methods:
        found = {name: mean_of(values(lines, method, name)) for name in ("coverage", "fit_s")}
        predicting = values(lines, method, "predict_s")
        row = [
            method,
            len(values(lines, method, "rmse")),
            *(mean_of(values(lines, method, name)) for name in scored),
            f"{found['coverage'].mean:.3f}",
            f"{found['fit_s'].mean:.0f}",
            "with the fit" if None in predicting else f"{np.mean(predicting):.1f}",
        ]
        body.append(row + ([theirs.get(method, "")] if theirs else []))
    return table(header, body)


def _words(lines: list[Line], methods: list[str], scored: dict[str, str]) -> list[str]:
    """Who wins, and by how much, in differences on the same splits."""
    others = [method for method in methods if method != OURS]
    rivals = [method for method in others if method not in NO_GPS]
    if OURS not in methods or not rivals:
        return []
    gaps = {m: [difference(lines, OURS, m, name) for name in scored] for m in others}
    leads = []
    beside = [method for method in rivals if gaps[method][0].n > 0]  # on splits that both have
    for k, label in enumerate(scored.values() if beside else ()):
        best = min(beside, key=lambda method: gaps[method][k].mean)
        leads.append(
            f"{OURS} has the lowest {label} of the GP methods."
            if gaps[best][k].mean > 0.0
            else f"The lowest {label} of the GP methods is that of {best}, not of {OURS}."
        )
    listed = table(
        [f"above {OURS} by", *scored.values()],
        [[method, *map(compared, gaps[method])] for method in others],
    )
    how = (
        f"How far each method is above {OURS}, below it where the number is negative, in paired "
        "differences over the splits:"
    )
    return [" ".join([*leads, how]), listed]


def _left_out(found: list[Line], scored: dict[str, str]) -> list[str]:
    """Which fits keep a score off the page that others have."""
    said = []
    for name in [name for name in LABELS if name not in scored]:
        without = dict.fromkeys(line["method"] for line in found if name not in line)
        if any(name in line for line in found):
            missing = ", ".join(without)
            said.append(f"{LABELS[name]} is left out: fits of {missing} are of before it.")
    return said


def _key(methods: list[str]) -> str:
    return "Methods: " + "; ".join(f"{method}: {ABOUT[method]}" for method in methods) + "."


def _figure(lines: list[Line], methods: list[str]) -> Any:
    figure = new_figure(9.0, 0.35 * len(methods) + 1.4)
    places = np.arange(len(methods))[::-1]
    axes = figure.subplots(1, 2, sharey=True)
    for ax, name, label in zip(axes, ("rmse", "mnlp"), ("RMSE", "MNLP"), strict=True):
        for place, method in zip(places, methods, strict=True):
            found = values(lines, method, name)
            colour = COLOURS[0] if method == OURS else "0.55"
            ax.plot(found, np.full(len(found), place), "o", color=colour, alpha=0.4, markersize=4)
            ax.plot(np.mean(found), place, "|", color=colour, markersize=16, markeredgewidth=2)
        ax.set_yticks(places, methods)
        ax.set_ylim(-0.6, len(methods) - 0.4)
        ax.set_xlabel(f"{label}, a dot for each split")
        ax.grid(axis="x", color="0.9")
    return figure
