"""Fits that are killed and go on, and checkpoints that cannot be used."""

import os
import signal
import subprocess
import sys
import time
import warnings
from copy import deepcopy

import numpy as np
import pytest

from mosaicgp import SparseGPRegressor, arguments, checkpoints
from mosaicgp.checkpoints import CheckpointError
from mosaicgp.data.rows import ArrayRows
from mosaicgp.inference import exact

rng = np.random.default_rng(0)
N = 800
X = rng.normal(size=(N, 2))
y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=N)

KINDS = [("dtc", "stochastic"), ("pic", "stochastic"), ("dtc", "exact")]


class Killed(BaseException):
    """What ends a process, as far as a test in the same one can tell."""


def model(kind, inference, **arguments):
    few = {"n_inducing": 10, "block_size": 50, "validation_rows": 100, "learning_rate": 0.02}
    iterations = 100 if inference == "stochastic" else 12
    return SparseGPRegressor(kind, inference=inference, max_iter=iterations, **{**few, **arguments})


def fitted(model, data=(X, y), **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, **arguments)


def assert_same(one, other):
    for name, array in one.posterior_.to_arrays().items():
        np.testing.assert_array_equal(array, other.posterior_.to_arrays()[name], err_msg=name)
    np.testing.assert_array_equal(one.history_["bound"], other.history_["bound"])
    np.testing.assert_array_equal(one.predict(X[:20]), other.predict(X[:20]))


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)


@pytest.mark.parametrize(("kind", "inference"), KINDS)
def test_a_killed_fit_goes_on_to_the_same_bits(kind, inference, tmp_path, often):
    whole = fitted(model(kind, inference))

    def kill(progress):
        if progress.iteration >= (77 if inference == "stochastic" else 8):
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        fitted(model(kind, inference, callback=kill), checkpoint=folder)
    assert list(folder.glob("*.checkpoint"))
    resumed = fitted(model(kind, inference), checkpoint=folder, resume=True)
    assert_same(whole, resumed)


@pytest.mark.parametrize("where", ["coarse climb", "second start", "fine climb"])
def test_an_exact_fit_killed_in_any_climb_goes_on_to_the_same_bits(
    where, tmp_path, often, monkeypatch
):
    monkeypatch.setattr(exact, "FINER", 0.05)  # a second start that leads nowhere
    many = {"n_inducing": 30}  # enough for two climbs
    whole = fitted(model("dtc", "exact", **many).set_params(max_iter=90))
    climbs, bounds = (np.asarray(whole.history_[name]) for name in ("coarse", "bound"))
    coarse = int(np.sum(climbs))
    # On that way the best bound stays.
    assert climbs[0] and not climbs[-1] and np.ptp(bounds[coarse - 4 : coarse]) == 0.0
    moment = {"coarse climb": 4, "second start": coarse - 1, "fine climb": coarse + 2}[where]

    def kill(progress):
        if progress.iteration >= moment:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        killed = model("dtc", "exact", callback=kill, **many).set_params(max_iter=90)
        fitted(killed, checkpoint=folder)
    resumed = model("dtc", "exact", **many).set_params(max_iter=90)
    assert_same(whole, fitted(resumed, checkpoint=folder, resume=True))


def test_the_seconds_of_an_exact_fit_are_those_of_all_its_runs(tmp_path, often):
    def kill(progress):
        time.sleep(0.2)
        if progress.iteration == 5:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        fitted(model("dtc", "exact", callback=kill), checkpoint=folder)
    asleep = 4 * 0.2  # before the callback that killed it
    short = model("dtc", "exact").set_params(max_time=0.5 * asleep)
    found = fitted(short, checkpoint=folder, resume=True).fit_result_
    assert found.status == "max_time" and found.iterations >= 4  # what was known is kept
    resumed = fitted(model("dtc", "exact"), checkpoint=folder, resume=True)
    assert resumed.fit_result_.seconds > asleep
    trace = resumed.history_["seconds"]
    assert np.all(np.diff(trace) >= 0.0) and trace[3] - trace[0] >= 0.9 * 3 * 0.2


