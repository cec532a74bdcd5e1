"""``mosaicgp compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    console,
    print_json,
    say,
    stop,
)
from mosaicgp.cli.inputs import check_picture, open_table
from mosaicgp.cli.options import Missing, Selection

if TYPE_CHECKING:
    from mosaicgp.comparison.methods import Budget
    from mosaicgp.comparison.scores import Score, Split


def compare(
    data: options.DataArgument,
    target: options.TargetOption,
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    categorical: options.Categorical = None,
    ordinal: options.Ordinal = None,
    where: options.Where = None,
    missing: options.MissingOption = Missing.error,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="linear, boosting, dtc, fitc, pitc, pic, gpflow, gpytorch.",
            show_default="all that are installed",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=10, help="Of a larger table, so many rows are drawn at random.")
    ] = 100_000,
    test_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows to score on.", show_default="a fifth")
    ] = None,
    n_inducing: Annotated[
        int, typer.Option("--n-inducing", "-m", min=1, help="Of every Gaussian process.")
    ] = 100,
    max_time: Annotated[
        float, typer.Option(help="Seconds of training of each Gaussian process, about.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the models.")] = 0,
    plot: options.Plot = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Try several models on the same split of a table: errors, honesty and time of each.

    Our approximations, a linear model, gradient boosting and, where they
    are installed, the SVGP of GPflow and of GPyTorch.

    \b
    [bold]Examples[/bold]
    mosaicgp compare flights.parquet --target delay --plot compared.png
    mosaicgp compare houses.csv -t price --categorical city --exclude id
    mosaicgp compare houses.csv -t price --method linear,boosting,pic --json
    """
    check_picture(plot, force)
    chosen = _chosen(method or [])
    lists = (tuple(names or ()) for names in (columns, exclude, categorical, ordinal))
    dataset = open_table(data, target, Selection(where, missing.value, *lists))
    from mosaicgp.comparison.methods import Budget, split_rows

    split = split_rows(dataset, rows, test_rows, seed)
    say(
        f"{target!r} from {dataset.n_features} inputs: {len(split.y):,} rows to learn from, "
        f"{len(split.y_test):,} others to score."
    )
    scores, failed, interrupted = _run(chosen, split, Budget(n_inducing, max_time, seed))
    if plot is not None and scores:
        _draw(scores, plot, target)
    if json:
        found = [score._asdict() for score in scores]
        sizes = {"train_rows": len(split.y), "test_rows": len(split.y_test)}
        print_json({"target": target, **sizes, "scores": found, "failed": failed})
    elif scores:
        _print(scores)
        if plot is not None:
            say(f"Picture: {plot}")
    if interrupted:
        say("Interrupted: the models that were done are shown.")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)


def _chosen(typed: list[str]) -> list[str]:
    from mosaicgp.comparison.methods import METHODS, available

    names = [part.strip() for text in typed for part in text.split(",")]
    for name in names:
        if name not in METHODS:
            stop(f"--method: there is no {name!r}; there are {', '.join(METHODS)}.", BAD_INPUT)
        if not available(name):
            stop(f"--method: {name} is not installed here: pip install {name}.", BAD_INPUT)
    return list(dict.fromkeys(names)) or [name for name in METHODS if available(name)]


def _run(
    chosen: list[str], split: Split, budget: Budget
) -> tuple[list[Score], dict[str, str], bool]:
    """The scores there are, why others failed, and whether the user stopped it."""
    from mosaicgp.comparison.methods import run

    scores: list[Score] = []
    failed: dict[str, str] = {}
    for name in chosen:
        try:
            score = run(name, split, budget)
        except KeyboardInterrupt:
            if not scores:
                raise
            return scores, failed, True
        except Exception as error:  # of any library: the others are still worth knowing
            failed[name] = f"{type(error).__name__}: {error}"
            say(f"{name:<10} failed: {failed[name]}")
            continue
        scores.append(score)
        say(f"{name:<10} RMSE {score.rmse:.4g}, {score.seconds:.1f} s")
    return scores, failed, False


def _print(scores: list[Score]) -> None:
    from rich.table import Table

    table = Table()
    table.add_column("model")
    for heading in ("RMSE", "CRPS", "MNLP", "95% coverage", "seconds"):
        table.add_column(heading, justify="right")
    best = {name: min(getattr(s, name) for s in scores) for name in ("rmse", "crps", "mnlp")}
    for score in scores:
        cells = [
            f"[bold]{value:.4g}[/bold]" if value == best[name] else f"{value:.4g}"
            for name, value in zip(best, (score.rmse, score.crps, score.mnlp), strict=True)
        ]
        seconds = f"{score.seconds:.1f}" + ("*" if score.unfinished else "")
        table.add_row(score.name, *cells, f"{score.coverage:.1%}", seconds)
    show = console()
    show.print(table)
    if any(score.unfinished for score in scores):
        show.print("* the time ran out while training still improved: raise --max-time")
    show.print("The uncertainty of linear and HistGradientBoosting is one width for all rows,")
    show.print("learned on held-out rows: they predict none of their own.")


def _draw(scores: list[Score], path: Path, target: str) -> None:
    from mosaicgp.cli.picture import picture
    from mosaicgp.comparison.picture import plot_comparison

    with picture(path, (7.0, 4.5)) as ax:
        plot_comparison(scores, ax, target)
