"""What a model was trained on, for whoever finds its file later."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mosaicgp._version import __version__
from mosaicgp.data.rows import is_dataset
from mosaicgp.validation import columns_of


@dataclass(frozen=True)
class TrainedOn:
    """The rows of a fit, and when it was.

    ``columns`` are those of the source, before dates and categories became features, ``files``
    names without folders; both are empty, and ``target`` is None, where the data were arrays.
    ``rows`` includes those of later updates, ``when`` is the last of them (UTC, ISO 8601).
    ``dropped`` are rows that the fit left out for missing values.
    """

    rows: int
    columns: tuple[str, ...]
    target: str | None
    files: tuple[str, ...]
    filter: str | None
    when: str
    version: str
    updates: int = 0
    dropped: int = 0

    @classmethod
    def of(cls, X: Any, rows: int) -> TrainedOn:
        """The record of a fit of X, a dataset or anything else, that ends now."""
        version, when = __version__, _now()
        if not is_dataset(X):
            columns = tuple(map(str, columns_of(X) or ()))
            return cls(rows, columns, None, (), None, when, version)
        from mosaicgp.data.sources import TARGET  # whoever has a dataset has imported Arrow

        files = tuple(path.name for path in X.paths)
        target = None if X.target == TARGET else X.target
        names, dropped = X.encoding.column_names, X.dropped or 0
        return cls(rows, names, target, files, X.filter, when, version, dropped=dropped)

    def updated(self, rows: int) -> TrainedOn:
        """The record after so many more rows."""
        return replace(
            self,
            rows=self.rows + rows,
            when=_now(),
            version=__version__,
            updates=self.updates + 1,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrainedOn:
        """Inverse of ``to_json``."""
        tuples = {name: tuple(data[name]) for name in ("columns", "files")}
        return cls(**(data | tuples))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
