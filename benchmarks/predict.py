"""Rows predicted a second, mean and std of y, beside GPflow and GPyTorch.

`predict.py [--rounds N] [--models FOLDER] [--out PATH]`

dtc with 100 inducing points, fitted with its defaults to 100,000 rows, against SVGPs of the same
size; the same fitted to 2,000 rows, where q(θ) is wide and takes its closed form; and pic with
blocks of 256 and 16 draws of θ. The first are interleaved, in random order, medians. ``--models``
keeps the fits for the next run.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from machine import description
from problem import INPUTS, rows
from step import PAUSE, Peer

from mosaicgp import SparseGPRegressor, prediction

N, FEW, M, PIC_ROWS = 100_000, 2_000, 100, 1_000_000
PEERS = ("gpflow", "gpytorch")
CHECKED = 2_000  # rows whose std is compared with that of the closed form
Rates = dict[str, float]


def fitted(kind: str, n: int, folder: Path | None) -> SparseGPRegressor:
    """A model with 100 inducing points of n rows."""
    kept = None if folder is None else folder / f"{kind}-{n}.mosaic"
    if kept is not None and kept.exists():
        return SparseGPRegressor.load(kept)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, INPUTS))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseGPRegressor(kind, n_inducing=M, block_size=256, n_theta=16).fit(X, y)
    if kept is not None:
        model.save(kept)
    return model


def seconds(model: SparseGPRegressor, X: np.ndarray) -> float:
    """Seconds of predicting all rows."""
    began = time.perf_counter()
    model.predict(X, return_std=True)
    return time.perf_counter() - began


def shares(model: SparseGPRegressor, X: np.ndarray) -> str:
    """Which way through q(θ) the rows take, in percent."""
    found: dict[str, int] = {}
    for route, part in model._predictor._routes(model.scaling_.transform_X(X), of_y=True):
        found[route] = found.get(route, 0) + len(part)
    return ", ".join(f"{route} {100 * n / len(X):.0f}%" for route, n in found.items())


def std_errors(model: SparseGPRegressor, X: np.ndarray) -> np.ndarray:
    """Relative error of the std of y beside the closed form over q(θ), at every row."""
    found = model.predict(X, return_std=True)[1]
    short = prediction.NARROW, prediction.LEFT_OUT
    try:
        prediction.NARROW, prediction.LEFT_OUT = -1.0, -1.0
        closed = model.predict(X, return_std=True)[1]
    finally:
        prediction.NARROW, prediction.LEFT_OUT = short
    return np.abs(found / closed - 1.0)


def beside_peers(dtc: SparseGPRegressor, rounds: int) -> dict[str, np.ndarray]:
    """Seconds for N rows in every round."""
    X = rows(N, M)[0]
    seconds(dtc, X)
    peers = {name: Peer(name) for name in PEERS}
    contenders: dict[str, Callable[[], float]] = {
        name: partial(peer.seconds, N, M, "predict") for name, peer in peers.items()
    }
    # As many times in a row as a peer.
    contenders["mosaicgp dtc"] = lambda: float(np.mean([seconds(dtc, X) for _ in range(5)]))
    found: dict[str, list[float]] = {name: [] for name in contenders}
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        for name in rng.permutation(list(contenders)):
            time.sleep(PAUSE)
            found[str(name)].append(contenders[name]())
        print({name: f"{N / times[-1]:,.0f}" for name, times in found.items()}, flush=True)
    for peer in peers.values():
        peer.close()
    return {name: np.array(times) for name, times in found.items()}


# What the page says of how the predictions came to be.
TRIED = """\
What was tried, on two cores:

- dtc, one thread, nanoseconds a row in tiles of 256 rows: the product that gives the exponents 72,
  keeping them below zero 47 (now only for far rows), exponentials 83, the triangle 440 whole and
  260 in three or four parts, mean and slopes 45, the rest about 100. With 256 rows BLAS multiplies
  small matrices without copying them first; with 1,024 rows the triangle takes 342.