@pytest.mark.parametrize("restarts", [0, 1])
def test_an_exact_fit_goes_on_with_more_iterations(restarts, tmp_path, often):
    """To the same bits as if it had had them from the start; a restart is made again."""
    more = {"n_restarts": restarts}
    whole = fitted(model("dtc", "exact", **more).set_params(max_iter=20))
    fitted(model("dtc", "exact", **more), checkpoint=tmp_path / "run")
    longer = model("dtc", "exact", **more).set_params(max_iter=20)
    fitted(longer, checkpoint=tmp_path / "run", resume=True)
    assert longer.n_iter_ > 12
    assert_same(whole, longer)


def test_a_stochastic_fit_goes_on_with_more_iterations_while_it_searches(tmp_path, often):
    def kill(progress):
        if progress.iteration >= 40:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        fitted(model("dtc", "stochastic", callback=kill), checkpoint=folder)
    with pytest.raises(CheckpointError, match="can only be made longer"):
        fitted(model("dtc", "stochastic").set_params(max_iter=50), checkpoint=folder, resume=True)
    longer = model("dtc", "stochastic").set_params(max_iter=300)
    fitted(longer, checkpoint=folder, resume=True)
    assert longer.n_iter_ > 100
    rate = longer.history_["rate"]
    assert np.all(rate[60:90] == rate[60])  # where 100 iterations would have annealed
    with pytest.raises(CheckpointError, match=r"max_iter=400: .*its search is over"):
        fitted(longer.set_params(max_iter=400), checkpoint=folder, resume=True)


def test_inducing_inputs_that_were_kept_do_not_begin_to_move(tmp_path, often, monkeypatch):
    """More iterations would move them; what is learned is another thing then."""
    monkeypatch.setattr(arguments, "EXACT_ROWS", 100)
    monkeypatch.setattr(arguments, "MOVING_ITERATIONS", 200)

    def kill(progress):
        if progress.iteration >= 40:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        fitted(model("dtc", "stochastic", callback=kill), checkpoint=folder)
    longer = model("dtc", "stochastic").set_params(max_iter=300)
    with pytest.raises(CheckpointError, match="learn_inducing was False, is True"):
        fitted(longer, checkpoint=folder, resume=True)
    fitted(longer.set_params(learn_inducing=False), checkpoint=folder, resume=True)
    assert longer.n_iter_ > 100


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)])
def test_a_seed_that_was_drawn_is_kept(random_state, tmp_path, often):
    """The fit that goes on is the one that was killed, though nobody named its seed."""

    def kill(progress):
        if progress.iteration >= 77:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        fitted(
            model("pic", "stochastic", callback=kill, random_state=random_state), checkpoint=folder
        )
    resumed = fitted(
        model("pic", "stochastic", random_state=random_state), checkpoint=folder, resume=True
    )
    assert resumed.score(X, y) > 0.9
    jumps = np.diff(resumed.history_["bound"][40:])
    assert np.all(np.abs(jumps) < 1000)


def test_a_warm_start_from_another_fit_is_refused(tmp_path, often):
    first = fitted(model("dtc", "stochastic"))
    second = deepcopy(first).set_params(warm_start=True)
    fitted(second, checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match="warm_start from"):
        fitted(
            model("dtc", "stochastic", warm_start=True), checkpoint=tmp_path / "run", resume=True
        )


def test_arguments_of_numpy_and_a_folder_to_resume(tmp_path):
    given = model("dtc", "stochastic", n_inducing=np.int64(10), prior=np.array([0.0, 1.0]))
    fitted(given, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="checkpoint=folder"):
        fitted(given, resume=True)


@pytest.mark.parametrize("kind", ["dtc", "pic"])
def test_memory_and_disk_train_to_the_same_bits(kind, tmp_path):
    in_memory = fitted(model(kind, "stochastic", storage="memory"))
    on_disk = fitted(model(kind, "stochastic", storage="disk", work_dir=tmp_path / "work"))
    assert_same(in_memory, on_disk)


SCRIPT = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from mosaicgp import SparseGPRegressor, checkpoints
checkpoints.INTERVAL = 0.0
rng = np.random.default_rng(0)
X = rng.normal(size=(600, 2))
y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=600)
model = SparseGPRegressor("pic", inference="stochastic", n_inducing=8, block_size=40, max_iter=400,
                          validation_rows=100)
