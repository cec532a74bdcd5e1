"""The numbers of a report, from a fitted model and rows to look at; no HTML, no sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mosaicgp.inference.result import FitResult
from mosaicgp.mosaic import Mosaic, block_inputs, mosaic, varying_inputs
from mosaicgp.record import TrainedOn
from mosaicgp.report.scores import Checked, checked
from mosaicgp.sample import drawn, kept, moments

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

FloatArray = NDArray[np.float64]

SCORED_ROWS = 10_000
EFFECTS = 6
EFFECT_GRID = 81
SMOOTH = 25  # iterations over which a stochastic bound is averaged
Z_95 = float(ndtri(0.975))


class Input(NamedTuple):
    """An input and its inverse length-scale: per standard deviation of the input, and per unit.

    ``noise`` is the inverse length-scale of the correlated noise, NaN if there is none.
    """

    name: str
    relevance: float
    lower: float
    upper: float
    per_unit: float
    unit_lower: float
    unit_upper: float
    noise: float
    constant: bool


class Training(NamedTuple):
    """The bound (k,) by iteration, smoothed where it is stochastic, and the looks at the NLPD."""

    iteration: FloatArray
    bound: FloatArray
    looked: FloatArray
    nlpd: FloatArray


class Effect(NamedTuple):
    """f along one input, the others at their medians: mean and 95% band at places x."""

    name: str
    x: FloatArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class Content:
    """Everything that a report says, as numbers. ``checked`` is None without rows."""

    title: str
    target: str
    approximation: str
    bayesian: bool
    stochastic: bool
    n_rows: float
    trained_on: TrainedOn | None
    n_inducing: int
    n_blocks: int | None
    block_rows: int | None
    fit: FitResult
    noise_std: float
    eps_std: float
    sigma_f: tuple[float, float, float]
    training: Training | None
    inputs: list[Input]
    relevant: list[int]  # numbers in ``inputs`` of those that vary, as are all below
    medians: FloatArray
    effects: list[Effect]
    effects_from_rows: bool
    checked: Checked | None
    mosaic: Mosaic | None
    can_have_mosaic: bool

    @property
    def converged(self) -> bool:
        """Whether training ended because there was nothing more to gain."""
        return self.fit.status == "converged"


def build(
    model: SparseGPRegressor, X: Any = None, y: Any = None, title: str | None = None
) -> Content:
    """The numbers of a report of a fitted model and, if there are any, of rows to check it by.

    Without X the training rows that the model keeps are taken. Of more than 10,000 rows so many
    are drawn at random.
    """
    sample = kept(model, SCORED_ROWS) if X is None else drawn(model, X, y, SCORED_ROWS)
    order = varying_inputs(model)
    inputs = _inputs(model)
    rows = None if sample is None else checked(model, sample, order)
    table, has_eps = model.hyperparameters_, model._fitted.switches.approximation.has_eps
    at = model.posterior_.U * model.scaling_.X_scale + model.scaling_.X_mean
    at = at if sample is None else sample.X
    medians = np.median(at, axis=0)
    no_rows = np.empty(0)
    tiles = mosaic(
        model,
        sample,
        no_rows if rows is None else rows.mean,
        no_rows if rows is None else rows.std,
        tuple(int(k) for k in block_inputs(model)[:2]),
    )
    target = _target_name(model, X, y)
    sigma_f = table.row("sigma_f")
    partition = model.partition_
    return Content(
        title=title or f"Model of {target}",
        target=target,
        approximation=model._fitted.switches.approximation.name,
        bayesian=model._fitted.switches.bayesian,
        stochastic="validation_nlpd" in model.history_,
        n_rows=model.n_rows_seen_,
        trained_on=model.trained_on_,
        n_inducing=len(model.posterior_.Z),
        n_blocks=None if partition is None else partition.n_blocks,
        block_rows=None if partition is None else model._fitted.block_rows,
        fit=model.fit_result_,
        noise_std=float(table.row("noise_std")["mean"]),
        eps_std=float(table.row("eps_std")["mean"]) if has_eps else np.nan,
        sigma_f=tuple(float(sigma_f[c]) for c in ("mean", "lower", "upper")),  # type: ignore[arg-type]
        training=_training(model),
        inputs=inputs,
        relevant=[int(k) for k in order],
        medians=medians,
        effects=[_effect(model, int(k), at, medians) for k in order[:EFFECTS]],
        effects_from_rows=sample is not None,
        checked=rows,
        mosaic=tiles,
        can_have_mosaic=partition is not None,
    )


def _target_name(model: SparseGPRegressor, X: Any, y: Any) -> str:
    name = getattr(X, "target", None) if y is None else getattr(y, "name", None)
    if name is None and model.trained_on_ is not None:
        name = model.trained_on_.target
    return "y" if name is None else str(name)


def _inputs(model: SparseGPRegressor) -> list[Input]:
    """All inputs in the order of the columns."""
    table, d = model.hyperparameters_, model.n_features_in_
    columns = ("standardised", "standardised_lower", "standardised_upper", "mean", "lower", "upper")
    values = zip(*(np.asarray(table[c][:d], dtype=np.float64) for c in columns), strict=True)
    noise = np.full(d, np.nan)
    if model._fitted.switches.approximation.has_eps:
        noise = np.asarray(table["standardised"][-d:], dtype=np.float64)
    varies = np.isin(np.arange(d), varying_inputs(model))
    return [
        Input._make((str(name), *map(float, value), float(noise[k]), not varies[k]))
        for k, (name, value) in enumerate(zip(model._feature_names(), values, strict=True))
    ]


def _training(model: SparseGPRegressor) -> Training | None:
    """The course of the fit; None if it made too few iterations to draw."""
    history = model.history_
    if "bound" not in history:
        return None
    iteration, bound = (np.asarray(history[c], dtype=np.float64) for c in ("iteration", "bound"))
    nlpd = np.asarray(history.get("validation_nlpd", np.full(len(bound), np.nan)))
    looked = np.isfinite(nlpd)
    finite = np.isfinite(bound)
    iteration_looked = iteration[looked]
    iteration, bound = iteration[finite], bound[finite]
    if "validation_nlpd" in history and len(bound) > 2 * SMOOTH:
        bound = np.convolve(bound, np.full(SMOOTH, 1.0 / SMOOTH), mode="valid")
        iteration = iteration[SMOOTH - 1 :]
    if len(bound) < 2:
        return None
    return Training(iteration, bound, iteration_looked, nlpd[looked])


def _effect(model: SparseGPRegressor, k: int, at: FloatArray, medians: FloatArray) -> Effect:
    """f along input k between the 1% and the 99% quantile of the rows ``at``."""
    lower, upper = np.quantile(at[:, k], [0.01, 0.99])
    if lower == upper:
        lower, upper = at[:, k].min(), at[:, k].max()
    x = np.linspace(lower, upper, EFFECT_GRID)
    places = np.tile(medians, (EFFECT_GRID, 1))
    places[:, k] = x
    mean, std = moments(model, places, of_y=False)
    return Effect(model._feature_names()[k], x, mean, mean - Z_95 * std, mean + Z_95 * std)
