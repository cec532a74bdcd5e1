"""Datasets in place of arrays: the estimator's every method that takes rows."""

import gc
import os
import pickle
import warnings
from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mosaicgp import (
    SparseGPRegressor,
    checkpoints,
    fitting,
    inspection,
    learning,
    plan,
    scoring,
    serving,
    stages,
    streaming,
)
from mosaicgp.checkpoints import CheckpointError
from mosaicgp.data import DatasetError, open_dataset
from mosaicgp.data.disk import SCRATCH, WorkFolderError
from mosaicgp.data.rows import is_dataset

rng = np.random.default_rng(0)
N = 600
FRAME = pd.DataFrame(
    {
        "a": rng.normal(size=N),
        "b": 100.0 * rng.uniform(size=N),
        "kind": rng.choice(["red", "green"], size=N),
        "y": 0.0,
    }
)
FRAME["y"] = np.sin(2.0 * FRAME.a) + (FRAME.kind == "red") + 0.1 * rng.normal(size=N)


@pytest.fixture
def folder(tmp_path):
    """The table as three Parquet files."""
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    for k in range(3):
        pq.write_table(table.slice(200 * k, 200), tmp_path / f"part-{k}.parquet")
    return tmp_path


def fitted(model, *data, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, **arguments)


def model(kind="pic", **arguments):
    few = {"n_inducing": 10, "block_size": 50, "inference": "stochastic", "max_iter": 40}
    return SparseGPRegressor(kind, **{**few, **arguments})


def encoded():
    onehot = [(FRAME.kind == name).astype(float) for name in ("green", "red")]
    return np.column_stack([FRAME.a, FRAME.b, *onehot]), FRAME.y.to_numpy()


@pytest.mark.parametrize(
    ("kind", "inference", "storage"),
    [
        ("dtc", "stochastic", "memory"),
        ("dtc", "stochastic", "disk"),
        ("pic", "stochastic", "disk"),
        ("fitc", "exact", "auto"),
    ],
)
def test_a_dataset_gives_what_its_arrays_give(folder, kind, inference, storage):
    X, y = encoded()
    plain = fitted(model(kind, inference=inference), X, y)
    dataset = open_dataset(folder, target="y", categorical=["kind"])
    ours = fitted(model(kind, inference=inference, storage=storage), dataset)
    for name, array in plain.posterior_.to_arrays().items():
        np.testing.assert_array_equal(array, ours.posterior_.to_arrays()[name], err_msg=name)
    assert list(ours.feature_names_in_) == ["a", "b", "kind=green", "kind=red"]
    new = open_dataset(folder, categorical=["kind"])
    mean, std = ours.predict(new, return_std=True)
    expected = plain.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, expected[0])
    np.testing.assert_array_equal(std, expected[1])
    # A table with the columns it was fitted on, in any order and with others beside them.
    # Means alone go a shorter way, which rounds differently.
    alone = ours.predict(new)
    np.testing.assert_allclose(alone, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(FRAME[["kind", "b", "y", "a"]]), alone)
    assert ours.elbo(dataset) == plain.elbo(X, y)
    np.testing.assert_array_equal(ours.block_of(new), plain.block_of(X))


def test_a_large_table_trains_a_pilot_first_and_then_all_rows(monkeypatch, folder, tmp_path):
    """From files, and from arrays by a fit that is stopped in its second stage and goes on."""
    monkeypatch.setattr(plan, "PILOT_FROM_ROWS", 400)
    monkeypatch.setattr(fitting, "PILOT_ROWS", 200)
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    dataset = open_dataset(folder, target="y", categorical=["kind"])
    ours = fitted(model(storage="disk", work_dir=tmp_path / "work"), dataset)
    assert ours.blocks_.n == N
    iterations = []

    def stop(progress):
        iterations.append(progress.iteration)
        if iterations.count(30) == 2:
            raise SystemExit

    run = tmp_path / "run"
    with pytest.raises(SystemExit):
        fitted(model(callback=stop), *encoded(), checkpoint=run)
    assert {path.stem for path in run.glob("*.checkpoint")} == {"seed", "pilot", "piloted", "main"}
    again = fitted(model(), *encoded(), checkpoint=run, resume=True)
    np.testing.assert_array_equal(ours.posterior_.nu, again.posterior_.nu)
    assert ours.score(FRAME[["a", "b", "kind"]], FRAME.y) > 0.5


