"""A progress line for long fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_line(verbose: int, settings: Any) -> Iterator[Callable[[Any], None]]:
    """A function to call with the progress of every iteration; silent when ``verbose`` is 0.

    ``settings`` say how many iterations, and how many seconds, a fit may take.
    """
    if not verbose:
        yield lambda progress: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("fitting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("fit", total=settings.max_iter, text="compiling")
        done, nlpd = 0, ""

        def update(progress: Any) -> None:
            nonlocal done, nlpd
            done = progress.iteration
            score = getattr(progress, "validation_nlpd", float("nan"))
            if score == score:  # NaN between looks
                nlpd = f"  validation NLPD {score:.4f}"
            bar.update(task, completed=done, text=f"bound {progress.bound:,.1f}{nlpd}")

        yield update
        bar.update(task, total=done)  # a fit that needed fewer iterations is not an aborted one


@contextmanager
def counting_line(verbose: int, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows done; silent when ``verbose`` is 0."""
    if not verbose:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    with Progress(TextColumn(what), BarColumn(), MofNCompleteColumn(), Remaining()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
