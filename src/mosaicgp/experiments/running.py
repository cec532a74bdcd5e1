"""One run of an experiment: units that are not done yet, then the page of all that are."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mosaicgp.arguments import EXACT_ROWS
from mosaicgp.checkpoints import CheckpointError, has_state
from mosaicgp.experiments import accuracy, convergence, fits, intervals, samples, table
from mosaicgp.experiments.datasets import Data, DataError, n_used
from mosaicgp.experiments.journal import END, Journal
from mosaicgp.experiments.machine import description, source
from mosaicgp.experiments.methods import EXACT_TWINS, GPFLOW, METHODS, VB_METHODS, left_out
from mosaicgp.experiments.pages import write
from mosaicgp.experiments.settings import Line, Report, Settings, Unit, Work
from mosaicgp.experiments.summary import methods_of


class Experiment(NamedTuple):
    """``journal`` is the file that its work goes to; ``methods`` are run unless others are named,
    and ``choices`` may be. ``uses`` are those of ``OF_SOME`` that mean something to it.
    ``prepared`` fills in the experiment's own defaults, and ``identity`` says what its figures
    depend on. ``stay`` are methods that stay on the page once they are there, ``choices`` if None.
    """

    journal: str
    methods: tuple[str, ...]
    choices: tuple[str, ...]
    uses: frozenset[str]
    run: Callable[[Unit, Work], None]
    report: Callable[[list[Line], Settings, Data], Report]
    prepared: Callable[[Data, Settings], Settings] = lambda data, settings: settings
    identity: Callable[[Data, Settings], dict[str, Any]] = lambda data, settings: settings.identity(
        data
    )
    stay: tuple[str, ...] | None = None


class Done(NamedTuple):
    """What a run leaves: its page, the rows of the CSV, and which fits failed, and of what."""

    page: Path
    rows: list[Line]
    failed: list[str]


# What a fit may fail of, on these rows or this machine; a folder that cannot be written to is no
# matter of one fit.
FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)

_THREE = tuple(VB_METHODS)

# With it in the environment, a fit that fails ends the run with its traceback, as of all commands.
DEBUG = "MOSAICGP_DEBUG"

# Settings that not every experiment makes use of.
OF_SOME = ("test_share", "draws", "beside", "gpflow_python")
_SCORED = frozenset({"test_share", "beside"})

EXPERIMENTS = {
    "convergence": Experiment(
        "convergence",
        _THREE,
        _THREE,
        frozenset(),
        convergence.run,
        convergence.report,
        convergence.prepared,
        convergence.identity,
    ),
    "accuracy": Experiment(
        "fits", _THREE, _THREE, _SCORED, fits.run, accuracy.report, identity=fits.identity
    ),
    "samples": Experiment(
        "samples",
        ("VBPIC+",),
        ("VBPIC+",),
        frozenset({"test_share", "draws"}),
        samples.run,
        samples.report,
        identity=samples.identity,
    ),
    "intervals": Experiment(
        "fits",
        ("VBPIC+",),
        _THREE,
        _SCORED,
        fits.run,
        intervals.report,
        identity=fits.identity,
        stay=("VBPIC+",),
    ),
    "table": Experiment(
        "fits",
        METHODS,
        (*METHODS, *EXACT_TWINS),
        _SCORED | {"gpflow_python"},
        fits.run,
        table.report,
        identity=fits.identity,
    ),
}


def run(
    name: str,
    data: Data,
    settings: Settings,
    out: Path,
    command: str,
    say: Callable[[str], None],
    verbose: int = 0,
) -> Done:
    """Do what is not done, write the page. A fit that fails is left out, and tried again by the
    next run."""
    experiment = EXPERIMENTS[name]
    for option in OF_SOME:
        if option not in experiment.uses and getattr(settings, option) != getattr(Settings, option):
            raise DataError(
                f"--{option.replace('_', '-')}: {name} makes no use of it. Leave it out."
            )
    settings = experiment.prepared(data, settings)
    settings.check(data, "test_share" in experiment.uses)
    methods = _chosen(name, experiment, settings)
    if settings.gpflow_python is not None and GPFLOW not in methods:
        raise DataError(f"--gpflow-python: {GPFLOW} is not among the methods. Leave it out.")
    _check_exact(methods, data, settings)
    reasons = {method: left_out(method, settings) for method in methods}
    for reason in reasons.values():
        if reason is not None:
            say(reason)
    units = [
        Unit(method, split)
        for split in range(settings.first_split, settings.first_split + settings.splits)
        for method in methods
        if reasons[method] is None
    ]
    if not units:
        raise DataError("--method: none of the methods named can be run here.")
    with Journal(out, experiment.journal, experiment.identity(data, settings)) as journal:
        failed = []
        for number, unit in enumerate(units, start=1):
            label = f"[{number}/{len(units)}]"
            try:
                _one(unit, label, experiment, data, settings, journal, say, verbose)
            except CheckpointError:
                raise  # of the folder, and so of all fits
            except FAILURES as error:
                if os.environ.get(DEBUG):
                    raise
                say(f"{label} {unit.method}, split {unit.split} failed: {error}")
                reason = str(error).strip() or type(error).__name__
                failed.append(f"{unit.method}, split {unit.split}: {reason.splitlines()[-1]}")
        lines = journal.of(_shown(experiment, units, journal))
        there = methods_of(lines)
        if not there:
            raise RuntimeError(f"All fits failed. {' '.join(failed)}")
        commands = [command + _naming(there, experiment) + each for each in _stretches(lines)]
        notes = [reason for method, reason in reasons.items() if reason and method not in there]
        notes += [f"Failed, and left out: {each}" for each in failed]
        if data.dropped:
            notes.append(f"Rows with missing values, left out before all else: {data.dropped:,}.")
        report = experiment.report(lines, settings, data)
        say(report.text[0])
        page = write(out, name, report, journal.settings, lines, commands, notes)
        return Done(page, report.rows, failed)


def _shown(experiment: Experiment, units: list[Unit], journal: Journal) -> list[Unit]:
    """What the page is of: these units, and what of the experiment's methods was there before, as
    far as they have ended."""
    stay = experiment.choices if experiment.stay is None else experiment.stay
    ended = {Unit(line["method"], line["split"]) for line in journal.lines if line["point"] == END}
    shown = [unit for unit in ended if unit in units or unit.method in stay]
    place = experiment.choices.index
    return sorted(shown, key=lambda unit: (place(unit.method), unit.split))


def _naming(methods: list[str], experiment: Experiment) -> str:
    """What makes a command be of these methods; nothing, if it is anyway."""
    if set(methods) == set(experiment.methods):
        return ""
    return "".join(f" --method {shlex.quote(method)}" for method in methods)


def _stretches(lines: list[Line]) -> list[str]:
    """What makes commands be of these splits, one for each stretch of seeds without a gap."""
    splits = sorted({line["split"] for line in lines})
    found = []
    for first in (split for split in splits if split - 1 not in splits):
        n = next(n for n in range(1, len(splits) + 1) if first + n not in splits)
        many = "" if n == Settings.splits else f" --splits {n}"
        found.append(many + ("" if first == Settings.first_split else f" --first-split {first}"))
    return found


def _one(
    unit: Unit,
    label: str,
    experiment: Experiment,
    data: Data,
    settings: Settings,
    journal: Journal,
    say: Callable[[str], None],
    verbose: int,
) -> None:
    known = journal.points(unit)
    what = f"{label} {unit.method}, split {unit.split}"
    if END in known:
        say(f"{what}: there already")
        journal.forget(unit)  # unless the run that ended it could
        return
    checkpoint = journal.checkpoint(unit)
    say(f"{what}: goes on where it was" if has_state(checkpoint) else f"{what} ...")

    def record(point: int | str, values: Line) -> None:
        made = {"machine": description(), "source": source()} if point == END else {}
        journal.add(unit, point, values | made)
        if "rmse" in values and "mnlp" in values:
            tell(f"{point}: RMSE {values['rmse']:.4g}, MNLP {values['mnlp']:.4g}")

    def tell(message: str) -> None:
        say(f"{what}, {message}")

    work = Work(data, settings, record, known, checkpoint, tell, verbose)
    experiment.run(unit, work)
    journal.forget(unit)


def _check_exact(methods: tuple[str, ...], data: Data, settings: Settings) -> None:
    n = n_used(data, settings.rows)
    for method in methods:
        if method in EXACT_TWINS and n > EXACT_ROWS:
            raise DataError(
                f"--method: {method} uses all rows in every iteration, and {n:,} are too many (at "
                f"most {EXACT_ROWS:,}). Use fewer --rows, or {EXACT_TWINS[method]}."
            )


def _chosen(name: str, experiment: Experiment, settings: Settings) -> tuple[str, ...]:
    methods = experiment.methods if settings.methods is None else settings.methods
    by_name = {choice.lower(): choice for choice in experiment.choices}
    for method in methods:
        if method.lower() not in by_name:
            raise DataError(
                f"--method: {name} has no '{method}'. It has {', '.join(experiment.choices)}."
            )
    return tuple(dict.fromkeys(by_name[method.lower()] for method in methods))
