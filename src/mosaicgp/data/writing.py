"""Tables written a part at a time, as Parquet, CSV or Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".arrow": "arrow"}
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))


def format_of(path: Path) -> str | None:
    """The format that the ending of a file's name stands for; None if no format does."""
    return ENDINGS.get(path.suffix.lower())


@contextmanager
def table_writer(sink: Path | BinaryIO, format: str, schema: pa.Schema) -> Iterator[Any]:
    """Something with ``write_table``; Arrow is a file on disk, and a stream in a pipe."""
    if format == "parquet":
        import pyarrow.parquet as pq

        writer: Any = pq.ParquetWriter(sink, schema)
    elif format == "csv":
        import pyarrow.csv

        writer = pyarrow.csv.CSVWriter(sink, schema)
    elif isinstance(sink, Path):
        writer = pa.ipc.new_file(sink, schema)
    else:
        writer = pa.ipc.new_stream(sink, schema)
    try:
        yield writer
    finally:
        writer.close()
