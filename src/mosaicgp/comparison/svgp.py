"""What the SVGP of every library gets: the same batches, step sizes and budget."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

STEPS = 5000
BATCH_ROWS = 1024
RHO, RATE = 0.1, 0.01  # of natural gradients and of Adam
PREDICT_ROWS = 10_000


def inducing_rows(n: int, m: int, seed: int) -> np.ndarray:
    """Rows whose inputs the inducing inputs start at."""
    return np.random.default_rng(seed).choice(n, size=min(m, n), replace=False)


def batches(n: int, max_time: float, seed: int) -> Iterator[Any]:
    """Rows of one step after the other, all of a small table, until steps or seconds run out."""
    began = time.perf_counter()
    rng = np.random.default_rng(seed)
    size = min(n, BATCH_ROWS)
    for _ in range(STEPS):
        yield rng.choice(n, size=size, replace=False) if size < n else slice(None)
        if time.perf_counter() - began > max_time:
            return
