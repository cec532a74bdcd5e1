"""What a run has done, in a file of JSON lines, so that an interrupted run goes on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mosaicgp.atomic import whole_file
from mosaicgp.checkpoints import FORMAT_VERSION
from mosaicgp.data.disk import FolderInUseError, FolderLock
from mosaicgp.experiments.settings import Line, Unit

END = "end"

# Settings that name a result and decide nothing about it: a file may have been renamed.
NAMES = ("data", "mosaicgp")


class JournalError(ValueError):
    """A folder that a run cannot go on in; the message says why."""


class Journal:
    """Lines of one kind of work in a folder, one for each point of a unit.

    A line holds the unit, the point (an iteration, or "end"), the values, and the settings they
    were found with; all lines of a file have the same settings, but for ``NAMES``. The file is
    replaced as a whole by every new line, so that it is never seen half written. A lock keeps a
    second run out.
    """

    def __init__(self, folder: Path, name: str, settings: dict[str, Any]) -> None:
        self._folder, self.settings = folder, json.loads(json.dumps(settings))
        self._path = folder / f"{name}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(folder / f".{name}.lock")
        except (OSError, FolderInUseError) as error:
            raise JournalError(
                f"--out: the folder {folder} cannot be used ({error}). Choose another that you may "
                "write to, or wait if a run is under way there."
            ) from error
        try:
            self.lines = self._read()
        except JournalError:
            self._lock.close()
            raise

    def _read(self) -> list[Line]:
        if not self._path.exists():
            return []
        try:
            lines = [json.loads(text) for text in self._path.read_text().splitlines()]
            theirs = [line["settings"] for line in lines]
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(
                f"{self._path} is damaged ({error!r}). Remove it to start again."
            ) from error
        for other in theirs:
            differing = sorted(
                name
                for name in self.settings.keys() | other.keys()
                if name not in NAMES and self.settings.get(name) != other.get(name)
            )
            same_file = other.get("data") == self.settings.get("data")
            if same_file and {"target", "fingerprint"} <= set(differing):
                differing.remove("fingerprint")  # of what the rows hold, the target with it
            if differing:
                changes = ", ".join(
                    "the rows are other ones"
                    if name == "fingerprint"
                    else f"{name} was {other.get(name)!r}, is {self.settings.get(name)!r}"
                    for name in differing
                )
                raise JournalError(
                    f"{self._path} holds results of other settings ({changes}). Use the same "
                    "settings, or another --out."
                )
        return lines

    def points(self, unit: Unit) -> frozenset[int | str]:
        """The points of a unit that are there."""
        return frozenset(line["point"] for line in self.lines if _unit(line) == unit)

    def add(self, unit: Unit, point: int | str, values: Line) -> None:
        """Write a line, unless the point is there."""
        if point in self.points(unit):
            return
        line = {**unit._asdict(), "point": point, **values, "settings": self.settings}
        lines = [*self.lines, json.loads(json.dumps(line))]
        with whole_file(self._path) as beside, beside.open("w") as file:
            file.writelines(json.dumps(each) + "\n" for each in lines)
            file.flush()
            os.fsync(file.fileno())
        self.lines = lines

    def of(self, units: list[Unit]) -> list[Line]:
        """The lines of these units, in their order."""
        order = {unit: k for k, unit in enumerate(units)}
        return sorted(
            (line for line in self.lines if _unit(line) in order),
            key=lambda line: order[_unit(line)],
        )

    def checkpoint(self, unit: Unit) -> Path:
        """A folder for the checkpoints of the fit of a unit, until :meth:`forget`; of other
        settings, or of checkpoints of another format, another."""
        name = "".join(c if c.isalnum() else "_" for c in unit.method)
        decisive = {name: v for name, v in self.settings.items() if name not in NAMES}
        told = json.dumps([decisive, FORMAT_VERSION], sort_keys=True)
        settings = hashlib.sha256(told.encode()).hexdigest()
        folder = f"{self._path.stem}-{name}-{unit.split}-{settings[:8]}"
        return self._folder / ".checkpoints" / folder

    def forget(self, unit: Unit) -> None:
        """Remove the checkpoints of a unit, and their folder with the last of them."""
        folder = self.checkpoint(unit)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.is_dir() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()


def _unit(line: Line) -> Unit:
    return Unit(line["method"], line["split"])
