"""Rows of Parquet and CSV files, in a fixed order, from files that must not change."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from mosaicgp.data.encoding import DatasetError, is_text, repeated
from mosaicgp.nearest import did_you_mean

BATCH_ROWS = 65_536
BATCH_VALUES = 2**23  # of wide tables a batch has fewer rows
READAHEAD = 4  # batches read before they are asked for; bounds memory

_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv"}


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows that passed the filter; `row` numbers the first within `file`."""

    batch: pa.RecordBatch
    row: int
    file: str | None = None


@dataclass(frozen=True)
class File:
    """A file as it was when it was opened."""

    path: str
    size: int  # bytes
    mtime: int  # ns
    rows: int | None = None  # None if only reading tells
    layout: str = ""  # digest of the sizes of a Parquet file's row groups

    @classmethod
    def stat(cls, path: str) -> File:
        """Size and time of a file that must exist."""
        if not os.path.isfile(path):
            folder, name = os.path.split(path)
            beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
            hint = did_you_mean(name, beside, close=0.75)  # endings are alike anyway
            raise FileNotFoundError(f"there is no file {path}.{hint}")
        stat = os.stat(path)
        return cls(path, stat.st_size, stat.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raises if the file's size or time of modification differs."""
        try:
            stat = os.stat(self.path)
        except OSError:
            raise DatasetError(f"{self.path} has gone since the dataset was opened.") from None
        if (stat.st_size, stat.st_mtime_ns) != (self.size, self.mtime):
            raise DatasetError(
                f"{self.path} has changed since the dataset was opened ({self.size} bytes then, "
                f"{stat.st_size} now). Open the dataset again when nothing writes to it."
            )


@contextmanager
def _reading(file: File) -> Iterator[None]:
    """Errors of Arrow name the file, and a file that changed meanwhile is an error too."""
    file.check_unchanged()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        file.check_unchanged()
        raise DatasetError(f"{file.path} cannot be read: {error}") from None
    file.check_unchanged()


def batch_rows(n_columns: int) -> int:
    """Rows that are read at a time."""
    return max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, n_columns)))


