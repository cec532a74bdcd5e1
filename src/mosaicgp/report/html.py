"""Pieces of HTML. Cells and titles are plain text, and escaped; bodies are HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from mosaicgp.report.svg import number


class Figure(NamedTuple):
    """A key figure: what it is, its value, and what it compares with."""

    name: str
    value: str
    beside: str = ""


def section(title: str, note: str, *bodies: str) -> str:
    """A heading, a line of explanation, and what is shown."""
    under = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{under}{''.join(bodies)}</section>"


def card(title: str, body: str, note: str = "", kind: str = "") -> str:
    """A panel."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    under = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<div class="card {kind}">{head}{under}{body}</div>'


def grid(cards: Iterable[str], kind: str = "") -> str:
    """Panels beside each other, where there is room."""
    return f'<div class="grid {kind}">{"".join(cards)}</div>'


def figures(items: Iterable[Figure]) -> str:
    """Key figures in a row."""
    cells = (
        f"<div><dt>{escape(item.name)}</dt><dd>{escape(item.value)}"
        f"{f'<small>{escape(item.beside)}</small>' if item.beside else ''}</dd></div>"
        for item in items
    )
    return f'<dl class="figures">{"".join(cells)}</dl>'


def facts(items: Iterable[tuple[str, str]]) -> str:
    """Names with their values."""
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in items
    )
    return f'<table class="facts"><tbody>{"".join(rows)}</tbody></table>'


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | float]],
    sorted_by: int | None = None,
    quiet: Sequence[bool] = (),
) -> str:
    """A table that sorts by any column; numbers are shown short and sorted by exact value."""
    rows = list(rows)

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            return f'<td title="{escape(value)}">{escape(value)}</td>'
        return f'<td data-v="{value!r}">{number(value)}</td>'

    def head(k: int, name: str) -> str:
        kind = "text" if rows and isinstance(rows[0][k], str) else "number"
        order = ' aria-sort="descending"' if k == sorted_by else ""
        button = f'<button type="button">{escape(name)}</button>'
        return f'<th scope="col" data-kind="{kind}"{order}>{button}</th>'

    body = []
    for k, row in enumerate(rows):
        mark = ' class="quiet"' if k < len(quiet) and quiet[k] else ""
        body.append(f"<tr{mark}>{''.join(map(cell, row))}</tr>")
    top = "".join(head(k, name) for k, name in enumerate(heads))
    return (
        f'<div class="scroll"><table class="sortable"><thead><tr>{top}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def legend(*items: tuple[str, str]) -> str:
    """Colours with their meanings: (kind, text)."""
    marks = "".join(f'<span><i class="{kind}"></i>{escape(text)}</span>' for kind, text in items)
    return f'<div class="legend">{marks}</div>'
