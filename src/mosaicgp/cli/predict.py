"""``mosaicgp predict``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import BAD_INPUT, print_json, say, stop
from mosaicgp.cli.inputs import STANDARD, column_names, load_model, open_for
from mosaicgp.cli.options import Missing, Selection


class Format(StrEnum):
    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"


def predict(
    model: options.ModelArgument,
    data: options.DataArgument,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="PRED",
            help="A file ending in .parquet, .csv or .arrow, a folder for Parquet files, or - for "
            "standard output.",
            show_default=False,
        ),
    ],
    level: Annotated[
        float, typer.Option(help="Probability that y lies between lower and upper.")
    ] = 0.95,
    mean_only: Annotated[
        bool, typer.Option("--mean-only", help="The mean and nothing else, which is quicker.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN,...", help="Columns of DATA to write first.", show_default=False
        ),
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="All of them.")] = False,
    format: Annotated[Format, typer.Option(help="Of standard output.")] = Format.csv,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB",
            help="Memory to take, about (1 if not said); with more pic is quicker.",
            show_default=False,
        ),
    ] = None,
    where: options.Where = None,
    missing: options.MissingOption = Missing.error,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Predict every row of a table: mean, std, lower and upper.

    Columns are found by name; others are ignored. Memory does not grow
    with the table, except for one on standard input.

    \b
    [bold]Examples[/bold]
    mosaicgp predict flights.mosaic new.parquet --out predicted.parquet
    mosaicgp predict houses.mosaic new.csv -o predicted.csv --keep id,city
    cat new.csv | mosaicgp predict houses.mosaic - -o - | head
    """
    to_standard = out == STANDARD
    if to_standard and json:
        stop("--json and predictions cannot both go to standard output.", BAD_INPUT)
    if not to_standard and Path(out).exists() and not force:
        stop(f"{out} is there already; pass --force to replace it.", BAD_INPUT)
    fitted = load_model(model)
    dataset = open_for(fitted, data, None, Selection(where, missing.value))
    names = list(dataset.schema.names)
    kept = names if keep_all else column_names(keep or (), "keep", names)
    fitted.set_params(verbose=int(not quiet))
    if memory is not None:
        from mosaicgp.validation import number

        fitted.set_params(prediction_memory=number("memory", memory, 0.0) * 1e9)
    n = fitted.predict_to(
        sys.stdout.buffer if to_standard else out,
        dataset,
        level=level,
        overwrite=force,
        keep=kept,
        format=format.value,
        return_std=not mean_only,
    )
    if json:
        print_json({"predictions": out, "rows": n, "level": level, "columns": kept})
    elif not to_standard:
        say(f"{n:,} predictions written to {out}.")
