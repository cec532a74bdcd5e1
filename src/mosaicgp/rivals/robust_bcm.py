"""The robust Bayesian committee machine (Deisenroth & Ng 2015): GP experts on parts of the rows."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from mosaicgp import validation
from mosaicgp.data.blocks import cut_cells
from mosaicgp.data.partition import BalancedTree
from mosaicgp.inference.result import FitResult
from mosaicgp.precision import in_double
from mosaicgp.rivals.base import FloatArray, Rival
from mosaicgp.rivals.dense_gp import (
    Kernels,
    bounds,
    condition,
    covariance,
    factor,
    from_free,
    log_evidence,
    to_free,
)
from mosaicgp.rivals.maximise import adam, adam_direction, annealed, annealed_result

PREDICT_ROWS = 2048

# An expert says nothing of rows to whose every neighbour the kernel is below e^-28 (about 10⁻¹²).
SILENT = 28.0


class RobustBCM(Rival):
    """Robust Bayesian committee machine, rBCM (Deisenroth & Ng 2015).

    The rows are divided among experts, by the tree of cuts that ``SparseGPRegressor`` makes its
    blocks with. Each expert is a full GP of its own rows; all share one SE-ARD kernel and white
    noise. Training maximises the sum of the experts' log evidences (product of experts), by Adam
    with the gradient of a few experts drawn anew in every step. For a new row the experts' means
    m_k and variances v_k of f are joined by

        β_k = ½(log k** − log v_k),  1/v = Σ_k β_k/v_k + (1 − Σ_k β_k)/k**,  m = v Σ_k β_k m_k/v_k,

    which goes back to the prior N(0, k**) far from all data; y has the noise on top. A single
    expert has β = 1, and is the full GP. Experts run on ``n_jobs`` threads.

    Inputs and target are standardised inside; predictions are in the user's units.

    Parameters
    ----------
    expert_size : int, default=500
        Rows of an expert, about; their number follows.
    max_experts : int, default=512
        Most experts. A table with more than ``expert_size · max_experts`` rows (256,000) is
        represented by so many of its rows drawn at random: every new row asks every expert, so
        that without a limit a prediction costs as much as there are training rows.
    experts_per_step : int, default=8
        Experts whose gradient a step of training takes; all, if there are no more.
    max_iter : int, default=200
        Steps of training.
    learning_rate : float, default=0.1
        Size of a step in the logarithm of a hyperparameter; constant for the first half of
        training, then falling to zero.
    max_time : float or None, default=None
        Seconds that training may take; its steps then fall to zero in that time.
    n_jobs : int or None, default=None
        Threads; None is one for each core.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    fitted_ : Committee
        Kernel and experts, standardised. Factors are made anew by every call of ``predict``: a
        second for 512 experts, where keeping them would take a gigabyte.
    scaling_ : Scaling
        Means and scales of inputs and target.
    fit_result_ : FitResult
        Status, message, iterations, seconds; ``bound`` is the sum of the log evidences, in the
        user's units, estimated from the experts of the last steps.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mosaicgp.rivals import RobustBCM
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> model = RobustBCM(expert_size=50).fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[2.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.5)) < 0.05)
    True
    """

    anneals = True

    def __init__(
        self,
        *,
        expert_size: int = 500,
        max_experts: int = 512,
        experts_per_step: int = 8,
        max_iter: int = 200,
        learning_rate: float = 0.1,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.expert_size = expert_size
        self.max_experts = max_experts
        self.experts_per_step = experts_per_step
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_arguments(self) -> None:
        self._check_counts_and_time("expert_size", "max_experts", "experts_per_step", "max_iter")
        validation.number("learning_rate", self.learning_rate, 0.0)
        if self.n_jobs is not None:
            validation.whole("n_jobs", self.n_jobs, 1)

    @in_double
    def _learn(
        self, X: FloatArray, y: FloatArray, rng: np.random.Generator
    ) -> tuple[Committee, FitResult]:
        began = perf_counter()
        experts = _experts(X, y, self.expert_size, self.max_experts, rng)
        d = X.shape[1]
        free = to_free(Kernels(np.full((1, d), d**-0.5), np.array([1.0]), 0.2))
        lowest, highest = bounds(len(free), d).T
        state = adam().init(free)
        a_row: list[float] = []
        with _threads(self.n_jobs) as run:
            for rate in annealed(self.learning_rate, self.max_iter, self.max_time):
                chosen = rng.permutation(len(experts))[: self.experts_per_step]
                found = run.map(lambda k: log_evidence(free, *experts[k]), chosen)  # noqa: B023
                values, gradients = zip(*found, strict=True)
                n = sum(len(experts[k].y) for k in chosen)
                a_row.append(sum(values) / n)
                direction, state = adam_direction(np.sum(gradients, axis=0) / n, state)
                free = np.clip(free + rate * np.asarray(direction), lowest, highest)
        bound = float(np.mean(a_row[-max(1, len(a_row) // 10) :])) * len(y)
        seconds = perf_counter() - began
        result = annealed_result(len(a_row), self.max_iter, seconds, bound)
        return Committee(from_free(free, d), tuple(experts), self.n_jobs), result


class Expert(NamedTuple):
    """Rows of an expert: X (n_k, d) and y (n_k,)."""

    X: FloatArray
    y: FloatArray


def _experts(
    X: FloatArray, y: FloatArray, size: int, most: int, rng: np.random.Generator
) -> list[Expert]:
    """The rows divided into experts of about ``size`` rows, or as many rows as ``most`` allow."""
    if len(y) > size * most:
        kept = np.sort(rng.choice(len(y), size * most, replace=False))
        X, y = X[kept], y[kept]
    _, order, start = BalancedTree.grow(X, -(-len(y) // size), rng)
    # Rows that are alike stay together in the tree; many of them are cut after all.
    start, _ = cut_cells(np.diff(start), 2 * size)
    return [Expert(X[rows], y[rows]) for rows in np.split(order, start[1:-1])]


def _threads(n_jobs: int | None) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_jobs or os.cpu_count() or 1)


@dataclass(frozen=True, eq=False)
class Committee:
    """The shared kernel and the experts' rows."""

    kernels: Kernels
    experts: tuple[Expert, ...]
    n_jobs: int | None = None

    @in_double
    def moments(self, X: FloatArray, of_y: bool) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,) of y, or of f: the experts' joined."""
        prior = float(self.kernels.variance[0])
        # Σ β_k/v_k + (1 − Σ β_k)/k** as 1/k** + Σ β_k (1/v_k − 1/k**), whose terms are positive.
        precision, mean = np.full(len(X), 1.0 / prior), np.zeros(len(X))
        with _threads(self.n_jobs) as run:
            for near, gain, pull in run.map(lambda expert: self._says(expert, X), self.experts):
                precision[near] += gain
                mean[near] += pull
        noise = self.kernels.noise_variance if of_y else 0.0
        return mean / precision, 1.0 / precision + noise

    def _says(self, expert: Expert, X: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
        """The rows near an expert, and its β(1/v − 1/k**) and βm/v there."""
        prior = float(self.kernels.variance[0])
        near = np.flatnonzero(self._distance(expert, X) < 2.0 * SILENT)
        if not len(near):
            return near, np.empty(0), np.empty(0)
        L, weights = factor(self.kernels, *expert)
        mean, explained = np.empty(len(near)), np.empty(len(near))
        for start in range(0, len(near), PREDICT_ROWS):
            part = slice(start, start + PREDICT_ROWS)
            K = covariance(self.kernels, X[near[part]], expert.X)
            mean[part], explained[part] = condition(K, L, weights)
        # However near, noise leaves this share of the variance unexplained, up to rounding.
        least = self.kernels.noise_variance / (self.kernels.noise_variance + len(L) * prior)
        share = np.maximum(1.0 - explained / prior, least)  # v/k**
        beta = -0.5 * np.log(share) if len(self.experts) > 1 else np.ones_like(share)
        return near, beta * (1.0 / share - 1.0) / prior, beta * mean / (share * prior)

    def _distance(self, expert: Expert, X: FloatArray) -> FloatArray:
        """Least ‖Λ(x − x_i)‖² (n,) that any row of the expert can have: that to their box."""
        lowest, highest = expert.X.min(axis=0), expert.X.max(axis=0)
        outside = np.maximum(lowest - X, 0.0) + np.maximum(X - highest, 0.0)
        outside *= self.kernels.lam[0]
        return np.einsum("ij,ij->i", outside, outside)
