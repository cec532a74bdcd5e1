"""Asking a peer through files: a question is an NPZ file in a folder, and so is its answer."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from peers.run import interpreter, side

Arrays = Mapping[str, np.ndarray]
Ask = Callable[[str, Mapping[str, Arrays]], dict[str, Arrays]]
Agree = Callable[[str, np.ndarray, np.ndarray, float], None]
Note = Callable[[str], None]

# One thread and no GPU: the same answer to the bit on every run, and the machine left to others.
ONE_THREAD = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def answers(peer: str, questions: Mapping[str, Arrays], folder: Path) -> dict[str, Arrays]:
    """Run the peer once on all questions, and read its answers."""
    if not interpreter(peer).exists():
        pytest.fail(f"{peer} has no environment yet: run `make test-peers`")
    for name, question in questions.items():
        np.savez(folder / f"{name}.npz", **question)
    command = [interpreter(peer), "-I", side(peer), folder]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"{side(peer).name} failed:\n{done.stdout}\n{done.stderr}")
    return {name: dict(np.load(folder / f"{name}.out.npz")) for name in questions}
