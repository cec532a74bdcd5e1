"""``mosaicgp demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import print_json
from mosaicgp.cli.inputs import check_picture

OUT = Path("mosaicgp-demo.png")


def demo(
    rows: Annotated[int, typer.Option(min=10, help="Flights to learn from.")] = 250_000,
    test_rows: Annotated[int, typer.Option(min=10, help="Flights to score on.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the model.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the picture.")] = OUT,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Train on real flights, print the scores beside two familiar models, draw a picture.

    It takes a minute or two. The picture of an earlier run is replaced if
    it has the usual name.

    \b
    [bold]Examples[/bold]
    mosaicgp demo
    mosaicgp demo --rows 20000 --out quick.png
    mosaicgp demo --json > scores.json
    """
    check_picture(out, force or out == OUT, "out")
    from rich.console import Console

    from mosaicgp.demo import run_demo

    scores = run_demo(rows, test_rows, seed, out, Console(stderr=json))
    if json:
        print_json({"picture": str(out), "scores": [score._asdict() for score in scores]})
