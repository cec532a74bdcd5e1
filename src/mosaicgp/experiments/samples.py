"""Figure 4: the error of VBPIC+ by iteration for different numbers of θ draws."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np

from mosaicgp.comparison.scores import Split
from mosaicgp.experiments.datasets import Data, split
from mosaicgp.experiments.fits import fit_watched, scores
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.methods import make
from mosaicgp.experiments.pages import COLOURS, new_figure, table
from mosaicgp.experiments.settings import Line, Report, Settings, Unit, Work
from mosaicgp.experiments.summary import Mean, at_point, compared, ends, mean_of

# Test rows that every number of draws is scored on: 256 draws cost 256 factorisations of a block.
TEST_ROWS = 1000

# "mean" stands for a prediction at the mean of q(θ).
MEAN = "mean"


def identity(data: Data, settings: Settings) -> dict[str, Any]:
    """What the figures depend on."""
    return settings.identity(data) | {"draws": list(settings.draws)}


def run(unit: Unit, work: Work) -> None:
    """One fit, scored on its way with every number of draws."""
    settings = work.settings
    part = split(work.data, unit.split, settings.rows, settings.test_share)
    part = part._replace(X_test=part.X_test[:TEST_ROWS], y_test=part.y_test[:TEST_ROWS])
    # The first k of the same draws, so that more draws are the same ones and others.
    nodes = np.random.default_rng(unit.split).standard_normal(
        (max(settings.draws), part.X.shape[1] + 1)
    )
    model = make(unit.method, settings, unit.split).set_params(verbose=work.verbose)
    began = time.perf_counter()

    def look(snapshot: Any) -> None:
        scored(snapshot.n_iter_, _by_draws(snapshot, part, nodes, settings))

    def scored(point: int | str, draws: Line, **values: Any) -> None:
        work.record(point, {"draws": draws, **values})
        n = max(settings.draws)
        work.say(f"{point}: RMSE {draws[str(n)]['rmse']:.4g} with {_draws(str(n))}")

    fit_watched(model, part, work, look)
    q = model.posterior_
    scored(
        END,
        _by_draws(model, part, nodes, settings),
        iterations=model.n_iter_,
        status=model.fit_result_.status,
        mean_log_variance=model.mean_log_variance(),
        relative_std=float(np.median(np.sqrt(q.xi) / np.maximum(np.abs(q.nu), 1e-12))),
        relative_signal_std=float(np.sqrt(q.beta) / abs(q.alpha)),
        wall_s=max(time.perf_counter() - began, model.fit_result_.seconds),
    )


def _by_draws(model: Any, part: Split, nodes: np.ndarray, settings: Settings) -> Line:
    """Scores by the number of draws."""
    at_mean = model.with_theta_nodes(np.zeros((1, nodes.shape[1])))
    found = {MEAN: scores(part, *at_mean.predict(part.X_test, return_std=True))}
    for n in settings.draws:
        drawn = model.with_theta_nodes(nodes[:n])
        found[str(n)] = scores(part, *drawn.predict(part.X_test, return_std=True))
    return found


def report(lines: list[Line], settings: Settings, data: Data) -> Report:
    """Errors by iteration and number of draws, and how wide q(θ) is."""
    rows = [
        {
            "split": line["split"],
            "at": line["point"],
            "iterations": line["iterations"] if line["point"] == END else line["point"],
            "draws": draws,
            "rmse": found["rmse"],
            "mnlp": found["mnlp"],
        }
        for line in lines
        for draws, found in line["draws"].items()
    ]
    names = [str(n) for n in settings.draws] + [MEAN]
    lead, *words = _words(lines, rows, names)
    text = [lead, *(_table(rows, names, name) for name in ("rmse", "mnlp")), *words]
    return Report("Draws of the hyperparameters", text, rows, _figure(rows, names))


def _table(rows: list[Line], names: list[str], score: str) -> str:
    marks = list(dict.fromkeys(row["at"] for row in rows))
    marks.sort(key=lambda mark: np.inf if mark == END else mark)
    body = [
        [
            f"{mark:,}" if isinstance(mark, int) else mark,
            *(
                mean_of(at_point([r for r in rows if r["draws"] == name], score, mark))
                for name in names
            ),
        ]
        for mark in marks
    ]
    headings = [_draws(name) for name in names[:-1]]
    return f"{score.upper()} by iterations:\n\n" + table(
        ["iterations", *headings, "at the mean of q(θ)"], body
    )


def _draws(number: str) -> str:
    return "1 draw" if number == "1" else f"{number} draws"


_BySplit = dict[str, dict[int, float]]


def _rise(by_split: _BySplit, few: str, many: str) -> Mean:
    """How much the RMSE of more draws is above that of fewer, on the same splits."""
    return mean_of([by_split[many][s] - by_split[few][s] for s in sorted(by_split[many])])


def _verdict(by_split: _BySplit, counts: list[str]) -> str:
    """What all the draws bring, and whether any more of them did harm."""
    first, last = counts[0], counts[-1]
    own = mean_of(list(by_split[last].values()))
    said = f"{_draws(last)} beside {first}: the RMSE at the end is {own}"
    if last == first:
        return f"{_draws(last)}: the RMSE at the end is {own}."
    said += f", a change of {_rise(by_split, first, last).mean:+.2g}."
    if np.isnan(own.error):
        return said
    worse = [
        f"from {few} to {many}"
        for few, many in pairwise(counts)
        if _rise(by_split, few, many).mean > own.error
    ]
    if worse:
        return f"{said} Steps that raise it by more than its standard error: {', '.join(worse)}."
    return f"{said} No step to more draws raises it by more than its standard error."


def _words(lines: list[Line], rows: list[Line], names: list[str]) -> list[str]:
    last = [line for line in lines if line["point"] == END]
    counts = names[:-1]
    by_split = {
        name: {r["split"]: r["rmse"] for r in rows if r["at"] == END and r["draws"] == name}
        for name in counts
    }

    steps = "; ".join(
        f"from {few} to {many} by {compared(_rise(by_split, few, many))}"
        for few, many in pairwise(counts)
    )
    lengths = np.median([line["relative_std"] for line in last])
    signal = np.median([line["relative_signal_std"] for line in last])
    spread = mean_of([ends(lines, "VBPIC+")[line["split"]]["mean_log_variance"] for line in last])
    return [
        f"VBPIC+, {_verdict(by_split, counts)}",
        f"What more draws do to the RMSE at the end, in paired differences over the splits: "
        f"{steps or 'one number of draws, nothing to compare'}.",
        "How wide q(θ) is decides how much there is to average over: at the end "
        f"the standard deviation of an inverse length-scale is {lengths:.1%} of its mean (median), "
        f"that of the signal {signal:.1%}; mean log variance {spread}.",
        f"Draws are independent, from q(θ) as it is at that iteration; scored on at most "
        f"{TEST_ROWS:,} test rows a split. A fit that has ended stays at what it ended with.",
    ]


def _figure(rows: list[Line], names: list[str]) -> Any:
    figure = new_figure(9.0, 3.4)
    for ax, score in zip(figure.subplots(1, 2), ("rmse", "mnlp"), strict=True):
        for place, name in enumerate(names):
            marks = sorted({row["iterations"] for row in rows if row["at"] != END})
            own = [row for row in rows if row["draws"] == name]
            means = [np.mean(at_point(own, score, mark)) for mark in (*marks, END)]
            marks.append(max(row["iterations"] for row in own if row["at"] == END))
            colour = "black" if name == MEAN else COLOURS[place % len(COLOURS)]
            label = "mean of q(θ)" if name == MEAN else _draws(name)
            ax.plot(marks, means, ".-", color=colour, linewidth=1.0, label=label)
        ax.set_xscale("log")
        ax.set_xlabel("iterations")
        ax.set_ylabel(score.upper())
    figure.axes[0].legend(frameon=False, fontsize="small")
    return figure
