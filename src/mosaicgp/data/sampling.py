"""Batches for stochastic inference: which rows a step sees, drawn before anything else is seen.

Where the noise is independent between rows, a batch is rows; where it is correlated, whole blocks.
Drawn i.i.d. (the default) or by random reshuffling, which visits everything once before it visits
anything twice: less noisy, and unbiased over a pass and not given the past.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, StoredBlocks
from mosaicgp.data.rows import Rows
from mosaicgp.data.shuffling import Shuffle

FloatArray = NDArray[np.floating]


class Sample(NamedTuple):
    """Blocks in front: X (S, n, d), y (S, n), mask (S, n), standardised, and the weight B/S."""

    X: FloatArray
    y: FloatArray
    mask: FloatArray
    weight: float


class SamplerState(NamedTuple):
    """Where a sampler stands: its random generator, and the seed of a pass and how far it is."""

    generator: dict[str, Any]
    seed: int
    position: int


class Sampler(ABC):
    """Draws batches of one shape."""

    def __init__(self, n_units: int, per_batch: int, rng: np.random.Generator) -> None:
        self._n_units = n_units
        self._per_batch = per_batch
        self._rng = rng
        self._pass, self._position = Shuffle(n_units, 0), n_units  # at its end

    @property
    def batches_per_pass(self) -> int:
        """Batches after which everything has been seen once, on average or in a pass."""
        return -(-self._n_units // self._per_batch)

    @property
    def state(self) -> SamplerState:
        """Where the sampler stands; the next batch follows from it."""
        generator = dict(self._rng.bit_generator.state)
        return SamplerState(generator, self._pass.seed, self._position)

    @state.setter
    def state(self, state: SamplerState) -> None:
        self._rng.bit_generator.state = state.generator
        if state.seed != self._pass.seed:
            self._pass = Shuffle(self._n_units, state.seed)
        self._position = state.position

    def next(self, reshuffled: bool) -> Sample:
        """The next batch: units drawn uniformly with replacement, or the next ones of a pass in
        random order; a pass that runs out goes on with another."""
        return self._take(self._draw(reshuffled))

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """No more batches are wanted."""

    def _draw(self, reshuffled: bool) -> NDArray[np.int64]:
        if not reshuffled:
            return self._rng.integers(self._n_units, size=self._per_batch)
        chosen: list[NDArray[np.int64]] = []
        wanted = self._per_batch
        while wanted > 0:
            if self._position == self._n_units:
                self._pass = Shuffle(self._n_units, int(self._rng.integers(2**62)))
                self._position = 0
            last = min(self._position + wanted, self._n_units)
            chosen.append(self._pass.between(self._position, last))
            wanted, self._position = wanted - len(chosen[-1]), last
        return np.concatenate(chosen)

    @abstractmethod
    def _take(self, units: NDArray[np.int64]) -> Sample: ...


class RowSampler(Sampler):
    """Rows of a table that stays where it is: a batch is copied and standardised when drawn."""

    def __init__(
        self, rows: Rows, size: int, held: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        """``rows`` are standardised; ``held`` (sorted) are those that no batch may contain."""
        n = rows.count() - len(held)
        super().__init__(n, min(size, n), rng)
        self._rows = rows
        # Row number of the k-th row that is not held: k plus the held rows up to it.
        self._gaps = held - np.arange(len(held))

    def _take(self, units: NDArray[np.int64]) -> Sample:
        rows = units + np.searchsorted(self._gaps, units, side="right")
        X, y = self._rows.gather(rows)
        return Sample(X[None], y[None], np.ones((1, len(y))), self._n_units / self._per_batch)


class BlockSampler(Sampler):
    """Whole blocks, without the held rows in them."""

    def __init__(
        self,
        blocks: Blocks | StoredBlocks,
        held: Held | None,
        per_batch: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(blocks.n_blocks, min(per_batch, blocks.n_blocks), rng)
        self._blocks, self._held = blocks, held

    def _take(self, units: NDArray[np.int64]) -> Sample:
        X, y, mask = self._blocks.take(units)
        if self._held is not None:
            mask = self._held.remaining(units, mask)
            y = y * mask
        return Sample(X, y, mask, self._n_units / self._per_batch)


class Ahead(Sampler):
    """The batches of another sampler, the next one read by a thread while the last is used."""

    def __init__(self, sampler: Sampler) -> None:
        super().__init__(sampler._n_units, sampler._per_batch, sampler._rng)
        self._sampler = sampler
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="mosaicgp-read")
        self._coming: tuple[bool, Future[Sample]] | None = None
        self._before = sampler.state

    @property
    def state(self) -> SamplerState:
        """Where the sampler stands, as if nothing were read ahead."""
        return self._sampler.state if self._coming is None else self._before

    @state.setter
    def state(self, state: SamplerState) -> None:
        self._forget()
        self._sampler.state = state

    def next(self, reshuffled: bool) -> Sample:
        """As the other sampler's."""
        if self._coming is not None and self._coming[0] != reshuffled:
            self.state = self._before
        if self._coming is None:
            self._read(reshuffled)
        assert self._coming is not None
        sample = self._coming[1].result()
        self._read(reshuffled)
        return sample

    def close(self) -> None:
        """Wait for what is being read."""
        self._forget()
        self._pool.shutdown()

    def _read(self, reshuffled: bool) -> None:
        self._before = self._sampler.state
        units = self._sampler._draw(reshuffled)
        self._coming = (reshuffled, self._pool.submit(self._sampler._take, units))

    def _forget(self) -> None:
        if self._coming is not None:
            self._coming[1].exception()  # waits; a failure to read what nobody wants is none
        self._coming = None

    def _take(self, units: NDArray[np.int64]) -> Sample:
        return self._sampler._take(units)


