"""Tiles are where rows of their block are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.path import Path

from mosaicgp.data.partition import PARTITIONS
from mosaicgp.mosaic import _cells, _clipped, _nearest

BOX = (np.array([-3.0, -2.0]), np.array([3.0, 2.0]))


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("n_blocks", [1, 2, 23])
def test_cells_of_a_partition_hold_exactly_its_rows(kind, d, n_blocks):
    rng = np.random.default_rng(d + n_blocks)
    rows = rng.uniform(BOX[0][:d], BOX[1][:d], size=(500, d))
    scale = rng.uniform(0.3, 3.0, size=d)
    partition = PARTITIONS[kind].build(rows, n_blocks, rng, scale)
    cells = _cells(partition, BOX)
    places = rng.uniform(*BOX, size=(400, 2))
    block = partition.assign(places[:, :d])
    for b, outline in enumerate(cells):
        np.testing.assert_array_equal(Path(outline).contains_points(places), block == b)


def test_what_is_nearest_to_a_point():
    rng = np.random.default_rng(3)
    points = rng.uniform(*BOX, size=(40, 2))
    points[1] = points[0]  # the same place twice
    cells = _nearest(points, BOX)
    places = rng.uniform(*BOX, size=(300, 2))
    nearest = np.argmin(np.sum((places[:, None] - points) ** 2, axis=2), axis=1)
    holds = np.array([Path(cell).contains_points(places) for cell in cells])
    np.testing.assert_array_equal(holds.sum(axis=0), 1)
    found = np.argmax(holds, axis=0)
    found[found == 1] = 0
    np.testing.assert_array_equal(found, nearest)


def test_an_outline_that_is_cut_away_is_empty():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert _clipped(square, np.full(4, -1.0)).shape == (0, 2)
    np.testing.assert_array_equal(_clipped(square, np.full(4, 1.0)), square)
