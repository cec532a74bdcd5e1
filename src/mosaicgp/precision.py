"""How this library computes: compiled, in double precision, and with LAPACK on one thread."""

from collections.abc import Callable
from functools import cache, partial, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import jax
import scipy.linalg  # noqa: F401  the LAPACK that jax calls must be loaded to be limited
from jaxlib.version import __version__ as jaxlib_version
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

# XLA's newer emitters of loops take longer to compile what is as fast in the end: the functions of
# a fit of pic by exact inference 24 s against 10 on one slow core, of dtc 10 against 4. An option
# of XLA's own may go with any version, so it is taken only with those that were tried.
TRIED = (0, 8), (0, 11)
OLDER_LOOPS = {"xla_cpu_use_fusion_emitters": False}

_version = tuple(map(int, jaxlib_version.split(".")[:2]))

# jax.jit for functions that are called from outside compiled ones; jax refuses options inside.
compiled = partial(
    jax.jit, compiler_options=OLDER_LOOPS if TRIED[0] <= _version < TRIED[1] else None
)


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
