"""The application: its commands, its general options, and how every command ends."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mosaicgp._version import __version__
from mosaicgp.cli.compare import compare
from mosaicgp.cli.console import INTERRUPTED, errors_explained
from mosaicgp.cli.demo import demo
from mosaicgp.cli.evaluate import evaluate
from mosaicgp.cli.fit import fit
from mosaicgp.cli.inspect import inspect
from mosaicgp.cli.predict import predict
from mosaicgp.cli.report import report

EXIT_CODES = (
    "Exit codes: 0 done, 1 it failed, 2 the command or its input is wrong, 130 interrupted."
)


class Commands(TyperGroup):
    """Every command ends with an exit code that means something, and no traceback for the user."""

    def invoke(self, ctx: Any) -> Any:
        with errors_explained():
            return super().invoke(ctx)


app = typer.Typer(
    name="mosaicgp",
    cls=Commands,
    help="Sparse Gaussian process regression that stays Bayesian about its hyperparameters.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

# In the order of the help.
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command()(report)
app.command()(inspect)
app.command()(compare)
app.command()(demo)


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


def main() -> None:
    """Entry point of the ``mosaicgp`` command."""
    code: Any = 0
    try:
        app()
    except SystemExit as end:
        code = end.code
    if code == INTERRUPTED:
        # XLA may still compute in threads of its own, which the end of the interpreter crashes on.
        # Working folders go with the objects that hold them.
        gc.collect()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
