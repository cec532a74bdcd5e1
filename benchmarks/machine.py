"""What the figures were measured on."""

from mosaicgp.experiments.machine import description

__all__ = ["description"]
