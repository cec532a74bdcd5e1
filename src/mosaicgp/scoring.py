"""Predictions of whole tables, from files to files, a part at a time."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mosaicgp.atomic import BESIDE
from mosaicgp.data.encoding import DatasetError, require
from mosaicgp.data.writing import ENDINGS, FORMATS, format_of, table_writer
from mosaicgp.progress import counting_line
from mosaicgp.validation import number, one_of

if TYPE_CHECKING:
    import pyarrow as pa

    from mosaicgp.data.dataset import Dataset

FloatArray = NDArray[np.float64]
Moments = tuple[FloatArray, FloatArray | None]  # mean, and std if it was asked for
Report = Callable[[int], None]
Predict = Callable[[FloatArray, Report], Moments]

COLUMNS = ("mean", "std", "lower", "upper")


class Options(NamedTuple):
    """Of the interval, the output and what is shown; ``keep`` are columns of the source."""

    level: float
    overwrite: bool
    verbose: int
    keep: tuple[str, ...]
    format: str | None


def predict_to(
    predict: Predict, dataset: Dataset, out: str | Path | BinaryIO, rows: int, options: Options
) -> int:
    """Write mean, std and the bounds of the ``level`` interval of every row; the rows written.

    So many ``rows`` are predicted, and written to one file of a folder, at a time; ``predict``
    reports those it has done. Columns to keep come first. ``out`` is a file, of the format that its
    ending says, or without an ending a folder of Parquet files, in the order of the rows; it
    appears when it is whole. Or it is an open binary file, which takes a ``format``.
    """
    level, overwrite, verbose, keep, format = options
    if not 0.0 < number("level", level, 0.0) < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level}.")
    _check_rows(dataset, keep)
    if not isinstance(out, str | Path):
        one_of("format", format, FORMATS)
        assert format is not None
        with counting_line(verbose, "predicting", dataset.count()) as show:
            return _write(_tables(predict, dataset, level, keep, rows, show), out, format)
    out = Path(out)
    if out.suffix and format_of(out) is None:
        raise ValueError(
            f"out: predictions are written as {', '.join(ENDINGS)}, or to a folder of Parquet "
            f"files; {out.name} should end so."
        )
    _check_target(out, dataset, overwrite)
    beside = out.with_name(out.name + BESIDE)
    _remove(beside)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with counting_line(verbose, "predicting", dataset.count()) as show:
            tables = _tables(predict, dataset, level, keep, rows, show)
            if out.suffix:
                n = _write(tables, beside, str(format_of(out)))
            else:
                n = _write_folder(tables, beside)
        if out.is_dir():
            _remove(out)
        os.replace(beside, out)
    except OSError as error:
        _remove(beside)
        raise OSError(
            f"out: could not write the predictions to {out} ({error}). Make room there, or choose "
            "another place."
        ) from error
    except BaseException:
        _remove(beside)
        raise
    return n


def _check_rows(dataset: Dataset, keep: Sequence[str]) -> None:
    """Refuse predictions that nobody could match with their rows."""
    if dataset.drops_rows and not keep:
        raise ValueError(
            "X: a dataset opened with missing='drop' leaves rows out, and predictions could not be "
            "matched with theirs. Name columns that tell rows apart, with keep=[...], or fill in "
            "or filter out what is missing first."
        )
    require(keep, dataset.schema, "keep")
    for name in keep:
        if name in COLUMNS:
            raise DatasetError(
                f"keep: predictions have a column {name!r} of their own. Rename yours first."
            )


def _check_target(out: Path, dataset: Dataset, overwrite: bool) -> None:
    """Refuse what predictions must not replace, before any work."""
    if not out.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{out} is there already; pass overwrite=True to replace it.")
    if out.is_symlink():
        raise FileExistsError(f"{out} is a link; name what it points to, {out.resolve()}.")
    mine = out.resolve()
    if any(mine == source or mine in source.parents for source in dataset.paths):
        raise FileExistsError(f"{out} holds the rows to predict; choose another place.")
    if out.is_dir() and out.suffix:
        raise FileExistsError(f"{out} is a folder; choose another name for the file.")
    if out.is_dir():
        others = [p.name for p in out.iterdir() if not re.fullmatch(r"part-\d+\.parquet", p.name)]
        if others:
            raise FileExistsError(
                f"{out} holds {others[0]!r}, which is no prediction; choose another folder."
            )


def _tables(
    predict: Predict,
    dataset: Dataset,
    level: float,
    keep: Sequence[str],
    rows: int,
    show: Report,
) -> Iterator[pa.Table]:
    """Columns to keep and predictions, so many rows at a time; ``show`` is told of all so far."""
    import pyarrow as pa

    z = float(ndtri(0.5 + 0.5 * level))
    total = 0

    def done(more: int) -> None:
        nonlocal total
        total += more
        show(total)

    for X, kept in dataset.chunks_with(keep, rows):
        mean, std = predict(X, done)
        values = (mean,) if std is None else (mean, std, mean - z * std, mean + z * std)
        columns = dict(zip(COLUMNS, values, strict=False))
        before = {name: _decoded(kept.column(name)) for name in keep}
        yield pa.table(before | columns)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Categories as what they stand for: another part may have others, which formats refuse."""
    import pyarrow as pa

    is_dictionary = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_dictionary else column


def _write(tables: Iterator[pa.Table], sink: Path | BinaryIO, format: str) -> int:
    n, first = 0, next(tables)
    with table_writer(sink, format, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            n += table.num_rows
    return n


def _write_folder(tables: Iterator[pa.Table], path: Path) -> int:
    path.mkdir()
    n = 0
    for k, table in enumerate(tables):
        n += _write(iter([table]), path / f"part-{k:05d}.parquet", "parquet")
    return n


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
