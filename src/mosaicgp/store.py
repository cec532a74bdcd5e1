"""Saved models: one safetensors file, arrays with a versioned JSON header. Loading runs no code.

Training rows that are on disk are copied into the file a part at a time, and stay there when the
model is loaded: it reads the blocks it needs from its file.
"""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from mosaicgp._version import __version__
from mosaicgp.arguments import plain, switches
from mosaicgp.atomic import whole_file
from mosaicgp.data.blocks import Blocks
from mosaicgp.data.disk import DiskBlocks, RecordFile
from mosaicgp.data.encoding import Encoding
from mosaicgp.data.partition import PARTITIONS
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference.result import FitResult
from mosaicgp.kept import Kept
from mosaicgp.posterior import Posterior
from mosaicgp.record import TrainedOn
from mosaicgp.tables import Table

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor

FORMAT = "mosaicgp-model"
FORMAT_VERSION = 1

RECORDS = "blocks.records"
COPY_ROWS = 2**17

DTYPES = {
    np.dtype(np.float64): "F64",
    np.dtype(np.float32): "F32",
    np.dtype(np.int64): "I64",
    np.dtype(np.bool_): "BOOL",
}

BLOCK_FIELDS = ("X", "y", "mask", "rows", "label")
SCALING_FIELDS = ("X_mean", "X_scale", "y_mean", "y_scale")


class StoreError(ValueError):
    """A file that is not a model this version can read; the message says why."""


def save(model: SparseGPRegressor, path: str | Path) -> None:
    """Write a fitted model, whole or not at all."""
    path = Path(path)
    groups: dict[str, dict[str, np.ndarray]] = {
        "posterior": model.posterior_.to_arrays(),
        "scaling": {name: np.asarray(getattr(model.scaling_, name)) for name in SCALING_FIELDS},
        "history": {name: column for name, column in model.history_.items()},
        "nodes": {"theta": model.theta_nodes_},
    }
    if model.partition_ is not None:
        groups["partition"] = model.partition_.to_arrays()
    on_disk = None
    if model._fitted.switches.approximation.local and model.blocks_ is not None:
        if isinstance(model.blocks_, DiskBlocks):
            on_disk = model.blocks_.file
            least = np.array(model.blocks_.least)
            groups["blocks"] = {
                "start": model.blocks_.start,
                "label": model.blocks_.label,
                "least": least,
            }
        else:
            groups["blocks"] = {name: getattr(model.blocks_, name) for name in BLOCK_FIELDS}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "mosaicgp_version": __version__,
        "parameters": plain(model._arguments),
        "partition": None if model.partition_ is None else model.partition_.kind,
        "n_features": model.n_features_in_,
        "feature_names": _names(model),
        "encoding": None if model.encoding_ is None else model.encoding_.to_json(),
        "fit_result": asdict(model.fit_result_),
        "block_rows": model._fitted.block_rows,
        "rows_seen": model.n_rows_seen_,
        "rows_numbered": model._n_rows_numbered,
        "trained_on": None if model.trained_on_ is None else model.trained_on_.to_json(),
    }
    arrays = {
        f"{group}.{name}": np.asarray(array, order="C")
        for group, members in groups.items()
        for name, array in members.items()
    }
    try:
        with whole_file(path) as beside:
            _write(beside, arrays, json.dumps(header), on_disk)
    except OSError as error:
        raise OSError(f"could not write the model to {path}: {error}") from error


