"""What a fitted model is made of, whether a fit, an update or a load made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks, StoredBlocks
from mosaicgp.data.disk import DiskBlocks, Workspace
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import is_dataset
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference.parameters import Switches
from mosaicgp.inference.result import FitResult
from mosaicgp.job import Outcome
from mosaicgp.plan import Plan
from mosaicgp.posterior import Posterior
from mosaicgp.prediction import Predictor
from mosaicgp.record import TrainedOn
from mosaicgp.tables import Table

if TYPE_CHECKING:
    from mosaicgp.data.encoding import Encoding


class Prepared:
    """A place for what predictions share; it is no part of the fitted state."""

    def __init__(self) -> None:
        self.predictor: Predictor | None = None


class Fitted(NamedTuple):
    """What of the arguments a fitted model goes on using."""

    switches: Switches
    block_rows: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept:
    """All that a fit, an update or a load leaves behind.

    The arguments of the fit are kept too: ``set_params`` says how to fit next, and leaves
    what is fitted alone.
    """

    arguments: dict[str, Any]
    switches: Switches
    posterior: Posterior
    scaling: Scaling
    partition: Partition | None
    blocks: Blocks | DiskBlocks | None
    nodes: NDArray[np.float64]
    fit_result: FitResult
    history: Table
    block_rows: int
    workspace: Workspace | None = None
    encoding: Encoding | None = None
    rows_seen: float = 0.0
    rows_numbered: int = 0
    trained_on: TrainedOn | None = None


def kept_of(
    outcome: Outcome, plan: Plan, arguments: dict[str, Any], nodes: NDArray[np.float64], X: Any
) -> Kept:
    """What a fit of X leaves; files that predictions do not need are given up."""
    local, workspace = plan.switches.approximation.local, outcome.workspace
    if workspace is not None:
        workspace.release(keep=local)
        workspace = workspace if local else None
    return Kept(
        arguments=arguments,
        switches=plan.switches,
        posterior=outcome.posterior,
        scaling=outcome.scaling,
        partition=outcome.partition,
        blocks=_kept_blocks(outcome.blocks, local),
        nodes=nodes,
        fit_result=outcome.fit_result,
        history=outcome.history,
        block_rows=plan.block_rows,
        workspace=workspace,
        encoding=X.encoding if is_dataset(X) else None,
        rows_seen=float(outcome.n_rows),
        rows_numbered=outcome.n_rows,
        trained_on=TrainedOn.of(X, outcome.n_rows),
    )


def _kept_blocks(blocks: Blocks | StoredBlocks | None, local: bool) -> Blocks | DiskBlocks | None:
    """What of the rows by block stays with a model; ``local`` predictions need them."""
    if isinstance(blocks, Blocks | DiskBlocks | None):
        return blocks if local or not isinstance(blocks, DiskBlocks) else None
    return blocks.in_memory() if local else None  # a copy: the user may change the table


def portable(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an estimator, as they go to another process.

    Compiled functions and cached factors are made again on the other side, where the files of this
    side's blocks may not be.
    """
    if "_prepared" in state:
        state = state | {"_prepared": Prepared(), "_workspace": None}
    if isinstance(blocks := state.get("blocks_"), DiskBlocks):
        state = state | {"blocks_": blocks.in_memory()}
    return state
