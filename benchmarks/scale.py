"""Tables larger than memory: peak memory, the pass that divides them, iterations and predictions.

`scale.py [--rows 100000 1000000 10000000 30000000] [--folder PATH] [--out PATH]`

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
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import description
from timing import peak_mb, plot_by_rows, step_ms

FILE_ROWS = 1_000_000
INPUTS = 8
TURN = 100  # steps

NOTES = """
What the peak is made of: libraries and compiled code (300 MB), compilation (300 MB more, given back
at the next division), and parts of the table that threads have in hand while it is divided. Only
the tree of the blocks grows with the table. Two things did, or seemed to: blocks in mapped files
counted as resident memory by the pages around them, and freed memory stayed in the arenas of
threads; blocks are now read, and memory is given back after a division.
"""


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
    from mosaicgp import SparseGPRegressor, stages
    from mosaicgp.data import open_dataset
    from mosaicgp.data.division import divide

    passes = []

    def timed(rows, *arguments):  # type: ignore[no-untyped-def]
        began, worked = time.perf_counter(), time.process_time()
        found = divide(rows, *arguments)
        passes.append((time.perf_counter() - began, time.process_time() - worked, rows.count()))
        return found

    stages.divide = timed
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
        "division_rows_per_second": float(np.median([c / s for s, _, c in passes if c == n])),
        "division_processor_us": float(np.median([1e6 * p / c for _, p, c in passes if c == n])),
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


def step_by_turns(folder: Path) -> None:
    """Fit, a turn of steps for every line that is read; prints the milliseconds of each."""
    from mosaicgp import SparseGPRegressor
    from mosaicgp.data import open_dataset

    began = np.nan

    def wait(progress):  # type: ignore[no-untyped-def]
        nonlocal began
        if progress.iteration % TURN:
            return False
        print(1e3 * (time.perf_counter() - began) / TURN, flush=True)
        ended = not sys.stdin.readline()
        began = time.perf_counter()
        return ended

    # One division and no pilot: nothing but steps.
    model = SparseGPRegressor(max_iter=100_000, adapt_partition=False, tol=1e-9, callback=wait)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(open_dataset(folder, target="y"))


def steps_in_turns(folders: dict[int, Path], rounds: int) -> dict[int, list[float]]:
    """Milliseconds of a step by the rows of the table; fits in processes that take turns."""
    processes = {}
    for n, folder in folders.items():
        command = [sys.executable, __file__, "--by-turns", str(folder)]
        processes[n] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes[n].stdout.readline()  # the first turn, which compiled, is over
    found: dict[int, list[float]] = {n: [] for n in folders}
    for _ in range(rounds):
        for n, process in processes.items():
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            found[n].append(float(process.stdout.readline()))
    for process in processes.values():
        process.communicate()  # closes its input, which ends it
    return found


def measured(*command: object) -> dict:
    """What another process of this script prints last."""
    line = [sys.executable, __file__, *map(str, command)]
    found = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict = json.loads(found.splitlines()[-1])
    return result


class Figure(NamedTuple):
    """A figure with its target: what it is, both as text, and whether the target is met."""

    what: str
    target: str
    measured: str
    met: bool


def figures(
    results: list[dict],
    turns: dict[str, list[float]],
    turn_rows: int,
    steps: dict[int, list[float]],
) -> list[Figure]:
    """The figures that have a target."""
    largest = results[-1]
    peaks = [r["peak_mb"] for r in results if r["rows"] >= 10**6]
    peak = max(r["peak_mb"] for r in results) / 1000
    medians = [float(np.median(times)) for times in steps.values()]
    ratio = max(medians) / min(medians)
    share = 100 * np.median(turns["memory"]) / np.median(turns["disk"])
    speed = largest["division_rows_per_second"]
    return [
        Figure("peak memory", "below 1.5 GB", f"{peak:.2f} GB", peak < 1.5),
        Figure(
            "the same, from 10⁶ rows on",
            "flat within 150 MB",
            f"{max(peaks) - min(peaks):.0f} MB",
            max(peaks) - min(peaks) <= 150,
        ),
        Figure(
            f"rows divided a second, {largest['rows']:,} rows",
            "above 1,000,000",
            f"{speed:,.0f}",
            speed > 1e6,
        ),
        Figure(
            "seconds an iteration, largest over smallest, in turns",
            "at most 1.15",
            f"{ratio:.2f}",
            ratio <= 1.15,
        ),
        Figure(
            f"iterations a second from disk against from memory, {turn_rows:,} rows, in turns",
            "at least 85%",
            f"{share:.0f}%",
            share >= 85,
        ),
    ]


def page(
    results: list[dict],
    turns: dict[str, list[float]],
    turn_rows: int,
    steps: dict[int, list[float]],
    n: int,
) -> str:
    """The figures as a Markdown page."""
    lines = [
        "# Tables on disk",
        "",
        f"pic with its defaults on a generated Parquet folder of {INPUTS} inputs, {n:,} steps,",
        "every fit in a process of its own, whose peak memory this is. Rows are divided from the",
        "Parquet files into blocks on disk, the pass over all rows for a sample included. Steps",
        f"are timed apart: fits of all sizes take turns of {TURN} steps, and this is the median.",
        "",
        f"`make bench-scale` on {description()}.",
        "",
        "![Peak memory, rows divided a second and milliseconds a step](scale.png)",
        "",
        "| rows | seconds in all | peak memory, MB | rows divided a second | processor µs a row "
        "| step, ms |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['rows']:,} | {r['seconds']:.0f} | {r['peak_mb']:.0f} | "
        f"{r['division_rows_per_second']:,.0f} | {r['division_processor_us']:.2f} | "
        f"{np.median(steps[r['rows']]):.2f} |"
        for r in results
    ]
    lines += ["", "| figure | target | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {f.what} | {f.target} | {f.measured} | {'met' if f.met else 'missed'} |"
        for f in figures(results, turns, turn_rows, steps)
    ]
    return "\n".join(lines) + "\n" + NOTES


def main() -> None:
    """Measure every size and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000, 30_000_000]
    )
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2, help="of the turns of disk and memory")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "scale")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/scale.md"))
    parser.add_argument("--by-turns", type=Path, help=argparse.SUPPRESS)
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
    if arguments.by_turns is not None:
        step_by_turns(arguments.by_turns)
        return
    folders = {n: arguments.folder / f"{n}" for n in arguments.rows}
    results = []
    for n, folder in folders.items():
        generate(folder, n)
        results.append(measured("--fit", folder, "auto", arguments.iterations))
        print(results[-1], flush=True)
    turn_rows = min(arguments.rows, key=lambda n: abs(n - 1_000_000))
    turns = measured("--turns", arguments.folder / f"{turn_rows}", arguments.rounds)
    print({name: f"{np.median(times):.2f} ms" for name, times in turns.items()}, flush=True)
    steps = steps_in_turns(folders, 5 * arguments.rounds)
    print({n: f"{np.median(times):.2f} ms" for n, times in steps.items()}, flush=True)
    arguments.out.write_text(page(results, turns, turn_rows, steps, arguments.iterations))
    rows = [r["rows"] for r in results]
    plot_by_rows(
        arguments.out.with_suffix(".png"),
        {
            "peak memory, MB": {"": (rows, [r["peak_mb"] for r in results])},
            "rows divided a second": {"": (rows, [r["division_rows_per_second"] for r in results])},
            "ms a step": {"": (rows, [float(np.median(steps[n])) for n in rows])},
        },
    )


if __name__ == "__main__":
    main()
