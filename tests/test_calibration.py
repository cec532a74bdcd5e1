"""Intervals cover on data drawn from the model: the many draws that only `make test-slow` makes."""

import sys
from pathlib import Path

import pytest

from problems import KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import calibration


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover(kind):
    found = calibration.coverage(kind, draws=30)
    assert 0.93 <= found["y"] <= 0.97
    assert found["lambda, corrected"] >= 0.85
