"""Figure 1: how stochastic inference approaches the exact posterior.

1,000 random rows, ten blocks, 50 inducing points whose rotated inputs stay fixed, as in the paper:
KL(q(s) ‖ q⁺(s)) and KL(q(θ) ‖ q⁺(θ)) by iterations, q of the exact and q⁺ of the stochastic fit.
"""

from __future__ import annotations

import time
import warnings
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mosaicgp.diagnostics import kl
from mosaicgp.estimator import SparseGPRegressor
from mosaicgp.experiments.datasets import Data, DataError
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.methods import VB_METHODS
from mosaicgp.experiments.pages import COLOURS, new_figure, table
from mosaicgp.experiments.settings import Line, Report, Settings, Unit, Work
from mosaicgp.experiments.summary import methods_of

ROWS, BLOCKS, INDUCING = 1000, 10, 50
# With so few rows the default rate wanders between optima of nearly equal bound.
RATE = 0.01
# Half of the ten blocks a step: with one, what the gradient wanders along the ridge between the
# signal's amplitude and s leaves a distance of a nat or two.
BLOCKS_A_STEP = 5
EXACT_ITERATIONS = 3000
EXACT_TOL = 1e-7
DISTANCES = {"kl_s": "KL(q(s) ‖ q⁺(s))", "kl_theta": "KL(q(θ) ‖ q⁺(θ))"}


