"""New rows join the blocks that are there, in memory and on disk, whole or not at all."""

import numpy as np
import pytest

from mosaicgp.data import absorbing
from mosaicgp.data.absorbing import absorb
from mosaicgp.data.disk import WorkFolderError, Workspace
from mosaicgp.data.division import divide
from mosaicgp.data.rows import ArrayRows

BLOCK = 20


def table(n, seed):
    rng = np.random.default_rng(seed)
    return ArrayRows(rng.normal(size=(n, 3)), rng.normal(size=n))


def divided(folder):
    """600 rows by block in memory and in a folder, which no fit uses any more."""
    partition, memory = divide(table(600, 0), "tree", BLOCK, np.random.default_rng(1))
    workspace = Workspace(folder)
    _, disk = divide(table(600, 0), "tree", BLOCK, np.random.default_rng(1), None, workspace)
    workspace.release()
    return partition, memory.in_memory(), disk


def absorbed(partition, blocks, folder, new=None):
    rng = np.random.default_rng(2)
    return absorb(partition, blocks, new or table(150, 3), 600, BLOCK, 0.7, rng, folder)


class Streamed(ArrayRows):
    """Rows that come in parts, as those of a dataset do."""

    def gather(self, rows):
        raise AssertionError("rows of a dataset are read in order")


def test_disk_and_memory_take_in_the_same_rows(tmp_path, monkeypatch):
    partition, memory, disk = divided(tmp_path)
    X, y = table(150, 3).X, table(150, 3).y
    expected = absorbed(partition, memory, None).blocks
    monkeypatch.setattr(absorbing, "ABSORB_BLOCKS", 7)
    monkeypatch.setattr(absorbing, "whole", None)
    found = absorbed(partition, disk, tmp_path, Streamed(X, y)).blocks.in_memory()
    for name in ("X", "y", "mask", "rows", "label"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    rows = found.rows[found.rows >= 0]
    assert len(np.unique(rows)) == len(rows) and set(range(600, 750)) <= set(rows)
    new = found.rows >= 600
    np.testing.assert_array_equal(found.X[new], X[found.rows[new] - 600])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks.f64", "work.lock"]


def test_a_disk_that_fills_up_leaves_the_blocks_that_were_there(tmp_path, monkeypatch):
    partition, _, disk = divided(tmp_path)
    before = (tmp_path / "blocks.f64").read_bytes()

    def full(blocks, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(absorbing, "append_blocks", full)
    with pytest.raises(WorkFolderError, match="No space left"):
        absorbed(partition, disk, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks.f64", "work.lock"]
    assert (tmp_path / "blocks.f64").read_bytes() == before == disk.file.between(0, 600).tobytes()
    Workspace(tmp_path).release()  # and the folder is free
