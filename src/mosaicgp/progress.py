"""A progress line for long fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mosaicgp.inference.exact import Progress


@contextmanager
def progress_line(
    verbose: int, total: int, to_user: Callable[[float], float]
) -> Iterator[Callable[[Progress], None]]:
    """A function to call once an iteration; silent when ``verbose`` is 0.

    ``to_user`` turns a bound in standardised units into the user's.
    """
    if not verbose:
        yield lambda progress: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("fitting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[bound]}"),
    )
    with Bar(*columns) as bar:
        task = bar.add_task("fit", total=total, bound="compiling")

        done = 0

        def update(progress: Progress) -> None:
            nonlocal done
            done = progress.iteration
            text = f"bound {to_user(progress.bound):,.1f}"
            bar.update(task, completed=done, bound=text)

        yield update
        bar.update(task, total=done)  # a fit that needed fewer iterations is not an aborted one
