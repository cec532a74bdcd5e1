"""From a table to blocks: encoding, scaling, partition of the input space, blocks of rows."""

from mosaicgp.data.blocks import Blocks, chunk, group
from mosaicgp.data.dataset import Dataset
from mosaicgp.data.encoding import DatasetError, Encoding
from mosaicgp.data.opening import open_dataset
from mosaicgp.data.partition import (
    PARTITIONS,
    BalancedTree,
    KMeansCells,
    Partition,
    build_partition,
)
from mosaicgp.data.scaling import Scaling

__all__ = [
    "PARTITIONS",
    "BalancedTree",
    "Blocks",
    "Dataset",
    "DatasetError",
    "Encoding",
    "KMeansCells",
    "Partition",
    "Scaling",
    "build_partition",
    "chunk",
    "group",
    "open_dataset",
]
