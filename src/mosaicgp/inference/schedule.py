"""Step sizes of stochastic inference, by iteration.

``anneal`` (the default) goes through three phases. *Search*: constant steps. *Anneal*: steps fall
to zero while the iterates are averaged. *Settle*: the hyperparameters stand still at their average
and q(s) becomes the mean of what every batch says about it (ρ = 1/k), the optimum when all blocks
were seen; where they cannot all be, what it was counts as the batches that it is the mean of. The
search ends when the
validation NLPD no longer improves, or when the budget says so.

``robbins-monro`` has one phase, with steps that sum to infinity and whose squares do not: what the
paper's guarantee of convergence asks for.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

# Shares of the budget after which the search and the annealing end.
SEARCH_END, ANNEAL_END = 0.6, 0.9

# Iterations over which the first steps grow to their size, so that q(s) finds its place first.
WARM_UP = 20

# Size of the steps of the natural gradient where nothing else is said.
RHO = 0.1

# The share of a fit's iterations whose batches q(s) may be the mean of while θ moves.
LONGEST_MEMORY = 0.05

# Weight of late iterates in the average: the k-th of an annealing has weight ~ k^2.
AVERAGE_POWER = 3

Phase = Literal["search", "anneal", "settle"]


class Sizes(NamedTuple):
    """ρ of the natural gradient, the rate of Adam, the weight of this iterate in the average."""

    rho: float
    rate: float
    average: float
    phase: Phase


@dataclass(frozen=True)
class Anneal:
    """See the module's docstring."""

    rate: float = 0.02
    rho: float = RHO

    def sizes(
        self, iteration: int, progress: float, in_phase: int, warm: bool, known: float
    ) -> Sizes:
        """``iteration`` counts from 0, ``progress`` is the used share of the budget, ``in_phase``
        the iterations since the present phase began. ``warm``: q(s) is worth keeping from the
        first step on. ``known``: how many batches it is worth when it settles."""
        if progress < SEARCH_END:
            growing = min(1.0, (iteration + 1) / WARM_UP)
            rho = self.rho if warm else max(self.rho, 1.0 / (iteration + 1))
            return Sizes(rho, growing * self.rate, 1.0, "search")
        if progress < ANNEAL_END:
            left = (ANNEAL_END - progress) / (ANNEAL_END - SEARCH_END)
            rho = max(self.rho * left, 0.02 * self.rho)
            average = AVERAGE_POWER / (in_phase + AVERAGE_POWER)
            return Sizes(rho, self.rate * left, average, "anneal")
        return Sizes(1.0 / (in_phase + 1 + known), 0.0, 0.0, "settle")


@dataclass(frozen=True)
class RobbinsMonro:
    """Steps ∝ (1 + t/delay)^−decay, ½ < decay ≤ 1; the iterates are not averaged."""

    rate: float = 0.02
    rho: float = RHO
    decay: float = 0.7
    delay: float = 100.0

    def sizes(
        self, iteration: int, progress: float, in_phase: int, warm: bool, known: float
    ) -> Sizes:
        """As for ``Anneal``."""
        shrink = (1.0 + iteration / self.delay) ** -self.decay
        growing = min(1.0, (iteration + 1) / WARM_UP)
        rho = self.rho * shrink if warm else max(self.rho * shrink, 1.0 / (iteration + 1))
        return Sizes(rho, growing * self.rate * shrink, 1.0, "search")


Schedule = Anneal | RobbinsMonro
