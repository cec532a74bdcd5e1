"""What stochastic training takes, what it shows on its way, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

from mosaicgp.data.blocks import StoredBlocks
from mosaicgp.data.partition import Partition
from mosaicgp.data.sampling import Held, Sampler
from mosaicgp.inference.result import Status
from mosaicgp.inference.schedule import Phase, Schedule
from mosaicgp.model.bound import Parameters
from mosaicgp.model.posterior import InducingPosterior, NaturalParameters


@dataclass(frozen=True)
class Settings:
    """How to train. ``patience`` counts checks of the validation NLPD without a gain of ``tol``."""

    schedule: Schedule
    max_iter: int
    max_time: float | None = None
    tol: float = 2e-3
    patience: int = 6
    check_every: int = 50
    adapt_at: tuple[float, ...] = ()
    sampling: Literal["iid", "reshuffle"] = "iid"
    dtype: str = "float64"
    jitter: float = 1e-6


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Where batches come from, what is held back, and how to divide the rows anew.

    ``partition`` and ``blocks`` are there where the noise is correlated. The rows were divided
    ``division`` times before, last in the space of X times ``scale``; ``adapt`` takes another scale
    (d,), the inverse length-scales of k^ε, and the number of the division.
    """

    sampler: Sampler
    held: Held | None
    partition: Partition | None = None
    blocks: StoredBlocks | None = None
    division: int = 0
    scale: NDArray[np.float64] | None = None
    adapt: Callable[[NDArray[np.float64], int], TrainingData] | None = None


class Progress(NamedTuple):
    """One iteration; ``validation_nlpd`` is NaN between checks. Standardised units.

    ``n_held`` rows have no part in the bound.
    """

    iteration: int
    bound: float
    validation_nlpd: float
    rho: float
    rate: float
    accepted: bool
    n_held: int
    phase: Phase
    seconds: float


class Look(NamedTuple):
    """A fit under way after ``iteration`` iterations and so many seconds."""

    iteration: int
    seconds: float
    parameters: Parameters
    q: InducingPosterior
    jitter: float
    history: list[Progress]
    data: TrainingData


class Looks(NamedTuple):
    """Iterations after which a fit shows itself, and what it shows itself to."""

    at: frozenset[int]
    show: Callable[[Look], Any]


class StochasticFit(NamedTuple):
    """The state a fit ends with, how it ended, and its trace; ``bound`` is an estimate."""

    parameters: Parameters
    q: InducingPosterior
    bound: float
    validation_nlpd: float
    status: Status
    message: str
    seconds: float
    rejected: int
    jitter: float
    history: list[Progress]
    data: TrainingData
    error: Exception | None
    n_held: int


@dataclass
class Position:
    """Where a fit stands, beside the arrays of its state.

    ``waited`` are the seconds of its time that had passed when it began to train.
    """

    max_iter: int
    jitter: float
    to_adapt: list[float]
    iteration: int = 0
    phase: Phase = "search"
    phase_began: int = 0
    adapted: int = 0
    stale: int = 0
    plateaued: bool = False
    waited: float = 0.0


class Kept(NamedTuple):
    """A state worth keeping, and its validation NLPD."""

    nlpd: float
    learned: Array
    eta: NaturalParameters
