"""The pictures of a report: numbers of its content in, SVG out."""

from __future__ import annotations

import numpy as np

from mosaicgp.mosaic import Mosaic
from mosaicgp.report.content import Content, Effect, Input, Training
from mosaicgp.report.scores import LEVELS, PIT_BINS, Checked
from mosaicgp.report.svg import Frame, around, number

DRAWN_ROWS = 1200
SHOWN_INPUTS = 20
SHADES = 7
TREND_BINS = 12


def training(course: Training) -> str:
    """The bound by iteration; its first steps, far below, are cut off."""
    visible = around(np.quantile(course.bound, [0.05, 1.0]))
    frame = Frame(around(course.iteration, margin=0.0), visible, "iteration", "bound (nats)")
    frame.x_axis()
    frame.y_axis()
    frame.line(course.iteration, course.bound, "line s1")
    frame.hover(
        course.iteration,
        [f"iteration {i:.0f}: bound {number(b)}" for i, b in zip(*course[:2], strict=True)],
    )
    return frame.render("Bound by iteration")


def validation(course: Training) -> str:
    """The validation NLPD at each look."""
    frame = Frame(
        around(course.iteration, course.looked, margin=0.0),
        around(course.nlpd),
        "iteration",
        "validation NLPD (nats a row)",
    )
    frame.x_axis()
    frame.y_axis()
    titles = [
        f"iteration {i:.0f}: NLPD {v:.4f}" for i, v in zip(course.looked, course.nlpd, strict=True)
    ]
    frame.line(course.looked, course.nlpd, "line s2")
    frame.points(course.looked, course.nlpd, ["dot s2"] * len(titles), titles, r=3)
    return frame.render("Validation NLPD by iteration")


def relevance(inputs: list[Input]) -> str:
    """Inverse length-scales with 95% intervals, the most relevant at the top."""
    shown = inputs[:SHOWN_INPUTS]
    top = max((i.upper for i in shown), default=1.0) or 1.0
    height = 62 + 24 * len(shown)
    frame = Frame(
        (0.0, 1.04 * top),
        (len(shown) - 0.4, -0.6),
        "inverse length-scale per standard deviation of the input",
        width=640,
        height=height,
        left=170,
    )
    frame.x_axis()
    frame.y_names(range(len(shown)), [i.name for i in shown], room=22)
    for k, i in enumerate(shown):
        title = f"{i.name}: {number(i.relevance)}"
        if i.upper > i.lower:
            title += f", 95% between {number(i.lower)} and {number(i.upper)}"
            frame.bar((i.lower, i.upper), (k + 0.22, k - 0.22), "interval", title)
        frame.points([i.relevance], [k], ["dot s1"], [title], r=4)
    return frame.render("Inverse length-scales with 95% intervals")


def predicted(rows: Checked, target: str) -> str:
    """Observed against predicted."""
    some = _some(rows)
    mean, y, std = rows.mean[some], rows.sample.y[some], rows.std[some]
    both = around(mean, y)
    frame = Frame(around(mean), both, f"{target}, predicted", f"{target}, observed", height=380)
    frame.x_axis()
    frame.y_axis()
    ends = np.array([max(frame.x[0], both[0]), min(frame.x[1], both[1])])
    inside = np.abs(y - mean) <= 1.959964 * std
    frame.points(
        mean,
        y,
        np.where(inside, "dot s1 soft", "dot s2"),
        [_row_title(rows, int(k)) for k in some],
    )
    frame.line(ends, ends, "rule")
    return frame.render("Observed against predicted")


def pit(rows: Checked) -> str:
    """Histogram of the probability integral transform."""
    counts, edges = np.histogram(rows.pit, bins=PIT_BINS, range=(0.0, 1.0))
    height = counts * PIT_BINS / rows.n
    frame = Frame((0.0, 1.0), (0.0, max(1.6, 1.08 * float(height.max()))), "PIT", "density")
    frame.x_axis()
    frame.y_axis()
    for k in range(PIT_BINS):
        between = f"{edges[k]:.2f} to {edges[k + 1]:.2f}"
        title = f"PIT {between}: {counts[k]} rows, {height[k]:.2f} times as many as expected"
        frame.bar((edges[k] + 0.002, edges[k + 1] - 0.002), (0.0, height[k]), "area s1", title)
    frame.line([0.0, 1.0], [1.0, 1.0], "rule")
    return frame.render("Histogram of the probability integral transform")


