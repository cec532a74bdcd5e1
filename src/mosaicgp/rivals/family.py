"""Published names that are rows of the family: ``SparseGPRegressor`` with its switches set."""

from collections.abc import Callable
from typing import Any

from mosaicgp.shorthands import shorthand


def _row(name: str, approximation: str, inference: str, about: str) -> Callable[..., Any]:
    """A constructor of point estimates; other arguments go to ``SparseGPRegressor``."""
    call = f'approximation="{approximation}", hyperparameters="point", inference="{inference}"'
    doc = f"{about}\n\n    ``SparseGPRegressor({call}, ...)``.\n    "
    given = {"approximation": approximation, "hyperparameters": "point", "inference": inference}
    found = shorthand(name, doc, **given)
    found.__module__ = __name__  # where pickle looks for it
    return found


SVIGP = _row(
    "SVIGP",
    "dtc",
    "stochastic",
    "The stochastic variational GP of Hensman, Fusi & Lawrence (2013).",
)
PICPlus = _row(
    "PICPlus",
    "pic",
    "stochastic",
    "PIC+, the stochastic PIC of Hoang, Hoang & Low (2015), with noise of its own kernel.",
)
DistVGP = _row(
    "DistVGP",
    "dtc",
    "exact",
    """The distributed variational GP of Gal, van der Wilk & Rasmussen (2014).

    Its workers each sum statistics of their rows, and one node adds the sums; the bound and its
    gradient are those of one machine. Here one process sums them, chunk after chunk of the rows
    in bounded memory, with products on all cores. The result is the same; only the time that many
    machines would save is not saved.""",
)
DTC = _row("DTC", "dtc", "exact", "The variational sparse GP of Titsias (2009).")
FITC = _row("FITC", "fitc", "exact", "FITC with a variational bound: noise that depends on x.")
FIC = _row("FIC", "fic", "exact", "FITC whose new rows are independent given s.")
PITC = _row("PITC", "pitc", "exact", "PITC with a variational bound: noise correlated in blocks.")
PIC = _row("PIC", "pic", "exact", "PITC whose new rows also learn from the rows of their block.")
