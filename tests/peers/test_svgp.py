"""What `mosaicgp compare` runs of other libraries, each in its own environment."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mosaicgp
from peers.exchange import Note
from peers.run import interpreter

pytestmark = pytest.mark.peers

SCRIPT = """
import sys
from importlib import import_module
import numpy as np

data = np.load(sys.argv[2])
predict = import_module(f"mosaicgp.comparison.svgp_{sys.argv[1]}").predict
mean, var = predict(data["X"], data["y"], data["X_test"], 20, 20.0, 0)
np.savez(sys.argv[3], mean=mean, var=var)
"""


@pytest.mark.parametrize("peer", ["gpflow", "gpytorch"])
def test_svgp_learns_a_sine(peer: str, tmp_path: Path, note: Note) -> None:
    python = interpreter(peer)
    if not python.exists():
        pytest.skip(f"no environment {python.parents[1].name}; benchmarks make it")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=1500)
    np.savez(tmp_path / "in.npz", X=X[:1200], y=y[:1200], X_test=X[1200:])
    source = str(Path(mosaicgp.__file__).parents[1])
    command = [python, "-c", SCRIPT, peer, tmp_path / "in.npz", tmp_path / "out.npz"]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": source})
    with np.load(tmp_path / "out.npz") as found:
        error = float(np.sqrt(np.mean((found["mean"] - y[1200:]) ** 2)))
        noise = float(np.sqrt(np.median(found["var"])))
    note(f"SVGP of {peer}: error {error:.3f}, noise {noise:.3f}, both 0.1 in truth")
    assert error < 0.13
    assert 0.07 < noise < 0.15
