"""How this library computes: in double precision, and with LAPACK on one thread."""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import jax
import scipy.linalg  # noqa: F401  the LAPACK that jax calls must be loaded to be limited
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _OneThread:
    """LAPACK on one thread while any thread of Python is inside; as it was when the last leaves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_one_thread = _OneThread()


def in_double(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` with 64-bit jax arrays, leaving the caller's settings as they were.

    Factorisations run on one thread of LAPACK meanwhile: its other threads would spin beside those
    of jax's products and take the cores from them (a step took 8.5 ms instead of 3.7).
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True), _one_thread:
            return function(*args, **kwargs)

    return wrapper
