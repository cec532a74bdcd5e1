"""Rules that assign a row of the standardised input space to a block."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from mosaicgp.data.growing import grow, project
from mosaicgp.data.rows import ArrayRows, Rows

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_CHUNK_ROWS = 16_384  # rows routed at a time, so that the work arrays stay in cache
_KMEANS_ROWS = 50  # rows sampled for each centre
_KMEANS_STEPS = 20
_KMEANS_PLUSPLUS_BLOCKS = 256  # beyond, a k-means++ start takes longer than all steps after it


class Partition(ABC):
    """Assigns rows to blocks 0 .. n_blocks - 1; made of arrays only, so it can be saved.

    The block of a row depends on that row alone, to the bit, whatever rows it comes with.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of blocks, each of which held at least one row when the partition was built."""

    @abstractmethod
    def assign(self, X: ArrayLike) -> Labels:
        """Block (n,) of each row of X (n, d)."""

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray]:
        """The arrays from which `from_arrays` restores the partition."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Partition:
        """Inverse of `to_arrays`."""


@final
@dataclass(frozen=True, eq=False)
class BalancedTree(Partition):
    """Binary tree of cuts across principal directions, with blocks of equal size.

    A row goes left at node j when its projection on `direction[j]` is at most `threshold[j]`.
    Nodes and leaves are numbered in preorder, so blocks with close numbers are close in space.
    """

    kind: ClassVar[str] = "tree"

    direction: Array  # (n_nodes, d)
    threshold: Array  # (n_nodes,)
    children: Labels  # (n_nodes, 2): left, right; a node j > 0, or ~block for a leaf

    @classmethod
    def build(
        cls,
        X: ArrayLike,
        n_blocks: int,
        rng: np.random.Generator,
        scale: Array | None = None,
    ) -> BalancedTree:
        """Tree over the rows of X (n, d) whose block sizes differ by at most one.

        Cuts go across the directions in which the rows times ``scale`` (d,) vary most. Rows that
        tie stay together: then sizes may differ by more, and there may be fewer blocks.
        """
        return cls.grow(X, n_blocks, rng, scale)[0]

    @classmethod
    def grow(
        cls,
        X: ArrayLike,
        n_blocks: int,
        rng: np.random.Generator,
        scale: Array | None = None,
    ) -> tuple[BalancedTree, Labels, Labels]:
        """The tree of ``build``, and which rows of X are in which block, as ``assign`` has it."""
        X = np.asarray(X, dtype=np.float64)
        scale = np.ones(X.shape[1]) if scale is None else scale
        direction, threshold, children, order, start = grow(X, n_blocks, rng, scale)
        return cls(direction, threshold, children), order, start

    def grafted(self, branches: Sequence[BalancedTree]) -> BalancedTree:
        """This tree with its blocks divided further, block b by ``branches[b]``."""
        n_nodes = np.cumsum([len(self.threshold), *(len(b.threshold) for b in branches)])
        first_block = np.cumsum([0, *(b.n_blocks for b in branches)])
        # Where a row goes that comes to block b: the root of its branch, or its only leaf.
        roots = np.where(np.diff(n_nodes) > 0, n_nodes[:-1], ~first_block[:-1])
        children = [np.where(self.children < 0, roots[~self.children], self.children)]
        for branch, node, block in zip(branches, n_nodes, first_block, strict=False):
            below = branch.children
            children.append(np.where(below < 0, below - block, below + node))
        return BalancedTree(
            np.concatenate([self.direction, *(b.direction for b in branches)]),
            np.concatenate([self.threshold, *(b.threshold for b in branches)]),
            np.concatenate(children),
        )

    @property
    def n_blocks(self) -> int:
        return len(self.threshold) + 1

    def assign(self, X: ArrayLike) -> Labels:
        X = _checked(X, self.direction.shape[1])
        out = np.zeros(len(X), dtype=np.int64)
        if len(self.threshold) == 0:
            return out
        weights = np.ascontiguousarray(self.direction.T)
        children = self.children.ravel()
        for start in range(0, len(X), _CHUNK_ROWS):
            columns = np.ascontiguousarray(X[start : start + _CHUNK_ROWS].T)
            rows = np.arange(start, start + columns.shape[1])
            node = np.zeros(len(rows), dtype=np.int64)
            while len(rows):
                along = project(columns, (w.take(node) for w in weights))
                goes_right = along > self.threshold[node]
                node = children[2 * node + goes_right]
                arrived = node < 0
                if arrived.any():
                    out[rows[arrived]] = ~node[arrived]
                    columns = columns.compress(~arrived, axis=1)
                    rows, node = rows[~arrived], node[~arrived]
        return out

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            "direction": self.direction,
            "threshold": self.threshold,
            "children": self.children,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> BalancedTree:
        direction = np.asarray(arrays["direction"], dtype=np.float64)
        threshold = np.asarray(arrays["threshold"], dtype=np.float64)
        children = np.asarray(arrays["children"], dtype=np.int64)
        k = len(threshold)
        if direction.ndim != 2 or len(direction) != k or children.shape != (k, 2):
            raise ValueError("partition: the arrays of the tree do not fit together")
        # Every node and every leaf has one parent, and comes after it: no row can go in circles.
        below = np.sort(children, axis=None)
        expected = np.concatenate([np.arange(-k - 1, 0), np.arange(1, k)]) if k else below
        forward = (children < 0) | (children > np.arange(k)[:, None])
        if not (np.array_equal(below, expected) and forward.all()):
            raise ValueError("partition: `children` does not describe a tree")
        return cls(direction, threshold, children)


