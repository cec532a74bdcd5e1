"""``SparseGPRegressor`` with some arguments set, under the names that papers use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mosaicgp.estimator import SparseGPRegressor


def shorthand(name: str, doc: str, **given: Any) -> Callable[..., SparseGPRegressor]:
    """A constructor with these arguments given; others go to ``SparseGPRegressor``."""

    def construct(**arguments: Any) -> SparseGPRegressor:
        return SparseGPRegressor(**given, **arguments)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = doc
    return construct


def _approximation(kind: str) -> Callable[..., SparseGPRegressor]:
    doc = f'''``SparseGPRegressor(approximation="{kind}", ...)``.'''
    return shorthand(f"VB{kind.upper()}", doc, approximation=kind)


VBDTC = _approximation("dtc")
VBFITC = _approximation("fitc")
VBFIC = _approximation("fic")
VBPITC = _approximation("pitc")
VBPIC = _approximation("pic")
