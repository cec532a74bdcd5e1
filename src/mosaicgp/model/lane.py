"""A second thread for half of a step's dense products."""

import os
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")

# Multiplications of a step, by its largest product, that are worth a second thread: waking it takes
# as long as a few hundred thousand.
WORTH = 2e6


class Job(Generic[T]):
    """Work under way in the lane."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._ended = work, Lock()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._ended.acquire()

    def run(self) -> None:
        """Do the work; the lane calls this."""
        try:
            with np.errstate(all="ignore"):  # what is not finite is looked for in the result
                self._value = self._work()
        except BaseException as error:  # raised again where the result is asked for
            self._error = error
        self._ended.release()

    def result(self) -> T:
        """What the work returned, when it has; raises what it raised."""
        with self._ended:
            if self._error is not None:
                raise self._error
            return self._value  # type: ignore[return-value]


@cache
def _queue(process: int) -> SimpleQueue[Job[Any]]:
    queue: SimpleQueue[Job[Any]] = SimpleQueue()

    def work() -> None:
        while True:
            queue.get().run()

    Thread(target=work, name="mosaicgp", daemon=True).start()
    return queue


class Lane:
    """Where to do work beside the caller's: in the second thread or, where it is too little to be
    worth waking that, at once. What is computed is the same."""

    def __init__(self, flops: float) -> None:
        self._worth = flops > WORTH

    def beside(self, work: Callable[[], T]) -> Job[T]:
        """Do ``work`` after all that was given before, while the caller goes on.

        One thread serves the process, so the order of jobs is that in which they were given: a job
        may ask for the result of an earlier one.
        """
        job = Job(work)
        if self._worth:
            _queue(os.getpid()).put(job)
        else:
            job.run()
        return job
