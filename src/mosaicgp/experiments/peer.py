"""GPflow's SVGP, run by an interpreter that has it; the two talk through files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

SCRIPT = Path(__file__).with_name("peer_script.py")


class GPflowError(RuntimeError):
    """The other interpreter failed; the message is its own."""


@cache
def interpreter(python: str | None) -> str | None:
    """The interpreter (this one, if None is named) if it can import gpflow."""
    python = python or sys.executable
    try:
        done = subprocess.run(
            [python, "-c", "import gpflow"], capture_output=True, env=_environment(), timeout=300
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return python if done.returncode == 0 else None


class GPflowSVGP:
    """``fit`` and ``predict`` of GPflow's SVGP; the fitted model is a file of GPflow's arrays."""

    def __init__(self, python: str, n_inducing: int, max_iter: int, seed: int) -> None:
        self._python = python
        self._options = {"n_inducing": n_inducing, "max_iter": max_iter, "seed": seed}

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Learn from X (n, d) and y (n,); inputs and target are standardised inside."""
        self._X_mean, self._X_scale = X.mean(axis=0), _scale(X)
        self._y_mean, self._y_scale = y.mean(), float(_scale(y[:, None])[0])
        self._state = self._ask(
            "fit",
            X=(X - self._X_mean) / self._X_scale,
            y=(y - self._y_mean) / self._y_scale,
            **self._options,
        )
        return self

    def predict(self, X: FloatArray, return_std: bool = False) -> Any:
        """Mean (n,) of y, and with ``return_std`` its standard deviation (n,)."""
        found = self._ask("predict", X=(X - self._X_mean) / self._X_scale, **self._state)
        mean = self._y_mean + self._y_scale * found["mean"]
        return (mean, self._y_scale * np.sqrt(found["var"])) if return_std else mean

    def _ask(self, what: str, **question: Any) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = Path(folder) / "question.npz", Path(folder) / "answer.npz"
            np.savez(asked, **question)
            command = [self._python, "-I", str(SCRIPT), what, str(asked), str(answered)]
            done = subprocess.run(command, capture_output=True, text=True, env=_environment())
            if done.returncode:
                raise GPflowError(f"GPflow under {self._python} failed:\n{done.stderr[-2000:]}")
            with np.load(answered) as arrays:
                return dict(arrays)


def _scale(X: FloatArray) -> FloatArray:
    scale = X.std(axis=0)
    return np.where(scale > 0.0, scale, 1.0)


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
