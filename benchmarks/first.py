"""From `import mosaicgp` to a fitted model of 1,000 rows, each time in a new process.

`first.py [--rounds N] [--data FOLDER] [--out PATH]`

Rows are made here, or drawn from the tables of a folder. Fits follow each other in turn; medians.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from machine import description

ROWS = 1000
MADE = "made here"
SCRIPT = f"""
import sys, time
began = time.perf_counter()
from mosaicgp import SparseGPRegressor
imported = time.perf_counter()
import json, warnings
import numpy as np
warnings.simplefilter("ignore")
kind, inference, path, target, *inputs = sys.argv[1:]
if path == "{MADE}":
    rng = np.random.default_rng(0)
    X = rng.normal(size=({ROWS}, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size={ROWS})
else:
    import pandas as pd
    table = pd.read_parquet(path, columns=[*inputs, target]).sample({ROWS}, random_state=0)
    X, y = table[inputs].to_numpy(float), table[target].to_numpy(float)
started = time.perf_counter()
result = SparseGPRegressor(kind, inference=inference).fit(X, y).fit_result_
ended = time.perf_counter()
print(json.dumps([imported - began, ended - started, result.iterations]))
"""
CACHE = "JAX_COMPILATION_CACHE_DIR"
WAYS = {
    "`dtc`, stochastic": ("dtc", "stochastic"),
    "`dtc`, exact": ("dtc", "exact"),
    "`pic`, exact (the default)": ("pic", "auto"),
    "`pic`, exact, with jax's cache": ("pic", "auto"),
}
NOTES = """
The target, 6 s in all, is met by `dtc` and missed by `pic`, the default: 1.5 s are importing
scikit-learn and jax, 4 s compiling the bound with its gradient, the rest 70 to 130 iterations,
of 18 ms (coarse) and 35 ms an evaluation, 30 to 40 of them from a second start. With
`JAX_COMPILATION_CACHE_DIR` set to a folder, jax keeps there what it
compiled, and the next process does without.

What was tried, on the rows made here (17.2 s before):

- a coarse climb first, at order zero of the expansion of Ψ, with all of its curvature (BFGS): 90
  evaluations instead of 200, most of them a third as long, and a bound 14 nats higher; kept ([two
  climbs](../mathematics.md#two-climbs));
- one compiled function for both climbs, no other for the end: 3 s less to compile; kept;
- derivatives by hand of Υ and of the collapsed bound, first-order terms whitened once: 50 to 35
  ms; kept;
- the first state of stochastic inference compiled as one function and not op by op: 0.6 s less;
  kept;
- blocks one by one through compiled parts in place of a compiled loop: each part takes its time to
  compile, as long in all; not kept;
- everything computed again in the backward pass: compiles 0.4 s faster, evaluates 7 ms slower; not
  kept;
- products not cut into halves at M = 100: compiles 0.6 s faster, but training steps are slower;
  not kept;
- XLA's older emitters of loops: on one core of a 2.5 GHz Xeon, side by side, twice, `pic` takes 25
  and 19 s in all where it took 39 and 29, `dtc` 14 and 11 where it took 20 and 15; a second fit
  takes as long. Kept, after the table above was made;
- XLA's optimisation levels: level 0 compiles 1 s faster and evaluates at half the speed, level 1
  changes nothing; not kept.
"""
TABLES = {
    "traffic": ("speed", "latitude", "longitude", "minute_of_day", "day"),
    "flights": (
        *("arrival_delay", "aircraft_age", "distance_km", "air_time", "departure_minute"),
        *("arrival_minute", "day_of_week", "day_of_month", "month"),
    ),
    "kin40k": ("y", *(f"x{k}" for k in range(8))),
    "protein": ("y", *(f"x{k}" for k in range(9))),
}


def seconds(way: tuple[str, str], table: tuple[str, ...], cache: str | None) -> list[float]:
    """Import, fit and iterations of a fit in a process of its own, with jax's cache or without."""
    environment = {k: v for k, v in os.environ.items() if k != CACHE}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *way, *table],
        env=environment if cache is None else {**environment, CACHE: cache},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Fit in turn, write the page's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/first.md"))
    arguments = parser.parse_args()
    tables: dict[str, tuple[str, ...]] = {MADE: (MADE, "")}
    if arguments.data is not None:
        for name, columns in TABLES.items():
            tables[name] = (str(arguments.data / f"{name}.parquet"), *columns)
    found: dict[tuple[str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for columns in tables.values():
            seconds(WAYS["`pic`, exact, with jax's cache"], columns, folder)
        for _ in range(arguments.rounds):
            for name, way in WAYS.items():
                cache = folder if "cache" in name else None
                for table, columns in tables.items():
                    found.setdefault((table, name), []).append(seconds(way, columns, cache))
                    print(table, name, found[table, name][-1], flush=True)
    lines = [
        "# The first fit",
        "",
        f"{ROWS:,} rows, 100 inducing points, a new process: seconds from `import mosaicgp` to the",
        f"end of `fit`, reading the rows left out. Medians of {arguments.rounds}.",
        "",
        f"`make bench-first DATA=folder` on {description()}.",
        "",
        "| rows | fit | import | fit, s | in all, s | iterations |",
        "|---|---|---|---|---|---|",
    ]
    for (table, name), runs in found.items():
        imported, fitted, iterations = (median(column) for column in zip(*runs, strict=True))
        total = median(run[0] + run[1] for run in runs)
        cells = f"{imported:.1f} | {fitted:.1f} | {total:.1f} | {iterations:.0f}"
        lines.append(f"| {table} | {name} | {cells} |")
    arguments.out.write_text("\n".join(lines) + "\n" + NOTES)


if __name__ == "__main__":
    main()
