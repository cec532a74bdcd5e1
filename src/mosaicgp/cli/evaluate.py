"""``mosaicgp evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import console, print_json, say
from mosaicgp.cli.inputs import check_picture, load_model, open_for, target_of
from mosaicgp.cli.options import Missing, Selection

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


def evaluate(
    model: options.ModelArgument,
    data: options.DataArgument,
    target: options.TruthOption = None,
    level: Annotated[
        list[float] | None,
        typer.Option(help="Levels of intervals to check.", show_default="0.5 0.8 0.9 0.95 0.99"),
    ] = None,
    plot: options.Plot = None,
    where: options.Where = None,
    missing: options.MissingOption = Missing.error,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Score a model on rows whose target is known: errors, and whether its intervals are honest.

    Use rows that the model was not trained on.

    \b
    [bold]Examples[/bold]
    mosaicgp evaluate flights.mosaic test.parquet --plot calibration.png
    mosaicgp evaluate houses.mosaic houses.csv --where 'year >= 2024'
    mosaicgp evaluate flights.mosaic test.parquet --json | jq .rmse
    """
    from mosaicgp import metrics

    check_picture(plot, force)
    levels = sorted(set(level or LEVELS))
    fitted = load_model(model)
    target = target or target_of(fitted)
    dataset = open_for(fitted, data, target, Selection(where, missing.value))
    scores = metrics.evaluate(fitted, dataset, levels=levels)
    if plot is not None:
        _draw(fitted, dataset, plot)
    if json:
        print_json(
            {"target": target, "rows": dataset.count(), **scores, "plot": plot and str(plot)}
        )
        return
    _print(scores, target, dataset.count(), levels)
    if plot is not None:
        say(f"Picture: {plot}")


def _print(scores: dict[str, float], target: str, n: int, levels: list[float]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{escape(target)}, {n:,} rows", title_justify="left")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_column("meaning", style="dim")
    for name, meaning in (
        ("rmse", "root mean squared error, in units of the target"),
        ("crps", "a mean absolute error, of whole distributions"),
        ("mnlp", "mean negative log probability, nats"),
    ):
        table.add_row(name.upper(), f"{scores[name]:.4g}", meaning)
    table.add_section()
    for level in levels:
        share = scores[f"coverage_{100 * level:g}"]
        table.add_row(f"coverage {100 * level:g}%", f"{share:.1%}", _verdict(share, level, n))
    console().print(table)


def _verdict(share: float, level: float, n: int) -> str:
    """Whether a share of n rows differs from its level by more than chance (three sigma)."""
    slack = 3.0 * (level * (1.0 - level) / n) ** 0.5
    if abs(share - level) <= slack:
        return "as it should be"
    return "intervals are too narrow" if share < level else "intervals are too wide"


def _draw(model: SparseGPRegressor, dataset: Any, path: Path) -> None:
    from mosaicgp import plots
    from mosaicgp.cli.picture import picture

    with picture(path, (6.0, 6.0)) as ax:
        plots.plot_calibration(model, dataset, ax=ax)
