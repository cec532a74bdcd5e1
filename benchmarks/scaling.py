"""Seconds an iteration and peak memory over the data, from 10⁴ to 10⁷ rows in memory.

`scaling.py [--kinds dtc pic] [--most 7] [--out PATH]`

Every size runs in a process of its own, because peak memory only ever rises. The time of an
iteration is the median over the search, after compilation.
"""

import argparse
import json
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from machine import description

from mosaicgp import SparseGPRegressor

INPUTS = 8


def one(kind: str, n: int) -> dict[str, float]:
    """Fit n rows of noise around a smooth function."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, INPUTS))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    data = X.nbytes + y.nbytes
    before = _peak()
    seconds: list[float] = []
    model = SparseGPRegressor(
        kind,
        inference="stochastic",
        max_iter=400,
        validation_rows=0,
        adapt_partition=False,
        callback=lambda progress: seconds.append(progress.seconds) if progress.rate else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    steps = np.diff(seconds[50:])
    return {
        "step_ms": 1e3 * float(np.mean(np.sort(steps)[: int(0.9 * len(steps))])),
        "fit_s": model.fit_result_.seconds,
        "data_mb": data / 2**20,
        "peak_over_start_mb": _peak() - before,
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def page(results: dict[str, list[dict]]) -> str:
    """The figures as a Markdown page."""
    lines = [
        "# Cost by the number of rows",
        "",
        "8 inputs, 100 inducing points, defaults otherwise; milliseconds of an iteration without",
        "the slowest tenth, and how far the process' peak memory rose during `fit`.",
        "",
        "`make bench-scaling` on " + description() + ".",
    ]
    for kind, rows in results.items():
        times = [row["step_ms"] for row in rows]
        lines += [
            "",
            f"## {kind}",
            "",
            "| rows | ms an iteration | data MB | peak MB over the start |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row['n']:,} | {row['step_ms']:.2f} | {row['data_mb']:.0f} "
            f"| {row['peak_over_start_mb']:.0f} |"
            for row in rows
        ]
        lines += ["", f"Largest over smallest: {max(times) / min(times):.2f}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["dtc", "pic"])
    parser.add_argument("--most", type=int, default=7, help="largest power of ten")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/scaling.md"))
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one[0], int(arguments.one[1]))))
        return
    results: dict[str, list[dict]] = {}
    for kind in arguments.kinds:
        for power in range(4, arguments.most + 1):
            command = [sys.executable, __file__, "--one", kind, str(10**power)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            results.setdefault(kind, []).append({"n": 10**power, **found})
            print(kind, results[kind][-1], flush=True)
    arguments.out.write_text(page(results))


if __name__ == "__main__":
    main()
