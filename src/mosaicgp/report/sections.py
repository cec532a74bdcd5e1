"""The sections of a report, each a heading, a sentence, and charts or tables."""

from __future__ import annotations

import numpy as np

from mosaicgp.report import charts
from mosaicgp.report.content import Content
from mosaicgp.report.html import card, facts, grid, legend, section, table
from mosaicgp.report.scores import Checked
from mosaicgp.report.svg import around, number

TABLE_INPUTS = 4

MORE_ROWS = (
    "This needs rows with known targets: mosaicgp report MODEL DATA, or "
    "write_report(model, path, X, y)."
)
DOTS = (("s1", "inside its 95% interval"), ("s2", "outside"))


def trained(content: Content) -> str:
    """What was trained on what, and how that went."""
    fit = content.fit
    noise = f"standard deviation {number(content.noise_std)}"
    if np.isfinite(content.eps_std):
        kind = {"pitc": "correlated within a block", "pic": "correlated within a block"}
        which = kind.get(content.approximation, "depending on the input")
        noise += f", and {number(content.eps_std)} {which}"
    items = [
        ("approximation", content.approximation),
        ("inference", "stochastic" if content.stochastic else "exact"),
        ("hyperparameters", "a distribution" if content.bayesian else "point estimates"),
        ("target", content.target),
        *_trained_on(content),
        ("inputs", f"{len(content.inputs):,}"),
        ("inducing points", f"{content.n_inducing:,}"),
    ]
    if content.n_blocks is not None:
        items.append(("blocks", f"{content.n_blocks:,} of about {content.block_rows:,} rows"))
    items += [
        ("noise", noise),
        ("signal", f"standard deviation {_interval(*content.sigma_f)}"),
    ]
    ended = [
        ("status", fit.status),
        ("message", fit.message),
        ("iterations", f"{fit.iterations:,}"),
        ("time", f"{fit.seconds:,.1f} s"),
        ("bound", f"{number(fit.bound)} nats"),
        ("steps rejected", f"{fit.rejected:,}"),
    ]
    cards = [card("Model", facts(items)), card("How training ended", facts(ended))]
    course = content.training
    if course is not None:
        smooth = "smoothed over 25 iterations" if content.stochastic else ""
        cards.append(card("Bound", charts.training(course), smooth))
        if len(course.nlpd) > 1:
            held = "of rows held back while training; lower is better"
            cards.append(card("Validation NLPD", charts.validation(course), held))
    note = "" if course is not None else "Too few iterations were made to draw a training curve."
    if content.trained_on is not None and content.trained_on.updates and course is not None:
        note = "The curves are those of the first fit; rows that came later are not in them."
    return section("What was trained", note, grid(cards))


def _trained_on(content: Content) -> list[tuple[str, str]]:
    rows = f"{content.n_rows:,.0f}" if content.n_rows else "unknown"
    record = content.trained_on
    if record is None:
        return [("rows", rows)]
    if record.updates:
        rows += f", in a fit and {record.updates} later update{'s' if record.updates > 1 else ''}"
    found = [("rows", rows)]
    if record.files:
        more = f" and {len(record.files) - 3} more" if len(record.files) > 3 else ""
        found.append(("files", ", ".join(record.files[:3]) + more))
    if record.filter:
        found.append(("filter", record.filter))
    return [*found, ("trained", record.when.replace("T", " ").replace("+00:00", " UTC"))]


def relevance(content: Content) -> str:
    """Inverse length-scales, in a picture and a table."""
    inputs = sorted(content.inputs, key=lambda i: (i.constant, -i.relevance))
    drawn = [i for i in inputs if not i.constant]
    note = (
        "f varies by about one signal standard deviation over one length-scale: an inverse "
        "length-scale near zero says that an input hardly matters to f. "
    )
    note += (
        "Intervals are 95% of the variational posterior, which is narrower than the true one; "
        "corrected_hyperparameters(X, y) gives wider ones."
        if content.bayesian
        else "They are point estimates, without intervals."
    )
    heads = ["input", "per std", "95% from", "to", "per unit", "unit 95% from", "unit to"]
    rows: list[list[str | float]] = [
        [i.name, i.relevance, i.lower, i.upper, i.per_unit, i.unit_lower, i.unit_upper]
        for i in inputs
    ]
    if any(np.isfinite(i.noise) for i in inputs):
        heads.append("of the noise, per std")
        rows = [[*row, float(i.noise)] for row, i in zip(rows, inputs, strict=True)]
    parts = []
    if drawn:
        shown = min(len(drawn), charts.SHOWN_INPUTS)
        of = f"the {shown} most relevant of {len(drawn)}" if shown < len(drawn) else ""
        parts.append(card("By relevance", charts.relevance(drawn), of, "wide"))
    about = "Greyed inputs did not vary in training." if len(drawn) < len(inputs) else ""
    body = table(heads, rows, sorted_by=1, quiet=[i.constant for i in inputs])
    parts.append(card("All inputs", body, about, "wide long"))
    return section("Which inputs matter", note, grid(parts))


