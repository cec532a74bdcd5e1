"""How stochastic inference approaches the exact posterior: the paper's Figure 1.

`convergence.py --data traffic.parquet [--selections N] [--out PATH]`

1,000 random rows, ten blocks, 50 inducing points whose rotated inputs stay fixed, as in the paper.
KL(q(s) ‖ q⁺(s)) and KL(q(θ) ‖ q⁺(θ)) between the stochastic and the exact fit, by iterations.
"""

import argparse
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from machine import description

from mosaicgp import SparseGPRegressor, kl

KINDS = ("dtc", "fitc", "pic")
ITERATIONS = (1, 10, 100, 1000, 10_000)
# With so few rows the default rate wanders between optima of nearly equal bound.
RATE = 0.01
# Half of the ten blocks a step: with one, what the gradient wanders along the ridge between the
# signal's amplitude and s leaves a distance of a nat or two.
BATCH_ROWS = 500
ARGUMENTS = {
    "n_inducing": 50,
    "block_size": 100,
    "rotate_inducing": False,
    "adapt_partition": False,
    "validation_rows": 0,
}


def distances(kind: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """KL of q(s) and of q(θ) after every number of iterations: (iterations, 2).

    Exact inference starts where the longest fit ended: the bound has several optima, and the
    question is how near a stochastic fit comes to the one it goes to.
    """
    models = []
    for n in ITERATIONS:
        model = SparseGPRegressor(
            kind,
            inference="stochastic",
            max_iter=n,
            batch_size=BATCH_ROWS,
            sampling="reshuffle",
            learning_rate=RATE,
            **ARGUMENTS,
        )
        models.append(model.fit(X, y))
    exact = deepcopy(models[-1]).set_params(
        inference="exact", warm_start=True, max_iter=3000, tol=1e-7
    )
    exact.fit(X, y)
    found = [kl(model, exact) for model in models]
    for n, distance in zip(ITERATIONS, found, strict=True):
        print(kind, n, distance, flush=True)
    return np.array(found)


def page(found: dict[str, np.ndarray], picture: Path) -> str:
    """The figures as a Markdown page; ``found`` is (selections, iterations, 2) by kind."""
    selections = len(next(iter(found.values())))
    lines = [
        "# Convergence to the exact posterior",
        "",
        f"1,000 rows of traffic, ten blocks, 50 inducing points, {selections} random selections;",
        "each number of iterations is a whole fit with its annealing, learning_rate=0.01, five",
        "blocks a step, reshuffled. The exact fit starts where the longest stochastic one ended,",
        "since the bound has several optima. Geometric means, nats.",
        "",
        "`make bench-convergence DATA=folder` on " + description() + ".",
        "",
        f"![KL distances by iterations]({picture.name})",
    ]
    for index, name in enumerate(("KL(q(s) ‖ q⁺(s))", "KL(q(θ) ‖ q⁺(θ))")):
        lines += [
            "",
            f"## {name}",
            "",
            "| iterations | " + " | ".join(found) + " |",
            "|---|" + "---|" * len(found),
        ]
        means = {kind: np.exp(np.log(a[:, :, index]).mean(axis=0)) for kind, a in found.items()}
        for row, n in enumerate(ITERATIONS):
            lines.append(f"| {n:,} | " + " | ".join(f"{m[row]:.3g}" for m in means.values()) + " |")
        falls = ", ".join(f"{kind} {np.log10(m[0] / m[-1]):.1f}" for kind, m in means.items())
        lines += ["", f"Orders of magnitude from first to last: {falls}."]
    return "\n".join(lines) + "\n"


def draw(found: dict[str, np.ndarray], path: Path) -> None:
    """Both distances by iterations, a line for every selection."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for index, (ax, name) in enumerate(zip(axes, ("q(s)", "q(θ)"), strict=True)):
        for colour, (kind, all_selections) in enumerate(found.items()):
            for selection in all_selections:
                ax.loglog(ITERATIONS, selection[:, index], color=f"C{colour}", alpha=0.5)
            ax.plot([], [], color=f"C{colour}", label=f"VB{kind.upper()}+")
        ax.set_xlabel("iterations")
        ax.set_title(f"KL({name} ‖ exact), nats")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, draw, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--selections", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/convergence.md"))
    arguments = parser.parse_args()
    table = pq.read_table(arguments.data)
    names = ["latitude", "longitude", "minute_of_day", "day"]
    X = np.column_stack([table[name].to_numpy().astype(float) for name in names])
    y = table["speed"].to_numpy().astype(float)
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in arguments.kinds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for selection in range(arguments.selections):
            rows = np.random.default_rng(selection).choice(len(y), 1000, replace=False)
            for kind in arguments.kinds:
                found[kind].append(distances(kind, X[rows], y[rows]))
    stacked = {kind: np.array(parts) for kind, parts in found.items()}
    picture = arguments.out.with_suffix(".png")
    draw(stacked, picture)
    arguments.out.write_text(page(stacked, picture))


if __name__ == "__main__":
    main()
