"""Fits killed with SIGKILL at random moments and resumed: is the model the same to the bit?

`kill.py [--times N] [--out PATH]`

One fit runs through; then, N times, a fit is killed at a moment drawn uniformly over the time the
first took, and resumed until it ends.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import description

SCRIPT = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from mosaicgp import SparseGPRegressor, checkpoints
checkpoints.INTERVAL = 0.1
rng = np.random.default_rng(0)
X = rng.uniform(size=(30_000, 4))
y = np.sin(9.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X))
model = SparseGPRegressor(n_inducing=30, block_size=100, max_iter=600, storage="disk")
model.fit(X, y, checkpoint=sys.argv[1], resume=True)
np.savez(sys.argv[2], **model.posterior_.to_arrays())
"""


def digest(path: Path) -> str:
    """What tells one posterior from another."""
    with np.load(path) as arrays:
        return hashlib.sha256(b"".join(arrays[name].tobytes() for name in arrays)).hexdigest()


def run(folder: Path, out: Path, seconds: float | None) -> bool:
    """Whether the fit ended before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, folder, out])
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    if process.returncode != 0:
        raise RuntimeError("the fit failed")
    return True


def main() -> None:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/kill.md"))
    arguments = parser.parse_args()
    rng = np.random.default_rng()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.perf_counter()
        run(folder / "whole", folder / "whole.npz", None)
        whole = time.perf_counter() - began
        same = killed = tried = 0
        moments = []
        while killed < arguments.times:
            tried += 1
            moment = rng.uniform(0.0, whole)
            if run(folder / f"{tried}", folder / f"{tried}.npz", moment):
                continue  # it ended before
            moments.append(moment)
            killed += 1
            stages = sorted(path.stem for path in (folder / f"{tried}").glob("*.checkpoint"))
            run(folder / f"{tried}", folder / f"{tried}.npz", None)
            same += digest(folder / f"{tried}.npz") == digest(folder / "whole.npz")
            print(
                f"{killed}: killed after {moment:.1f} s, with {stages}: {same} the same", flush=True
            )
    text = (
        "# Killed and resumed\n\n"
        f"A fit of pic, 30,000 rows, blocks on disk, {whole:.0f} s, was killed with SIGKILL at "
        f"{killed} random moments, {min(moments):.1f} to {max(moments):.1f} s after its start, and "
        f"resumed: {same} of {killed} posteriors are those of the fit that ran through, to the "
        f"bit.\n\n`make bench-kill` on {description()}.\n"
    )
    print(text)
    arguments.out.write_text(text)


if __name__ == "__main__":
    main()