@dataclass(frozen=True, eq=False)
class Held:
    """Rows kept from training to watch predictions: X (g, t, d), y (g, t), mask (g, t).

    Where rows come in blocks, group g is taken from block ``block[g]`` (ascending), of which
    ``left`` (g, n_b) marks the rows that remain; otherwise ``left`` is empty.
    """

    X: FloatArray
    y: FloatArray
    mask: FloatArray
    block: NDArray[np.int64]
    left: FloatArray

    def remaining(self, units: NDArray[np.int64], mask: FloatArray) -> FloatArray:
        """The mask (S, n_b) of these blocks without the held rows."""
        place = np.minimum(np.searchsorted(self.block, units), len(self.block) - 1)
        found = self.block[place] == units
        return np.where(found[:, None], self.left[place], mask)


def hold_rows(rows: Rows, n_held: int, rng: np.random.Generator) -> tuple[Held, NDArray[np.int64]]:
    """``n_held`` random standardised rows, and their sorted numbers."""
    chosen = np.sort(rng.choice(rows.count(), size=n_held, replace=False))
    X, y = rows.gather(chosen)
    none = np.zeros(1, dtype=np.int64)
    return Held(X[None], y[None], np.ones((1, n_held)), none, np.empty((1, 0))), chosen


def hold_in_blocks(blocks: Blocks | StoredBlocks, n_held: int, rng: np.random.Generator) -> Held:
    """About ``n_held`` rows, an eighth of each of a few random blocks."""
    share = max(1, blocks.block_size // 8)
    n_groups = int(np.clip(round(n_held / share), 1, blocks.n_blocks))
    chosen = np.sort(rng.choice(blocks.n_blocks, size=n_groups, replace=False))
    X_all, y_all, left = blocks.take(chosen)
    X = np.zeros((n_groups, share, blocks.n_features), dtype=X_all.dtype)
    y, held = np.zeros((n_groups, share)), np.zeros((n_groups, share))
    for group in range(n_groups):
        real = np.flatnonzero(left[group] > 0)
        rows = rng.choice(real, size=min(share, len(real) // 8), replace=False)
        X[group, : len(rows)] = X_all[group, rows]
        y[group, : len(rows)] = y_all[group, rows]
        held[group, : len(rows)] = 1.0
        left[group, rows] = 0.0
    return Held(X, y, held, chosen, left)