- dtc, all of it: 550 to 620 ns a row on one thread, the same in each of two processes at once, but
  380 to 510 ns of wall time on two threads instead of 290: the threads wait for each other at the
  interpreter between calls. Several tiles a call help (617 ns before, 381 to 508 after); smaller
  batches with all arrays in the second-level cache do not, being more calls. At 290 ns dtc would be
  about 4.4 times GPflow. By jax it was 1.9 times.
- dtc, the triangle in float32, which would take half of its time: the rounding of the kernel's
  values is multiplied by the condition of Σ. On this model the variance of f came out wrong by a
  tenth of what is allowed, but no bound below what is allowed could be given; not kept.
- SciPy's `dtrmm` does the triangle in 262 ns at any size, but keeps the interpreter locked.
- dtc of 2,000 rows: one row in five takes the closed form over q(θ), which is jax's and takes most
  of the time; the first order does 280,000 to 400,000 rows a second.
- pic, one thread, microseconds a row at 16 nodes, groups of 512: the triangle 61, what q(s) adds
  25, kernels 14, noise 5; a block is factorised in 49 ms.
- Not tried: for pic, folding what q(s) adds into the triangle."""


def draw(rates: Rates, path: Path) -> None:
    """Bars of rows a second."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.5, 2.4), layout="constrained")
    names = list(rates)[::-1]
    bars = ax.barh(names, [rates[name] for name in names], color="C0")
    ax.bar_label(bars, fmt="{:,.0f}", padding=3)
    ax.set_xscale("log")
    ax.set_xlim(right=5 * max(rates.values()))
    ax.set_xlabel("rows a second, mean and std of y")
    figure.savefig(path, dpi=100)


def main() -> None:
    """Measure, draw and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/predict.md"))
    arguments = parser.parse_args()
    dtc, wide, pic = (
        fitted(kind, n, arguments.models) for kind, n in (("dtc", N), ("dtc", FEW), ("pic", N))
    )
    found = beside_peers(dtc, arguments.rounds)
    rates = {name: N / float(np.median(times)) for name, times in found.items()}
    X = rows(N, M)[0]
    seconds(wide, X[:5000])
    rates["mosaicgp dtc of 2,000 rows"] = N / 5 / seconds(wide, X[: N // 5])
    X_many = np.random.default_rng(1).normal(size=(PIC_ROWS, INPUTS))
    seconds(pic, X_many[:5000])
    rates["mosaicgp pic"] = PIC_ROWS / seconds(pic, X_many)
    fastest = min((found[n] for n in PEERS), key=lambda times: float(np.median(times)))
    ratio = np.median(fastest / found["mosaicgp dtc"])
    errors = std_errors(dtc, X[:CHECKED])
    draw(rates, arguments.out.with_suffix(".png"))
    lines = [
        "# Rows predicted a second",
        "",
        f"Mean and std of y; {M} inducing points, {INPUTS} inputs, float64. dtc fitted to {N:,}",
        f"and to {FEW:,} rows; medians of {arguments.rounds} interleaved rounds of {N:,} rows.",
        f"mosaicgp averages over q(θ), the others have point values. pic: blocks of 256 of {N:,}",
        f"rows, 16 draws of θ, {PIC_ROWS:,} rows, every block factorised on the way.",
        "",
        f"`make bench-predict` on {description()}.",
        "",
        "| | rows a second |",
        "|---|---|",
        *(f"| {name} | {rate:,.0f} |" for name, rate in rates.items()),
        "",
        f"![Rows predicted a second]({arguments.out.with_suffix('.png').name})",
        "",
        f"- dtc predicts {ratio:.1f} times as many rows a second as the faster of the two "
        f"(target: at least 5, {'met' if ratio >= 5 else 'missed'}).",
        f"- pic: {rates['mosaicgp pic']:,.0f} rows a second (target: at least 10,000, "
        f"{'met' if rates['mosaicgp pic'] >= 10_000 else 'missed'}).",
        f"- Ways through q(θ): dtc of {N:,} rows {shares(dtc, X)}; of {FEW:,} {shares(wide, X)}.",
        f"- std of dtc beside the closed form, relative: median {np.median(errors):.1e}, largest",
        f"  {errors.max():.1e} of {CHECKED:,} rows; {0.5 * prediction.LEFT_OUT:.0e} is allowed.",
        "",
        TRIED,
    ]
    print("\n".join(lines))
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
