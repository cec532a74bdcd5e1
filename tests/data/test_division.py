"""Division of rows into blocks: in one round or two, in memory or on disk."""

import pickle
import sys
import tracemalloc

import numpy as np
import pytest

from mosaicgp.data import buckets, division
from mosaicgp.data.blocks import LARGEST_CELL, TableBlocks
from mosaicgp.data.disk import DiskBlocks, WorkFolderError, Workspace, bytes_of
from mosaicgp.data.partition import BalancedTree
from mosaicgp.data.rows import ArrayRows

N, D, BLOCK = 5000, 3, 40


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return ArrayRows(rng.normal(size=(N, D)) * [1.0, 3.0, 0.2], rng.normal(size=N))


@pytest.fixture
def in_buckets(monkeypatch):
    monkeypatch.setattr(division, "BUCKET_ROWS", 700)
    monkeypatch.setattr(division, "SAMPLE_ROWS", 400)
    monkeypatch.setattr(buckets, "RUN_ROWS", 900)


def divided(rows, kind="tree", workspace=None, scale=None):
    return division.divide(rows, kind, BLOCK, np.random.default_rng(1), scale, workspace)


def members(blocks):
    return [blocks.rows_of(b) for b in range(blocks.n_blocks)]


@pytest.mark.parametrize("kind", ["tree", "kmeans"])
def test_every_row_is_in_the_block_that_the_partition_says(rows, kind, in_buckets):
    partition, blocks = divided(rows, kind)
    found = members(blocks)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(N))
    labels = partition.assign(rows.X)
    for label, part in zip(blocks.label, found, strict=True):
        assert np.all(labels[part] == label)
    X, y, mask = blocks.take(np.array([3]))
    np.testing.assert_array_equal(X[0][mask[0] > 0], rows.X[found[3]])
    np.testing.assert_array_equal(y[0][mask[0] > 0], rows.y[found[3]])


def test_blocks_of_two_rounds_are_balanced_within_a_bucket(rows, in_buckets):
    _, blocks = divided(rows)
    assert blocks.sizes.min() >= BLOCK - 5 and blocks.sizes.max() <= BLOCK + 5


def test_blocks_differ_by_a_row_where_buckets_hold_a_block_squared(rows, monkeypatch):
    """As they do by default: 131,072 rows a bucket, more or less, and 256 · 255 = 65,280."""
    monkeypatch.setattr(division, "BUCKET_ROWS", 2 * 25**2)
    monkeypatch.setattr(division, "SAMPLE_ROWS", 400)
    _, blocks = division.divide(rows, "tree", 25, np.random.default_rng(1))
    assert set(blocks.sizes) == {24, 25}


@pytest.mark.parametrize(("kind", "bucket_rows"), [("tree", 2**17), ("tree", 700), ("kmeans", 700)])
@pytest.mark.parametrize("scale", [None, np.array([1.0, 0.1, 5.0])])
def test_disk_and_memory_divide_alike(rows, kind, bucket_rows, scale, monkeypatch, tmp_path):
    monkeypatch.setattr(division, "BUCKET_ROWS", bucket_rows)
    monkeypatch.setattr(buckets, "RUN_ROWS", 900)
    partition, blocks = divided(rows, kind, scale=scale)
    same, on_disk = divided(rows, kind, Workspace(tmp_path / "work"), scale)
    assert isinstance(blocks, TableBlocks) and isinstance(on_disk, DiskBlocks)
    for name, array in partition.to_arrays().items():
        np.testing.assert_array_equal(array, same.to_arrays()[name])
    units = np.array([0, blocks.n_blocks - 1, 7, 7])
    for ours, theirs in zip(blocks.take(units), on_disk.take(units), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(blocks.label, on_disk.label)
    assert [p.tolist() for p in members(blocks)] == [p.tolist() for p in members(on_disk)]
    copy = pickle.loads(pickle.dumps(on_disk))
    np.testing.assert_array_equal(copy.take(units).X, on_disk.take(units).X)
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["blocks.f64", "work.lock"]


def test_a_grafted_tree_is_a_tree(rows, in_buckets):
    partition, _ = divided(rows)
    again = BalancedTree.from_arrays(partition.to_arrays())  # which checks its form
    np.testing.assert_array_equal(again.assign(rows.X), partition.assign(rows.X))


def test_ties_and_constant_columns_are_divided_too(in_buckets):
    X = np.repeat(np.arange(6.0), 500)[:, None] * [1.0, 0.0]
    partition, blocks = divided(ArrayRows(X, np.arange(3000.0)))
    assert np.array_equal(np.sort(np.concatenate(members(blocks))), np.arange(3000))
    assert blocks.sizes.max() <= LARGEST_CELL * BLOCK
    assert partition.n_blocks >= 6


def test_a_temporary_folder_goes_with_its_owner():
    workspace = Workspace(None)
    path = workspace.path
    assert path.is_dir()
    del workspace
    assert not path.exists()


def test_a_folder_without_room_is_refused(rows, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(WorkFolderError, match=r"needs .* GB .* choose another folder"):
        divided(rows, workspace=Workspace(tmp_path / "full"))
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["work.lock"]


def test_a_folder_that_cannot_be_written_or_is_in_use_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkFolderError, match="work_dir"):
        Workspace(tmp_path / "file" / "below")
    first = Workspace(tmp_path / "mine")
    with pytest.raises(WorkFolderError, match="another fit is running"):
        Workspace(tmp_path / "mine")
    first.release()
    Workspace(tmp_path / "mine").release()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files")
@pytest.mark.parametrize("rows_that_fit", [100, 2000])
def test_a_disk_that_fills_up_is_named(rows, rows_that_fit, in_buckets, monkeypatch, tmp_path):
    """While rows are scattered, or while they are written by block."""
    import resource

    monkeypatch.setattr(buckets, "GROUPS", 8)
    workspace = Workspace(tmp_path / "work")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of(rows_that_fit, D), before[1]))
    try:
        with pytest.raises(WorkFolderError, match=r"cannot be written \(.*Make room"):
            divided(rows, workspace=workspace)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    workspace.release(keep=False)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["work.lock"]


