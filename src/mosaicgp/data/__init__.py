"""From a table to blocks: encoding, scaling, partition of the input space, blocks of rows."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaicgp.data.dataset import Dataset
    from mosaicgp.data.encoding import DatasetError, Encoding
    from mosaicgp.data.opening import open_dataset

__all__ = ["Dataset", "DatasetError", "Encoding", "open_dataset"]

# Loaded when asked for: a fit of arrays does without Arrow.
_HOME = {
    "Dataset": "dataset",
    "DatasetError": "encoding",
    "Encoding": "encoding",
    "open_dataset": "opening",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
