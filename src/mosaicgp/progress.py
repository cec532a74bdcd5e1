"""Progress of long work on standard error: a live line in a terminal, now and then one in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

# Seconds between two lines of a log.
LOG_EVERY = 10.0

# Seconds over which the rate is measured: the first iterations compile.
RECENT = 10.0


@contextmanager
def progress_line(
    verbose: int, settings: Any, rows_an_iteration: int
) -> Iterator[Callable[[Any], None]]:
    """A function to call with the progress of every iteration; silent when ``verbose`` is 0.

    ``settings`` say how many iterations, and how many seconds, a fit may take.
    """
    if not verbose:
        yield lambda progress: None
        return
    course = _Course(settings.max_iter, settings.max_time, rows_an_iteration)
    with _line("fitting", settings.max_iter, "reading, compiling, placing f") as show:

        def update(progress: Any) -> None:
            course.take(progress)
            show(course.iteration, course.text())

        yield update
        show(course.iteration, course.text(ended=True), ended=True)


class _Course:
    """What the line says of a fit: where it is, how fast, and how long at most it will go on."""

    def __init__(self, max_iter: int, max_time: float | None, rows_an_iteration: int) -> None:
        self._max_iter, self._max_time = max_iter, max_time
        self._rows = rows_an_iteration
        self._marks: list[tuple[float, int]] = []  # time and iteration, lately
        self.iteration = 0
        self._bound = self._nlpd = self._seconds = float("nan")

    def take(self, progress: Any) -> None:
        """The progress of an iteration."""
        self.iteration, self._bound = progress.iteration, progress.bound
        self._seconds = progress.seconds
        score = getattr(progress, "validation_nlpd", float("nan"))
        self._nlpd = score if score == score else self._nlpd  # NaN between looks
        now = perf_counter()
        self._marks = [m for m in self._marks if m[0] > now - RECENT] or self._marks[-1:]
        self._marks.append((now, self.iteration))

    def text(self, ended: bool = False) -> str:
        """Bound, validation NLPD, rows a second, time left."""
        if self.iteration == 0:
            return "no iterations"
        parts = [f"bound {self._bound:,.1f}"]
        if self._nlpd == self._nlpd:
            parts.append(f"validation NLPD {self._nlpd:.4f}")
        (first, before), (last, now) = self._marks[0], self._marks[-1]
        if now > before and last > first:
            pace = (now - before) / (last - first)
            parts.append(f"{pace * self._rows:,.0f} rows/s")
            if not ended:
                parts.append(f"at most {_clock(self._left(pace))} left")
        return ", ".join(parts)

    def _left(self, pace: float) -> float:
        """Seconds that the budgets leave; a fit that converges takes fewer."""
        left = (self._max_iter - self.iteration) / pace
        return left if self._max_time is None else min(left, self._max_time - self._seconds)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@contextmanager
def counting_line(verbose: int, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows done; silent when ``verbose`` is 0."""
    if not verbose:
        yield lambda done: None
        return
    began = perf_counter()
    with _line(what, total, "") as show:

        def update(done: int) -> None:
            pace = done / max(perf_counter() - began, 1e-9)
            text = f"{pace:,.0f} rows/s"
            if done < total:
                text += f", {_clock((total - done) / pace)} left"
            show(done, text)

        yield update


@contextmanager
def _line(what: str, total: int, text: str) -> Iterator[Callable[..., None]]:
    """``show(done, text, ended)``, in a terminal or in a log."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _log(what, total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    # The line must not wrap, or each update would leave a line behind.
    columns = (
        TextColumn(what),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        Elapsed(),
        TextColumn("{task.fields[text]}", table_column=_one_line()),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total, text=text)

        def show(done: int, text: str, ended: bool = False) -> None:
            # Work that needed fewer iterations is not aborted work.
            bar.update(task, completed=done, text=text, total=done if ended else total)

        yield show


def _one_line() -> Any:
    from rich.table import Column

    return Column(no_wrap=True, overflow="ellipsis")


def say(text: str) -> None:
    """A line of its own."""
    print(text, file=sys.stderr, flush=True)


def _log(what: str, total: int) -> Callable[..., None]:
    written = perf_counter()

    def show(done: int, text: str, ended: bool = False) -> None:
        nonlocal written
        if ended or perf_counter() - written >= LOG_EVERY:
            written = perf_counter()
            of = f"{done:,}" if ended else f"{done:,}/{total:,}"
            say(f"{what} {of}: {text}")

    return show
