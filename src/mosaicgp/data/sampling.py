"""Batches for stochastic inference: which rows a step sees, drawn before anything else is seen.

Where the noise is independent between rows, a batch is rows; where it is correlated, whole blocks.
Drawn i.i.d. (the default) or by random reshuffling, which visits everything once before it visits
anything twice: less noisy, and unbiased over a pass and not given the past.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks
from mosaicgp.data.scaling import Scaling

FloatArray = NDArray[np.floating]


class Sample(NamedTuple):
    """Blocks in front: X (S, n, d), y (S, n), mask (S, n), standardised, and the weight B/S."""

    X: FloatArray
    y: FloatArray
    mask: FloatArray
    weight: float


class Sampler(ABC):
    """Draws batches of one shape."""

    def __init__(self, n_units: int, per_batch: int, rng: np.random.Generator) -> None:
        self._n_units = n_units
        self._per_batch = per_batch
        self._rng = rng
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def batches_per_pass(self) -> int:
        """Batches after which everything has been seen once, on average or in a pass."""
        return -(-self._n_units // self._per_batch)

    def iid(self) -> Sample:
        """Units drawn uniformly, with replacement."""
        return self._take(self._rng.integers(self._n_units, size=self._per_batch))

    def reshuffled(self) -> Sample:
        """The next units of a pass in random order; a pass that runs out goes on with the next."""
        while len(self._order) < self._per_batch:
            self._order = np.append(self._order, self._rng.permutation(self._n_units))
        chosen, self._order = np.split(self._order, [self._per_batch])
        return self._take(chosen)

    @abstractmethod
    def _take(self, units: NDArray[np.int64]) -> Sample: ...


class RowSampler(Sampler):
    """Rows of a table that stays where it is: a batch is copied and standardised when drawn."""

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        scaling: Scaling,
        size: int,
        held: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> None:
        """``held`` (sorted) are rows that no batch may contain."""
        super().__init__(len(y) - len(held), min(size, len(y) - len(held)), rng)
        self._X, self._y, self._scaling = X, y, scaling
        # Row number of the k-th row that is not held: k plus the held rows up to it.
        self._gaps = held - np.arange(len(held))

    def _take(self, units: NDArray[np.int64]) -> Sample:
        rows = units + np.searchsorted(self._gaps, units, side="right")
        X = self._scaling.transform_X(self._X[rows])
        y = self._scaling.transform_y(self._y[rows])
        return Sample(X[None], y[None], np.ones((1, len(y))), self._n_units / self._per_batch)


class BlockSampler(Sampler):
    """Whole blocks; held rows are masked."""

    def __init__(
        self, blocks: Blocks, mask: FloatArray, per_batch: int, rng: np.random.Generator
    ) -> None:
        super().__init__(blocks.n_blocks, min(per_batch, blocks.n_blocks), rng)
        self._blocks, self._mask = blocks, mask

    def _take(self, units: NDArray[np.int64]) -> Sample:
        parts = (self._blocks.X[units], self._blocks.y[units] * self._mask[units])
        return Sample(*parts, self._mask[units], self._n_units / self._per_batch)


@dataclass(frozen=True, eq=False)
class Held:
    """Rows kept from training to watch predictions: X (g, t, d), y (g, t), mask (g, t).

    Where predictions are local, group g belongs to block ``block[g]``.
    """

    X: FloatArray
    y: FloatArray
    mask: FloatArray
    block: NDArray[np.int64]


def hold_rows(
    X: FloatArray, y: FloatArray, scaling: Scaling, n_held: int, rng: np.random.Generator
) -> tuple[Held, NDArray[np.int64]]:
    """``n_held`` random rows, and their sorted numbers."""
    rows = np.sort(rng.choice(len(y), size=n_held, replace=False))
    X_std, y_std = scaling.transform_X(X[rows]), scaling.transform_y(y[rows])
    held = Held(X_std[None], y_std[None], np.ones((1, n_held)), np.zeros(1, dtype=np.int64))
    return held, rows


def hold_in_blocks(
    blocks: Blocks, n_held: int, rng: np.random.Generator
) -> tuple[Held, FloatArray]:
    """About ``n_held`` rows, an eighth of each of a few random blocks, and the mask of the rest."""
    share = max(1, blocks.block_size // 8)
    n_groups = int(np.clip(round(n_held / share), 1, blocks.n_blocks))
    chosen = np.sort(rng.choice(blocks.n_blocks, size=n_groups, replace=False))
    mask = blocks.mask.copy()
    X = np.zeros((n_groups, share, blocks.X.shape[2]), dtype=blocks.X.dtype)
    y, held = np.zeros((n_groups, share)), np.zeros((n_groups, share))
    for group, block in enumerate(chosen):
        real = np.flatnonzero(blocks.mask[block] > 0)
        rows = rng.choice(real, size=min(share, len(real) // 8), replace=False)
        X[group, : len(rows)] = blocks.X[block, rows]
        y[group, : len(rows)] = blocks.y[block, rows]
        held[group, : len(rows)] = 1.0
        mask[block, rows] = 0.0
    return Held(X, y, held, chosen), mask
