"""What a fit leaves behind beside the posterior."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Status = Literal["converged", "max_iter", "max_time", "interrupted", "stalled", "failed"]

# How the message of a fit begins that its callback ended, as it was meant to.
BY_CALLBACK = "stopped by the callback"


@dataclass(frozen=True)
class FitResult:
    """How a fit ended.

    ``bound`` is in the user's units: of exact inference by the finest route to Ψ that a fit affords
    and needs (that may be a truncated expansion; ``elbo`` is the closed form), of
    stochastic inference the mean of a few batches. ``rejected`` counts the
    evaluations that were not finite, ``jitter`` is what was added to the diagonal of Σ.
    ``validation_nlpd`` is that of the final state, in nats a row; None if no rows were held back.
    """

    status: Status
    message: str
    iterations: int
    seconds: float
    bound: float
    budget_exhausted: bool
    rejected: int = 0
    jitter: float = 0.0
    validation_nlpd: float | None = None


class Stop(Exception):
    """A fit is over, for a reason that its optimiser does not know of."""

    def __init__(self, status: Status, message: str, error: Exception | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.error = status, message, error


def call_back(report: Callable[[Any], Any], progress: Any) -> None:
    """Report an iteration; raises ``Stop`` if that raises, or returns True."""
    try:
        stop = report(progress)
    except Exception as error:
        message = f"the callback raised {error!r} at iteration {progress.iteration}"
        raise Stop("interrupted", message, error) from error
    if isinstance(stop, bool | np.bool_) and stop:
        raise Stop("interrupted", f"{BY_CALLBACK} at iteration {progress.iteration}")
