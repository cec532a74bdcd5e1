"""Stochastic training in checkpoints: what the rest of a fit depends on, written and read again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mosaicgp.checkpoints import Checkpoint, CheckpointError, Snapshot
from mosaicgp.data.sampling import SamplerState
from mosaicgp.inference.records import Kept, Position, Progress, TrainingData
from mosaicgp.inference.stochastic import State

# Fields of ``Progress`` that a checkpoint keeps as arrays: all but the phase.
HISTORY_ARRAYS = (
    "iteration",
    "bound",
    "validation_nlpd",
    "rho",
    "rate",
    "accepted",
    "n_held",
    "seconds",
)


class Standing(NamedTuple):
    """How far a fit is: its state, the best one seen, its trace, and its seconds so far."""

    state: State
    at: Position
    history: list[Progress]
    best: Kept | None
    seconds: float


def snapshot_of(standing: Standing, data: TrainingData, rng: np.random.Generator) -> Snapshot:
    """All that the rest of the fit depends on; taken when no step is pending."""
    state, at, history, best, seconds = standing
    arrays = {f"state.{k}": leaf for k, leaf in enumerate(jax.tree.leaves(state))}
    for name in HISTORY_ARRAYS:
        arrays[f"history.{name}"] = np.array([getattr(p, name) for p in history])
    if best is not None:
        arrays |= {f"best.{k}": leaf for k, leaf in enumerate(jax.tree.leaves(best[1:]))}
    header = {
        "position": asdict(at),
        "phases": [record.phase for record in history],
        "best_nlpd": None if best is None else best.nlpd,
        "generator": rng.bit_generator.state,
        "sampler": data.sampler.state._asdict(),
        "division": data.division,
        "scale": None if data.scale is None else data.scale.tolist(),
        "seconds": seconds,
    }
    return Snapshot({name: np.asarray(array) for name, array in arrays.items()}, header)


def standing_of(
    snapshot: Snapshot, like: State, data: TrainingData, rng: np.random.Generator
) -> Standing:
    """Where the fit stood then, with a state of the same form as ``like``.

    ``data``, divided already as it was then, and ``rng`` go on drawing from where they were.
    """
    arrays, header = snapshot

    def tree(name: str, like: Any) -> Any:
        leaves, structure = jax.tree.flatten(like)
        found = [jnp.asarray(arrays[f"{name}.{k}"]) for k in range(len(leaves))]
        return jax.tree.unflatten(structure, found)

    state: State = tree("state", like)
    columns = {name: arrays[f"history.{name}"].tolist() for name in HISTORY_ARRAYS}
    columns["phase"] = header["phases"]
    records = zip(*columns.values(), strict=True)
    history = [Progress(**dict(zip(columns, r, strict=True))) for r in records]
    best = None
    if header["best_nlpd"] is not None:
        best = Kept(header["best_nlpd"], *tree("best", (state.learned, state.eta)))
    rng.bit_generator.state = header["generator"]
    data.sampler.state = SamplerState(**header["sampler"])
    return Standing(state, Position(**header["position"]), history, best, header["seconds"])


class Stage(NamedTuple):
    """One stage of a fit in the checkpoints of the fit, and the iterations it may take."""

    checkpoint: Checkpoint
    name: str
    max_iter: int

    def due(self) -> bool:
        """Whether the last checkpoint was written long enough ago."""
        return self.checkpoint.due()

    def write(self, snapshot: Snapshot) -> None:
        """Replace the checkpoint of this stage."""
        header = snapshot.header | {"max_iter": self.max_iter}
        self.checkpoint.write(self.name, snapshot._replace(header=header))

    def read(self) -> Snapshot | None:
        """The last checkpoint of this stage, to go on from with ``max_iter``.

        Its iterations were made with the step sizes that its own ``max_iter`` asked for. Those of
        the search do not depend on it (but for ρ in a short fit with blocks, which is then that of
        the longer one): a search can be made longer, and nothing else.
        """
        snapshot = self.checkpoint.read(self.name)
        if snapshot is None or (planned := snapshot.header["max_iter"]) == self.max_iter:
            return snapshot
        position = snapshot.header["position"]
        searching = position["phase"] == "search" and not position["plateaued"]
        if self.max_iter < planned or not searching:
            why = "a search can only be made longer" if searching else "its search is over"
            raise CheckpointError(
                f"checkpoint: this fit cannot go on with max_iter={self.max_iter}: it has made "
                f"{position['iteration']} of {planned} iterations, and {why}. Use "
                f"max_iter={planned}; a finished fit is trained further with warm_start=True."
            )
        header = snapshot.header | {"position": position | {"max_iter": self.max_iter}}
        return snapshot._replace(header=header)
