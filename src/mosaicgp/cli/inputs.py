"""Tables and models that commands are given, checked with a message that helps."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaicgp.cli.console import BAD_INPUT, say, stop
from mosaicgp.cli.options import Selection
from mosaicgp.nearest import column_hint, listed_names

if TYPE_CHECKING:
    import pyarrow as pa

    from mosaicgp.data.dataset import Dataset
    from mosaicgp.estimator import SparseGPRegressor

STANDARD = "-"

# Names that a message lists at most.
SHOWN = 20


def open_table(data: Sequence[str], target: str | None, selection: Selection) -> Dataset:
    """The rows that were asked for, with every named column there."""
    from mosaicgp.data.opening import open_dataset

    source = table_source(data)
    schema = open_dataset(source).schema
    names = list(schema.names)
    if target is not None:
        _require(target, "--target", names)
    exclude = column_names(selection.exclude, "exclude", names)
    columns = column_names(selection.columns, "columns", names)
    kinds = dict.fromkeys(column_names(selection.categorical, "categorical", names), "onehot")
    kinds |= dict.fromkeys(column_names(selection.ordinal, "ordinal", names), "ordinal")
    inputs = [n for n in columns or names if n not in exclude and (columns or n != target)]
    if not inputs:
        stop(f"no input columns are left of {_listed(names)}.", BAD_INPUT)
    _check_text([n for n in inputs if n != target], schema, kinds)
    return open_dataset(
        source,
        target=target,
        columns=inputs if columns or exclude else None,
        filter=selection.where,
        categorical={name: kind for name, kind in kinds.items() if name not in exclude},
        missing=selection.missing,
    )


def open_for(
    model: SparseGPRegressor, data: Sequence[str], target: str | None, selection: Selection
) -> Dataset:
    """Rows with the columns that a model was fitted on, and the target if there is to be one."""
    from mosaicgp.data.opening import open_dataset

    source = table_source(data)
    names = list(open_dataset(source).schema.names)
    kinds = {}
    if model.encoding_ is not None:
        for column in model.encoding_.column_names:
            _require(column, "the model's input", names)
        kinds = {c.name: c.kind for c in model.encoding_.columns if c.categories}
    if target is not None and target not in names:
        stop(
            f"there is no column {target!r} to check predictions by.{column_hint(target, names)} "
            f"The columns are {_listed(names)}; --target names another.",
            BAD_INPUT,
        )
    dataset = open_dataset(
        source,
        target=target,
        filter=selection.where,
        categorical=kinds,
        missing=selection.missing,
    )
    return dataset if model.encoding_ is None else dataset.with_encoding(model.encoding_)


def table_source(data: Sequence[str]) -> Any:
    """What ``open_dataset`` opens: paths, or the table on standard input."""
    if STANDARD not in data:
        return data[0] if len(data) == 1 else list(data)
    if len(data) > 1:
        stop("standard input (-) cannot be read together with files.", BAD_INPUT)
    return _standard_input()


def _standard_input() -> pa.Table:
    """Parquet, Arrow or CSV, as its first bytes say."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if sys.stdin.isatty():
        say("Reading a table from the terminal; Ctrl-D ends it.")
    content = sys.stdin.buffer.read()
    if not content.strip():
        stop("nothing came on standard input.", BAD_INPUT)
    reader = pa.BufferReader(content)
    try:
        if content.startswith(b"PAR1"):
            return pq.read_table(reader)
        if content.startswith(b"ARROW1"):
            return pa.ipc.open_file(reader).read_all()
        if content.startswith(b"\xff\xff\xff\xff"):
            return pa.ipc.open_stream(reader).read_all()
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        return pyarrow.csv.read_csv(reader, convert_options=options)
    except pa.ArrowException as error:
        stop(f"standard input cannot be read as a table: {error}", BAD_INPUT)


def column_names(typed: Sequence[str], option: str, names: Sequence[str]) -> list[str]:
    """Columns, of options that were repeated or have commas in them; each must be there."""
    found = listed_names(typed, names)
    for name in found:
        _require(name, f"--{option}", names)
    return found


def _require(name: str, what: str, names: Sequence[str]) -> None:
    if name in names:
        return
    hint = column_hint(name, names)
    stop(f"{what}: there is no column {name!r}.{hint} The columns are {_listed(names)}.", BAD_INPUT)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def _check_text(inputs: Sequence[str], schema: pa.Schema, kinds: dict[str, str]) -> None:
    """All columns of text at once: a CSV file often has several."""
    from mosaicgp.data.encoding import is_text

    text = [name for name in inputs if name not in kinds and is_text(schema.field(name).type)]
    if not text:
        return
    several = len(text) > 1
    option = ",".join(text)
    option = f"'{option}'" if " " in option else option
    stop(
        f"{'columns' if several else 'column'} {_listed(text)} {'hold' if several else 'holds'} "
        f"text. If the words are categories, say so: --categorical {option}. If they are names, "
        f"remarks or the like, leave them out: --exclude {option}.",
        BAD_INPUT,
    )


def load_model(path: Path) -> SparseGPRegressor:
    """A saved model."""
    from mosaicgp.estimator import SparseGPRegressor

    return SparseGPRegressor.load(path)


def target_of(model: SparseGPRegressor) -> str:
    """The column that a model was fitted to predict."""
    if model.trained_on_ is None or model.trained_on_.target is None:
        stop("the model does not know the name of its target; pass --target.", BAD_INPUT)
    return model.trained_on_.target


def check_output(path: Path, force: bool) -> None:
    """Refuse, before any work, to replace a file unasked or to write where there is no folder."""
    if path.exists() and not path.is_file():
        stop(f"{path} is not a file; choose another name.", BAD_INPUT)
    if path.exists() and not force:
        stop(f"{path} is there already; pass --force to replace it.", BAD_INPUT)
    folder = path.resolve().parent
    if not folder.is_dir():
        stop(f"there is no folder {path.parent} to write {path.name} into.", BAD_INPUT)
    if not os.access(folder, os.W_OK):
        stop(f"the folder {folder} cannot be written to.", BAD_INPUT)


def check_picture(path: Path | None, force: bool, option: str = "plot") -> None:
    """The same of a picture, whose ending must be one that can be drawn."""
    if path is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in known:
        stop(f"--{option}: {path} must end in one of {', '.join(known)}.", BAD_INPUT)
    check_output(path, force)
