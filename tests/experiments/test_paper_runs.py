"""Runs of ``mosaicgp paper`` that are interrupted, that fail, and that go on."""

import json

import numpy as np
import pytest

from mosaicgp import checkpoints
from mosaicgp.experiments import fits, running
from mosaicgp.experiments.datasets import load
from mosaicgp.experiments.peer import PeerError
from mosaicgp.experiments.settings import Settings
from mosaicgp.inference import training
from paper_command import paper, rows_of, without_times


def test_a_run_interrupted_in_a_fit_goes_on_to_the_same_csv(table, tmp_path, monkeypatch):
    data = load(str(table), "y")
    settings = Settings(400, 2, 0.1, 120, 6, 60, methods=("VBDTC+",))
    steps, seen = [], []
    step = training.step
    monkeypatch.setattr(training, "step", lambda *given: steps.append(1) or step(*given))

    def run(folder, say):
        steps.clear()
        running.run("accuracy", data, settings, folder, "", say)
        return len(steps)

    def interrupt(message):
        if "split 1, 100:" in message:
            raise KeyboardInterrupt

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    n_whole = run(whole, seen.append)
    with pytest.raises(KeyboardInterrupt):
        run(broken, interrupt)
    assert not (broken / "accuracy.csv").exists()
    assert len(list((broken / ".checkpoints").iterdir())) == 1

    seen.clear()
    n_again = run(broken, seen.append)
    assert 0 < n_again <= n_whole // 2 - 25  # one fit of two, from its first checkpoint on
    assert seen[:2] == [
        "[1/2] VBDTC+, split 0: there already",
        "[2/2] VBDTC+, split 1: goes on where it was",
    ]
    assert not any("split 1, 1:" in message or "split 1, 100:" in message for message in seen)
    assert not (broken / ".checkpoints").exists()
    first, second = (rows_of(place / "accuracy.csv") for place in (whole, broken))
    assert without_times(first) == without_times(second)


def test_a_run_interrupted_in_a_look_comes_to_it_again(table, tmp_path, monkeypatch):
    data = load(str(table), "y")
    settings = Settings(400, 1, 0.1, 120, 6, 60, methods=("VBDTC+",))
    look, looks = fits._on_its_way, []

    def interrupted_at_100(snapshot, part):
        looks.append(snapshot.n_iter_)
        if looks.count(100) == 1 and looks[-1] == 100:
            raise KeyboardInterrupt
        return look(snapshot, part)

    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    monkeypatch.setattr(fits, "_on_its_way", interrupted_at_100)

    def run():
        running.run("accuracy", data, settings, tmp_path, "", lambda message: None)

    with pytest.raises(KeyboardInterrupt):
        run()
    run()
    assert looks == [1, 10, 100, 100, 120]
    places = [row["iterations"] for row in rows_of(tmp_path / "accuracy.csv")]
    assert places == ["1", "10", "100", "120"]


def test_a_fit_that_fails_does_not_end_the_run(table, tmp_path, monkeypatch):
    named = ["--splits", "2", "--method", "VSSGPR", "--method", "HistGradientBoosting"]
    make = fits.make

    def broken(method, settings, seed):
        if method == "VSSGPR" and seed == 0:
            raise np.linalg.LinAlgError("no factor")
        return make(method, settings, seed)

    with monkeypatch.context() as patch:
        patch.setattr(fits, "make", broken)
        result = paper("table", table, tmp_path, *named, "--json")
        assert result.exit_code == 1
        assert "1 of the fits failed" in result.stderr
        said = json.loads(result.stdout)
        assert said["failed"] == ["VSSGPR, split 0: no factor"]
        assert len(said["records"]) == 3
        page = (tmp_path / "table.md").read_text()
        assert "Failed, and left out: VSSGPR, split 0: no factor" in page
        assert "(VSSGPR on 1 of them)" in page

        result = paper("table", table, tmp_path / "none", "--splits", "1", "--method", "VSSGPR")
        assert result.exit_code == 1 and "All fits failed. VSSGPR, split 0" in result.output
        assert not (tmp_path / "none" / "table.md").exists()

        patch.setenv("MOSAICGP_DEBUG", "1")
        result = paper("table", table, tmp_path, *named)
        assert isinstance(result.exception, np.linalg.LinAlgError)
    result = paper("table", table, tmp_path, *named)
    assert result.exit_code == 0, result.output
    assert "Failed" not in (tmp_path / "table.md").read_text()


