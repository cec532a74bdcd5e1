"""A fit as it is planned: the arguments of an estimator, checked, and the sizes they amount to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mosaicgp.data.disk import bytes_of
from mosaicgp.data.division import working_bytes
from mosaicgp.data.rows import ArrayRows, Rows
from mosaicgp.inference import climb, records
from mosaicgp.inference.parameters import Switches

# Rows of a stochastic step.
ROWS_A_STEP = 1024
BLOCK_ROWS_A_STEP = 512

# Rows held back from tables of at least so many.
HELD_ROWS = 1000
LEAST_ROWS_TO_HOLD = 5000

# Tables of more bytes than this are kept in files while they are trained on.
MEMORY_BYTES = 2**25

# A table of more than this many rows is not divided again and again: a pilot fit on a sample finds
# out along which inputs the noise is correlated.
PILOT_FROM_ROWS = 2**20


@dataclass(frozen=True)
class Plan:
    """The arguments of an estimator, checked; sizes are in rows.

    ``batch_rows`` and ``held_rows`` are None where the default for the table is meant. With
    ``prelude`` f learns beside independent noise first.
    """

    switches: Switches
    n_inducing: int
    block_rows: int
    partition: str
    adapt_partition: bool
    batch_rows: int | None
    held_rows: int | None
    settings: climb.Settings | records.Settings
    prelude: bool = False
    storage: Literal["auto", "memory", "disk"] = "auto"
    work_dir: str | None = None


def rows_a_step(plan: Plan, n: int) -> int:
    """Rows of an iteration: all n of exact inference, else those of whole blocks, or a batch."""
    if isinstance(plan.settings, climb.Settings):
        return n
    if not plan.switches.approximation.blocked:
        return plan.batch_rows or ROWS_A_STEP
    n_blocks = max(1, (plan.batch_rows or BLOCK_ROWS_A_STEP) // plan.block_rows)
    return n_blocks * plan.block_rows


def bytes_on_disk(plan: Plan, rows: Rows) -> int:
    """Room that a fit takes on disk, at most."""
    n, d = rows.count(), rows.n_features
    if isinstance(plan.settings, climb.Settings) or not on_disk(plan, n, d):
        return 0
    if not plan.switches.approximation.blocked:
        return 0 if isinstance(rows, ArrayRows) else bytes_of(n, d)
    once = needs_pilot(plan, n)
    return dividing_bytes(replace(plan, adapt_partition=False) if once else plan, n, d)


def dividing_bytes(plan: Plan, n: int, d: int) -> int:
    """Room for one stage's blocks, which are read from while the rows are divided anew."""
    return working_bytes(n, d) + (bytes_of(n, d) if plan.adapt_partition else 0)


def needs_pilot(plan: Plan, n: int) -> bool:
    """Whether n rows are divided once only, as a pilot fit finds."""
    return plan.adapt_partition and n > PILOT_FROM_ROWS


def on_disk(plan: Plan, n: int, d: int) -> bool:
    """Whether n rows of d inputs are kept in files while they are trained on."""
    if plan.storage == "auto":
        return bytes_of(n, d) > MEMORY_BYTES
    return plan.storage == "disk"


def n_held(plan: Plan, n: int) -> int:
    """Rows that are held back from n for validation."""
    if plan.held_rows is None:
        return HELD_ROWS if n >= LEAST_ROWS_TO_HOLD else 0
    return min(plan.held_rows, n // 2)
