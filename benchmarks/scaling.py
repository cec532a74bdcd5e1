"""Seconds an iteration and peak memory over the data, from 10⁴ to 10⁷ rows in memory.

`scaling.py [--kinds dtc pic] [--most 7] [--rounds 3] [--out PATH]`

Every size runs in a process of its own, because peak memory only ever rises, and in several rounds
over all sizes, because a machine is not always equally fast. The time of an iteration is the median
over windows of steps of the search, of all rounds.
"""

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from machine import description
from timing import peak_mb, plot_by_rows, step_ms

from mosaicgp import SparseGPRegressor

INPUTS = 8


def one(kind: str, n: int) -> dict[str, object]:
    """Fit n rows of noise around a smooth function."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, INPUTS))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    data = X.nbytes + y.nbytes
    before = peak_mb()
    model = SparseGPRegressor(
        kind, inference="stochastic", max_iter=600, adapt_partition=False, tol=1e-9
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return {
        "step_ms": step_ms(model.history_["seconds"], model.history_["rate"]),
        "data_mb": data / 2**20,
        "peak_over_start_mb": peak_mb() - before,
    }


def page(results: dict[str, dict[int, list[dict]]], rounds: int) -> str:
    """The figures as a Markdown page."""
    lines = [
        "# Cost by the number of rows",
        "",
        "8 inputs, 100 inducing points, defaults otherwise but for `adapt_partition=False`, which",
        "keeps the search in one piece; milliseconds of an iteration (the median over windows of",
        f"steps of the search, {rounds} rounds), and how far the process' peak memory rose during",
        "`fit`, beyond the data themselves (the median of the rounds).",
        "",
        "`make bench-scaling` on " + description() + ".",
        "",
        "![Milliseconds an iteration and peak memory by the number of rows](scaling.png)",
    ]
    for kind, sizes in results.items():
        times = {n: median_step(found) for n, found in sizes.items()}
        lines += [
            "",
            f"## {kind}",
            "",
            "| rows | ms an iteration | data MB | peak MB over the start |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {n:,} | {times[n]:.2f} | {found[0]['data_mb']:.0f} | {median_peak(found):.0f} |"
            for n, found in sizes.items()
        ]
        ratio = max(times.values()) / min(times.values())
        peaks = [median_peak(found) for found in sizes.values()]
        lines += [
            "",
            f"Largest over smallest: {ratio:.2f} (target: at most 1.15). Peak memory over the "
            f"start: within {max(peaks) - min(peaks):.0f} MB.",
        ]
    return "\n".join(lines) + "\n"


def median_step(found: list[dict]) -> float:
    """Over all windows of all rounds."""
    return float(np.median(np.concatenate([run["step_ms"] for run in found])))


def median_peak(found: list[dict]) -> float:
    """Over the rounds."""
    return float(np.median([run["peak_over_start_mb"] for run in found]))


def main() -> None:
    """Measure every size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["dtc", "pic"])
    parser.add_argument("--most", type=int, default=7, help="largest power of ten")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/scaling.md"))
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one[0], int(arguments.one[1]))))
        return
    results: dict[str, dict[int, list[dict]]] = {kind: {} for kind in arguments.kinds}
    for round_ in range(arguments.rounds):
        for kind in arguments.kinds:
            for n in [10**power for power in range(4, arguments.most + 1)]:
                command = [sys.executable, __file__, "--one", kind, str(n)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                results[kind].setdefault(n, []).append(found)
                peak = found["peak_over_start_mb"]
                print(round_, kind, n, f"{median_step([found]):.2f} ms, {peak:.0f} MB", flush=True)
    arguments.out.write_text(page(results, arguments.rounds))

    def line(kind: str, value) -> tuple:  # type: ignore[no-untyped-def]
        return list(results[kind]), [value(found) for found in results[kind].values()]

    panels = {"ms an iteration": median_step, "peak MB over the start": median_peak}
    plot_by_rows(
        arguments.out.with_suffix(".png"),
        {title: {k: line(k, value) for k in results} for title, value in panels.items()},
    )


if __name__ == "__main__":
    main()