def prepared(data: Data, settings: Settings) -> Settings:
    """The paper's sizes where none are given."""
    rows = min(ROWS, len(data.y)) if settings.rows is None else settings.rows
    if rows > 20 * ROWS:
        raise DataError(
            f"--rows: {rows:,} are too many for this experiment, which fits exactly; the paper "
            f"has {ROWS:,}."
        )
    return replace(
        settings,
        rows=rows,
        inducing=INDUCING if settings.inducing is None else settings.inducing,
        block_size=max(rows // BLOCKS, 1) if settings.block_size is None else settings.block_size,
    )


def identity(data: Data, settings: Settings) -> dict[str, Any]:
    """What the figures depend on; all rows of a selection are trained on."""
    found = settings.identity(data)
    del found["test_share"]
    return found


def run(unit: Unit, work: Work) -> None:
    """Fits of ``_iterations``, and the distance of each to the exact one.

    Exact inference starts where the longest fit ended: the bound has several optima, and the
    question is how near a stochastic fit comes to the one it goes to.
    """
    data, settings = work.data, work.settings
    chosen = np.random.default_rng(unit.split).choice(len(data.y), settings.rows, replace=False)
    X, y = data.X[chosen], data.y[chosen]
    began = time.perf_counter()
    fits = {}
    for n in _iterations(settings):
        fits[n] = _stochastic(VB_METHODS[unit.method], n, settings, unit.split)
        fits[n].set_params(verbose=work.verbose)
        _fit(fits[n], X, y, checkpoint=work.checkpoint / str(n), resume=True)
        work.say(f"fit of {n:,} iterations: {fits[n].fit_result_.seconds:.0f} s")
    longest = fits[max(fits)]
    exact = deepcopy(longest).set_params(
        inference="exact", warm_start=True, max_iter=EXACT_ITERATIONS, tol=EXACT_TOL
    )
    _fit(exact, X, y)
    work.say(f"exact fit: {exact.fit_result_.status}, {exact.fit_result_.seconds:.0f} s")
    for n, model in fits.items():
        found = kl(exact, model)
        work.record(n, {"kl_s": found.inducing, "kl_theta": found.theta})
    # Fits that went on where they were interrupted took longer than this part of them.
    whole = sum(model.fit_result_.seconds for model in (*fits.values(), exact))
    wall = max(time.perf_counter() - began, whole)
    # That a fit of so many iterations has not converged is what the figure shows.
    failed = any(model.fit_result_.status == "failed" for model in fits.values())
    status = {"status": "failed" if failed else None, "iterations": max(fits)}
    work.record(END, {"exact": exact.fit_result_.status, "wall_s": wall, **status})


def _iterations(settings: Settings) -> list[int]:
    """Powers of ten, and the most that was asked for."""
    return [10**k for k in range(6) if 10**k < settings.iterations] + [settings.iterations]


def _stochastic(kind: str, n: int, settings: Settings, seed: int) -> SparseGPRegressor:
    assert settings.block_size is not None
    return SparseGPRegressor(
        kind,
        inference="stochastic",
        max_iter=n,
        n_inducing=settings.M,
        block_size=settings.block_size,
        batch_size=BLOCKS_A_STEP * settings.block_size,
        sampling="reshuffle",
        learning_rate=RATE,
        rotate_inducing=False,
        adapt_partition=False,
        validation_rows=0,
        dtype=settings.dtype,
        random_state=seed,
    )


def _fit(model: SparseGPRegressor, X: np.ndarray, y: np.ndarray, **arguments: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)  # of so few iterations
        model.fit(X, y, **arguments)
    if model.fit_result_.status == "interrupted":
        raise KeyboardInterrupt


def report(lines: list[Line], settings: Settings, data: Data) -> Report:
    """Both distances by iterations."""
    points = [line for line in lines if line["point"] != END]
    rows = [
        {"method": line["method"], "split": line["split"], "iterations": line["point"]}
        | {name: line[name] for name in DISTANCES}
        for line in points
    ]
    methods = methods_of(lines)
    text = [_falls(rows, methods), _words(lines, settings)]
    for name, label in DISTANCES.items():
        text += [f"## {label}", _table(rows, methods, name)]
    return Report("Convergence to the exact posterior", text, rows, _figure(rows, methods))


def _marks(rows: list[Line]) -> list[int]:
    return sorted({row["iterations"] for row in rows})


def _geometric_mean(rows: list[Line], method: str, mark: int, name: str) -> float:
    own = [r[name] for r in rows if r["method"] == method and r["iterations"] == mark]
    return float(np.exp(np.mean(np.log(own))))


def _table(rows: list[Line], methods: list[str], name: str) -> str:
    body = [
        [f"{mark:,}", *(f"{_geometric_mean(rows, m, mark, name):.3g}" for m in methods)]
        for mark in _marks(rows)
    ]
    return table(["iterations", *methods], body)


def _falls(rows: list[Line], methods: list[str]) -> str:
    """How much nearer the longest fits are than the shortest."""
    first, last = _marks(rows)[0], _marks(rows)[-1]
    said = []
    for name, label in DISTANCES.items():
        orders = {
            m: np.log10(
                _geometric_mean(rows, m, first, name) / _geometric_mean(rows, m, last, name)
            )
            for m in methods
        }
        said.append(f"{label}: " + ", ".join(f"{m} {fall:.1f}" for m, fall in orders.items()))
    return (
        f"Orders of magnitude by which the distance of a stochastic posterior to the exact one "
        f"falls from {first:,} to {last:,} iterations (below zero it rises: too few iterations): "
        f"{'; '.join(said)}. s are the inducing outputs, θ the hyperparameters."
    )


def _words(lines: list[Line], settings: Settings) -> str:
    exact = [line["exact"] for line in lines if line["point"] == END]
    converged = exact.count("converged")
    return (
        f"{settings.rows:,} rows in blocks of {settings.block_size}, {settings.M} inducing points; "
        f"each number of iterations is a whole fit with its annealing, learning_rate={RATE}, "
        f"{BLOCKS_A_STEP} blocks a step, reshuffled. The exact fit (q) starts where the longest "
        "stochastic one (q⁺) ended, since the bound has several optima; "
        f"{converged} of {len(exact)} exact fits converged. Geometric means over the selections, "
        "nats."
    )


def _figure(rows: list[Line], methods: list[str]) -> Any:
    figure = new_figure(8.0, 3.2)
    for ax, (name, label) in zip(figure.subplots(1, 2), DISTANCES.items(), strict=True):
        for colour, method in zip(COLOURS, methods, strict=False):
            for split in sorted({row["split"] for row in rows}):
                own = [r for r in rows if r["method"] == method and r["split"] == split]
                ax.loglog(
                    [row["iterations"] for row in own],
                    [row[name] for row in own],
                    color=colour,
                    alpha=0.5,
                )
            ax.plot([], [], color=colour, label=method)
        ax.set_xlabel("iterations")
        ax.set_title(f"{label}, nats")
    figure.axes[0].legend(frameon=False)
    return figure
