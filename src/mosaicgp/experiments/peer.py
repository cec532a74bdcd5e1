"""GPflow's SVGP, run by an interpreter that has it; the two talk through files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mosaicgp
from mosaicgp.comparison.scores import Split
from mosaicgp.data.scaling import Scaling

FloatArray = NDArray[np.float64]

# Our own folder goes last: what the other interpreter has of its own, it takes from there.
SCRIPT = """
import sys
folder, asked, answer = sys.argv[1:]
sys.path.append(folder)
import numpy as np
from mosaicgp.comparison.svgp_gpflow import predict
with np.load(asked) as question:
    rows = [question[name] for name in ("X", "y", "X_test")]
    n_inducing, seed, steps = (int(question[name]) for name in ("n_inducing", "seed", "steps"))
mean, var = predict(*rows, n_inducing, float("inf"), seed, steps)
np.savez(answer, mean=mean, var=var)
"""


class PeerError(RuntimeError):
    """The other interpreter failed; the message is its own."""


@cache
def interpreter(python: str | None) -> str | None:
    """The interpreter (this one, if None is named) if it can import gpflow."""
    python = python or sys.executable
    try:
        done = subprocess.run(
            [python, "-I", "-c", "import gpflow"],
            capture_output=True,
            env=_environment(),
            timeout=300,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return python if done.returncode == 0 else None


def predictions(
    python: str, part: Split, n_inducing: int, steps: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (n,) of y at the test rows, in the user's units."""
    scaling = Scaling.fit(part.X, part.y)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "question.npz", Path(folder) / "answer.npz"
        np.savez(
            asked,
            X=scaling.transform_X(part.X),
            y=scaling.transform_y(part.y),
            X_test=scaling.transform_X(part.X_test),
            n_inducing=n_inducing,
            seed=seed,
            steps=steps,
        )
        package = str(Path(mosaicgp.__file__).parents[1])
        command = [python, "-I", "-c", SCRIPT, package, str(asked), str(answered)]
        done = subprocess.run(command, capture_output=True, text=True, env=_environment())
        if done.returncode:
            raise PeerError(f"GPflow under {python} failed:\n{done.stderr[-2000:]}")
        with np.load(answered) as found:
            mean, var = found["mean"], found["var"]
    return scaling.mean_to_user(mean), np.sqrt(scaling.var_to_user(var))


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