def _write(
    path: Path, arrays: dict[str, np.ndarray], header: str, on_disk: RecordFile | None
) -> None:
    """A safetensors file. Not by safetensors' own writer, which wants all of it in memory, and
    whose files only their owner can read."""
    index: dict[str, Any] = {"__metadata__": {"mosaicgp": header}}
    shapes = [(name, a.dtype, a.shape) for name, a in arrays.items()]
    if on_disk is not None:
        # First, so that its rows are aligned for whoever maps them.
        shapes.insert(0, (RECORDS, np.dtype(np.float64), (on_disk.n, on_disk.width)))
    end = 0
    for name, dtype, shape in shapes:
        start, end = end, end + dtype.itemsize * math.prod(shape)
        index[name] = {"dtype": DTYPES[dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(index).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for first in range(0, 0 if on_disk is None else on_disk.n, COPY_ROWS):
            assert on_disk is not None
            file.write(on_disk.between(first, min(first + COPY_ROWS, on_disk.n)).data)
        for array in arrays.values():
            file.write(array.tobytes())


def load(path: str | Path) -> SparseGPRegressor:
    """Read a model that ``save`` wrote."""
    from mosaicgp.estimator import SparseGPRegressor

    header, arrays = _read(Path(path))
    try:
        parameters = dict(header["parameters"])
        parameters["prior"] = tuple(parameters["prior"])
        model = SparseGPRegressor(**parameters)
        model.n_features_in_ = int(header["n_features"])
        if header["feature_names"] is not None:
            model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        scaling: dict[str, Any] = {
            k: v if v.ndim else float(v) for k, v in _group(arrays, "scaling").items()
        }
        blocks = _blocks(Path(path), _group(arrays, "blocks"))
        kind = header["partition"]
        rows_seen = float(header.get("rows_seen", 0.0))
        kept = Kept(
            arguments=parameters,
            switches=switches(model, round(rows_seen), 0),
            posterior=Posterior.from_arrays(_group(arrays, "posterior")),
            scaling=Scaling(**scaling),
            partition=PARTITIONS[kind].from_arrays(_group(arrays, "partition")) if kind else None,
            blocks=blocks,
            nodes=arrays["nodes.theta"],
            fit_result=FitResult(**header["fit_result"]),
            history=Table(_group(arrays, "history")),
            block_rows=int(header.get("block_rows", _block_rows_of_version_1(parameters))),
            rows_seen=rows_seen,
            rows_numbered=int(header.get("rows_numbered", 0)),
            encoding=Encoding.from_json(encoding) if (encoding := header.get("encoding")) else None,
            trained_on=TrainedOn.from_json(found) if (found := header.get("trained_on")) else None,
        )
        model._keep(kept)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise StoreError(
            f"{path} has the header of a mosaicgp model but lacks parts of one ({error}); "
            "it was not written by SparseGPRegressor.save or was changed since."
        ) from error
    return model


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.exists():
        raise FileNotFoundError(f"no model at {path}: there is no such file.")
    if path.is_dir():
        held = "a checkpoint of a fit" if any(path.glob("*.checkpoint")) else "a folder"
        raise StoreError(f"{path} is {held}, not a saved model.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("mosaicgp")
            if text is None:
                raise StoreError(f"{path} is a safetensors file, but not a mosaicgp model.")
            header = json.loads(text)
            _check_version(path, header)
            names = [name for name in file.keys() if name != RECORDS]  # noqa: SIM118
            return header, {name: file.get_tensor(name) for name in names}
    except (SafetensorError, json.JSONDecodeError) as error:
        if zipfile.is_zipfile(path):
            raise StoreError(
                f"{path} is not a saved model. If SparseGPRegressor.export wrote it, it is a "
                "predictor: mosaicgp.serving.load(path) reads it."
            ) from None
        raise StoreError(
            f"{path} is not a mosaicgp model, or is truncated or damaged ({error})."
        ) from error


def _blocks(path: Path, arrays: dict[str, np.ndarray]) -> Blocks | DiskBlocks | None:
    if "start" not in arrays:
        return Blocks(**arrays) if arrays else None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))[RECORDS]
    n, width = entry["shape"]
    records = RecordFile(path.resolve(), n, width, 8 + length + entry["data_offsets"][0])
    return DiskBlocks(records, arrays["start"], arrays["label"], int(arrays["least"]))


def _check_version(path: Path, header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT:
        raise StoreError(f"{path} is not a mosaicgp model.")
    version = header.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise StoreError(
            f"{path} has format version {version}, written by mosaicgp "
            f"{header.get('mosaicgp_version')}; this is {__version__}, which reads up to "
            f"{FORMAT_VERSION}. Install a newer mosaicgp."
        )


def _group(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    prefix = name + "."
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}


def _block_rows_of_version_1(parameters: dict[str, Any]) -> int:
    """Early files did not say; all were of exact inference."""
    return 128 if parameters["block_size"] == "auto" else int(parameters["block_size"])


def _names(model: SparseGPRegressor) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