def predictions(content: Content) -> str:
    """Predicted against observed, and calibration."""
    title, rows = "Predictions and calibration", content.checked
    if rows is None:
        return section(title, MORE_ROWS)
    drawn = min(rows.n, charts.DRAWN_ROWS)
    scores = [
        ("RMSE", f"{number(rows.rmse)}; {number(rows.spread)} by their mean alone"),
        ("CRPS", f"{number(rows.crps)}; like a mean absolute error, lower is better"),
        ("MNLP", f"{rows.mnlp:.4g} nats; lower is better"),
        *((f"in {p:.0%} intervals", f"{share:.1%} of rows") for p, share in rows.coverage.items()),
        ("beyond 3 std", f"{rows.far:.1%} of rows; 0.3% of a Gaussian"),
    ]
    cards = [
        card(
            "Predicted against observed",
            legend(*DOTS) + charts.predicted(rows, content.target),
            f"{drawn:,} rows drawn" if drawn < rows.n else "",
        ),
        card("Scores", facts(scores)),
        card(
            "Coverage",
            legend(("s1", "observed"), ("chance", "what chance allows")) + charts.coverage(rows),
            "Below the dashed line intervals are too narrow, above it too wide.",
        ),
        card(
            "Probability integral transform",
            charts.pit(rows),
            "Flat if calibrated; high at both ends too narrow, high in the middle too wide.",
        ),
    ]
    return section(title, _which_rows(rows), grid(cards))


def residuals(content: Content) -> str:
    """Residuals over the most relevant inputs."""
    title, rows = "What is left over", content.checked
    if rows is None:
        return section(title, MORE_ROWS)
    keys = legend(*DOTS, ("ink", "mean"))
    cards = [
        card(
            f"Residuals over {content.inputs[k].name}",
            keys + charts.residuals(rows, k, content.inputs[k].name),
        )
        for k in content.relevant[:2]
    ]
    note = (
        "Observed minus predicted, over the most relevant inputs. A mean that leaves zero shows "
        "what the model has not learned."
    )
    return section(title, note, grid(cards))


def effects(content: Content) -> str:
    """f along single inputs."""
    whose = "rows" if content.effects_from_rows else "inducing points"
    note = (
        f"The latent f along one input while all others stay at the median of the {whose}: its "
        "mean and 95% band, without noise. It says nothing of how inputs act together, and a "
        "median of everything may be a row that never occurs."
    )
    if not content.effects:
        return section("Effects of single inputs", "No input varies.")
    everything = around(*(part for e in content.effects for part in (e.lower, e.upper)))
    cards = [card("", charts.effect(e, everything, content.target)) for e in content.effects]
    return section("Effects of single inputs", note, grid(cards, "three"))


def uncertain(content: Content) -> str:
    """Rows and regions with the largest predicted standard deviation."""
    title, rows = "Where it is least certain", content.checked
    if rows is None:
        return section(title, MORE_ROWS)
    shown = content.relevant[:TABLE_INPUTS]
    names = [content.inputs[k].name for k in shown]
    heads = ["row", "std", "predicted", "observed", *names]
    cells = [
        [
            float(rows.sample.rows[i]),
            float(rows.std[i]),
            float(rows.mean[i]),
            float(rows.sample.y[i]),
            *(float(rows.sample.X[i, k]) for k in shown),
        ]
        for i in rows.uncertain
    ]
    parts = [
        card(
            "Rows",
            table(heads, cells, sorted_by=1),
            "With the largest predicted standard deviation. Rows are numbered from 0 "
            + ("as they were trained on." if rows.sample.learned else "in the table given."),
            "wide",
        )
    ]
    if rows.regions:
        regions: list[list[str | float]] = [
            [
                content.inputs[r.k].name,
                f"{number(r.lower)} to {number(r.upper)}",
                float(r.n),
                r.std,
                r.ratio,
                r.rmse,
            ]
            for r in rows.regions
        ]
        heads = ["input", "range", "rows", "mean std", "× average", "RMSE"]
        parts.append(
            card(
                "Regions",
                table(heads, regions, sorted_by=4),
                "Sixths of the rows along single inputs whose predictions are least certain.",
                "wide",
            )
        )
    return section(title, "", grid(parts))


def blocks(content: Content) -> str:
    """The mosaic."""
    title = "The mosaic of blocks"
    if not content.can_have_mosaic:
        return section(
            title, f'approximation="{content.approximation}" has no blocks; pitc and pic do.'
        )
    picture = content.mosaic
    if picture is None:
        return section(title, "Where the blocks lie is not kept in this file. " + MORE_ROWS)
    number_shown = f"{len(picture.tiles):,}"
    if len(picture.tiles) < picture.n_blocks:
        number_shown += f" of {picture.n_blocks:,}"
    note = f"{number_shown} blocks over the inputs most relevant to the noise that their rows share"
    note += ", shaded by the error of their rows." if content.checked is not None else "."
    note += (
        " The tiles are the blocks themselves."
        if picture.exact
        else " A tile is what lies nearest to the middle of its block's rows: with more than two "
        "inputs blocks overlap in this picture, and it is a map rather than a boundary."
    )
    if content.checked is not None and content.checked.sample.learned:
        note += " The errors are those of training rows."
    body = charts.tiles(picture, content)
    errors = np.array([tile.rmse for tile in picture.tiles])
    if np.isfinite(errors).any():
        edges = charts.shade_edges(errors)
        boxes = "".join(
            f'<i class="q{k}" title="{number(edges[k])} to {number(edges[k + 1])}"></i>'
            for k in range(charts.SHADES)
        )
        scale = f"RMSE {number(edges[0])} <span>{boxes}</span> {number(edges[-1])}"
        body = f'<div class="shades">{scale}, as many blocks in each shade</div>' + body
    return section(title, note, f'<div class="stack">{card("", body)}</div>')


def _which_rows(rows: Checked) -> str:
    sample = rows.sample
    what = "training rows that the model keeps" if sample.learned else "rows given"
    if rows.n < sample.total:
        return f"{rows.n:,} of the {sample.total:,} {what}, drawn at random."
    return f"All {rows.n:,} {what}."


def _interval(mean: float, lower: float, upper: float) -> str:
    if upper == lower:
        return number(mean)
    return f"{number(mean)}, 95% between {number(lower)} and {number(upper)}"
