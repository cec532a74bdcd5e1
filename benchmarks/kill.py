"""Fits killed with SIGKILL at random moments and resumed: is the model the same to the bit?

`kill.py [--times N] [--jobs J] [--out PATH]`

J fits run through; then, N times, a fit is killed at a moment drawn uniformly over the time that
took, and resumed until it ends. J fits run at a time.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from machine import description

ROWS = 30_000
SCRIPT = f"""
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from mosaicgp import SparseGPRegressor, checkpoints, fitting, plan
from mosaicgp.data import division
checkpoints.INTERVAL = 0.1
plan.PILOT_FROM_ROWS, fitting.PILOT_ROWS, division.BUCKET_ROWS = 20_000, 10_000, 4_096
rng = np.random.default_rng(0)
X = rng.uniform(size=({ROWS}, 4))
y = np.sin(9.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X))
run, out = sys.argv[1:]
model = SparseGPRegressor(
    n_inducing=30, block_size=100, max_iter=300, storage="disk", work_dir=run + ".work"
)
model.fit(X, y, checkpoint=run, resume=True)
np.savez(out, mean=model.predict(X[:1000]), **model.posterior_.to_arrays())
"""


class Killed(NamedTuple):
    """A fit that was killed after so many seconds, in a stage, and whether it ended alike."""

    moment: float
    stage: str
    same: bool


def start(run: Path) -> subprocess.Popen[bytes]:
    """A fit with its checkpoints, in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", SCRIPT, run, run.with_suffix(".npz")])


def finish(process: subprocess.Popen[bytes], run: Path) -> str:
    """Wait for a fit to end: what tells its model from another."""
    if process.wait() != 0:
        raise RuntimeError(f"the fit in {run} failed")
    left = list(run.with_suffix(".work").glob("mosaicgp-*"))
    if left:
        raise RuntimeError(f"{left[0]} was left behind")
    with np.load(run.with_suffix(".npz")) as arrays:
        return hashlib.sha256(b"".join(arrays[name].tobytes() for name in arrays)).hexdigest()


def stage_of(run: Path) -> str:
    """How far a fit had come, by the checkpoints it left."""
    found = {path.stem for path in run.glob("*.checkpoint")}
    if "main" in found:
        return "training on all rows"
    if "piloted" in found:
        return "dividing all rows"
    return "training the pilot" if "pilot" in found else "before the first checkpoint"


def whole(run: Path) -> tuple[float, str]:
    """Seconds of a fit that nobody kills, and its digest."""
    began = time.perf_counter()
    digest = finish(start(run), run)
    return time.perf_counter() - began, digest


def killed(run: Path, moment: float, expected: str) -> Killed | None:
    """Kill a fit and let it go on; None if it had ended by then."""
    process = start(run)
    try:
        if process.wait(moment) != 0:
            raise RuntimeError("a fit that nobody killed failed")
        return None
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    stage = stage_of(run)
    found = Killed(moment, stage, finish(start(run), run) == expected)
    verdict = "same" if found.same else "DIFFERENT"
    print(f"killed after {moment:.1f} s, {stage}: {verdict}", flush=True)
    return found


def page(found: list[Killed], seconds: float, jobs: int) -> str:
    """The result as a Markdown page."""
    moments = [one.moment for one in found]
    stages = Counter(one.stage for one in found)
    same = sum(one.same for one in found)
    lines = [
        "# Killed and resumed",
        "",
        f"A fit of pic with {ROWS:,} rows, blocks on disk, after a pilot on a third of them, takes",
        f"{seconds:.0f} s, {jobs} at a time. It was killed with SIGKILL at {len(found)} random "
        f"moments, {min(moments):.1f} to {max(moments):.1f} s after its start,",
        "and resumed until it ended. Compared are all arrays of the posterior and predictions of",
        "1,000 rows; nothing temporary may be left in the working folder.",
        "",
        f"`make bench-kill` on {description()}.",
        "",
        "| killed while | times | the same to the bit after resuming |",
        "|---|---|---|",
    ]
    for stage, times in stages.most_common():
        lines.append(f"| {stage} | {times} | {sum(o.same for o in found if o.stage == stage)} |")
    verdict = "met" if same == len(found) else "missed"
    lines += [
        "",
        f"{same} of {len(found)} are the model of the fits that ran through. "
        f"Target: 20 of 20, {verdict}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/kill.md"))
    arguments = parser.parse_args()
    rng = np.random.default_rng()
    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        folder = Path(name)
        runs = list(pool.map(whole, [folder / f"whole-{k}" for k in range(arguments.jobs)]))
        seconds, expected = min(s for s, _ in runs), runs[0][1]
        if len({digest for _, digest in runs}) > 1:
            raise RuntimeError("fits that nobody killed differ")
        found: list[Killed] = []
        tried = 0
        while len(found) < arguments.times:
            wanted = arguments.times - len(found)
            names = [folder / f"killed-{tried + k}" for k in range(wanted)]
            tried += wanted
            moments = rng.uniform(0.0, seconds, wanted)
            results = pool.map(killed, names, moments, [expected] * wanted)
            found += [one for one in results if one is not None]
    text = page(found, seconds, arguments.jobs)
    print(text)
    arguments.out.write_text(text)


if __name__ == "__main__":
    main()
