"""From a table to blocks: scaling, partition of the input space, padded blocks of rows."""

from mosaicgp.data.blocks import Blocks, chunk, group
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
    "KMeansCells",
    "Partition",
    "Scaling",
    "build_partition",
    "chunk",
    "group",
]
