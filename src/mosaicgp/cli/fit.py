"""``mosaicgp fit``."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaicgp.cli import options
from mosaicgp.cli.console import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    console,
    print_json,
    say,
    stop,
)
from mosaicgp.cli.inputs import check_output, load_model, open_table
from mosaicgp.cli.inspect import fit_facts
from mosaicgp.cli.interrupts import GentleInterrupt
from mosaicgp.cli.options import Missing, Selection
from mosaicgp.cli.wording import in_options

if TYPE_CHECKING:
    from mosaicgp.data.dataset import Dataset
    from mosaicgp.estimator import SparseGPRegressor

MODEL = "The model"
TRAINING = "The training"


class Approximation(StrEnum):
    dtc = "dtc"
    fitc = "fitc"
    fic = "fic"
    pitc = "pitc"
    pic = "pic"


class Hyperparameters(StrEnum):
    bayesian = "bayesian"
    point = "point"


class Inference(StrEnum):
    auto = "auto"
    exact = "exact"
    stochastic = "stochastic"


class Partition(StrEnum):
    tree = "tree"
    kmeans = "kmeans"


class Optimizer(StrEnum):
    lbfgsb = "l-bfgs-b"
    cg = "cg"


class Schedule(StrEnum):
    anneal = "anneal"
    robbins_monro = "robbins-monro"


class Sampling(StrEnum):
    iid = "iid"
    reshuffle = "reshuffle"


class Dtype(StrEnum):
    float64 = "float64"
    float32 = "float32"


class Storage(StrEnum):
    auto = "auto"
    memory = "memory"
    disk = "disk"


def _of(panel: str, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def _auto(panel: str, help: str, *names: str, **more: Any) -> Any:
    return _of(panel, help, *names, show_default="auto", **more)


def fit(
    data: options.DataArgument,
    target: options.TargetOption,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="MODEL", help="The file to write.", show_default=False),
    ],
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    categorical: options.Categorical = None,
    ordinal: options.Ordinal = None,
    where: options.Where = None,
    missing: options.MissingOption = Missing.error,
    approximation: Annotated[
        Approximation,
        _of(MODEL, "pic is the most accurate, dtc the quickest.", "--approximation", "-a"),
    ] = Approximation.pic,
    hyperparameters: Annotated[
        Hyperparameters, _of(MODEL, "Learn distributions of them, or point estimates.")
    ] = Hyperparameters.bayesian,
    n_inducing: Annotated[
        int, _of(MODEL, "Inducing points: more are slower and finer.", "--n-inducing", "-m", min=1)
    ] = 100,
    block_size: Annotated[
        int | None, _auto(MODEL, "Rows of a block, for pitc and pic.", min=1)
    ] = None,
    partition: Annotated[
        Partition, _of(MODEL, "How the input space is divided into blocks.")
    ] = Partition.tree,
    fixed_partition: Annotated[
        bool,
        _of(
            MODEL,
            "Keep the first division; else rows are divided anew as the noise is learned.",
            "--fixed-partition",
        ),
    ] = False,
    learn_inducing: Annotated[
        bool | None,
        _auto(
            MODEL,
            "Also move the inducing points; auto does if inference is stochastic, of more than "
            "20,000 rows.",
            "--learn-inducing/--keep-inducing",
        ),
    ] = None,
    prior: Annotated[
        tuple[float, float],
        _of(MODEL, "Mean and variance of the prior of each hyperparameter, standardised."),
    ] = (0.0, 1.0),
    n_theta: Annotated[
        int | None, _auto(MODEL, "Draws of the hyperparameters a pic prediction uses.", min=1)
    ] = None,
    inference: Annotated[
        Inference, _of(TRAINING, "All rows every iteration, or a few; auto is exact to 20,000.")
    ] = Inference.auto,
    max_iter: Annotated[int | None, _auto(TRAINING, "Most iterations.", min=1)] = None,
    max_time: Annotated[
        float | None, _of(TRAINING, "Seconds after which to keep the best model found.")
    ] = None,
    tol: Annotated[
        float | None, _auto(TRAINING, "Gain in nats below which training has converged.")
    ] = None,
    optimizer: Annotated[Optimizer, _of(TRAINING, "Of exact inference.")] = Optimizer.lbfgsb,
    n_restarts: Annotated[
        int, _of(TRAINING, "Further random starts of exact inference.", min=0)
    ] = 0,
    learning_rate: Annotated[
        float | None, _auto(TRAINING, "Of stochastic inference, at most 1.")
    ] = None,
    schedule: Annotated[Schedule, _of(TRAINING, "How stochastic steps shrink.")] = Schedule.anneal,
    decay: Annotated[float, _of(TRAINING, "Exponent of robbins-monro.")] = 0.7,
    sampling: Annotated[Sampling, _of(TRAINING, "How batches are drawn.")] = Sampling.iid,
    batch_size: Annotated[int | None, _auto(TRAINING, "Rows of a stochastic step.", min=1)] = None,
    validation_rows: Annotated[
        int | None, _auto(TRAINING, "Rows held back to watch the predictions by.", min=0)
    ] = None,
    dtype: Annotated[Dtype, _of(TRAINING, "Precision of stochastic steps.")] = Dtype.float64,
    storage: Annotated[
        Storage, _of(TRAINING, "Where rows are kept during training.")
    ] = Storage.auto,
    work_dir: Annotated[Path | None, _of(TRAINING, "Folder for files of storage on disk.")] = None,
    seed: Annotated[int, _of(TRAINING, "Of everything random.", min=0)] = 0,
    start_from: Annotated[
        Path | None, _of(TRAINING, "Train a saved model further.", metavar="MODEL")
    ] = None,
    checkpoint: Annotated[
        Path | None, _of(TRAINING, "Folder to leave the state in now and then.", metavar="FOLDER")
    ] = None,
    resume: Annotated[bool, _of(TRAINING, "Go on from the checkpoint.", "--resume")] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train a model on a table and write it to a file.

    Ctrl-C stops training and keeps the best model so far; a second one
    gives up. The exit code is then 130.

    \b
    [bold]Examples[/bold]
    mosaicgp fit flights.parquet --target delay --out flights.mosaic
    mosaicgp fit houses.csv -t price -o houses.mosaic --categorical city
    mosaicgp fit 'logs/*.parquet' -t load -o load.mosaic --checkpoint run
    mosaicgp fit 'logs/*.parquet' -t load -o load.mosaic --checkpoint run --resume
    """
    given = dict(locals())
    check_output(out, force)
    with GentleInterrupt() as interrupt:
        selection = Selection(
            where,
            missing.value,
            *(
                tuple(given[name] or ())
                for name in ("columns", "exclude", "categorical", "ordinal")
            ),
        )
        dataset = open_table(data, target, selection)
        if out.resolve() in dataset.paths:
            stop(f"{out} holds the rows to learn from; choose another name.", BAD_INPUT)
        if not quiet:
            _announce(dataset, approximation.value)
        model = _model(given, interrupt)
        _train(model, dataset, checkpoint, resume)
        model.set_params(callback=None)
        model.save(out)
        _summarise(model, out, json)
    if interrupt.asked:
        ended = model.fit_result_.status != "interrupted"
        say(f"Interrupted: the {'trained model' if ended else 'best model so far'} was written.")
        raise typer.Exit(INTERRUPTED)
    if model.fit_result_.status == "failed":
        raise typer.Exit(FAILED)


