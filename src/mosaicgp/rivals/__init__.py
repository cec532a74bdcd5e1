"""The methods that the paper compares with, each a scikit-learn estimator.

``FullGP``, ``RobustBCM`` and ``VSSGPR`` are models of their own. The other names are rows of the
family of ``SparseGPRegressor``, with point estimates of the hyperparameters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaicgp.rivals.family import DTC, FIC, FITC, PIC, PITC, SVIGP, DistVGP, PICPlus
    from mosaicgp.rivals.full_gp import FullGP
    from mosaicgp.rivals.robust_bcm import RobustBCM
    from mosaicgp.rivals.vssgpr import VSSGPR

__all__ = [
    "DTC",
    "FIC",
    "FITC",
    "PIC",
    "PITC",
    "SVIGP",
    "VSSGPR",
    "DistVGP",
    "FullGP",
    "PICPlus",
    "RobustBCM",
]

# A name is fetched from its module when first used: most uses need one of them.
_HOME = dict.fromkeys(__all__, "family") | {
    "FullGP": "full_gp",
    "RobustBCM": "robust_bcm",
    "VSSGPR": "vssgpr",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