def test_a_fit_that_fails_on_its_way_is_not_on_the_page(table, tmp_path, monkeypatch):
    settings = Settings(400, 2, 0.1, 40, 6, 60, methods=("VBDTC+",))
    look = fits._on_its_way

    def failing(snapshot, part):
        if snapshot.random_state == 1 and snapshot.n_iter_ == 10:
            raise PeerError("Traceback:\n  many lines\nthe cause")
        return look(snapshot, part)

    monkeypatch.setattr(fits, "_on_its_way", failing)
    data, said = load(str(table), "y"), []
    done = running.run("accuracy", data, settings, tmp_path, "", said.append)
    assert done.failed == ["VBDTC+, split 1: the cause"]
    assert {row["split"] for row in rows_of(tmp_path / "accuracy.csv")} == {"0"}
    assert "many lines" in "".join(said) and "many lines" not in done.page.read_text()
    monkeypatch.setattr(fits, "_on_its_way", look)
    assert running.run("accuracy", data, settings, tmp_path, "", said.append).failed == []
    places = [(row["split"], row["iterations"]) for row in rows_of(tmp_path / "accuracy.csv")]
    assert places == [(split, n) for split in "01" for n in ("1", "10", "40")]


def test_a_folder_that_cannot_be_written_to_ends_the_run(table, tmp_path, monkeypatch):
    settings = Settings(400, 2, 0.1, 40, 6, 60, methods=("SVIGP",))

    def full(*given):
        raise checkpoints.CheckpointError("no room")

    monkeypatch.setattr(checkpoints.Checkpoint, "write", full)
    with pytest.raises(checkpoints.CheckpointError, match="no room"):
        running.run("table", load(str(table), "y"), settings, tmp_path, "", lambda message: None)


def test_a_renamed_file_goes_on(table, tmp_path):
    named = ["--method", "HistGradientBoosting"]
    assert paper("table", table, tmp_path, "--splits", "1", *named).exit_code == 0
    renamed = tmp_path / "sea.parquet"
    renamed.write_bytes(table.read_bytes())
    result = paper("table", renamed, tmp_path, "--splits", "2", *named)
    assert result.exit_code == 0, result.output
    assert "split 0: there already" in result.output
    assert "# Errors of the methods: sea" in (tmp_path / "table.md").read_text()


def test_a_fit_that_left_no_state_does_not_go_on(table, tmp_path, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    data, seen = load(str(table), "y"), []
    settings = Settings(400, 1, 0.1, 40, 6, 60, methods=("SVIGP",))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training, "step", interrupted)
        running.run("table", data, settings, tmp_path, "", lambda message: None)
    assert list(tmp_path.glob(".checkpoints/*/seed.checkpoint"))
    running.run("table", data, settings, tmp_path, "", seen.append)
    assert seen[0] == "[1/1] SVIGP, split 0 ..."


def test_point_estimates_go_on_where_they_were_and_not_with_other_settings(table, tmp_path):
    data, steps = load(str(table), "y"), []

    def run(iterations, interrupted_after=None):
        def step(*given):
            steps.append(1)
            if len(steps) == interrupted_after:
                raise KeyboardInterrupt
            return training_step(*given)

        steps.clear()
        settings = Settings(400, 1, 0.1, iterations, 6, 60, methods=("SVIGP",))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "step", step)
            running.run("table", data, settings, tmp_path, "", lambda message: None)
        return len(steps)

    training_step = training.step
    with pytest.raises(KeyboardInterrupt):
        run(120, interrupted_after=40)
    n_other = run(110)  # nothing was found with 120, so the folder is free for 110
    assert n_other >= 100
    (tmp_path / "fits.jsonl").unlink()
    assert 0 < run(120) <= n_other - 10  # from the checkpoint on


def test_point_estimates_go_on_in_the_middle_of_a_fit_too(table, tmp_path, monkeypatch):
    seen = []

    def fit(model, part, **arguments):
        seen.append(arguments)
        return fitted(model, part, **arguments)

    fitted = fits._fit
    monkeypatch.setattr(fits, "_fit", fit)
    named = ["--method", "SVIGP", "--method", "Dist-VGP", "--method", "HistGradientBoosting 2000"]
    result = paper("table", table, tmp_path, "--splits", "1", *named)
    assert result.exit_code == 0, result.output
    assert [arguments.get("resume") for arguments in seen] == [True, True, None]
    quoted = "--method SVIGP --method Dist-VGP --method 'HistGradientBoosting 2000'"
    assert quoted in (tmp_path / "table.md").read_text()