def test_scattered_rows_go_as_buckets_are_placed(rows, in_buckets, monkeypatch, tmp_path):
    """So that the disk never holds all rows twice."""
    monkeypatch.setattr(buckets, "GROUPS", 4)
    left, done = [], buckets.FileBuckets.done

    def watched(self, bucket):
        done(self, bucket)
        left.append(len(list((tmp_path / "work").glob("mosaicgp-buckets-*/runs-*.f64"))))

    monkeypatch.setattr(buckets.FileBuckets, "done", watched)
    divided(rows, workspace=Workspace(tmp_path / "work"))
    assert len(left) > 4 and left == sorted(left, reverse=True)
    assert set(left) == {4, 3, 2, 1, 0}


def test_rows_that_tie_ask_for_room_when_it_is_known(in_buckets, monkeypatch, tmp_path):
    """All in one bucket they are on disk twice; what was asked for before was less."""
    n = 12_000
    tied = ArrayRows(np.ones((n, D)), np.arange(float(n)))
    first = division.working_bytes(n, D)
    assert first < 2 * bytes_of(n, D)
    usage = type("Usage", (), {"free": first})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    scatter = buckets.FileBuckets.__init__

    def takes_room(self, *arguments):
        scatter(self, *arguments)
        usage.free -= bytes_of(n, D)

    monkeypatch.setattr(buckets.FileBuckets, "__init__", takes_room)
    with pytest.raises(WorkFolderError, match="needs"):
        divided(tied, workspace=Workspace(tmp_path / "work"))
    assert not list((tmp_path / "work").glob("mosaicgp-*"))


def test_a_failure_in_a_thread_is_raised(rows, in_buckets, monkeypatch, tmp_path):
    def fails(*arguments):
        raise MemoryError("too large")

    monkeypatch.setattr(BalancedTree, "grow", fails)
    with pytest.raises(MemoryError, match="too large"):
        divided(rows, workspace=Workspace(tmp_path / "work"))
    assert not [path for path in (tmp_path / "work").iterdir() if path.is_dir()]


def test_rows_of_a_new_table_are_arranged_as_the_partition_says(rows, in_buckets, tmp_path):
    partition, _ = divided(rows)
    rng = np.random.default_rng(5)
    other = ArrayRows(rng.normal(size=(3000, D)), rng.normal(size=3000))
    expected = division.regroup(other.X, other.y, partition, BLOCK)
    for workspace in (None, Workspace(tmp_path / "work")):
        found = division.arranged(other, partition, BLOCK, workspace).in_memory()
        for name in ("X", "y", "mask", "rows", "label"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_a_table_in_memory_is_divided_in_a_few_bytes_a_row(monkeypatch):
    monkeypatch.setattr(division, "BUCKET_ROWS", 2**12)
    monkeypatch.setattr(division, "SAMPLE_ROWS", 2**12)
    monkeypatch.setattr(buckets, "RUN_ROWS", 2**12)
    n = 2**18
    rng = np.random.default_rng(0)
    table = ArrayRows(rng.normal(size=(n, D)), rng.normal(size=n))
    tracemalloc.start()
    _, blocks = division.divide(table, "tree", 256, rng)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / n < 5  # a number of four bytes, and a share of the tree
    assert peak / n < 20  # the table itself has 32
    assert blocks.n == n
