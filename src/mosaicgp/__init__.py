"""mosaicgp: sparse Gaussian process regression that stays Bayesian about its hyperparameters."""

from mosaicgp import metrics
from mosaicgp._version import __version__
from mosaicgp.diagnostics import kl
from mosaicgp.estimator import VBDTC, VBFIC, VBFITC, VBPIC, VBPITC, SparseGPRegressor

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
