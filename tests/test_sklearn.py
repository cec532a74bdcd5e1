"""scikit-learn's own estimator checks, for every approximation and rival, none skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from problems import KINDS

# Minutes each, for the most part: those are run by `make test-slow`.
QUICK = ("dtc", "FullGP", "RobustBCM")
NAMES = (*KINDS, "FullGP", "RobustBCM", "VSSGPR")
CHECKED = [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in NAMES]


@pytest.mark.parametrize("kind", CHECKED)
def test_check_estimator_passes_whole(kind):
    script = Path(__file__).with_name("sklearn_checks.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert int(done.stdout.split()[0]) > 40
