"""What an experiment is asked to do, and one unit of its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mosaicgp._version import __version__
from mosaicgp.experiments.datasets import Data, DataError, n_test, n_used

# Iterations after which a fit is looked at, as far as it goes.
POINTS = (1, 10, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


@dataclass(frozen=True)
class Settings:
    """The options of ``mosaicgp paper``; None is the experiment's own default.

    rows: random rows that a split uses, of all. splits: how many random splits, first_split: the
    number of the first, which is its seed. test_share: of the rows of a split. iterations: most of
    a stochastic fit. inducing: inducing points M. block_size: rows of a block. draws: numbers of θ
    draws to compare. beside: the data set of the paper whose figures stand beside ours.
    """

    rows: int | None = None
    splits: int = 5
    test_share: float = 0.05
    iterations: int = 10_000
    inducing: int | None = None
    block_size: int | None = None
    dtype: str = "float64"
    methods: tuple[str, ...] | None = None
    draws: tuple[int, ...] = (1, 4, 16, 64, 256)
    beside: str | None = None
    gpflow_python: str | None = None
    first_split: int = 0

    @property
    def M(self) -> int:
        """Inducing points: the paper's 100 unless said otherwise."""
        return 100 if self.inducing is None else self.inducing

    def points(self) -> list[int]:
        """Iterations after which a fit is looked at."""
        return [n for n in POINTS if n <= self.iterations]

    def identity(self, data: Data) -> dict[str, Any]:
        """What a unit's figures depend on. Splits and methods may be added to what is there."""
        return {
            "data": data.name,
            "fingerprint": data.fingerprint(),
            "inputs": data.X.shape[1],
            "target": data.target,
            "rows": n_used(data, self.rows),
            "test_share": self.test_share,
            "iterations": self.iterations,
            "inducing": self.M,
            "block_size": "auto" if self.block_size is None else self.block_size,
            "dtype": self.dtype,
            "mosaicgp": __version__,
        }

    def check(self, data: Data, tested: bool) -> None:
        """Raise before any work; ``tested``: some of the rows are test rows."""
        if not 0.0 < self.test_share < 1.0:
            raise DataError(f"--test-share must be between 0 and 1, got {self.test_share}.")
        n = n_used(data, self.rows)
        n_train = n - n_test(n, self.test_share) if tested else n
        if np.all(data.y == data.y[0]):
            raise DataError(f"{data.name}: the target, {data.target}, is the same in all rows.")
        if n_train < 2 * self.M:
            raise DataError(
                f"{data.name}: {n_train:,} of {n:,} rows to learn from are too few for {self.M} "
                "inducing points; use more --rows or fewer --inducing."
            )


class Unit(NamedTuple):
    """One method on one split; what an interruption may cost."""

    method: str
    split: int


Line = dict[str, Any]


class Work(NamedTuple):
    """What a unit works with. ``record`` writes the values at a point of the unit, ``known`` are
    the points that an earlier run has written, ``checkpoint`` is a folder for the fit's own,
    ``say`` tells the person how far the unit has come."""

    data: Data
    settings: Settings
    record: Callable[[int | str, Line], None]
    known: frozenset[int | str]
    checkpoint: Path
    say: Callable[[str], None]
    verbose: int


class Report(NamedTuple):
    """What came out: paragraphs of Markdown, rows of the CSV, and a matplotlib figure."""

    title: str
    text: list[str]
    rows: list[Line]
    figure: Any
