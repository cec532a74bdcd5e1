"""Checkpoints: a folder in which a fit leaves its state, and from which it goes on.

A file is written beside and moved into place, and carries a digest of its arrays: a reader sees
the last whole checkpoint or an error, never half of one. A lock keeps a second fit out.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialise

from mosaicgp._version import __version__
from mosaicgp.atomic import BESIDE, whole_file
from mosaicgp.data.disk import SCRATCH, FolderInUseError, FolderLock

FORMAT_VERSION = 3

# Seconds between two checkpoints, at least.
INTERVAL = 2.0

# The stage that holds the seed of a fit, from before its first step.
SEED = "seed"


class CheckpointError(ValueError):
    """A checkpoint that cannot be gone on from, or a folder in use; the message says why."""


class Snapshot(NamedTuple):
    """What a fit needs to go on: arrays by name, and everything else as JSON has it."""

    arrays: dict[str, np.ndarray]
    header: dict[str, Any]


def has_state(folder: Path) -> bool:
    """Whether a fit left its state in the folder, or below it, and not only its seed."""
    return any(path.stem != SEED for path in folder.rglob("*.checkpoint"))


class Checkpoint:
    """The checkpoints of one fit, by stage of the fit.

    ``identity`` tells one fit from another: the arguments by name, and a fingerprint of the data.
    """

    def __init__(self, folder: str | Path, identity: dict[str, Any], resume: bool) -> None:
        self._folder = Path(folder)
        self._identity = json.loads(json.dumps(identity))
        self._written = -np.inf
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign_files()
            self._lock = FolderLock(self._folder / "checkpoint.lock")
            for left in self._folder.glob(f"*.checkpoint{BESIDE}"):  # by a fit that was killed
                left.unlink()
        except (OSError, FolderInUseError) as error:
            raise CheckpointError(
                f"checkpoint: the folder {folder} cannot be used ({error}). Choose "
                "another folder that you may write to, or wait if a fit is running there."
            ) from error
        try:
            self._check_present(resume)
        except CheckpointError:
            self.close()
            raise

    def _refuse_foreign_files(self) -> None:
        """A folder of data, taken by mistake, should not get checkpoints among its files."""
        own = {".checkpoint", BESIDE, ".lock", ".f64"}
        for path in self._folder.iterdir():
            if path.suffix not in own and not path.name.startswith(SCRATCH):
                raise FileExistsError(f"it holds {path.name!r}, which is no checkpoint")

    def _check_present(self, resume: bool) -> None:
        stages = sorted(path.stem for path in self._folder.glob("*.checkpoint"))
        if stages and not resume:
            raise CheckpointError(
                f"checkpoint: {self._folder} holds the checkpoint of an earlier fit. Pass "
                "resume=True to go on with it, or remove the folder."
            )
        for stage in stages:
            self.read(stage)

    def read(self, stage: str) -> Snapshot | None:
        """The last checkpoint of a stage, if there is one."""
        path = self._path(stage)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {})["mosaicgp"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
            raise CheckpointError(
                f"checkpoint: {path} is truncated or damaged ({error}). Remove it to start this "
                "stage of the fit again."
            ) from error
        if header["format_version"] != FORMAT_VERSION:
            raise CheckpointError(
                f"checkpoint: {path} has format {header['format_version']}, of mosaicgp "
                f"{header['mosaicgp_version']}; this is {__version__}, which reads format "
                f"{FORMAT_VERSION}. Go on with the version that wrote it, or start again in "
                "another folder."
            )
        if header["digest"] != digest(arrays):
            raise CheckpointError(
                f"checkpoint: {path} is damaged: its arrays do not have the digest it names. "
                "Remove it to start this stage of the fit again."
            )
        self._check_identity(path, header["identity"])
        return Snapshot(arrays, header["state"])

    def _check_identity(self, path: Path, theirs: dict[str, Any]) -> None:
        if theirs.get("data") != self._identity["data"]:
            raise CheckpointError(
                f"checkpoint: {path} belongs to other data. Pass the data it was made with, or "
                "another folder."
            )
        ours = self._identity["arguments"]
        differing = sorted(
            name
            for name in ours.keys() | theirs["arguments"].keys()
            if ours.get(name) != theirs["arguments"].get(name)
        )
        if differing:
            name = differing[0]
            raise CheckpointError(
                f"checkpoint: {path} belongs to a fit with other arguments ({', '.join(differing)}:"
                f" {name} was {theirs['arguments'].get(name)!r}, is {ours.get(name)!r}). Use the "
                "same, or another folder."
            )

    def seed(self, drawn: int) -> int:
        """The seed of the fit: ``drawn`` when it begins, and the same when it goes on."""
        before = self.read(SEED)
        if before is not None:
            return int(before.header["seed"])
        self.write(SEED, Snapshot({}, {"seed": drawn}))
        self._written = -np.inf
        return drawn

    def due(self) -> bool:
        """Whether the last one was written long enough ago."""
        return perf_counter() - self._written >= INTERVAL

    def write(self, stage: str, snapshot: Snapshot) -> None:
        """Replace the checkpoint of a stage, whole or not at all."""
        arrays = {name: np.asarray(a, order="C") for name, a in snapshot.arrays.items()}
        header = {
            "format_version": FORMAT_VERSION,
            "mosaicgp_version": __version__,
            "identity": self._identity,
            "digest": digest(arrays),
            "state": snapshot.header,
        }
        path = self._path(stage)
        try:
            with whole_file(path) as beside, beside.open("wb") as file:
                file.write(serialise(arrays, metadata={"mosaicgp": json.dumps(header)}))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CheckpointError(
                f"checkpoint: could not write to {path} ({error}). The checkpoint before it is "
                "kept; make room and go on with resume=True."
            ) from error
        self._written = perf_counter()

    def close(self) -> None:
        """Let other fits in."""
        self._lock.close()

    def _path(self, stage: str) -> Path:
        return self._folder / f"{stage}.checkpoint"


def describe(folder: str | Path) -> dict[str, Any]:
    """What a folder of checkpoints says of its fit: version, arguments, iterations by stage.

    Read without the lock, so that a fit under way can be looked at.
    """
    stages: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for path in sorted(Path(folder).glob("*.checkpoint")):
        try:
            with safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {})["mosaicgp"])
                evaluations = "entries" in file.keys() and file.get_slice("entries").get_shape()[0]  # noqa: SIM118
        except (SafetensorError, KeyError, json.JSONDecodeError) as error:
            raise CheckpointError(f"checkpoint: {path} is damaged ({error}).") from error
        found = {"version": header["mosaicgp_version"], **header["identity"]}
        if (position := header["state"].get("position")) is not None:
            names = ("iteration", "max_iter", "phase")
            stages[path.stem] = {name: position[name] for name in names}
        elif evaluations:
            stages[path.stem] = {"evaluations of the bound": evaluations}
    if not found:
        raise CheckpointError(f"checkpoint: {folder} holds no checkpoint.")
    return {**found, "stages": stages}


def digest(arrays: dict[str, np.ndarray]) -> str:
    """What tells these arrays from others."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(name.encode())
        found.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
