"""What a fit leaves behind beside the posterior."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["converged", "max_iter", "max_time", "interrupted", "failed"]


@dataclass(frozen=True)
class FitResult:
    """How a fit ended.

    ``bound`` is the bound per the last evaluation in the user's units, ``rejected`` counts the
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
