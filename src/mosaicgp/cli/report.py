"""``mosaicgp report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import console, print_json, say
from mosaicgp.cli.inputs import check_output, load_model, open_for, target_of
from mosaicgp.cli.options import Missing, Selection
from mosaicgp.cli.wording import in_options

if TYPE_CHECKING:
    from mosaicgp.report.content import Content


def report(
    model: options.ModelArgument,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Rows to check the model by, best ones that it was not trained on: Parquet, CSV "
            "or .npy files, a folder or a quoted glob of them; - is standard input.",
            show_default="training rows, where the model keeps them",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PATH", help="The HTML file to write.")
    ] = Path("report.html"),
    target: options.TruthOption = None,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Heading of the report.", show_default="the target"),
    ] = None,
    where: options.Where = None,
    missing: options.MissingOption = Missing.error,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write a report of a model to one HTML file: how good it is, what matters, what to trust.

    The file needs no network and nothing beside itself.

    \b
    [bold]Examples[/bold]
    mosaicgp report flights.mosaic test.parquet
    mosaicgp report flights.mosaic test.parquet --title 'Delays in 2013'
    mosaicgp report flights.mosaic --force
    """
    from mosaicgp.report import write_report

    check_output(out, force)
    fitted = load_model(model)
    dataset = None
    if data:
        dataset = open_for(
            fitted, data, target or target_of(fitted), Selection(where, missing.value)
        )
    message = in_options(fitted.fit_result_.message)
    fitted.fit_result_ = replace(fitted.fit_result_, message=message)
    content = write_report(fitted, out, dataset, title=title, overwrite=force)
    if json:
        print_json(_result(content, out))
        return
    _print(content)
    say(f"Report: {out}")


def _result(content: Content, out: Path) -> dict[str, object]:
    from mosaicgp.report.trust import findings, verdict

    found, rows = findings(content), content.checked
    return {
        "report": str(out),
        "bytes": out.stat().st_size,
        "target": content.target,
        "verdict": verdict(found),
        "findings": [finding._asdict() for finding in found],
        "rows": None if rows is None else rows.n,
        "rmse": None if rows is None else rows.rmse,
        "coverage_95": None if rows is None else rows.coverage[0.95],
    }


def _print(content: Content) -> None:
    from mosaicgp.report.trust import findings, verdict

    found = findings(content)
    show = console()
    show.print(verdict(found), style="bold")
    show.print(" ".join(finding.text for finding in found), markup=False)
