"""What a run keeps of its work."""

import json

import pytest

from mosaicgp.experiments.journal import END, Journal, JournalError
from mosaicgp.experiments.settings import Unit

A, B = Unit("VBPIC+", 0), Unit("SVIGP", 1)


def journal(folder, **settings):
    return Journal(folder, "fits", {"rows": 100, **settings})


def test_lines_are_there_for_the_next_run(tmp_path):
    with journal(tmp_path) as first:
        first.add(A, 10, {"rmse": 1.5})
        first.add(A, END, {"rmse": 1.0})
        first.add(A, END, {"rmse": 2.0})  # known already
        first.add(B, END, {"rmse": 3.0})
    with journal(tmp_path) as second:
        assert second.points(A) == {10, END}
        assert [line["rmse"] for line in second.of([B, A])] == [3.0, 1.5, 1.0]
        assert second.points(Unit("VBPIC+", 1)) == frozenset()
    lines = (tmp_path / "fits.jsonl").read_text().splitlines()
    assert all(json.loads(line)["settings"] == {"rows": 100} for line in lines)


def test_a_folder_of_other_settings_is_refused(tmp_path):
    with journal(tmp_path) as first:
        first.add(A, END, {"rmse": 1.0})
    with pytest.raises(JournalError, match=r"rows was 100, is 200.*another --out"):
        journal(tmp_path, rows=200)
    journal(tmp_path).__exit__(None, None, None)  # the refusal left the folder free


def test_another_target_of_the_same_file_is_named_without_its_rows(tmp_path):
    with journal(tmp_path, data="posts", target="a", fingerprint="1") as first:
        first.add(A, END, {"rmse": 1.0})
    with pytest.raises(JournalError) as same:
        journal(tmp_path, data="posts", target="b", fingerprint="2")
    assert "target was 'a', is 'b'" in str(same.value)
    assert "the rows are other ones" not in str(same.value)
    with pytest.raises(JournalError, match="the rows are other ones"):
        journal(tmp_path, data="others", target="b", fingerprint="2")


def test_a_second_run_is_kept_out(tmp_path):
    with journal(tmp_path), pytest.raises(JournalError, match="cannot be used"):
        journal(tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "fits.jsonl").write_text('{"method": "VBP')
    with pytest.raises(JournalError, match=r"fits\.jsonl is damaged"):
        journal(tmp_path)


def test_a_line_that_cannot_be_written_leaves_the_file_whole(tmp_path):
    with journal(tmp_path) as first:
        first.add(A, END, {"rmse": 1.0})
        before = (tmp_path / "fits.jsonl").read_text()
        with pytest.raises(TypeError):
            first.add(B, END, {"rmse": object()})
        assert (tmp_path / "fits.jsonl").read_text() == before
        assert first.points(B) == frozenset()


def test_checkpoints_of_other_settings_are_not_gone_on_from(tmp_path):
    with journal(tmp_path) as first:
        here = first.checkpoint(A)
        assert len({here, first.checkpoint(B), first.checkpoint(Unit("VBPIC+", 1))}) == 3
    with journal(tmp_path) as again:
        assert again.checkpoint(A) == here
    with journal(tmp_path, rows=200) as other:
        assert other.checkpoint(A) != here


def test_a_newer_version_and_another_name_go_on(tmp_path):
    with journal(tmp_path, data="waves", mosaicgp="0.1.0") as first:
        first.add(A, END, {"rmse": 1.0})
    with journal(tmp_path, data="sea", mosaicgp="0.2.0") as second:
        second.add(B, END, {"rmse": 2.0})
        found = [line["settings"]["mosaicgp"] for line in second.of([A, B])]
        assert second.checkpoint(A) == first.checkpoint(A)
    assert found == ["0.1.0", "0.2.0"]


def test_checkpoints_of_another_format_are_not_gone_on_from(tmp_path, monkeypatch):
    with journal(tmp_path) as first:
        here = first.checkpoint(A)
        monkeypatch.setattr("mosaicgp.experiments.journal.FORMAT_VERSION", -1)
        assert first.checkpoint(A) != here


def test_checkpoints_leave_no_folder_behind(tmp_path):
    with journal(tmp_path) as first:
        for unit in (A, B):
            first.checkpoint(unit).mkdir(parents=True)
        first.forget(A)
        assert first.checkpoint(B).is_dir() and not first.checkpoint(A).exists()
        first.forget(B)
        first.forget(B)  # nothing left to forget
    assert not (tmp_path / ".checkpoints").exists()