@dataclass(frozen=True, eq=False)
class FileSource:
    """Rows of Parquet or CSV files, one file after the other."""

    files: tuple[File, ...]
    schema: pa.Schema
    format: ds.FileFormat

    @classmethod
    def open(cls, paths: Sequence[str], text: Collection[str] = ()) -> FileSource:
        """Files of one format and one schema; every footer is read, no rows are.

        A CSV column that starts empty is taken for text if it is among `text`, else for numbers.
        """
        kinds = {path: _format(path) for path in paths}
        if len(set(kinds.values())) > 1:
            a, b = (next(p for p in paths if kinds[p] == k) for k in ("csv", "parquet"))
            raise DatasetError(f"files of one format belong together, but there are {a} and {b}")
        read = _parquet_file if kinds[paths[0]] == "parquet" else _csv_file
        files, schema = [], None
        for path in paths:
            file = File.stat(path)
            with _reading(file):
                file, found = read(file)
            check_names(found, path)
            schema = found if schema is None else _agreed(schema, found, paths[0], path)
            files.append(file)
        if all(file.rows == 0 for file in files):
            raise DatasetError(f"there are no rows in {', '.join(map(os.path.basename, paths))}")
        assert schema is not None
        if kinds[paths[0]] == "csv":
            empty = {f.name for f in schema if pa.types.is_null(f.type)}
            guess = {name: pa.string() if name in text else pa.float64() for name in empty}
            schema = pa.schema([f.with_type(guess.get(f.name, f.type)) for f in schema])
        return cls(tuple(files), schema, _FORMATS[kinds[paths[0]]])

    def _scanner(self, file: File, filter: pc.Expression | None, **options: Any) -> ds.Scanner:
        fragment = self.format.make_fragment(file.path, filesystem=pyarrow.fs.LocalFileSystem())
        return fragment.scanner(
            schema=self.schema,
            filter=filter,
            batch_readahead=READAHEAD,
            fragment_readahead=1,
            **options,
        )

    def pieces(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[Piece]:
        projection = {name: ds.field(name) for name in columns}
        options = {"columns": projection, "batch_size": batch_rows(len(columns))}
        for file in self.files:
            row = 0
            with _reading(file):
                for batch in self._scanner(file, filter, **options).to_batches():
                    yield Piece(batch, row, file.path)
                    row += batch.num_rows

    def count(self, filter: pc.Expression | None) -> int:
        total = 0
        for file in self.files:
            with _reading(file):
                known = file.rows if filter is None else None
                if known is None:
                    known = self._scanner(file, filter, batch_size=BATCH_ROWS).count_rows()
                total += known
        return total

    def check_unchanged(self) -> None:
        for file in self.files:
            file.check_unchanged()

    def identity(self) -> list[Any]:
        self.check_unchanged()
        return [[os.path.basename(f.path), f.size, f.mtime, f.layout] for f in self.files]


def find_files(source: Any) -> list[str]:
    """Paths of the files that a path, folder, glob or list of paths stands for."""
    if not isinstance(source, str | os.PathLike):
        paths = [os.fspath(path) for path in source]
        if not paths:
            raise FileNotFoundError("source: the list of paths is empty")
        return paths
    path = os.fspath(source)
    if os.path.isdir(path):
        inside = [p for p in sorted(os.listdir(path)) if not p.startswith((".", "_"))]
        parquet = [p for p in inside if p.endswith((".parquet", ".pq"))]
        chosen = parquet or [p for p in inside if p.endswith((".csv", ".csv.gz"))]
        if not chosen:
            raise FileNotFoundError(
                f"the folder {path} has no Parquet or CSV files itself. For files in folders below "
                f"it, pass a glob such as {os.path.join(path, '**', '*.parquet')!r}."
            )
        return [os.path.join(path, p) for p in chosen]
    if glob.has_magic(path) and not os.path.exists(path):
        found = sorted(p for p in glob.glob(path, recursive=True) if os.path.isfile(p))
        if not found:
            raise FileNotFoundError(f"no file matches {path}")
        return found
    return [path]


def check_names(schema: pa.Schema, where: str) -> None:
    """Raises if two columns have one name."""
    twice = repeated(schema.names)
    if twice is not None:
        raise DatasetError(f"{where}: two columns are called {twice!r}")


def _format(path: str) -> str:
    name = os.path.basename(path).lower()
    for suffix, kind in _SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    File.stat(path)
    raise DatasetError(f"{path}: the name must end in {', '.join(_SUFFIXES)} or .npy")


def _parquet_file(file: File) -> tuple[File, pa.Schema]:
    with pq.ParquetFile(file.path) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
    for k, field in enumerate(schema):
        if pa.types.is_string_view(field.type):  # Arrow has few functions for it
            schema = schema.set(k, field.with_type(pa.large_string()))
    digest = hashlib.sha256()
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        digest.update(f"{group.num_rows} {group.total_byte_size};".encode())
    return File(file.path, file.size, file.mtime, metadata.num_rows, digest.hexdigest()), schema


def _csv_file(file: File) -> tuple[File, pa.Schema]:
    """Types are guessed from the first block; whole numbers are floats, as later ones may be."""
    with pyarrow.csv.open_csv(file.path, convert_options=_CSV_CONVERT) as reader:
        fields = [
            f.with_type(pa.float64()) if pa.types.is_integer(f.type) else f for f in reader.schema
        ]
    return file, pa.schema(fields)


def _agreed(schema: pa.Schema, other: pa.Schema, first: str, path: str) -> pa.Schema:
    """The schema, when that of another file does not differ; nulls are any type."""
    differs = [f"it has no column {name!r}" for name in schema.names if name not in other.names]
    differs += [
        f"it has a column {name!r} more" for name in other.names if name not in schema.names
    ]
    fields = []
    for field in schema if not differs else ():
        a, b = (_values(f.type) for f in (field, other.field(field.name)))
        if a != b and not (pa.types.is_null(a) or pa.types.is_null(b)):
            differs.append(f"column {field.name!r} holds {b}, not {a}")
        fields.append(other.field(field.name) if pa.types.is_null(a) else field)
    if differs:
        raise DatasetError(f"{path} differs from {os.path.basename(first)}: {'; '.join(differs)}.")
    return pa.schema(fields)


def _values(t: pa.DataType) -> pa.DataType:
    """The type without what two files of the same data may differ in."""
    t = t.value_type if pa.types.is_dictionary(t) else t
    return pa.large_string() if is_text(t) else t


_CSV_CONVERT = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
_FORMATS: dict[str, ds.FileFormat] = {
    # Pre-buffering keeps all that was read of a file: 570 MB for 6 million rows of 9 columns,
    # against 94 MB without, and slower. A column is read a little at a time, into one buffer: read
    # at once, into fresh memory, it takes longer.
    "parquet": ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True, buffer_size=2**20
        )
    ),
    "csv": ds.CsvFileFormat(
        default_fragment_scan_options=ds.CsvFragmentScanOptions(convert_options=_CSV_CONVERT)
    ),
}
