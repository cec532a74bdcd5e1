"""The page: its head, the paragraph of what to trust, and the sections, put into the template."""

from __future__ import annotations

from datetime import date
from html import escape
from importlib.resources import files
from math import isfinite
from string import Template

from mosaicgp._version import __version__
from mosaicgp.report import sections, trust
from mosaicgp.report.content import Content
from mosaicgp.report.html import Figure, figures
from mosaicgp.report.svg import number

ENDS = {
    "converged": "converged",
    "max_iter": "unfinished",
    "max_time": "out of time",
    "interrupted": "interrupted",
    "stalled": "stalled",
    "failed": "failed",
}
SYMBOLS = {"good": "✓", "caution": "!", "bad": "✕"}


def page(content: Content) -> str:
    """One HTML document that needs nothing beside itself."""
    here = files("mosaicgp.report")
    parts = (
        _trust(trust.findings(content)),
        figures(_key_figures(content)),
        sections.predictions(content),
        sections.relevance(content),
        sections.effects(content),
        sections.residuals(content),
        sections.uncertain(content),
        sections.blocks(content),
        sections.trained(content),
    )
    return Template(here.joinpath("template.html").read_text("utf-8")).substitute(
        title=escape(content.title),
        subtitle=escape(_subtitle(content)),
        version=escape(__version__),
        date=date.today().isoformat(),
        style=here.joinpath("report.css").read_text("utf-8"),
        script=here.joinpath("report.js").read_text("utf-8"),
        body="\n".join(parts),
    )


def _subtitle(content: Content) -> str:
    rows = f", learned from {content.n_rows:,.0f} rows" if content.n_rows else ""
    d = len(content.inputs)
    return f"{content.approximation}, {d:,} input{'s' if d > 1 else ''}{rows}"


def _trust(found: list[trust.Finding]) -> str:
    levels = [finding.level for finding in found]
    worst = next(level for level in ("bad", "caution", "good") if level in levels)
    chips = "".join(
        f'<li class="{f.level}">{SYMBOLS[f.level]} {escape(f.about)}</li>' for f in found
    )
    text = " ".join(escape(finding.text) for finding in found)
    return (
        f'<section class="card trust {worst}" id="trust"><h2>{escape(trust.verdict(found))}</h2>'
        f'<p>{text}</p><ul class="chips">{chips}</ul></section>'
    )


def _key_figures(content: Content) -> list[Figure]:
    rows = content.checked
    found = []
    if rows is not None:
        whose = "training rows" if rows.sample.learned else "rows given"
        found = [
            Figure("RMSE", number(rows.rmse), f"{content.target} varies by {number(rows.spread)}"),
            Figure("variance explained", _percent(rows.explained), f"of {rows.n:,} {whose}"),
            Figure("in 95% intervals", f"{rows.coverage[0.95]:.1%}", f"of {rows.n:,} {whose}"),
        ]
    beside = f"{content.fit.iterations:,} iterations in {content.fit.seconds:,.0f} s"
    return [*found, Figure("training", ENDS[content.fit.status], beside)]


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("-", "−") if isfinite(share) else "–"