@final
@dataclass(frozen=True, eq=False)
class KMeansCells(Partition):
    """Cells of the rows nearest to each k-means centre: the paper's rule; sizes vary widely."""

    kind: ClassVar[str] = "kmeans"

    centres: Array  # (n_blocks, d), in the scaled space
    scale: Array  # (d,)

    @classmethod
    def build(
        cls,
        X: ArrayLike,
        n_blocks: int,
        rng: np.random.Generator,
        scale: Array | None = None,
    ) -> KMeansCells:
        """K-means on the rows of X (n, d), or on a sample of them; empty cells are dropped.

        Distances are those between rows times ``scale`` (d,).
        """
        X = np.asarray(X, dtype=np.float64)
        return cls.of_rows(ArrayRows(X, np.empty(len(X))), n_blocks, rng, scale)

    @classmethod
    def of_rows(
        cls, rows: Rows, n_blocks: int, rng: np.random.Generator, scale: Array | None = None
    ) -> KMeansCells:
        """The same of rows that need not fit in memory: only the sample does."""
        from sklearn.cluster import KMeans  # here: slow to import, and no other fit needs it
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits

        n = rows.count()
        scale = np.ones(rows.n_features) if scale is None else scale
        n_blocks = min(n_blocks, n)
        chosen = np.arange(n)
        if n > _KMEANS_ROWS * n_blocks:
            chosen = np.sort(rng.choice(n, _KMEANS_ROWS * n_blocks, replace=False))
        sample, _ = rows.gather(chosen)
        # Lloyd's steps, not MiniBatchKMeans: on 200,000 rows and 4,000 centres the latter was four
        # times slower and ended with a larger within-cell variance.
        kmeans = KMeans(
            n_blocks,
            init="k-means++" if n_blocks <= _KMEANS_PLUSPLUS_BLOCKS else "random",
            n_init=1,
            max_iter=_KMEANS_STEPS,
            random_state=int(rng.integers(2**31)),
        )
        with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
            # Fewer distinct rows than blocks: the surplus centres are dropped below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # One thread, because threads add up the centres in the order in which they finish.
            centres = kmeans.fit(sample * scale).cluster_centers_
        cells = cls(np.unique(centres, axis=0), scale)
        # Repeated because dropping a centre may change how rows between two others are decided.
        while not (used := cells._used_by(rows)).all():
            cells = cls(cells.centres[used], scale)
        return cells

    def _used_by(self, rows: Rows) -> NDArray[np.bool_]:
        """Which cells (n_blocks,) hold any of the rows."""
        used = np.zeros(self.n_blocks, dtype=bool)
        for X, _ in rows.chunks():
            used[self.assign(X)] = True
        return used

    @property
    def n_blocks(self) -> int:
        return len(self.centres)

    def assign(self, X: ArrayLike) -> Labels:
        X = _checked(X, self.centres.shape[1])
        # A k-d tree looks at one row at a time; a matrix product would round with the batch.
        nearest = cKDTree(self.centres).query(X * self.scale, workers=-1)[1]
        return np.asarray(nearest, dtype=np.int64)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"centres": self.centres, "scale": self.scale}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> KMeansCells:
        centres = np.asarray(arrays["centres"], dtype=np.float64)
        if centres.ndim != 2 or len(centres) == 0:
            raise ValueError("partition: `centres` must have shape (n_blocks, d)")
        scale = np.asarray(arrays.get("scale", np.ones(centres.shape[1])), dtype=np.float64)
        if scale.shape != centres.shape[1:]:
            raise ValueError("partition: `scale` must have shape (d,)")
        return cls(centres, scale)


PARTITIONS: dict[str, type[BalancedTree] | type[KMeansCells]] = {
    cls.kind: cls for cls in (BalancedTree, KMeansCells)
}


def _checked(X: ArrayLike, d: int) -> Array:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X: must have shape (n, {d}), got {X.shape}")
    return X
