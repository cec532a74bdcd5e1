"""mosaicgp: sparse Gaussian process regression that stays Bayesian about its hyperparameters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mosaicgp._version import __version__

if TYPE_CHECKING:
    from mosaicgp import metrics
    from mosaicgp.diagnostics import kl
    from mosaicgp.estimator import SparseGPRegressor
    from mosaicgp.shorthands import VBDTC, VBFIC, VBFITC, VBPIC, VBPITC

__all__ = [
    "VBDTC",
    "VBFIC",
    "VBFITC",
    "VBPIC",
    "VBPITC",
    "SparseGPRegressor",
    "__version__",
    "kl",
    "metrics",
]

# jax and scikit-learn take seconds to import: a name is fetched from its module when first used.
_SHORTHANDS = ("VBDTC", "VBFIC", "VBFITC", "VBPIC", "VBPITC")
_HOME = dict.fromkeys(_SHORTHANDS, "mosaicgp.shorthands") | {
    "SparseGPRegressor": "mosaicgp.estimator",
    "kl": "mosaicgp.diagnostics",
}


def __getattr__(name: str) -> Any:
    if name == "metrics":
        return import_module("mosaicgp.metrics")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next time it is found without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
