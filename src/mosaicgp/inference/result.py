"""What a fit leaves behind beside the posterior."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["converged", "max_iter", "max_time", "interrupted", "stalled", "failed"]


@dataclass(frozen=True)
class FitResult:
    """How a fit ended.

    ``bound`` is in the user's units, by the finest route to Ψ that a fit affords (for correlated
    noise that may be a truncated expansion; ``elbo`` is the closed form), ``rejected`` counts the
    evaluations that were not finite, ``jitter`` is what was added to the diagonal of Σ.
    """

    status: Status
    message: str
    iterations: int
    seconds: float
    bound: float
    budget_exhausted: bool
    rejected: int = 0
    jitter: float = 0.0
