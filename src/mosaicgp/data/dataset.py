"""Datasets: rows from any source as float64 chunks, encoded alike on every pass."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from mosaicgp.data.encoding import (
    CATEGORICAL,
    ColumnEncoding,
    DatasetError,
    Encoding,
    FloatArray,
    column_kind,
    learn_encoding,
)
from mosaicgp.data.files import BATCH_ROWS, Piece
from mosaicgp.data.sources import ArraySource, Source
from mosaicgp.validation import whole

Chunk = tuple[FloatArray, FloatArray | None]


class Dataset:
    """Rows that can be read again and again; made by `open_dataset`. Immutable but for caches."""

    def __init__(
        self,
        source: Source,
        target: str | None,
        columns: tuple[str, ...] | None,
        filter: pc.Expression | None,
        categorical: Mapping[str, str],
        missing: str,
        encoding: Encoding | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._columns = columns
        self._filter = filter
        self._categorical = dict(categorical)
        self._missing = missing
        self._encoding = encoding
        self._count: int | None = None
        self._dropped: int | None = None

    def __repr__(self) -> str:
        names = [name for name in self._source.schema.names if name != self._target]
        return f"Dataset(columns={list(self._columns or names)}, target={self._target!r})"

    @property
    def paths(self) -> list[Path]:
        """Files that the rows come from; none for rows in memory."""
        files = getattr(self._source, "files", ())
        return [Path(file.path).resolve() for file in files]

    @property
    def drops_rows(self) -> bool:
        """Whether rows with missing values are left out."""
        return self._missing == "drop"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source, with their types."""
        return self._source.schema

    @property
    def filter(self) -> str | None:
        """The filter as text, if there is one."""
        return None if self._filter is None else str(self._filter)

    @property
    def target(self) -> str | None:
        """Name of the target column, None for rows to predict."""
        return self._target

    @property
    def encoding(self) -> Encoding:
        """How columns become features. The first use reads the categorical columns, if any."""
        if self._encoding is None:
            schema = self._source.schema
            names = self._columns or tuple(n for n in schema.names if n != self._target)
            kinds = {n: column_kind(schema.field(n), self._categorical.get(n)) for n in names}
            read = [name for name, kind in kinds.items() if kind in CATEGORICAL]
            pieces = self._source.pieces(read, self._filter)
            self._encoding = learn_encoding(kinds, (piece.batch for piece in pieces))
            self._source.check_unchanged()
        return self._encoding

    def with_encoding(self, encoding: Encoding) -> Dataset:
        """The same rows encoded as a fitted model did; other columns are ignored."""
        encoding.check(self._source.schema)
        return Dataset(
            self._source,
            self._target,
            encoding.column_names,
            self._filter,
            self._categorical,
            self._missing,
            encoding,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names (d,) of the features."""
        return self.encoding.feature_names

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.encoding.n_features

    @property
    def dropped(self) -> int | None:
        """Rows dropped for a missing value in the last whole pass; None before there was one."""
        return 0 if self._missing == "error" else self._dropped

    def chunks(self, rows: int = BATCH_ROWS) -> Iterator[Chunk]:
        """X (k, d) in C order and y (k,), or None; k is `rows` but for the last chunk.

        Chunks of a float64 array are views of it, and cannot be written to.
        """
        rows = whole("rows", rows, 1)
        several = max(1, BATCH_ROWS // rows)  # an array is read in pieces that chunks fit into
        return _rechunk(self._kept(several * rows), rows)

    def chunks_with(
        self, columns: Sequence[str], rows: int = BATCH_ROWS
    ) -> Iterator[tuple[FloatArray, pa.Table]]:
        """X (k, d) and these columns of the source, as they are, of the same k ≥ ``rows`` rows, or
        in the last chunk of what is left."""
        if not columns:
            yield from ((X, pa.table({})) for X, _ in self.chunks(rows))
            return
        schema = pa.schema([self.schema.field(name) for name in columns])
        inputs: list[FloatArray] = []
        batches: list[pa.RecordBatch] = []
        held = 0
        for X, y, piece in self._encoded(tuple(columns)):
            keep, batch = self._complete(X, y, piece), piece.batch.select(columns)
            if keep is not None:
                X, batch = X[keep], batch.filter(pa.array(keep))
            inputs.append(X)
            batches.append(batch)
            held += len(X)
            if held >= rows:
                yield np.concatenate(inputs), pa.Table.from_batches(batches, schema)
                inputs, batches, held = [], [], 0
        self._source.check_unchanged()
        if held:
            yield np.concatenate(inputs), pa.Table.from_batches(batches, schema)

    def count(self) -> int:
        """Rows kept, after filter and dropping: from metadata if that tells, or in one pass."""
        if self._count is None and self._missing == "error":
            count = self._source.count(self._filter)
            self._check_rows(count, 0)
            self._count = count
        elif self._count is None:
            for _ in self._kept(BATCH_ROWS):
                pass
        assert self._count is not None
        return self._count

    def gather(self, rows: ArrayLike) -> Chunk:
        """X (k, d) and y (k,), or None, of the kept rows with these numbers (k,), sorted."""
        wanted = np.asarray(rows)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise TypeError("rows: must be a 1-d array of integers")
        if wanted.size and (wanted[0] < 0 or np.any(wanted[1:] < wanted[:-1])):
            raise ValueError("rows: must be sorted, from 0")
        wanted = wanted.astype(np.int64)
        X = np.empty((len(wanted), self.n_features))
        y = None if self._target is None else np.empty(len(wanted))
        start = done = 0
        for X_piece, y_piece in self._kept(BATCH_ROWS) if len(wanted) else ():
            stop = int(np.searchsorted(wanted, start + len(X_piece)))
            here = wanted[done:stop] - start
            X[done:stop] = X_piece[here]
            if y is not None and y_piece is not None:
                y[done:stop] = y_piece[here]
            start, done = start + len(X_piece), stop
            if done == len(wanted):
                self._source.check_unchanged()
                return X, y
        if done < len(wanted):
            raise IndexError(f"rows: there is no row {wanted[-1]}; the dataset has {start} rows")
        return X, y

    def to_arrays(self) -> Chunk:
        """X (n, d) and y (n,), or None, of all rows."""
        if self._direct() and self._missing == "error":
            [arrays] = self.chunks(self.count())  # a view, if the array is one of float64
            return arrays
        X = np.empty((self.count(), self.n_features))
        y = None if self._target is None else np.empty(len(X))
        start = 0
        for X_piece, y_piece in self._kept(BATCH_ROWS):
            stop = start + len(X_piece)
            X[start:stop] = X_piece
            if y is not None and y_piece is not None:
                y[start:stop] = y_piece
            start = stop
        return X, y

    def fingerprint(self) -> str:
        """SHA-256 of what identifies the data.

        Files count by name, size, time and row groups, without being read; data in memory by
        every value of the kept rows.
        """
        identity = self._source.identity()
        what = {
            "encoding": self.encoding.to_json(),
            "target": self._target,
            "filter": self.filter,
            "missing": self._missing,
            "files": identity,
        }
        digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode())
        if identity is None:
            digest.update(str((self.count(), self.n_features)).encode())
            for X, y in self.chunks():
                digest.update(X.data)
                digest.update(b"" if y is None else y.data)
        elif isinstance(self._source, ArraySource) and self._source.y is not None:
            digest.update(np.ascontiguousarray(self._source.y, dtype=np.float64).data)
        return digest.hexdigest()

    def _direct(self) -> bool:
        """Whether chunks are cut from an array as it is."""
        numbers = all(column.kind == "number" for column in self.encoding.columns)
        return isinstance(self._source, ArraySource) and self._filter is None and numbers

    def _kept(self, rows: int) -> Iterator[Chunk]:
        """Rows that are kept, in pieces of any size; at the end, counts are taken."""
        kept = dropped = 0
        for X, y, piece in self._encoded_array(rows) if self._direct() else self._encoded():
            keep = self._complete(X, y, piece)
            if keep is not None:
                dropped += len(X) - int(np.count_nonzero(keep))
                X, y = X[keep], None if y is None else y[keep]
            kept += len(X)
            yield X, y
        self._source.check_unchanged()
        self._check_rows(kept, dropped)
        self._count, self._dropped = kept, dropped

    def _encoded(
        self, others: tuple[str, ...] = ()
    ) -> Iterator[tuple[FloatArray, FloatArray | None, Piece]]:
        """Pieces of the source, with what they become; they have ``others`` among their columns."""
        encoding = self.encoding
        names, target = encoding.column_names + others, None
        if self._target is not None:
            names, target = (*names, self._target), ColumnEncoding(self._target, "number")
        for piece in self._source.pieces(tuple(dict.fromkeys(names)), self._filter):
            try:
                X = encoding.encode(piece.batch)
            except DatasetError as error:
                raise DatasetError(f"{piece.file}: {error}" if piece.file else str(error)) from None
            y = None
            if target is not None:
                y = np.empty((len(X), 1))
                target.write(piece.batch.column(target.name), y)
            yield X, None if y is None else y[:, 0], piece

    def _encoded_array(self, rows: int) -> Iterator[tuple[FloatArray, FloatArray | None, Piece]]:
        source = self._source
        assert isinstance(source, ArraySource)
        picked = [int(name[1:]) for name in self.encoding.column_names]
        all_columns = picked == list(range(source.array.shape[1]))
        for start in range(0, len(source.array), rows):
            source.check_unchanged()  # before, as reading past a map's new end kills the process
            block = source.array[start : start + rows]
            X = np.ascontiguousarray(block if all_columns else block[:, picked], dtype=np.float64)
            X = X.view()
            X.flags.writeable = False  # it may be the user's own array
            y = None
            if self._target is not None:
                y = source.column(self._target, slice(start, start + rows))
            yield X, y, Piece(None, start)

    def _complete(self, X: FloatArray, y: FloatArray | None, at: Piece) -> NDArray[np.bool_] | None:
        """Which rows (n,) miss no value, None if all; an infinity raises, and so may a NaN."""
        with np.errstate(all="ignore"):  # a finite sum has finite terms, and is cheap
            if np.isfinite(X.sum()) and (y is None or np.isfinite(y.sum())):
                return None
        cells = X if y is None else np.column_stack([X, y])
        bad = np.isinf(cells) if self._missing == "drop" else ~np.isfinite(cells)
        if bad.any():
            row, feature = np.argwhere(bad)[0]
            names = (*self.encoding.feature_columns, self._target)
            infinite = np.isinf(cells[row, feature])
            what = "an infinity" if infinite else "a missing value (null or NaN)"
            where = f"row {at.row + row}"
            where += "" if self._filter is None else " of those that pass the filter"
            where += f" of {at.file}" if at.file else ""
            remedy = "Correct it, or filter such rows out."
            if not infinite:
                remedy = "Fill it in, or pass missing='drop' to leave such rows out."
            raise DatasetError(f"column {names[feature]!r} has {what} in {where}. {remedy}")
        return np.asarray(np.isfinite(cells).all(axis=1))

    def _check_rows(self, kept: int, dropped: int) -> None:
        if kept == 0:
            why = "" if self._filter is None else f" that pass the filter {self._filter}"
            why += f"; {dropped} were dropped for missing values" if dropped else ""
            raise DatasetError(f"there are no rows{why}.")


def _rechunk(pieces: Iterator[Chunk], rows: int) -> Iterator[Chunk]:
    """The same rows in chunks of exactly `rows`, the last one of what is left."""
    parts: list[Chunk] = []
    held = 0
    for X, y in pieces:
        start = 0
        while len(X) - start >= rows - held:
            stop = start + rows - held
            parts.append((X[start:stop], None if y is None else y[start:stop]))
            yield _joined(parts)
            parts, held, start = [], 0, stop
        if start < len(X):
            parts.append((X[start:], None if y is None else y[start:]))
            held += len(X) - start
    if parts:
        yield _joined(parts)


def _joined(parts: list[Chunk]) -> Chunk:
    if len(parts) == 1:
        return parts[0]
    ys = [y for _, y in parts if y is not None]
    return np.concatenate([X for X, _ in parts]), np.concatenate(ys) if ys else None
