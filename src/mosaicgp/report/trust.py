"""What to trust, in plain words, decided by the figures of a report and nothing else."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.report.content import Content, Input
from mosaicgp.report.scores import Checked

Level = Literal["good", "caution", "bad"]

# The line between a finding and none. Coverage is judged with three standard errors of slack.
COVERAGE_SLACK = 0.02
COVERAGE_BAD = 0.10
FAR_CAUTION = 0.01  # of a Gaussian, 0.0027 lie beyond three standard deviations
BIAS_CAUTION = 0.05
HUGE = 6.0  # standard deviations above the median
TAMED = 0.7  # share of that which a logarithm may leave
EXPLAINED_LITTLE = 0.1
WORSE_THAN_MEAN = -0.01  # not 0: a model that knows nothing predicts the mean of other rows
LEARNED_SHARE = 0.05
MATTERS = 0.3  # of the largest inverse length-scale
FADES = 0.05
SHARED = 0.1  # of the standard deviation of each row's own noise
UNKNOWN_SHARE = 0.02
OUTSIDE_SHARE = 0.01


class Finding(NamedTuple):
    """A sentence or two about one thing, and how much it should worry the reader."""

    level: Level
    about: str
    text: str


def findings(content: Content) -> list[Finding]:
    """What the figures say, in the order in which a reader should hear it."""
    found = [_training(content)]
    if content.checked is None:
        found.append(
            Finding(
                "caution",
                "no rows",
                "No rows were given to check predictions against, and this model keeps none, so "
                "nothing below says how well it predicts.",
            )
        )
    else:
        found += _predictions(content, content.checked)
    found.append(_relevance(content))
    if content.checked is not None:
        found.append(_reach(content, content.checked))
    return found


def verdict(found: list[Finding]) -> str:
    """The headline."""
    levels = {finding.level for finding in found}
    about = {finding.about for finding in found if finding.level != "good"}
    if "bad" in levels:
        return "Do not rely on this model yet."
    if "no rows" in about or "memory" in about:
        return "Not yet checked on rows it has not seen."
    if "caution" in levels:
        return "Usable, with cautions."
    return "Predictions and intervals can be relied on for rows like these."


def _training(content: Content) -> Finding:
    fit = content.fit
    message = fit.message.rstrip(".").removeprefix("converged: ")
    if content.converged:
        return Finding("good", "training", f"Training converged ({message}).")
    if fit.status == "failed":
        return Finding("bad", "training", f"Training failed: {message}.")
    return Finding(
        "caution",
        "training",
        f"Training did not converge: {message}. More training may change every figure here.",
    )


def _predictions(content: Content, rows: Checked) -> list[Finding]:
    found = []
    these = "these rows"
    if rows.sample.learned:
        these = "its training rows"
        found.append(
            Finding(
                "caution",
                "memory",
                "The rows below are rows it was trained on, so errors are smaller and intervals "
                "hold more often than they will for new rows; give rows it has not seen to know.",
            )
        )
    elif rows.learned is not None and rows.learned > LEARNED_SHARE:
        found.append(
            Finding(
                "caution",
                "memory",
                f"{_percent(rows.learned)} of the rows given are rows it was trained on, which "
                "flatters the figures below; give rows it has not seen.",
            )
        )
    return [*found, _accuracy(content, rows, these), _coverage(rows, these), *_shape(content, rows)]


def _accuracy(content: Content, rows: Checked, these: str) -> Finding:
    if not np.isfinite(rows.explained):
        return Finding("caution", "accuracy", f"{content.target} is constant on {these}.")
    error = f"is off by {_number(rows.rmse)} in root mean square, where {content.target} itself "
    error += f"varies by {_number(rows.spread)}"
    if rows.explained < WORSE_THAN_MEAN:
        return Finding(
            "bad",
            "accuracy",
            f"On {these} it {error}: the mean of {content.target} would predict better.",
        )
    text = f"On {these} it {error}: it explains {_percent(rows.explained)} of the variance."
    if rows.explained < EXPLAINED_LITTLE:
        return Finding("caution", "accuracy", text + f" The inputs say little of {content.target}.")
    return Finding("good", "accuracy", text)


def _coverage(rows: Checked, these: str) -> Finding:
    share = rows.coverage[0.95]
    slack = max(COVERAGE_SLACK, 3.0 * np.sqrt(0.95 * 0.05 / rows.n))
    text = f"95% intervals hold {_percent(share)} of {these}"
    if share < 0.95 - slack:
        level: Level = "bad" if share < 0.95 - max(COVERAGE_BAD, slack) else "caution"
        return Finding(level, "coverage", f"{text}: they are too narrow; widen them before use.")
    middle = rows.coverage[0.5]
    if middle - 0.5 > max(2.0 * COVERAGE_SLACK, 1.5 / np.sqrt(rows.n)):
        return Finding(
            "caution",
            "coverage",
            f"{text}, but 50% intervals hold {_percent(middle)}: most rows lie closer to their "
            "prediction than it says, and a few much further away. Trust the 95% intervals, not "
            "the shape of the distribution.",
        )
    if share > 0.95 + min(slack, 0.04):
        return Finding("caution", "coverage", f"{text}: they are wider than they need be.")
    if abs(share - 0.95) > COVERAGE_SLACK:
        text += f", as near to that as {rows.n:,} rows can tell."
        return Finding("good", "coverage", text)
    return Finding("good", "coverage", f"{text}, which is what they promise.")


def _shape(content: Content, rows: Checked) -> list[Finding]:
    found = []
    if rows.far > FAR_CAUTION:
        remedy = ""
        if _tamed_by_its_logarithm(rows.sample.y):
            remedy = (
                f" A few values of {content.target} are huge: if it is a count or an amount, a "
                "model of its logarithm, log(1 + value), may have better intervals."
            )
        found.append(
            Finding(
                "caution",
                "outliers",
                f"{_percent(rows.far)} of rows lie more than three standard deviations from their "
                "prediction (a Gaussian has 0.3%): large misses are more frequent than intervals "
                f"say.{remedy}",
            )
        )
    bias = float(np.mean(rows.pit)) - 0.5
    if abs(bias) > max(BIAS_CAUTION, 1.0 / np.sqrt(rows.n)):
        side = "low" if bias > 0.0 else "high"
        found.append(
            Finding("caution", "bias", f"Predictions of most rows are too {side} (see PIT).")
        )
    return found


def _tamed_by_its_logarithm(y: NDArray[np.float64]) -> bool:
    """Whether a few values are huge, and log(1 + y) brings all nearer."""

    def apart(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return (values - np.median(values)) / np.std(values)

    if np.ptp(y) == 0.0 or np.min(y) < -1e-6 * np.std(y):  # a zero may come back a little below
        return False
    above = np.max(apart(y))
    return bool(
        above > HUGE and np.max(np.abs(apart(np.log1p(np.maximum(y, 0.0))))) < TAMED * above
    )


def _relevance(content: Content) -> Finding:
    inputs = [content.inputs[k] for k in content.relevant]
    constant = len(content.inputs) - len(inputs)
    aside = ""
    if constant:
        aside = f" {_count(constant, 'input')} did not vary, and nothing was learned from "
        aside += "it." if constant == 1 else "them."
    if not inputs or inputs[0].relevance == 0.0:
        return Finding("caution", "inputs", "No input matters to the prediction." + aside)
    top = inputs[0].relevance
    names = [i.name for i in inputs if i.relevance >= MATTERS * top]
    noise = np.nan_to_num([i.noise for i in inputs])
    fading = sum(
        i.upper < FADES * top and of_noise <= FADES * noise.max()
        for i, of_noise in zip(inputs, noise, strict=True)
    )
    if len(inputs) == 1:
        text = f"Its one input is {names[0]}."
    elif len(names) == len(inputs) <= 3:
        text = f"All of its inputs matter: {_listed(names)}."
    elif len(names) == len(inputs):
        text = f"All {len(inputs)} inputs matter, {_listed(names[:3])} most."
    elif len(names) > 5:
        text = f"{len(names)} of {len(inputs)} inputs matter, {_listed(names[:3])} most."
    else:
        text = f"{_listed(names)} matter{'s' if len(names) == 1 else ''} most."
    if fading:
        text += f" {_count(fading, 'input')} hardly matter{'s' if fading == 1 else ''}."
    if content.can_have_mosaic and content.eps_std > SHARED * content.noise_std:
        text += f" What neighbours have in common beside that follows {_shared(inputs, noise)}."
    return Finding("good", "inputs", text + aside)


def _shared(inputs: list[Input], noise: NDArray[np.float64]) -> str:
    """The inputs that decide which rows share their noise, most relevant first."""
    order = np.argsort(-noise, kind="stable")
    return _listed([inputs[k].name for k in order if noise[k] >= MATTERS * noise.max()][:3])


def _reach(content: Content, rows: Checked) -> Finding:
    parts = []
    if rows.unknown > UNKNOWN_SHARE:
        parts.append(
            f"at {_percent(rows.unknown)} of these rows the smooth part of the model knows little "
            "more than before training"
        )
    if rows.outside is not None and rows.outside > OUTSIDE_SHARE:
        parts.append(
            f"{_percent(rows.outside)} of them have an input beyond the range it was trained on"
        )
    where = ""
    if rows.regions:
        worst = rows.regions[0]
        where = (
            f" It is least certain where {content.inputs[worst.k].name} is between "
            f"{_number(worst.lower)} and {_number(worst.upper)}: {worst.ratio:.1f} times the "
            "average standard deviation."
        )
    if parts:
        return Finding("caution", "reach", f"It extrapolates: {' and '.join(parts)}." + where)
    return Finding("good", "reach", "These rows lie where it has learned." + where)


def _percent(share: float) -> str:
    if 0.0 < share < 0.001:
        return "less than 0.1%"
    text = f"{share:.1%}"
    return text.replace(".0%", "%")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
