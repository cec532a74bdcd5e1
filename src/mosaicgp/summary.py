"""A fitted model on a card: what a terminal or a notebook shows of it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

SHOWN_INPUTS = 5

_STYLE = (
    "border:1px solid rgba(128,128,128,.45);border-radius:8px;padding:10px 14px;margin:4px 0;"
    "display:inline-block;font-size:13px;line-height:1.5"
)


class Card(NamedTuple):
    """A heading, facts by name, and the most relevant inputs: name, value and interval."""

    heading: str
    facts: list[tuple[str, str]]
    inputs: list[tuple[str, str, str]]
    left_out: int


def card(model: SparseGPRegressor) -> Card:
    """The card of a fitted model."""
    result, table, d = model.fit_result_, model.hyperparameters_, model.n_features_in_
    rows = f"{model.n_rows_seen_:,.0f}" if model.n_rows_seen_ else "unknown"
    facts = [("rows", rows), ("inputs", f"{d:,}"), ("inducing", f"{len(model.posterior_.Z):,}")]
    if model.partition_ is not None:
        facts.append(("blocks", f"{model.partition_.n_blocks:,}"))
    facts += [
        ("training", f"{result.status}, {result.iterations:,} iterations, {result.seconds:,.1f} s"),
        ("noise", f"std {_number(table.row('noise_std')['mean'])}"),
    ]
    if model._fitted.switches.approximation.has_eps:
        facts[-1] = ("noise", facts[-1][1] + f", and {_number(table.row('eps_std')['mean'])} more")
    value, lower, upper = (
        np.asarray(table[column][:d], dtype=np.float64)
        for column in ("standardised", "standardised_lower", "standardised_upper")
    )
    names = model._feature_names()
    inputs = []
    for k in np.argsort(-value, kind="stable")[:SHOWN_INPUTS]:
        known = upper[k] > lower[k]
        interval = f"{_number(lower[k])} to {_number(upper[k])}" if known else ""
        inputs.append((str(names[k]), _number(value[k]), interval))
    kind = model._fitted.switches.approximation.name
    return Card(f"{type(model).__name__}, {kind}, fitted", facts, inputs, d - len(inputs))


def as_rich(model: SparseGPRegressor) -> Any:
    """For ``rich.print`` and consoles of rich."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    found = card(model)
    facts = Table.grid(padding=(0, 2))
    for name, value in found.facts:
        facts.add_row(Text(name, style="dim"), Text(value))
    inputs = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    inputs.add_column(_heading(found), style="bold")
    inputs.add_column("1/length", justify="right")
    inputs.add_column("95%", style="dim")
    for name, value, interval in found.inputs:
        inputs.add_row(Text(name), value, interval)
    return Panel(Group(facts, "", inputs), title=Text(found.heading), expand=False)


def as_html(model: SparseGPRegressor) -> str:
    """For notebooks; colours are the notebook's own."""
    found = card(model)
    cell = "padding:0 14px 0 0;text-align:left;background:none;border:0"

    def row(*cells: str) -> str:
        return "<tr>" + "".join(f'<td style="{cell}">{escape(c)}</td>' for c in cells) + "</tr>"

    facts = "".join(row(*fact) for fact in found.facts)
    inputs = row(_heading(found), "1/length", "95%") + "".join(row(*i) for i in found.inputs)
    return (
        f'<div style="{_STYLE}"><b>{escape(found.heading)}</b>'
        f'<table style="border:0;margin:6px 0">{facts}</table>'
        f'<table style="border:0;margin:6px 0 0">{inputs}</table></div>'
    )


def _heading(found: Card) -> str:
    if found.left_out == 0:
        return "input"
    return f"input (top {len(found.inputs)} of {len(found.inputs) + found.left_out})"


def _number(value: float) -> str:
    return f"{float(value):.3g}"
