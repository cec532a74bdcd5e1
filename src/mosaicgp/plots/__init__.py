"""Pictures of a fitted model, one function a panel.

Each function draws on the matplotlib axes it is given, or on a new figure of pyplot, and returns
the axes. matplotlib is imported by the first call, not with the package, and no backend is set.
"""

from mosaicgp.plots.blocks import plot_blocks
from mosaicgp.plots.calibration import plot_calibration
from mosaicgp.plots.hyperparameters import lengthscale_input, plot_hyperparameters
from mosaicgp.plots.predictions import plot_fit, plot_predictions
from mosaicgp.plots.training import plot_training

__all__ = [
    "lengthscale_input",
    "plot_blocks",
    "plot_calibration",
    "plot_fit",
    "plot_hyperparameters",
    "plot_predictions",
    "plot_training",
]
