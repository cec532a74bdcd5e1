"""Work on parts of a table, several at a time: NumPy lets other threads run while it computes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

WORKERS = min(4, os.cpu_count() or 1)


def in_threads(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """``function`` of each item, in order; items are taken as threads become free."""
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="mosaicgp-parts")
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
