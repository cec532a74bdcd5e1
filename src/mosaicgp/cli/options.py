"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

ROWS = "Which rows and columns"


class Missing(StrEnum):
    error = "error"
    drop = "drop"


DataArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Parquet, CSV or .npy files, a folder or a quoted glob of them; - is standard input.",
        show_default=False,
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="What `mosaicgp fit` wrote.", show_default=False)
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Only rows of which this is true: \"distance > 100 and carrier in ['UA', 'DL']\".",
        rich_help_panel=ROWS,
        show_default=False,
    ),
]
MissingOption = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="Rows with a missing value: stop with an error, or leave them out.",
        rich_help_panel=ROWS,
    ),
]


def _columns(help: str) -> Any:
    return typer.Option(metavar="COLUMN,...", help=help, rich_help_panel=ROWS, show_default=False)


TargetOption = Annotated[
    str,
    typer.Option(
        "--target", "-t", metavar="COLUMN", help="The column to predict.", show_default=False
    ),
]
TruthOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="The column with the truth.",
        show_default="the model's",
    ),
]
Columns = Annotated[list[str] | None, _columns("Input columns; all but the target by default.")]
Exclude = Annotated[list[str] | None, _columns("Columns that are no input.")]
Categorical = Annotated[
    list[str] | None, _columns("Columns of categories, which become one feature a category.")
]
Ordinal = Annotated[
    list[str] | None, _columns("Columns of categories whose alphabetical order means something.")
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace output that exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress line.")]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="Draw it: .png, .svg, .pdf, by the ending.", show_default=False
    ),
]


class Selection(NamedTuple):
    """Which rows of a table, and how its columns become inputs; lists as they were typed."""

    where: str | None = None
    missing: str = "error"
    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    ordinal: tuple[str, ...] = ()
