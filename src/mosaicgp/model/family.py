"""The family: a noise structure and a test conditional under each published name."""

from dataclasses import dataclass

from mosaicgp.model.noise import Block, Diagonal, Iid, Noise


@dataclass(frozen=True)
class Approximation:
    """One row of the family.

    ``blocked`` says that rows must be grouped by the partition of the input space, ``local`` that
    a test row is conditioned on its own block, and ``factorised`` that test rows are independent
    of each other given s (fic) where the others keep the exact test conditional.
    """

    name: str
    noise: Noise
    blocked: bool = False
    local: bool = False
    factorised: bool = False

    @property
    def has_eps(self) -> bool:
        """Whether the noise kernel k^ε takes part."""
        return not isinstance(self.noise, Iid)


APPROXIMATIONS: dict[str, Approximation] = {
    row.name: row
    for row in (
        Approximation("dtc", Iid()),
        Approximation("fitc", Diagonal()),
        Approximation("fic", Diagonal(), factorised=True),
        Approximation("pitc", Block(), blocked=True),
        Approximation("pic", Block(), blocked=True, local=True),
    )
}
