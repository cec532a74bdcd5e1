"""Predictions of whole tables, from files to files, a part at a time."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mosaicgp.progress import counting_line
from mosaicgp.validation import number

if TYPE_CHECKING:
    import pyarrow as pa

    from mosaicgp.data.dataset import Dataset

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

# Rows that are predicted, and written to one file, at a time.
PART_ROWS = 2**18


def predict_to(
    predict: Predict,
    dataset: Dataset,
    out: str | Path,
    level: float,
    overwrite: bool,
    verbose: int,
) -> int:
    """Write mean, std and the bounds of the ``level`` interval of every row; the rows written.

    ``out`` is a Parquet file, if it ends so, or else a folder of them, in the order of the rows.
    It appears when it is whole.
    """
    out = Path(out)
    if not 0.0 < number("level", level, 0.0) < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level}.")
    if out.suffix not in ("", ".parquet"):
        raise ValueError(f"out: predictions are written as Parquet; {out.name} should end so.")
    if dataset.drops_rows:
        raise ValueError(
            "X: a dataset opened with missing='drop' leaves rows out, and predictions could not be "
            "matched with theirs. Fill in or filter out what is missing first."
        )
    _check_target(out, dataset, overwrite)
    beside = out.with_name(out.name + ".part")
    _remove(beside)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with counting_line(verbose, "predicting", dataset.count()) as show:
            n = _write(_tables(predict, dataset, level), beside, out.suffix == ".parquet", show)
        if out.is_dir():
            _remove(out)
        os.replace(beside, out)
    except BaseException:
        _remove(beside)
        raise
    return n


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
    if out.is_dir():
        others = [p.name for p in out.iterdir() if not re.fullmatch(r"part-\d+\.parquet", p.name)]
        if others:
            raise FileExistsError(
                f"{out} holds {others[0]!r}, which is no prediction; choose another folder."
            )


def _tables(predict: Predict, dataset: Dataset, level: float) -> Iterator[pa.Table]:
    import pyarrow as pa

    z = float(ndtri(0.5 + 0.5 * level))
    for X, _ in dataset.chunks(PART_ROWS):
        mean, std = predict(X)
        columns = {"mean": mean, "std": std, "lower": mean - z * std, "upper": mean + z * std}
        yield pa.table(columns)


def _write(
    tables: Iterator[pa.Table], path: Path, one_file: bool, show: Callable[[int], None]
) -> int:
    import pyarrow.parquet as pq

    n, writer = 0, None
    try:
        for k, table in enumerate(tables):
            if one_file:
                writer = writer or pq.ParquetWriter(path, table.schema)
                writer.write_table(table)
            else:
                path.mkdir(exist_ok=True)
                pq.write_table(table, path / f"part-{k:05d}.parquet")
            n += table.num_rows
            show(n)
    finally:
        if writer is not None:
            writer.close()
    return n


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