def coverage(rows: Checked) -> str:
    """Share of rows inside their interval by level, with what chance allows around the diagonal."""
    frame = Frame((0.0, 1.0), (0.0, 1.0), "level of the interval", "share of rows inside")
    frame.x_axis()
    frame.y_axis()
    slack = 1.959964 * np.sqrt(LEVELS * (1.0 - LEVELS) / rows.n)
    frame.band(LEVELS, LEVELS - slack, LEVELS + slack, "chance")
    frame.line([0.0, 1.0], [0.0, 1.0], "rule")
    frame.line(LEVELS, rows.inside, "line s1")
    frame.hover(
        LEVELS,
        [f"{p:.1%} intervals hold {c:.1%}" for p, c in zip(LEVELS, rows.inside, strict=True)],
    )
    return frame.render("Coverage by level")


def residuals(rows: Checked, k: int, name: str) -> str:
    """Observed minus predicted over an input, with the mean in each part of its range."""
    some = _some(rows)
    x, left = rows.sample.X[:, k], rows.sample.y - rows.mean
    frame = Frame(around(x[some]), around(left[some]), name, "observed − predicted")
    frame.x_axis()
    frame.y_axis()
    inside = np.abs(left[some]) <= 1.959964 * rows.std[some]
    frame.points(
        x[some],
        left[some],
        np.where(inside, "dot s1 soft", "dot s2"),
        [f"{name} {number(x[i])}: {_row_title(rows, int(i))}" for i in some],
    )
    frame.line(frame.x, (0.0, 0.0), "rule")
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, TREND_BINS + 1)))
    if len(edges) > 2:
        part = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        used = np.unique(part)
        at = [x[part == b].mean() for b in used]
        frame.line(at, [left[part == b].mean() for b in used], "line ink")
    return frame.render(f"Residuals over {name}")


def effect(curve: Effect, y_range: tuple[float, float], target: str) -> str:
    """f along one input with its band; one vertical range for all, so that they compare."""
    frame = Frame(
        around(curve.x, margin=0.0), y_range, curve.name, target, width=360, height=240, left=62
    )
    frame.x_axis(4)
    frame.y_axis(4)
    frame.band(curve.x, curve.lower, curve.upper)
    frame.line(curve.x, curve.mean, "line s1")
    frame.hover(
        curve.x,
        [
            f"{curve.name} {number(x)}: {number(m)}, 95% from {number(a)} to {number(b)}"
            for x, m, a, b in zip(*curve[1:], strict=True)
        ],
    )
    return frame.render(f"Effect of {curve.name}")


def tiles(picture: Mosaic, content: Content) -> str:
    """The mosaic, with a scale of its shades."""
    names = [content.inputs[k].name for k in picture.inputs]
    frame = Frame(
        (float(picture.lower[0]), float(picture.upper[0])),
        (float(picture.lower[1]), float(picture.upper[1])),
        names[0],
        names[1] if len(names) == 2 else "",
        width=640,
        height=430 if len(names) == 2 else 180,
    )
    frame.x_axis()
    if len(names) == 2:
        frame.y_axis()
    errors = np.array([tile.rmse for tile in picture.tiles])
    edges = shade_edges(errors)
    for tile in picture.tiles:
        shade = "tile none"
        title = f"block {tile.block}: no rows to take the error of"
        if tile.n:
            shade = f"tile q{int(np.searchsorted(edges[1:-1], tile.rmse, side='right'))}"
            title = (
                f"block {tile.block}: RMSE {number(tile.rmse)} over {tile.n} rows, predicted std "
                f"{number(tile.std)}"
            )
            for name, (lower, upper) in zip(names, tile.spread, strict=True):
                title += f"\n{name}: 80% of its rows between {number(lower)} and {number(upper)}"
        if len(tile.outline) >= 3:
            frame.polygon(tile.outline, shade, title)
    return frame.render("Mosaic of blocks")


def shade_edges(errors: np.ndarray) -> np.ndarray:
    """Bounds of the shades: equal numbers of blocks in each."""
    known = errors[np.isfinite(errors)]
    if known.size == 0:
        return np.zeros(SHADES + 1)
    return np.quantile(known, np.linspace(0.0, 1.0, SHADES + 1))


def _some(rows: Checked) -> np.ndarray:
    """Rows that are drawn as dots, at random but always the same."""
    if rows.n <= DRAWN_ROWS:
        return np.arange(rows.n)
    return np.sort(np.random.default_rng(1).choice(rows.n, DRAWN_ROWS, replace=False))


def _row_title(rows: Checked, k: int) -> str:
    return (
        f"row {rows.sample.rows[k]}: observed {number(rows.sample.y[k])}, predicted "
        f"{number(rows.mean[k])} ± {number(1.959964 * rows.std[k])}"
    )
