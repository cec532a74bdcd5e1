"""Files of rows, working folders, and memory that goes back to the system."""

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from mosaicgp.data.disk import RecordFile, Workspace
from mosaicgp.data.memory import give_back


def test_what_a_killed_fit_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "mosaicgp-buckets-dead").mkdir()
    (tmp_path / "mosaicgp-buckets-dead" / "runs-0.f64").write_bytes(b"rows")
    (tmp_path / "blocks.f64.part").write_bytes(b"half")
    (tmp_path / "buckets-mine").mkdir()
    Workspace(tmp_path).release()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["buckets-mine", "work.lock"]


def test_a_temporary_folder_may_be_asked_for_in_one_that_is_not_there_yet(tmp_path):
    workspace = Workspace(None, within=tmp_path / "new" / "one")
    assert workspace.path.parent == tmp_path / "new" / "one"


def test_records_are_read_by_position(tmp_path):
    path = tmp_path / "rows.f64"
    table = np.random.default_rng(0).normal(size=(50, 5))
    path.write_bytes(b"12345678" + table.tobytes())
    file = RecordFile(path, 50, 5, offset=8)
    np.testing.assert_array_equal(file.between(7, 31), table[7:31])
    np.testing.assert_array_equal(file.take(np.array([49, 0, 7, 7])), table[[49, 0, 7, 7]])
    np.testing.assert_array_equal(file.column(-1, 3, 50), table[3:, -1])
    assert file.between(7, 7).shape == (0, 5) and file.take(np.array([], dtype=int)).shape == (0, 5)
    copy = pickle.loads(pickle.dumps(file))
    path.rename(tmp_path / "other")  # as when another division takes the name
    path.write_bytes(b"")
    np.testing.assert_array_equal(file.between(0, 50), table)
    with pytest.raises(OSError, match="cut short"):
        copy.between(0, 50)


def test_records_are_read_where_the_system_cannot_read_at_a_position(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "preadv")
    table = np.arange(30.0).reshape(10, 3)
    (tmp_path / "rows.f64").write_bytes(table.tobytes())
    file = RecordFile(tmp_path / "rows.f64", 10, 3)
    np.testing.assert_array_equal(file.between(2, 9), table[2:9])


@pytest.mark.skipif(sys.platform != "linux", reason="other allocators give back by themselves")
def test_memory_is_given_back():
    """Freed pieces among kept ones: the allocator would hold them."""
    pieces = [np.ones(4000) for _ in range(5000)]  # 160 MB
    kept = pieces[::50]
    del pieces
    before = resident()
    give_back()
    assert resident() < before - 100e6 and len(kept) == 100


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
