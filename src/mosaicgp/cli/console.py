"""What commands share: messages to standard error, results to standard output, how they end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

DEBUG = "MOSAICGP_DEBUG"


def console(err: bool = False) -> Console:
    """A rich console of standard output, or of standard error. Plain text unless a terminal."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """A message for the person, on standard error."""
    typer.echo(message, err=True)


def stop(message: str, code: int = FAILED) -> NoReturn:
    """End with a message for the user, who is spared the traceback."""
    say(f"Error: {message}")
    raise typer.Exit(code)


def print_json(value: Any) -> None:
    """The result of a command under ``--json``, alone on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


@contextmanager
def errors_explained() -> Iterator[None]:
    """Errors that a user can mend become a line and an exit code; others are bugs, and are shown.

    The library checks its input before any work, with a ValueError or a TypeError that says what
    to do. ``MOSAICGP_DEBUG=1`` shows every traceback.
    """
    try:
        yield
    except BrokenPipeError:
        # Whoever read us has enough. Nothing may be written again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        say("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, TypeError, FileNotFoundError, FileExistsError, IsADirectoryError) as error:
        _end(error, BAD_INPUT)
    except (OSError, MemoryError) as error:
        _end(error, FAILED)


def _end(error: BaseException, code: int) -> NoReturn:
    if os.environ.get(DEBUG):
        raise error
    stop(str(error) or type(error).__name__, code)
