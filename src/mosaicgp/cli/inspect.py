"""``mosaicgp inspect``."""

from __future__ import annotations

import json as jsonlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import console, print_json
from mosaicgp.cli.inputs import load_model

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

Facts = dict[str, Any]


def inspect(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A saved model, an exported predictor (.npz), or a folder of checkpoints.",
            show_default=False,
        ),
    ],
    json: options.Json = False,
) -> None:
    """Say what a file is, what it was trained on, and the hyperparameters with intervals.

    \b
    [bold]Examples[/bold]
    mosaicgp inspect flights.mosaic
    mosaicgp inspect flights.mosaic --json | jq .hyperparameters
    mosaicgp inspect run                  (a folder of checkpoints)
    """
    if model.is_dir() and any(model.glob("*.checkpoint")):
        facts = _checkpoint(model)
    elif model.is_file() and zipfile.is_zipfile(model):
        facts = _predictor(model)
    else:
        facts = _model(load_model(model))
    facts = {"file": str(model), **facts}
    if json:
        print_json(facts)
    else:
        _print(facts)


def _model(model: SparseGPRegressor) -> Facts:
    from mosaicgp.arguments import plain

    rows, table = model.trained_on_, model.hyperparameters_
    return {
        "kind": "saved model",
        "approximation": model.approximation,
        "inducing_points": len(model.posterior_.U),
        "trained_on": None if rows is None else rows.to_json(),
        "features": [str(name) for name in model._feature_names()],
        "fit": fit_facts(model),
        "hyperparameters": [table.row(name) for name in table["name"]],
        "arguments": plain(model.get_params(deep=False)),
    }


def fit_facts(model: SparseGPRegressor) -> Facts:
    """How the fit ended."""
    result = model.fit_result_
    return {
        "status": result.status,
        "message": result.message,
        "seconds": round(result.seconds, 3),
        "iterations": result.iterations,
        "bound": result.bound,
        "validation_nlpd": result.validation_nlpd,
    }


def _predictor(path: Path) -> Facts:
    import numpy as np

    from mosaicgp import serving

    predictor = serving.load(path)
    with np.load(path, allow_pickle=False) as file:
        version = jsonlib.loads(str(file["header"]))["mosaicgp_version"]
    return {
        "kind": "exported predictor",
        "approximation": predictor.approximation,
        "features": predictor.feature_names,
        "version": version,
        "use": "mosaicgp.serving.load(path).predict(X, return_std=True), with NumPy alone",
    }


def _checkpoint(folder: Path) -> Facts:
    from mosaicgp.checkpoints import describe

    found = describe(folder)
    return {
        "kind": "checkpoints of a fit",
        "version": found["version"],
        "stages": found["stages"],
        "arguments": found["arguments"],
        "use": f"mosaicgp fit DATA ... --checkpoint {folder} --resume, with the same arguments",
    }


# -- for people ------------------------------------------------------------------------------


def _print(facts: Facts) -> None:
    show = console()
    lines = {"kind": facts["kind"], **_LINES[facts["kind"]](facts)}
    width = 2 + max(map(len, lines))
    show.print(facts["file"], markup=False, style="bold")
    for name, value in lines.items():
        show.print(f"  {name:<{width}}{value}", markup=False)
    if "hyperparameters" in facts:
        show.print(_hyperparameters(facts["hyperparameters"]))


def _model_lines(facts: Facts) -> dict[str, str]:
    rows, fit = facts["trained_on"], facts["fit"]
    lines = {
        "approximation": f"{facts['approximation']}, {facts['inducing_points']} inducing points",
    }
    if rows is None:
        lines["trained on"] = "unknown: the file is of before that was kept"
    else:
        files = f" of {', '.join(rows['files'][:3])}" if rows["files"] else " of arrays"
        files += f" and {len(rows['files']) - 3} more files" if len(rows["files"]) > 3 else ""
        updates = f", in {rows['updates']} updates" if rows["updates"] else ""
        lines["trained on"] = f"{rows['rows']:,} rows{files}{updates}"
        if rows["filter"]:
            lines["only rows with"] = rows["filter"]
        if rows["target"] is not None:
            lines["target"] = rows["target"]
        if rows["columns"]:
            lines["columns"] = _some(rows["columns"])
        lines["date"] = f"{rows['when']}, by mosaicgp {rows['version']}"
    if rows is None or len(facts["features"]) != len(rows["columns"]):
        lines["features"] = _some(facts["features"])
    seconds = f"{fit['iterations']:,} iterations, {fit['seconds']:.1f} s"
    lines["training"] = f"{fit['message']} ({seconds})"
    lines["bound"] = f"{fit['bound']:,.1f} nats"
    if fit["validation_nlpd"] is not None:
        lines["validation"] = f"NLPD {fit['validation_nlpd']:.4f} nats a row"
    return lines


def _predictor_lines(facts: Facts) -> dict[str, str]:
    lines = {name: str(facts[name]) for name in ("approximation", "version", "use")}
    return lines | {"features": _some(facts["features"])}


def _checkpoint_lines(facts: Facts) -> dict[str, str]:
    stages = "; ".join(
        f"{stage}: " + ", ".join(f"{name} {value}" for name, value in where.items())
        for stage, where in facts["stages"].items()
    )
    changed = {k: v for k, v in facts["arguments"].items() if k in ("approximation", "n_inducing")}
    return {
        "version": facts["version"],
        "model": ", ".join(f"{name} {value}" for name, value in changed.items()),
        "stage": stages or "nothing was learned yet",
        "to go on": facts["use"],
    }


_LINES = {
    "saved model": _model_lines,
    "exported predictor": _predictor_lines,
    "checkpoints of a fit": _checkpoint_lines,
}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more


def _hyperparameters(rows: list[Facts]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title="Hyperparameters",
        title_justify="left",
        caption="per std: by the standard deviation of the input (of a rare flag more) or of the "
        "target.\n"
        "An inverse length-scale near zero: the input hardly matters.\n"
        "eps: noise that rows near each other share; noise_std: each row's own.",
        caption_justify="left",
    )
    table.add_column("name")
    for heading in ("mean", "95% from", "to", "per std"):
        table.add_column(heading, justify="right")
    for row in rows:
        point = row["lower"] == row["upper"]
        ends = ["", ""] if point else [f"{row['lower']:.3g}", f"{row['upper']:.3g}"]
        name, mean, standard = escape(str(row["name"])), row["mean"], row["standardised"]
        table.add_row(name, f"{mean:.3g}", *ends, f"{standard:.3g}")
    return table
