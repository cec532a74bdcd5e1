"""What a report says of rows with targets: errors, calibration, where it is least certain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp import metrics
from mosaicgp.sample import Sample, moments, share_learned

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

FloatArray = NDArray[np.float64]

LEVELS = np.linspace(0.0, 1.0, 41)
PIT_BINS = 20
UNCERTAIN_ROWS = 10
REGIONS = 6
REGION_INPUTS = 6
REGION_BINS = 6
REGION_LEAST_ROWS = 20
REGION_LEAST_RATIO = 1.05
# f is as good as unknown where its variance is this share of what it was before any row was seen.
PRIOR_SHARE = 0.8
RANGE_ROWS = 5_000_000  # training rows that are looked through for the ranges of the inputs


class Region(NamedTuple):
    """Rows of a part of the range of input ``k``, by the mean standard deviation predicted there.

    ``ratio`` is to that of all rows.
    """

    k: int
    lower: float
    upper: float
    n: int
    std: float
    ratio: float
    rmse: float


@dataclass(frozen=True, eq=False)
class Checked:
    """Predictions N(mean, std²) of y beside the targets of a sample, and what they say.

    ``explained`` is the share of the variance of y; ``inside`` the share of rows in their central
    interval at each of ``LEVELS``; ``far`` that of rows more than three standard deviations off.
    ``unknown`` is the share of rows at which f is as uncertain as before training, ``outside``
    that of rows with an input beyond the range of the training rows (None if they are unknown).
    ``learned`` is the share that are training rows, None if nobody can tell.
    """

    sample: Sample
    mean: FloatArray
    std: FloatArray
    rmse: float
    mnlp: float
    crps: float
    spread: float
    explained: float
    coverage: dict[float, float]
    pit: FloatArray
    inside: FloatArray
    far: float
    unknown: float
    outside: float | None
    learned: float | None
    uncertain: NDArray[np.int64]  # the rows of the sample with the largest std, largest first
    regions: list[Region]

    @property
    def n(self) -> int:
        """Rows that were scored."""
        return len(self.sample.y)


def checked(model: SparseGPRegressor, sample: Sample, order: NDArray[np.int64]) -> Checked:
    """Predict the rows of a sample and compare; ``order`` are the inputs by relevance."""
    y = sample.y
    mean, std = moments(model, sample.X)
    _, f_std = moments(model, sample.X, of_y=False)
    prior = (model.posterior_.alpha**2 + model.posterior_.beta) * model.scaling_.y_scale**2
    pit = metrics.pit(y, mean, std)
    rmse, spread = metrics.rmse(y, mean), float(np.std(y))
    return Checked(
        sample=sample,
        mean=mean,
        std=std,
        rmse=rmse,
        mnlp=metrics.mnlp(y, mean, std),
        crps=metrics.crps(y, mean, std),
        spread=spread,
        explained=1.0 - (rmse / spread) ** 2 if spread > 0.0 else np.nan,
        coverage={p: metrics.coverage(y, mean, std, p) for p in (0.5, 0.8, 0.9, 0.95, 0.99)},
        pit=pit,
        inside=np.searchsorted(np.sort(np.abs(2.0 * pit - 1.0)), LEVELS, side="right") / len(y),
        far=float(np.mean(np.abs(y - mean) > 3.0 * std)),
        unknown=float(np.mean(f_std**2 > PRIOR_SHARE * prior)),
        outside=_outside(model, sample),
        learned=1.0 if sample.learned else share_learned(model, sample),
        uncertain=np.argsort(-std, kind="stable")[:UNCERTAIN_ROWS],
        regions=_regions(sample, mean, std, order[:REGION_INPUTS]),
    )


def _outside(model: SparseGPRegressor, sample: Sample) -> float | None:
    """Share of rows with an input beyond the range of all training rows."""
    blocks = model.blocks_
    if blocks is None or sample.learned or blocks.n > RANGE_ROWS:
        return None
    lower, upper = np.full((2, model.n_features_in_), np.inf) * [[1.0], [-1.0]]
    for unit in range(blocks.n_blocks):
        X, _, mask = blocks.take(np.array([unit]))
        rows = X[mask > 0]
        lower, upper = np.minimum(lower, rows.min(axis=0)), np.maximum(upper, rows.max(axis=0))
    X_std = model.scaling_.transform_X(sample.X)
    slack = 1e-6 * (1.0 + np.abs(X_std))  # blocks may be in single precision
    beyond = (X_std < lower - slack) | (X_std > upper + slack)
    return float(np.mean(beyond.any(axis=1)))


def _regions(
    sample: Sample, mean: FloatArray, std: FloatArray, order: NDArray[np.int64]
) -> list[Region]:
    """Parts of the range of single inputs in which predictions are least certain, worst first."""
    found = []
    average = float(np.mean(std))
    for k in order:
        x = sample.X[:, k]
        edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, REGION_BINS + 1)))
        if len(edges) < 3:
            continue
        part = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        for b in range(len(edges) - 1):
            here = part == b
            n = int(np.count_nonzero(here))
            ratio = float(np.mean(std[here])) / average if n else 0.0
            if n >= REGION_LEAST_ROWS and ratio >= REGION_LEAST_RATIO:
                error = metrics.rmse(sample.y[here], mean[here])
                lower, upper = float(x[here].min()), float(x[here].max())
                found.append(Region(int(k), lower, upper, n, ratio * average, ratio, error))
    return sorted(found, key=lambda region: -region.ratio)[:REGIONS]
