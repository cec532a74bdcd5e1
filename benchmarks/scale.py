"""Tables larger than memory: peak memory, the pass that divides them, iterations and predictions.

`scale.py [--rows 1000000 10000000 30000000] [--folder PATH] [--out PATH]`

Generates a Parquet folder of each size (eight inputs and a target) in PATH, fits pic with its
defaults in a process of its own, and reports what that process measured of itself; then fits one of
them in turns from disk and from memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import description
from timing import peak_mb, plot_by_rows, step_ms

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


def fit(folder: Path, storage: str, iterations: int) -> dict[str, object]:
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
    model = SparseGPRegressor(max_iter=iterations, storage=storage, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(dataset)
    n = dataset.count()
    return {
        "rows": n,
        "seconds": time.perf_counter() - began,
        "peak_mb": peak_mb(),
        "division_rows_per_second": max(c / s for c, s in passes if c == n),
        "step_ms": step_ms(model.history_["seconds"], model.history_["rate"]),
    }


def disk_against_memory(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of steps from disk and from memory, in turns, in one process."""
    from mosaicgp import SparseGPRegressor
    from mosaicgp.data import open_dataset

    found: dict[str, list[float]] = {"memory": [], "disk": []}
    for _ in range(rounds):
        for storage, times in found.items():
            model = SparseGPRegressor(
                max_iter=500, storage=storage, adapt_partition=False, tol=1e-9
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(open_dataset(folder, target="y"))
            times += step_ms(model.history_["seconds"], model.history_["rate"])
    return found


def measured(*command: object) -> dict:
    """What another process of this script prints last."""
    line = [sys.executable, __file__, *map(str, command)]
    found = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict = json.loads(found.splitlines()[-1])
    return result


def page(results: list[dict], turns: dict[str, list[float]], turn_rows: int, n: int) -> str:
    """The figures as a Markdown page."""
    steps = [float(np.median(r["step_ms"])) for r in results]
    peaks = [r["peak_mb"] for r in results if r["rows"] >= 10**6]
    share = np.median(turns["memory"]) / np.median(turns["disk"])
    lines = [
        "# Tables on disk",
        "",
        f"pic with its defaults on a generated Parquet folder of {INPUTS} inputs, {n:,} steps,",
        "every fit in a process of its own, whose peak memory this is. Rows are divided from the",
        "Parquet files into blocks on disk. A step is the median over windows of the search.",
        "",
        f"`make bench-scale` on {description()}.",
        "",
        "![Peak memory, rows divided a second and milliseconds a step](scale.png)",
        "",
        "| rows | seconds in all | peak memory, MB | rows divided a second | step, ms |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['rows']:,} | {r['seconds']:.0f} | {r['peak_mb']:.0f} | "
        f"{r['division_rows_per_second']:,.0f} | {step:.2f} |"
        for r, step in zip(results, steps, strict=True)
    ]
    fastest = results[-1]["division_rows_per_second"]
    lines += [
        "",
        "| figure | target | measured |",
        "|---|---|---|",
        f"| peak memory | below 1.5 GB | {max(r['peak_mb'] for r in results) / 1000:.2f} GB |",
        f"| the same, from 10⁶ rows on | flat within 150 MB | {max(peaks) - min(peaks):.0f} MB |",
        f"| rows divided a second, {results[-1]['rows']:,} rows | above 1,000,000 "
        f"| {fastest:,.0f} |",
        f"| seconds an iteration, largest over smallest | at most 1.15 "
        f"| {max(steps) / min(steps):.2f} |",
        f"| iterations a second from disk against from memory, {turn_rows:,} rows, in turns "
        f"| at least 85% | {100 * share:.0f}% |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every size and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000, 30_000_000]
    )
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3, help="of the turns of disk and memory")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "scale")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/scale.md"))
    parser.add_argument("--fit", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--turns", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit is not None:
        folder, storage, iterations = arguments.fit
        print(json.dumps(fit(Path(folder), storage, int(iterations))))
        return
    if arguments.turns is not None:
        print(json.dumps(disk_against_memory(Path(arguments.turns[0]), int(arguments.turns[1]))))
        return
    results = []
    for n in arguments.rows:
        folder = arguments.folder / f"{n}"
        generate(folder, n)
        results.append(measured("--fit", folder, "auto", arguments.iterations))
        shown = {name: value for name, value in results[-1].items() if name != "step_ms"}
        print(shown, f"{np.median(results[-1]['step_ms']):.2f} ms a step", flush=True)
    turn_rows = min(arguments.rows, key=lambda n: abs(n - 1_000_000))
    turns = measured("--turns", arguments.folder / f"{turn_rows}", arguments.rounds)
    print({name: f"{np.median(times):.2f} ms" for name, times in turns.items()}, flush=True)
    arguments.out.write_text(page(results, turns, turn_rows, arguments.iterations))
    rows = [r["rows"] for r in results]
    plot_by_rows(
        arguments.out.with_suffix(".png"),
        {
            "peak memory, MB": {"": (rows, [r["peak_mb"] for r in results])},
            "rows divided a second": {"": (rows, [r["division_rows_per_second"] for r in results])},
            "ms a step": {"": (rows, [float(np.median(r["step_ms"])) for r in results])},
        },
    )


if __name__ == "__main__":
    main()