model.fit(X, y, checkpoint=sys.argv[1], resume=True)
np.savez(sys.argv[2], **model.posterior_.to_arrays())
"""


def test_sigkill(tmp_path):
    """Killed at a moment nobody chose, resumed, killed again: the result is that of one run."""
    run = [sys.executable, "-c", SCRIPT]
    subprocess.run([*run, tmp_path / "once", tmp_path / "once.npz"], check=True)
    moments = np.random.default_rng(int(time.time()))
    for _ in range(3):
        process = subprocess.Popen([*run, tmp_path / "often", tmp_path / "often.npz"])
        deadline = time.time() + 60
        while not (tmp_path / "often" / "main.checkpoint").exists() and time.time() < deadline:
            time.sleep(0.05)
        time.sleep(moments.uniform(0.0, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([*run, tmp_path / "often", tmp_path / "often.npz"], check=True)
    with np.load(tmp_path / "once.npz") as once, np.load(tmp_path / "often.npz") as often:
        for name in once:
            np.testing.assert_array_equal(once[name], often[name], err_msg=name)


@pytest.fixture
def left(tmp_path, often):
    """A folder with the checkpoints of a whole fit."""
    folder = tmp_path / "run"
    fitted(model("dtc", "stochastic"), checkpoint=folder)
    return folder


def test_an_earlier_checkpoint_is_not_overwritten_unasked(left):
    before = (left / "main.checkpoint").read_bytes()
    with pytest.raises(CheckpointError, match="resume=True"):
        fitted(model("dtc", "stochastic"), checkpoint=left)
    assert (left / "main.checkpoint").read_bytes() == before


def test_other_data_and_other_arguments_are_refused(left):
    with pytest.raises(CheckpointError, match="other data"):
        fitted(model("dtc", "stochastic"), (X, y + 1.0), checkpoint=left, resume=True)
    with pytest.raises(CheckpointError, match="n_inducing was 10, is 11"):
        fitted(model("dtc", "stochastic", n_inducing=11), checkpoint=left, resume=True)


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_file_is_named_and_left_alone(left, damage):
    path = left / "main.checkpoint"
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    else:
        content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"main\.checkpoint is .*damaged"):
        fitted(model("dtc", "stochastic"), checkpoint=left, resume=True)
    assert path.read_bytes() == content


def test_a_full_disk_keeps_the_checkpoint_before(left, monkeypatch):
    before = (left / "main.checkpoint").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    other = model("dtc", "stochastic")
    own = arguments.identity(other.get_params(deep=False), None, arguments.plan(other, len(y)))
    data = ArrayRows(X, y).fingerprint()
    kept = checkpoints.Checkpoint(left, {"arguments": own, "data": data}, True)
    snapshot = kept.read("main")
    with pytest.raises(CheckpointError, match="No space left"):
        kept.write("main", snapshot)
    kept.close()
    assert (left / "main.checkpoint").read_bytes() == before
    assert not list(left.glob("*.part"))


def test_a_disk_that_fills_up_ends_a_fit_that_can_go_on(tmp_path, often, monkeypatch):
    whole = fitted(model("dtc", "stochastic"))
    sync, synced = os.fsync, []

    def full_later(descriptor):
        synced.append(descriptor)
        if len(synced) > 2:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full_later)
    folder = tmp_path / "run"
    with pytest.raises(CheckpointError, match=r"No space left.*make room and go on"):
        fitted(model("dtc", "stochastic"), checkpoint=folder)
    assert sorted(p.suffix for p in folder.iterdir()) == [".checkpoint", ".checkpoint", ".lock"]
    monkeypatch.setattr(os, "fsync", sync)
    assert_same(whole, fitted(model("dtc", "stochastic"), checkpoint=folder, resume=True))


def test_two_fits_in_one_folder(tmp_path):
    identity = {"arguments": {}, "data": ""}
    (tmp_path / "main.checkpoint.part").write_bytes(b"half")  # of a fit that was killed
    first = checkpoints.Checkpoint(tmp_path, identity, False)
    with pytest.raises(CheckpointError, match="another fit is running"):
        checkpoints.Checkpoint(tmp_path, identity, False)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.lock"]
    first.close()


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be used"):
        fitted(model("dtc", "exact"), checkpoint=tmp_path / "file")
