"""Routes to Ψ in stochastic inference: which reaches a given bound first.

`routes.py [--seconds S] [--out PATH]`

The same data, start, batches and step sizes for every route; every route runs for the same time,
compilation and evaluation aside. The bound of all rows is evaluated along the way.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from machine import description

from mosaicgp.data.blocks import Blocks, chunk
from mosaicgp.data.division import n_blocks_of, regroup
from mosaicgp.data.partition import BalancedTree
from mosaicgp.inference.evaluate import full_bound
from mosaicgp.inference.initial import select_inducing, starting_values
from mosaicgp.inference.parameters import Fixed, Switches, constrain
from mosaicgp.model.bound import (
    Block,
    Parameters,
    Statistics,
    data_bound,
    natural_step,
    total_statistics,
)
from mosaicgp.model.expectations import ClosedForm, Mehler
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.given_theta import nodes_shape, sampled_statistics
from mosaicgp.model.posterior import NaturalParameters, from_natural, kl_theta
from mosaicgp.precision import in_double

ROWS, INPUTS, INDUCING, JITTER = 20_000, 8, 50, 1e-6
RATE, RHO, CHECKS = 0.02, 0.1, 16
ROUTES = {
    "one draw a row or block": None,
    "Mehler, order 0": Mehler(0),
    "Mehler, order 1": Mehler(1),
    "closed form": ClosedForm(),
}
Statistician = Callable[[Parameters, Block, jax.Array], Statistics]


def table() -> tuple[np.ndarray, np.ndarray]:
    """A function of three of eight inputs and noise, standardised."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, INPUTS))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=ROWS)
    return X, (y - y.mean()) / y.std()


def rows_by_block(kind: str, X: np.ndarray, y: np.ndarray) -> Blocks:
    """Chunks of 1,024 rows, or blocks of 128."""
    if not APPROXIMATIONS[kind].blocked:
        return chunk(X, y, 1024)
    tree = BalancedTree.build(X, n_blocks_of(len(y), 128), np.random.default_rng(0))
    return regroup(X, y, tree, 128)


@in_double
def climb(kind: str, blocks: Blocks, U: np.ndarray, route, limit: float) -> list[tuple]:
    """(seconds, iterations, bound) along the way."""
    approximation = APPROXIMATIONS[kind]
    switches = Switches(approximation, bayesian=True)
    noise = approximation.noise
    free = jax.tree.map(jnp.asarray, starting_values(U, approximation))
    fixed = Fixed(jnp.asarray(U), free.nu)
    adam = optax.adam(RATE)

    def statistics(parameters: Parameters, batch: Block, nodes: jax.Array) -> Statistics:
        if route is None:
            return sampled_statistics(parameters, batch, nodes, noise, JITTER)
        return total_statistics(parameters, batch, noise, route, JITTER)

    @partial(jax.jit)
    def step(learned, eta, state, batch, nodes):
        q = from_natural(eta)

        def loss(learned):
            parameters = constrain(free._replace(**learned), fixed, switches)
            found = statistics(parameters, batch, nodes)
            found = jax.tree.map(lambda part: blocks.n_blocks * part, found)
            return kl_theta(parameters.theta, switches.prior) - data_bound(found, q), found

        (_, found), slope = jax.value_and_grad(loss, has_aux=True)(learned)
        updates, state = adam.update(slope, state)
        return optax.apply_updates(learned, updates), natural_step(eta, found, RHO), state

    rng = np.random.default_rng(1)
    learned = {name: getattr(free, name) for name in switches.learned()}
    eta, state = NaturalParameters(jnp.zeros(len(U)), jnp.eye(len(U))), adam.init(learned)
    shape = nodes_shape(noise, 1, blocks.block_size, INPUTS)
    trace, spent, n_steps = [], 0.0, 0
    while spent < limit:
        b = rng.integers(blocks.n_blocks, size=1)
        batch = Block(*map(jnp.asarray, (blocks.X[b], blocks.y[b], blocks.mask[b])))
        nodes = jnp.asarray(rng.normal(size=shape))
        began = time.perf_counter()
        learned, eta, state = jax.block_until_ready(step(learned, eta, state, batch, nodes))
        n_steps += 1
        spent += (time.perf_counter() - began) * (n_steps > 1)  # the first one compiles
        if spent >= (len(trace) + 1) * limit / CHECKS:
            parameters = constrain(free._replace(**learned), fixed, switches)
            bound = full_bound(parameters, from_natural(eta), blocks, JITTER, switches, Mehler(1))
            trace.append((spent, n_steps, bound))
    return trace


def page(found: dict[str, dict[str, list[tuple]]], limit: float) -> str:
    """The figures as a Markdown page."""
    lines = [
        "# Routes to Ψ in stochastic inference",
        "",
        f"{ROWS:,} rows, {INPUTS} inputs, {INDUCING} inducing points; a batch is 1,024 rows (dtc)",
        f"or one block of 128 (pic). Constant step sizes, {limit:g} s of steps for every route.",
        "The goal is 99% of the way from the first bound seen to the best that any route reached.",
        "",
        "`make bench-routes` on " + description() + ".",
    ]
    for kind, routes in found.items():
        best = max(bound for trace in routes.values() for *_, bound in trace)
        first = min(trace[0][2] for trace in routes.values())
        goal = first + 0.99 * (best - first)
        lines += [
            "",
            f"## {kind}",
            "",
            "| route | ms a step | steps | last bound, nats below the best | seconds to the goal |",
            "|---|---|---|---|---|",
        ]
        for name, trace in routes.items():
            seconds, steps, _ = trace[-1]
            reached = next((f"{s:.1f}" for s, _, bound in trace if bound >= goal), "not reached")
            last = max(bound for *_, bound in trace[-3:])
            lines.append(
                f"| {name} | {1e3 * seconds / steps:.1f} | {steps} | {best - last:.0f} "
                f"| {reached} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Climb by every route, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/routes.md"))
    arguments = parser.parse_args()
    X, y = table()
    U = select_inducing(X, INDUCING, np.random.default_rng(0))
    found: dict[str, dict[str, list[tuple]]] = {}
    for kind in ("dtc", "pic"):
        blocks = rows_by_block(kind, X, y)
        for name, route in ROUTES.items():
            trace = climb(kind, blocks, U, route, arguments.seconds)
            found.setdefault(kind, {})[name] = trace
            print(kind, name, trace[-1], flush=True)
    arguments.out.write_text(page(found, arguments.seconds))


if __name__ == "__main__":
    main()
