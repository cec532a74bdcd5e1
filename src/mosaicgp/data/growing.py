"""Trees of balanced cuts, grown level by level: all nodes of a level that have one size at once.

Node by node, most of the time would go by between calls of NumPy. Rows are held by column (d, n),
along which cuts are found; those of a node lie together, in the order of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_DIRECTION_ROWS = 256  # rows sampled from a node to find its principal direction
_SQUARINGS = 3  # eight steps of power iteration
_LEVEL_ROWS = 2**15  # rows whose levels are cut at once: with more the work arrays leave the cache


class Grown(NamedTuple):
    """A tree with k nodes over n rows, and the rows by leaf; all numbered in preorder.

    A row goes left at node j when its projection on ``direction[j]`` is at most ``threshold[j]``.
    Leaf b has the rows ``order[start[b] : start[b + 1]]``, ascending.
    """

    direction: Array  # (k, d)
    threshold: Array  # (k,)
    children: Labels  # (k, 2): left, right; a node j > 0, or ~leaf
    order: Labels  # (n,)
    start: Labels  # (k + 2,)


def grow(X: Array, n_leaves: int, rng: np.random.Generator, scale: Array) -> Grown:
    """Cuts across the directions in which rows X (n, d) times ``scale`` (d,) vary most.

    Leaves differ by at most one row. Rows that tie stay together: then they may differ by more,
    and there may be fewer.
    """
    n, d = X.shape
    tree = _Tree(min(n_leaves, n), n, d)
    root = _Group(np.zeros(1, dtype=np.int64), n, tree.most_leaves, 0)
    stack = [_Level(np.ascontiguousarray(X.T), np.arange(n), [root])]
    while stack:
        level = stack.pop()
        found = [nodes for group in level.groups for nodes in _cut(level, group, rng, scale, tree)]
        inner = [nodes for nodes in found if nodes.quota > 1]
        for leaves in (nodes for nodes in found if nodes.quota == 1):
            tree.add_leaves(leaves.vertices, level.rows[leaves.places])
        if len(level.rows) > _LEVEL_ROWS:  # depth first, down to what the cache holds
            stack += [level.of([one]) for nodes in reversed(inner) for one in nodes.apart()]
        elif inner:
            stack.append(level.of(inner))
    return tree.grown()


def project(columns: Array, weights: Iterable[float | Array]) -> Array:
    """Projection (...) of rows, given as columns (d, ...), on d weights that broadcast with them.

    One column after the other with elementwise operations, not a matrix product: BLAS rounds
    differently for different shapes, and a row near a threshold would change sides with its batch.
    """
    out: Array = np.zeros(columns.shape[1:])
    term = np.empty_like(out)
    for column, weight in zip(columns, weights, strict=True):
        out += np.multiply(column, weight, out=term)
    return out


class _Nodes(NamedTuple):
    """Nodes to come: g of one size, their rows at ``places`` (g, size) of the level above."""

    vertices: Labels  # (g,)
    places: Labels
    quota: int  # leaves below each

    def apart(self) -> Iterator[_Nodes]:
        """One at a time."""
        for k in range(len(self.vertices)):
            yield self._replace(vertices=self.vertices[k : k + 1], places=self.places[k : k + 1])


class _Group(NamedTuple):
    """Nodes of one size and quota, whose rows follow each other from ``first`` on."""

    vertices: Labels  # (g,)
    size: int
    quota: int
    first: int


class _Level(NamedTuple):
    """Rows of several nodes, node by node."""

    columns: Array  # (d, n)
    rows: Labels  # (n,): their numbers in the table
    groups: list[_Group]

    def of(self, nodes: list[_Nodes]) -> _Level:
        """The level of these nodes below this one; those of one size and quota are joined."""
        alike: dict[tuple[int, int], list[_Nodes]] = {}
        for some in nodes:
            alike.setdefault((some.places.shape[1], some.quota), []).append(some)
        groups, places, first = [], [], 0
        for (size, quota), members in alike.items():
            vertices = np.concatenate([some.vertices for some in members])
            groups.append(_Group(vertices, size, quota, first))
            places += [some.places.ravel() for some in members]
            first += size * len(vertices)
        order = np.concatenate(places)
        return _Level(self.columns.take(order, axis=1), self.rows.take(order), groups)


class _Tree:
    """Vertices, numbered as they come, parents before children; vertex 0 is the root."""

    def __init__(self, most_leaves: int, n: int, d: int) -> None:
        self.most_leaves = most_leaves
        self._n, self._n_vertices = n, 1
        self._direction = np.zeros((2 * most_leaves - 1, d))
        self._threshold = np.zeros(2 * most_leaves - 1)
        self._left = np.full(2 * most_leaves - 1, -1)
        self._right = np.full(2 * most_leaves - 1, -1)
        self._leaves: list[tuple[Labels, Labels]] = []

    def divide(self, vertices: Labels, direction: Array, threshold: Array) -> tuple[Labels, Labels]:
        """The vertices (g,) left and right of g, which are cut so."""
        g = len(vertices)
        left = np.arange(self._n_vertices, self._n_vertices + g)
        self._n_vertices += 2 * g
        self._direction[vertices], self._threshold[vertices] = direction, threshold
        self._left[vertices], self._right[vertices] = left, left + g
        return left, left + g

    def add_leaves(self, vertices: Labels, rows: Labels) -> None:
        """Vertices (g,) that stay whole, and their rows (g, size)."""
        self._leaves.append((vertices, rows))

    def grown(self) -> Grown:
        """All numbered in preorder."""
        left, right = self._left[: self._n_vertices].tolist(), self._right.tolist()
        n_leaves = [1] * self._n_vertices
        for v in reversed(range(self._n_vertices)):
            if left[v] >= 0:
                n_leaves[v] = n_leaves[left[v]] + n_leaves[right[v]]
        node, leaf = [0] * self._n_vertices, [0] * self._n_vertices  # the first at or below v
        for v, (a, b) in enumerate(zip(left, right, strict=False)):
            if a >= 0:
                node[a], leaf[a] = node[v] + 1, leaf[v]
                node[b], leaf[b] = node[v] + n_leaves[a], leaf[v] + n_leaves[a]
        is_node = self._left[: self._n_vertices] >= 0
        number = np.where(is_node, node, ~np.array(leaf))
        nodes = np.flatnonzero(is_node)
        nodes = nodes[np.argsort(number[nodes])]
        order, start = self._rows_by_leaf(np.array(leaf), n_leaves[0])
        return Grown(
            self._direction[nodes],
            self._threshold[nodes],
            np.column_stack([number[self._left[nodes]], number[self._right[nodes]]]),
            order,
            start,
        )

    def _rows_by_leaf(self, leaf: Labels, n_leaves: int) -> tuple[Labels, Labels]:
        sizes = np.zeros(n_leaves, dtype=np.int64)
        for vertices, rows in self._leaves:
            sizes[leaf[vertices]] = rows.shape[1]
        start = np.concatenate([[0], np.cumsum(sizes)])
        order = np.empty(self._n, dtype=np.int64)
        for vertices, rows in self._leaves:
            order[start[leaf[vertices]][:, None] + np.arange(rows.shape[1])] = rows
        return order, start


def _cut(
    level: _Level, group: _Group, rng: np.random.Generator, scale: Array, tree: _Tree
) -> list[_Nodes]:
    """The nodes below those of a group."""
    if group.quota == 1:  # a root that is the only leaf
        return [_Nodes(group.vertices, np.arange(group.size)[None], 1)]
    g, size = len(group.vertices), group.size
    columns = level.columns[:, group.first : group.first + g * size].reshape(-1, g, size)
    left_quota = group.quota // 2
    left_size = left_quota * size // group.quota
    w = _principal_directions(level.columns, group, rng, scale) * scale
    along = project(columns, w.T[:, :, None])
    ranked = np.partition(along, left_size - 1, axis=1)
    low, high = ranked[:, left_size - 1], ranked[:, left_size:].min(axis=1)
    clean = low < high
    threshold = _between(low, high)
    goes_left = along <= threshold[:, None]
    goes_right = ~goes_left
    found = []
    if not clean.all():
        goes_left[~clean] = goes_right[~clean] = False
        for k in np.flatnonzero(~clean):
            found += _cut_ties(level, group, int(k), columns[:, k], w[k], along[k], scale, tree)
        if not clean.any():
            return found
    left, right = tree.divide(group.vertices[clean], w[clean], threshold[clean])
    for vertices, goes, quota in (
        (left, goes_left, left_quota),
        (right, goes_right, group.quota - left_quota),
    ):
        places = np.flatnonzero(goes).reshape(len(vertices), -1)
        places += group.first
        found.append(_Nodes(vertices, places, quota))
    return found


def _cut_ties(
    level: _Level,
    group: _Group,
    k: int,
    columns: Array,
    w: Array,
    along: Array,
    scale: Array,
    tree: _Tree,
) -> list[_Nodes]:
    """The nodes below the k-th of a group, where the middle rows tie along ``w``.

    The cut moves to the nearest boundary, or to the widest axis if all rows tie; rows that are
    all identical are a leaf.
    """
    size, quota = group.size, group.quota
    left_size = quota // 2 * size // quota
    vertex = group.vertices[k : k + 1]
    first = group.first + k * size
    threshold = _threshold(along, left_size)
    if threshold is None:
        w = _widest_axis(columns, scale) * scale
        along = project(columns, w)
        threshold = _threshold(along, left_size)
    if threshold is None:
        tree.add_leaves(vertex, level.rows[None, first : first + size])
        return []
    goes_left = along <= threshold
    n_left = int(np.count_nonzero(goes_left))
    left_quota = quota // 2
    if n_left != left_size:  # leaves follow the rows
        fair = round(quota * n_left / size)
        left_quota = min(max(fair, 1, quota - (size - n_left)), quota - 1, n_left)
    left, right = tree.divide(vertex, w[None], np.array([threshold]))
    return [
        _Nodes(left, first + np.flatnonzero(goes_left)[None], left_quota),
        _Nodes(right, first + np.flatnonzero(~goes_left)[None], quota - left_quota),
    ]


def _threshold(along: Array, left_size: int) -> float | None:
    """Number that ``left_size`` projections, or as near as ties allow, do not exceed.

    None if the projections are all equal.
    """
    ranked = np.partition(along, left_size - 1)
    low, high = ranked[left_size - 1], ranked[left_size:].min()
    if low == high:
        below, above = along[along < low], along[along > low]
        excess = len(along) - len(above) - left_size  # if the tied rows go left
        deficit = left_size - len(below)  # if they go right
        if len(below) == 0 and len(above) == 0:
            return None
        if len(below) == 0 or (len(above) > 0 and excess <= deficit):
            high = above.min()
        else:
            low = below.max()
    return float(_between(low, high))


def _between(low: Array, high: Array) -> Array:
    """Halfway between two projections, so that rows seen later are split evenly too."""
    middle: Array = low + 0.5 * (high - low)
    return np.where(middle < high, middle, low)


def _principal_directions(
    columns: Array, group: _Group, rng: np.random.Generator, scale: Array
) -> Array:
    """Unit vectors (g, d) along which samples of the nodes' scaled rows vary most.

    Zero for a node whose sampled rows are identical.
    """
    g, size = len(group.vertices), group.size
    within = np.arange(size)
    if size > _DIRECTION_ROWS:
        within = rng.integers(size, size=_DIRECTION_ROWS)
    places = group.first + size * np.arange(g)[:, None] + within
    sample = columns.take(places.ravel(), axis=1).reshape(-1, g, len(within))
    sample -= sample[:, :, :1].copy()  # exact for identical rows, and keeps what follows accurate
    rows = sample.transpose(1, 0, 2)  # (g, d, rows)
    mean = rows.mean(axis=2)
    covariance = rows @ rows.transpose(0, 2, 1) / len(within) - mean[:, :, None] * mean[:, None, :]
    covariance *= scale[:, None] * scale
    # Power iteration from the widest axis, by squaring the covariance: should the axis be
    # orthogonal to the principal direction, it is still a good way to cut.
    node = np.arange(g)
    widest = np.argmax(np.diagonal(covariance, axis1=1, axis2=2), axis=1)
    differs = covariance[node, widest, widest] >= np.finfo(np.float64).tiny
    covariance[~differs] = np.eye(len(scale))
    for _ in range(_SQUARINGS if len(scale) > 1 else 0):
        covariance /= covariance[node, widest, widest, None, None]
        covariance = covariance @ covariance
    w: Array = covariance[node, widest]
    w /= np.sqrt(np.einsum("gd,gd->g", w, w))[:, None]
    w[~differs] = 0.0
    return w


def _widest_axis(columns: Array, scale: Array) -> Array:
    """Unit vector (d,) of the axis of largest range: tells any two different rows apart."""
    w = np.zeros(len(columns))
    w[np.argmax(np.ptp(columns, axis=1) * scale)] = 1.0
    return w