def test_no_method_needs_all_rows_at_once(folder, monkeypatch, tmp_path):
    """Fits from disk, either partition, bounds and updates go over the rows in parts."""

    def refuse(rows):
        raise AssertionError("all rows in memory")

    def update(posterior, rows, *arguments):
        assert is_dataset(rows.rows)
        raise KeyboardInterrupt

    for module in (fitting, stages, inspection):
        monkeypatch.setattr(module, "whole", refuse)
    monkeypatch.setattr(streaming, "updated", update)
    dataset = open_dataset(folder, target="y", categorical=["kind"])
    for kind, partition in (("pic", "kmeans"), ("pic", "tree"), ("dtc", "tree")):
        work = tmp_path / f"{kind} {partition}"
        few = {"max_iter": 5, "storage": "disk", "work_dir": work}
        ours = fitted(model(kind, partition=partition, **few), dataset)
        left = sorted(path.name for path in work.iterdir())
        assert np.isfinite(ours.elbo(dataset))
        with pytest.raises(KeyboardInterrupt):
            ours.partial_fit(dataset)
        assert sorted(path.name for path in work.iterdir()) == left


def test_a_saved_model_carries_blocks_and_encoding(folder, tmp_path):
    dataset = open_dataset(folder, target="y", categorical={"kind": "ordinal"})
    ours = fitted(model(storage="disk"), dataset)
    ours.save(tmp_path / "model.mosaic")
    new = open_dataset(folder)
    expected = ours.predict(new, return_std=True)
    del ours  # and with it its temporary folder
    loaded = SparseGPRegressor.load(tmp_path / "model.mosaic")
    for one, other in zip(loaded.predict(new, return_std=True), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    loaded.set_params(prediction_memory=5e5)
    for one, other in zip(loaded.predict(new, return_std=True), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert 0 < loaded._predictor._cache._size <= 3.75e5
    with pytest.raises(ValueError, match="prediction_memory must be"):
        loaded.set_params(prediction_memory=0).predict(new)
    loaded.set_params(prediction_memory=1e9).save(tmp_path / "copy.mosaic")
    again = SparseGPRegressor.load(tmp_path / "copy.mosaic").predict(new)
    np.testing.assert_array_equal(again, expected[0])


def test_copies_do_not_need_the_files_of_the_original(folder):
    ours = fitted(model(storage="disk"), open_dataset(folder, target="y", columns=["a", "b"]))
    expected = ours.predict(FRAME[["a", "b"]])
    copies = [pickle.loads(pickle.dumps(ours)), deepcopy(ours)]
    blocks = ours.blocks_
    path = blocks.file.path
    del ours
    gc.collect()
    assert not path.exists()
    for copy in copies:
        np.testing.assert_array_equal(copy.predict(FRAME[["a", "b"]]), expected)
        np.testing.assert_array_equal(copy.blocks_.sizes, blocks.sizes)


def test_tables_are_encoded_wherever_rows_go_in(folder, tmp_path):
    dataset = open_dataset(folder, target="y", categorical={"kind": "ordinal"})
    ours = fitted(model("dtc", max_iter=30), dataset)
    inputs = FRAME[["a", "b", "kind"]]
    ours.set_params(work_dir=tmp_path / "later")
    assert ours.elbo(inputs, FRAME.y) == ours.elbo(dataset)
    assert (tmp_path / "later").is_dir()
    other = deepcopy(ours).partial_fit(dataset)
    np.testing.assert_array_equal(
        ours.partial_fit(inputs, FRAME.y).predict(inputs), other.predict(inputs)
    )
    ours.export(tmp_path / "p.npz")
    predictor = serving.load(tmp_path / "p.npz")
    with pytest.raises(ValueError, match="encoded"):
        predictor.predict(inputs)
    X, _ = dataset.to_arrays()
    np.testing.assert_allclose(predictor.predict(X), ours.predict(inputs), rtol=1e-8)


def test_predictions_replace_nothing_but_predictions(folder, tmp_path):
    ours = fitted(model("dtc", max_iter=5), open_dataset(folder, target="y", categorical=["kind"]))
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"thesis\.txt"):
        ours.predict_to(out, folder / "part-*.parquet", overwrite=True)
    with pytest.raises(FileExistsError, match="rows to predict"):
        ours.predict_to(folder / "part-0.parquet", folder / "part-0.parquet", overwrite=True)
    good = tmp_path / "good"
    for _ in range(2):
        ours.predict_to(good, folder / "part-*.parquet", overwrite=True)
    assert [p.name for p in good.iterdir()] == ["part-00000.parquet"]


def test_nothing_is_left_in_the_folder_but_what_predictions_need(folder, tmp_path):
    dataset = open_dataset(folder, target="y", columns=["a", "b"])
    for kind, left in (("dtc", []), ("pitc", []), ("pic", ["blocks.f64"])):
        work = tmp_path / kind
        fitted(model(kind, max_iter=5, storage="disk", work_dir=work), dataset)
        assert [p.name for p in work.glob("*.f64")] == left


def test_what_a_fit_by_rows_would_leave_if_killed_the_next_fit_removes(
    folder, tmp_path, monkeypatch
):
    found = []

    def kill(*arguments, **options):
        found.extend(path.name for path in (tmp_path / "work").iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "_by_rows", kill)
    dataset = open_dataset(folder, target="y", columns=["a", "b"])
    with pytest.raises(KeyboardInterrupt):
        model("dtc", storage="disk", work_dir=tmp_path / "work").fit(dataset)
    assert len(found) == 2 and all(n == "work.lock" or n.startswith(SCRATCH) for n in found)


def test_room_for_all_divisions_is_asked_for_before_the_first(folder, tmp_path, monkeypatch):
    dataset = open_dataset(folder, target="y", columns=["a", "b"])
    usage = type("Usage", (), {"free": plan.working_bytes(N, 2) + 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    monkeypatch.setattr(stages, "divide", None)
    with pytest.raises(WorkFolderError, match="needs"):
        model(storage="disk", work_dir=tmp_path / "work").fit(dataset)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["work.lock"]


def test_two_fits_cannot_work_in_one_folder(folder, tmp_path, monkeypatch):
    dataset = open_dataset(folder, target="y", columns=["a", "b"])

    def meanwhile(*arguments):
        with pytest.raises(WorkFolderError, match="another fit is running"):
            model(storage="disk", work_dir=tmp_path / "work").fit(dataset)
        with pytest.raises(CheckpointError, match="another fit is running"):
            model().fit(dataset, checkpoint=tmp_path / "run", resume=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "_by_blocks", meanwhile)
    first = model(storage="disk", work_dir=tmp_path / "work")
    with pytest.raises(KeyboardInterrupt):
        first.fit(dataset, checkpoint=tmp_path / "run")


@pytest.mark.parametrize(("kind", "stage"), [("pic", "divide"), ("dtc", "written")])
def test_a_file_that_changes_during_a_fit_ends_it_and_nothing_is_left(
    folder, tmp_path, kind, stage, monkeypatch
):
    following = getattr(stages, stage)

    def meanwhile(*arguments):
        os.utime(folder / "part-1.parquet", ns=(0, 12345))
        return following(*arguments)

    monkeypatch.setattr(stages, stage, meanwhile)
    dataset = open_dataset(folder, target="y", columns=["a", "b"])
    ours = model(kind, storage="disk", work_dir=tmp_path / "work")
    with pytest.raises(DatasetError, match=r"part-1\.parquet has changed"):
        fitted(ours, dataset)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["work.lock"]
    assert not hasattr(ours, "posterior_")


def test_room_on_disk_is_told_before_it_is_taken(tmp_path, monkeypatch, capsys):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "fit_rows", stop)
    X, y = np.zeros((2000, 3)), np.arange(2000.0)
    # 2,000 rows of five numbers: as blocks, scattered, and as blocks again; rows of arrays stay
    for kind, storage, told in (
        ("pic", "disk", True),
        ("pic", "memory", False),
        ("dtc", "disk", False),
    ):
        with pytest.raises(KeyboardInterrupt):
            model(kind, storage=storage, work_dir=str(tmp_path), verbose=1).fit(X, y)
        assert (f"fitting takes 0.00024 GB in {tmp_path}" in capsys.readouterr().err) == told


def test_rows_left_out_are_counted(capsys, tmp_path):
    holes = FRAME.assign(a=FRAME.a.where(FRAME.index % 100 != 7))
    dataset = open_dataset(holes, target="y", categorical=["kind"], missing="drop")
    ours = model("dtc", max_iter=5, verbose=1)
    fitted(ours, dataset).save(tmp_path / "m")
    assert "6 rows with missing values are left out" in capsys.readouterr().err
    kept = SparseGPRegressor.load(tmp_path / "m").trained_on_
    assert (kept.rows, kept.dropped) == (N - 6, 6)


def test_a_category_never_seen_is_named(folder):
    ours = fitted(model("dtc", max_iter=5), open_dataset(folder, target="y", categorical=["kind"]))
    with pytest.raises(DatasetError, match="blue"):
        ours.predict(FRAME.assign(kind="blue"))


def test_targets_are_asked_for(folder):
    numbers = ["a", "b"]
    with pytest.raises(ValueError, match="no target"):
        model().fit(open_dataset(folder, columns=numbers))
    with pytest.raises(ValueError, match="leave y out"):
        model().fit(open_dataset(folder, target="y", columns=numbers), FRAME.y)


def test_columns_in_another_order_are_refused_by_a_model_of_arrays(folder):
    ours = fitted(model("dtc", max_iter=5), FRAME[["a", "b"]], FRAME.y)
    mean = ours.predict(open_dataset(folder, columns=["a", "b"]))
    np.testing.assert_array_equal(mean, ours.predict(FRAME[["a", "b"]]))
    with pytest.raises(ValueError, match=r"\['b', 'a'\]"):
        ours.predict(open_dataset(folder, columns=["b", "a"]))


@pytest.mark.parametrize("out", ["predictions", "predictions.parquet"])
def test_a_folder_is_predicted_to_a_folder_or_a_file(folder, tmp_path, out, monkeypatch):
    shown = []
    monkeypatch.setattr(scoring, "counting_line", lambda *_: nullcontext(shown.append))
    dataset = open_dataset(folder, target="y", categorical=["kind"])
    ours = fitted(model("dtc", max_iter=5), dataset).set_params(prediction_memory=1)
    target = tmp_path / "out" / out
    assert ours.predict_to(target, folder / "part-*.parquet", level=0.9) == N
    assert len(shown) >= 3 and shown == sorted(shown) and shown[-1] == N
    assert len(list(target.iterdir()) if target.is_dir() else [1, 2, 3]) == 3
    found = pq.read_table(target).to_pandas()
    mean, std = ours.predict(FRAME, return_std=True)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"], std, rtol=1e-12)
    np.testing.assert_allclose(found["upper"] - found["lower"], 2 * 1.6448536 * std, rtol=1e-6)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        ours.predict_to(target, folder / "part-*.parquet")
    assert ours.predict_to(target, folder / "part-*.parquet", return_std=False, overwrite=True) == N
    alone = pq.read_table(target).to_pandas()
    assert list(alone) == ["mean"]
    np.testing.assert_array_equal(alone["mean"], ours.predict(FRAME))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [out]


def test_a_prediction_that_fails_leaves_nothing(folder, tmp_path, monkeypatch):
    ours = fitted(model("dtc", max_iter=5), open_dataset(folder, target="y", categorical=["kind"]))
    FRAME.assign(kind="blue").to_parquet(tmp_path / "other.parquet")
    with pytest.raises(DatasetError, match="blue"):
        ours.predict_to(tmp_path / "out", tmp_path / "other.parquet")
    before = sorted(tmp_path.iterdir())

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    for out in ("out", "out.parquet"):
        with pytest.raises(OSError, match=rf"predictions to .*{out} .*No space left.*Make room"):
            ours.predict_to(tmp_path / out, folder / "part-*.parquet")
    assert sorted(tmp_path.iterdir()) == before


def test_an_arrow_table_goes_in_as_it_is(tmp_path):
    table = pa.Table.from_pandas(FRAME[["a", "b"]], preserve_index=False)
    ours = fitted(model("dtc", max_iter=5), table, FRAME.y)
    assert list(ours.feature_names_in_) == ["a", "b"] == list(ours.trained_on_.columns)
    expected = ours.predict(FRAME[["a", "b"]])
    np.testing.assert_array_equal(ours.predict(table), expected)
    ours.export(tmp_path / "p.npz")
    served = serving.load(tmp_path / "p.npz").predict(table.select(["b", "a"]))
    np.testing.assert_allclose(served, expected, rtol=1e-8)
    with pytest.raises(ValueError, match="text in column 'kind'"):
        model().fit(pa.Table.from_pandas(FRAME[["a", "kind"]]), FRAME.y)


def test_a_path_in_place_of_rows_is_answered(folder):
    ours = fitted(model("dtc", max_iter=5), FRAME[["a", "b"]], FRAME.y)
    for use in (ours.predict, ours.elbo, ours.partial_fit, ours.fit):
        for path in (folder, str(folder / "part-0.parquet")):
            with pytest.raises(TypeError, match="open_dataset"):
                use(path)


def test_newcomers_mistakes_are_answered(folder, tmp_path):
    with pytest.raises(ValueError, match=r"categorical=\['kind'\]"):
        model().fit(FRAME[["a", "kind"]], FRAME.y)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="work_dir"):
        model(work_dir=tmp_path / "file" / "x").fit(FRAME[["a"]], FRAME.y)
    with pytest.raises(CheckpointError, match="which is no checkpoint"):
        model().fit(FRAME[["a"]], FRAME.y, checkpoint=folder)
    ours = fitted(model("dtc", max_iter=5), open_dataset(folder, target="y", categorical=["kind"]))
    with pytest.raises(ValueError, match="pass the targets"):
        ours.partial_fit(FRAME[["a", "b", "kind"]])
    with pytest.raises(ValueError, match="Parquet"):
        ours.predict_to(tmp_path / "out.txt", FRAME)
    with pytest.raises(ValueError, match="a column 'mean' of their own"):
        ours.predict_to(tmp_path / "out.csv", FRAME.assign(mean=1.0), keep=["mean"])
    with pytest.raises(ValueError, match="missing='drop'"):
        ours.predict_to(tmp_path / "out", open_dataset(FRAME, missing="drop"))
