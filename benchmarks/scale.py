"""Tables larger than memory: peak memory, the pass that divides them, iterations and predictions.

`scale.py [--rows 1000000 10000000 30000000] [--folder PATH] [--out PATH]`

Generates a Parquet folder of each size (eight inputs and a target) in PATH, fits pic with its
defaults in a process of its own, and reports what that process measured of itself.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import description

FILE_ROWS = 1_000_000
INPUTS = 8


def generate(folder: Path, n: int) -> None:
    """A smooth function of a few inputs, a rough one of others, and noise, a file a million."""
    if folder.exists():
        return
    beside = folder.with_name(folder.name + ".part")
    beside.mkdir(parents=True)
    for k in range(-(-n // FILE_ROWS)):
        rng = np.random.default_rng(k)
        X = rng.uniform(size=(min(FILE_ROWS, n - k * FILE_ROWS), INPUTS))
        y = np.sin(6.0 * X[:, 0]) * X[:, 1] + np.sin(40.0 * X[:, 2]) + 0.3 * rng.normal(size=len(X))
        columns = {f"x{j}": X[:, j] for j in range(INPUTS)} | {"y": y}
        pq.write_table(pa.table(columns), beside / f"{k:03d}.parquet")
    beside.rename(folder)


def fit(folder: Path, kind: str, storage: str, iterations: int) -> dict[str, float]:
    """Fit one table; called in a process of its own."""
    from mosaicgp import SparseGPRegressor, fitting
    from mosaicgp.data import open_dataset
    from mosaicgp.data.division import divide

    passes = []

    def timed(rows, *arguments):  # type: ignore[no-untyped-def]
        began = time.perf_counter()
        found = divide(rows, *arguments)
        passes.append((rows.count(), time.perf_counter() - began))
        return found

    fitting.divide = timed
    began = time.perf_counter()
    dataset = open_dataset(folder, target="y")
    model = SparseGPRegressor(kind, max_iter=iterations, storage=storage, tol=1e-9)
    model.fit(dataset)
    # The last half of the steps, none of which waits for compilation.
    seconds = model.history_["seconds"]
    half = len(seconds) // 2
    n = dataset.count()
    return {
        "rows": n,
        "seconds": time.perf_counter() - began,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "workers_peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "division_rows_per_second": next((c / s for c, s in passes if c == n), float("nan")),
        "step_ms": 1e3 * (seconds[-1] - seconds[half]) / (len(seconds) - 1 - half),
    }


def measured(folder: Path, kind: str, storage: str, iterations: int) -> dict[str, float]:
    """The same, in a new process."""
    command = [sys.executable, __file__, "--fit", folder, kind, storage, str(iterations)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(found.splitlines()[-1])
    print(folder.name, kind, storage, result, flush=True)
    return result


def main() -> None:
    """Measure every size and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "scale")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/scale.md"))
    parser.add_argument("--fit", nargs=4)
    arguments = parser.parse_args()
    if arguments.fit is not None:
        folder, kind, storage, iterations = arguments.fit
        print(json.dumps(fit(Path(folder), kind, storage, int(iterations))))
        return
    lines = [
        "# Tables on disk",
        "",
        "pic with its defaults on a generated Parquet folder of eight inputs, "
        f"{arguments.iterations:,} iterations; every fit in a process of its own.",
        "",
        f"`make bench-scale` on {description()}.",
        "",
        "| rows | seconds in all | peak memory, MB | rows divided a second | step, ms |",
        "|---|---|---|---|---|",
    ]
    for n in arguments.rows:
        folder = arguments.folder / f"{n}"
        generate(folder, n)
        r = measured(folder, "pic", "auto", arguments.iterations)
        lines.append(
            f"| {n:,} | {r['seconds']:.0f} | {r['peak_mb']:.0f} | "
            f"{r['division_rows_per_second']:,.0f} | {r['step_ms']:.2f} |"
        )
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
