"""Charts as inline SVG: a frame with axes, and marks in it, coloured by the page's style sheet.

Marks carry their values as a native ``<title>``, which any browser shows; the page's script shows
it at once and beside the pointer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Range = tuple[float, float]

TICKS = 5
DIGIT = 7  # pixels of a digit, about


def ticks(lower: float, upper: float, about: int = TICKS) -> list[float]:
    """Round numbers in [lower, upper], about so many."""
    if not upper > lower:
        return [lower]
    raw = (upper - lower) / about
    power = 10.0 ** np.floor(np.log10(raw))
    step = min((m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0)), key=lambda s: abs(s - raw))
    first, last = int(np.ceil(lower / step - 1e-9)), int(np.floor(upper / step + 1e-9))
    return [k * step for k in range(first, last + 1)]


def number(value: float) -> str:
    """A number for people: three digits, thousands apart; a dash for none."""
    if not np.isfinite(value):
        return "–"
    if value == 0.0:
        return "0"
    if 1e3 <= abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def around(*values: ArrayLike, margin: float = 0.04) -> Range:
    """A range that holds all finite values, with some room."""
    flat = np.concatenate([np.ravel(np.asarray(v, dtype=np.float64)) for v in values])
    flat = flat[np.isfinite(flat)]
    lower, upper = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 1.0)
    room = margin * (upper - lower) or abs(lower) * 0.1 or 1.0
    return lower - room, upper + room


class Frame:
    """A chart under construction. Marks are given in data units, the size in pixels."""

    def __init__(
        self,
        x: Range,
        y: Range,
        x_label: str = "",
        y_label: str = "",
        width: int = 480,
        height: int = 300,
        left: int | None = None,
    ) -> None:
        self.x, self.y = x, y
        self.width, self.height = width, height
        self.right, self.top = 14, 12
        if left is None:  # room for the label and the longest number
            widest = max(len(number(value)) for value in ticks(*y))
            left = (34 if y_label else 14) + DIGIT * widest
        self.left = left
        self.bottom = 46 if x_label else 28
        self._behind: list[str] = []
        self._marks: list[str] = []
        if x_label:
            middle = (self.left + width - self.right) / 2
            self._behind.append(
                f'<text class="label" x="{middle:.0f}" y="{height - 8}" text-anchor="middle">'
                f"{escape(x_label)}</text>"
            )
        if y_label:
            middle = (self.top + height - self.bottom) / 2
            self._behind.append(
                f'<text class="label" transform="translate(14 {middle:.0f}) rotate(-90)" '
                f'text-anchor="middle">{escape(y_label)}</text>'
            )

    def px(self, x: ArrayLike) -> FloatArray:
        """Pixels of places on the horizontal axis."""
        share = (np.asarray(x, dtype=np.float64) - self.x[0]) / (self.x[1] - self.x[0])
        return np.asarray(self.left + share * (self.width - self.left - self.right))

    def py(self, y: ArrayLike) -> FloatArray:
        """Pixels of places on the vertical axis."""
        share = (np.asarray(y, dtype=np.float64) - self.y[0]) / (self.y[1] - self.y[0])
        return np.asarray(
            self.height - self.bottom - share * (self.height - self.top - self.bottom)
        )

    def x_axis(self, about: int = TICKS) -> None:
        """Ticks, numbers and grid lines of the horizontal axis."""
        foot = self.height - self.bottom
        for value in ticks(*self.x, about):
            at = float(self.px(value))
            self._behind.append(
                f'<path class="grid" d="M{at:.1f} {self.top}V{foot}"/>'
                f'<text class="tick" x="{at:.1f}" y="{foot + 16}" text-anchor="middle">'
                f"{number(value)}</text>"
            )

    def y_axis(self, about: int = TICKS) -> None:
        """Ticks, numbers and grid lines of the vertical axis."""
        for value in ticks(*self.y, about):
            at = float(self.py(value))
            self._behind.append(
                f'<path class="grid" d="M{self.left} {at:.1f}H{self.width - self.right}"/>'
                f'<text class="tick" x="{self.left - 7}" y="{at + 4:.1f}" text-anchor="end">'
                f"{number(value)}</text>"
            )

    def y_names(self, places: Sequence[float], names: Sequence[str], room: int) -> None:
        """Names at places of the vertical axis, cut to so many characters."""
        for at, name in zip(self.py(places), names, strict=True):
            short = name if len(name) <= room else name[: room - 1] + "…"
            self._behind.append(
                f'<text class="name" x="{self.left - 8}" y="{at + 4:.1f}" text-anchor="end">'
                f"{escape(short)}<title>{escape(name)}</title></text>"
            )

    def line(self, x: ArrayLike, y: ArrayLike, kind: str) -> None:
        """A line through points."""
        self._marks.append(f'<path class="{kind}" d="{self._path(x, y)}"/>')

    def band(self, x: ArrayLike, lower: ArrayLike, upper: ArrayLike, kind: str = "band") -> None:
        """What lies between two lines."""
        there = self._path(x, upper)
        back = self._path(np.asarray(x)[::-1], np.asarray(lower)[::-1])
        self._marks.append(f'<path class="{kind}" d="{there}L{back[1:]}Z"/>')

    def points(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kinds: Iterable[str],
        titles: Iterable[str],
        r: float = 2.4,
    ) -> None:
        """A dot with a title for each point."""
        self._marks += [
            f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="{r}">'
            f"<title>{escape(title)}</title></circle>"
            for a, b, kind, title in zip(self.px(x), self.py(y), kinds, titles, strict=True)
        ]

    def bar(self, x: Range, y: Range, kind: str, title: str = "") -> None:
        """A rectangle."""
        (x0, x1), (y1, y0) = self.px(x), self.py(y)
        inner = f"><title>{escape(title)}</title></rect>" if title else "/>"
        self._marks.append(
            f'<rect class="{kind}" x="{x0:.1f}" y="{y0:.1f}" width="{max(x1 - x0, 0):.1f}" '
            f'height="{max(y1 - y0, 0):.1f}"{inner}'
        )

    def polygon(self, corners: FloatArray, kind: str, title: str) -> None:
        """A closed outline (k, 2)."""
        path = self._path(corners[:, 0], corners[:, 1])
        self._marks.append(
            f'<path class="{kind}" d="{path}Z"><title>{escape(title)}</title></path>'
        )

    def hover(self, x: ArrayLike, titles: Sequence[str], most: int = 60) -> None:
        """Columns that show a title, so that a line tells its values wherever the pointer is."""
        places = np.asarray(x, dtype=np.float64)
        chosen = np.unique(
            np.linspace(0, len(places) - 1, min(most, len(places))).round().astype(int)
        )
        at = self.px(places[chosen])
        edges = np.concatenate([[self.left], (at[1:] + at[:-1]) / 2, [self.width - self.right]])
        height = self.height - self.top - self.bottom
        for k, here in enumerate(chosen):
            self._marks.append(
                f'<rect class="hit" x="{edges[k]:.1f}" y="{self.top}" '
                f'width="{max(edges[k + 1] - edges[k], 0.1):.1f}" height="{height}">'
                f"<title>{escape(titles[here])}</title></rect>"
            )

    def render(self, label: str) -> str:
        """The chart; ``label`` tells what it shows to those who do not see it."""
        inner = (
            self.width - self.left - self.right + 8,
            self.height - self.top - self.bottom + 8,
        )
        # Marks are cut at the frame by an inner picture, which needs no id.
        corner = f'x="{self.left - 4}" y="{self.top - 4}" width="{inner[0]}" height="{inner[1]}"'
        view = f'viewBox="{self.left - 4} {self.top - 4} {inner[0]} {inner[1]}"'
        kind = "chart large" if self.width > 600 else "chart"
        return (
            f'<svg class="{kind}" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(label)}">{"".join(self._behind)}'
            f"<svg {corner} {view}>{''.join(self._marks)}</svg></svg>"
        )

    def _path(self, x: ArrayLike, y: ArrayLike) -> str:
        pairs = zip(self.px(x), self.py(y), strict=True)
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in pairs)
