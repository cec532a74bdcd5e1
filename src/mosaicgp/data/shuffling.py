"""Random orders that follow from a seed: kept as a seed and a position, however long they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

# Orders of up to so many units are drawn and kept; those of more are computed where they are
# looked at, so many positions at a time.
KEPT_UNITS = 2**20
WINDOW = 2**14

_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Shuffle:
    """The numbers 0 .. n - 1 in a random order.

    Of many numbers the order is a Feistel network (Luby & Rackoff, 1988) on the smallest power of
    two that holds them; what falls beyond n goes through it again until it does not.
    """

    n: int
    seed: int

    def between(self, first: int, last: int) -> NDArray[np.int64]:
        """What stands at positions first .. last - 1."""
        if self.n <= KEPT_UNITS:
            return self._whole[first:last]
        window = range(first // WINDOW, -(-last // WINDOW))
        found = [self._window(k)[max(first - k * WINDOW, 0) : last - k * WINDOW] for k in window]
        return np.concatenate(found)

    @cached_property
    def _whole(self) -> NDArray[np.int64]:
        return np.random.default_rng(self.seed).permutation(self.n)

    def _window(self, k: int) -> NDArray[np.int64]:
        """Positions k · WINDOW on; the last window looked at is kept."""
        if k not in self._windows:
            self._windows.clear()
            stop = min((k + 1) * WINDOW, self.n)
            self._windows[k] = self._at(np.arange(k * WINDOW, stop, dtype=np.uint64))
        return self._windows[k]

    @cached_property
    def _windows(self) -> dict[int, NDArray[np.int64]]:
        return {}

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        """(rounds, 3); what is multiplied by is odd."""
        drawn = np.random.default_rng(self.seed).integers(2**64, size=(_ROUNDS, 3), dtype=np.uint64)
        return drawn | np.array([0, 1, 1], dtype=np.uint64)

    def _at(self, positions: NDArray[np.uint64]) -> NDArray[np.int64]:
        out = self._permuted(positions)
        while len(beyond := np.flatnonzero(out >= self.n)):
            out[beyond] = self._permuted(out[beyond])
        return out.astype(np.int64)

    def _permuted(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """A permutation of all numbers of as many bits as n - 1 has."""
        bits = (self.n - 1).bit_length()
        shift = np.uint64(bits // 2)
        low_bits = np.uint64((1 << (bits // 2)) - 1)
        high_bits = np.uint64((1 << (bits - bits // 2)) - 1)
        high, low = x >> shift, x & low_bits
        for k, key in enumerate(self._keys):
            if k % 2:
                low = low ^ (_mixed(high, key) & low_bits)
            else:
                high = high ^ (_mixed(low, key) & high_bits)
        return high << shift | low


def _mixed(x: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits that look random: two multiplications, the high half of each carried down."""
    h = (x + key[0]) * key[1]
    h ^= h >> np.uint64(29)
    h *= key[2]
    return h >> np.uint64(32)
