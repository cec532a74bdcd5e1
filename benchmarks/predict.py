"""Rows predicted a second, mean and std, beside GPflow and GPyTorch.

`predict.py [--rounds N] [--out PATH]`

dtc with 100 inducing points, fitted with its defaults to 100,000 rows, against SVGPs of the same
size; and pic with blocks of 256 and 16 draws of θ. Interleaved, in random order, medians.
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

from mosaicgp import SparseGPRegressor

N, M, PIC_ROWS = 100_000, 100, 1_000_000
PEERS = ("gpflow", "gpytorch")


def fitted(kind: str) -> SparseGPRegressor:
    """A model with 100 inducing points of 100,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, INPUTS))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SparseGPRegressor(kind, n_inducing=M, block_size=256, n_theta=16).fit(X, y)


def seconds(model: SparseGPRegressor, X: np.ndarray) -> float:
    """Seconds of predicting all rows."""
    began = time.perf_counter()
    model.predict(X, return_std=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/predict.md"))
    arguments = parser.parse_args()
    X = rows(N, M)[0]
    dtc = fitted("dtc")
    seconds(dtc, X)
    peers = {name: Peer(name) for name in PEERS}
    contenders: dict[str, Callable[[], float]] = {
        name: partial(peer.seconds, N, M, "predict") for name, peer in peers.items()
    }
    contenders["mosaicgp dtc"] = partial(seconds, dtc, X)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    rng = np.random.default_rng(0)
    for _ in range(arguments.rounds):
        for name in rng.permutation(list(contenders)):
            time.sleep(PAUSE)
            found[str(name)].append(contenders[name]())
        print({name: f"{N / times[-1]:,.0f}" for name, times in found.items()}, flush=True)
    for peer in peers.values():
        peer.close()
    pic = fitted("pic")
    X_many = np.random.default_rng(1).normal(size=(PIC_ROWS, INPUTS))
    seconds(pic, X_many[:5000])
    pic_seconds = seconds(pic, X_many)
    values = {name: np.array(times) for name, times in found.items()}
    fastest = min((values[n] for n in PEERS), key=lambda times: float(np.median(times)))
    ratio = np.median(fastest / values["mosaicgp dtc"])
    lines = [
        "# Rows predicted a second",
        "",
        f"Mean and std of y; {M} inducing points, {INPUTS} inputs, float64. dtc: {N:,} rows,",
        f"median of {arguments.rounds} interleaved rounds. mosaicgp averages over q(θ), the",
        "others have point values.",
        "",
        f"`make bench-predict` on {description()}.",
        "",
        "| | rows a second |",
        "|---|---|",
        *(f"| {name} | {N / np.median(times):,.0f} |" for name, times in values.items()),
        f"| mosaicgp pic, blocks of 256, 16 draws, {PIC_ROWS:,} rows | "
        f"{PIC_ROWS / pic_seconds:,.0f} |",
        "",
        f"- dtc predicts {ratio:.1f} times as many rows a second as the faster of the two.",
    ]
    print("\n".join(lines))
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