# Options that are arguments of the estimator by the same name.
ARGUMENTS = (
    *("approximation", "hyperparameters", "n_inducing", "block_size", "partition"),
    *("learn_inducing", "prior", "n_theta", "inference", "max_iter"),
    *("max_time", "tol", "optimizer", "n_restarts", "learning_rate", "schedule", "decay"),
    *("sampling", "batch_size", "validation_rows", "dtype", "storage", "work_dir"),
)


def _model(given: dict[str, Any], interrupt: GentleInterrupt) -> SparseGPRegressor:
    """The estimator as asked for, with its arguments checked."""
    from mosaicgp import arguments as checked
    from mosaicgp.estimator import SparseGPRegressor

    arguments = {name: given[name] for name in ARGUMENTS if given[name] is not None}
    arguments = {k: v.value if isinstance(v, StrEnum) else v for k, v in arguments.items()}
    arguments |= {"random_state": given["seed"], "verbose": int(not given["quiet"])}
    arguments |= {"adapt_partition": not given["fixed_partition"], "callback": interrupt.look}
    if given["start_from"] is None:
        model = SparseGPRegressor(**arguments)
    else:
        model = load_model(given["start_from"]).set_params(warm_start=True, **arguments)
    checked.check(model)
    return model


def _announce(dataset: Dataset, approximation: str) -> None:
    """Said before seconds of imports."""
    n = dataset.count()
    dropped = f" ({dataset.dropped:,} with missing values left out)" if dataset.dropped else ""
    say(
        f"Learning {dataset.target!r} from {dataset.n_features} inputs, {n:,} rows{dropped}, "
        f"with {approximation}."
    )


def _train(
    model: SparseGPRegressor, dataset: Dataset, checkpoint: Path | None, resume: bool
) -> None:
    """Fit; what Python would warn of is said once, in words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(dataset, checkpoint=checkpoint, resume=resume)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Warning: {in_options(message.removeprefix('fit: '))}")


def _summarise(model: SparseGPRegressor, out: Path, json: bool) -> None:
    result, rows = model.fit_result_, model.trained_on_
    assert rows is not None
    found = {
        "model": str(out),
        **fit_facts(model),
        "rows": rows.rows,
        "inputs": model.n_features_in_,
        "target": rows.target,
        "approximation": model.approximation,
    }
    if json:
        print_json(found)
        return
    nlpd = result.validation_nlpd
    score = "no rows were held back" if nlpd is None else f"NLPD {nlpd:.4f} nats a row"
    lines = {
        "status": in_options(result.message),
        "training": f"{result.seconds:.1f} s, {result.iterations:,} iterations",
        "bound": f"{result.bound:,.1f} nats",
        "validation": score,
        "model": f"{out} ({_size(out.stat().st_size)})",
    }
    show = console()
    for name, value in lines.items():
        show.print(f"{name:<11}{value}", markup=False)


def _size(n_bytes: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:,} {unit}"
        n_bytes = round(n_bytes / 1000)
    return f"{n_bytes:,} GB"
