"""Double precision where this library computes, and nowhere else."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def in_double(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` with 64-bit jax arrays, leaving the caller's jax settings as they were."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapper
