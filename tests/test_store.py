"""Saved models: the same bits again, and clear errors for files that are not one."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mosaicgp import SparseGPRegressor
from mosaicgp.store import FORMAT_VERSION, StoreError
from problems import KINDS

rng = np.random.default_rng(1)
X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["age", "speed"])
y = np.sin(X["age"].to_numpy()) + 0.1 * rng.normal(size=60)
X_new = X[:10] + 0.1


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "flights.mosaic"
    model = SparseGPRegressor(request.param, n_inducing=8, block_size=16, max_iter=200)
    model.fit(X, y).save(path)
    return model, path


def rewrite(path, target, **changes):
    """Copy a model with other entries in its header."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["mosaicgp"])
    save_file(load_file(path), target, metadata={"mosaicgp": json.dumps({**header, **changes})})
    return target


def test_a_loaded_model_predicts_to_the_bit(saved):
    model, path = saved
    loaded = SparseGPRegressor.load(path)
    assert loaded.get_params() == model.get_params()
    for ours, theirs in zip(
        model.predict(X_new, return_std=True), loaded.predict(X_new, return_std=True), strict=True
    ):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(model.predict_f(X_new)[1], loaded.predict_f(X_new)[1])
    assert np.array_equal(model.block_of(X_new), loaded.block_of(X_new))
    assert loaded.elbo(X, y) == model.elbo(X, y)
    assert loaded.fit_result_ == model.fit_result_
    assert str(loaded.hyperparameters_) == str(model.hyperparameters_)
    assert np.array_equal(loaded.history_["bound"], model.history_["bound"])
    assert list(loaded.feature_names_in_) == ["age", "speed"]
    assert (loaded.blocks_ is None) == (model.approximation != "pic")


def test_a_loaded_model_can_be_saved_and_fitted_again(saved, tmp_path):
    model, path = saved
    again = tmp_path / "again.mosaic"
    SparseGPRegressor.load(path).save(again)
    loaded = SparseGPRegressor.load(again)
    assert np.array_equal(loaded.predict(X_new), model.predict(X_new))
    assert np.array_equal(loaded.fit(X, y).predict(X_new), model.predict(X_new))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "model.mosaic"
    SparseGPRegressor("dtc", n_inducing=8, max_iter=200).fit(X, y).save(path)
    return path


def test_what_a_model_was_trained_on_is_kept(one, tmp_path):
    loaded = SparseGPRegressor.load(one)
    record = loaded.trained_on_
    assert (record.rows, record.columns, record.target) == (60, ("age", "speed"), None)
    assert record.when.endswith("+00:00") and record.updates == 0
    loaded.partial_fit(X[:5], y[:5])
    assert loaded.trained_on_.rows == 65 and loaded.trained_on_.updates == 1
    older = SparseGPRegressor.load(rewrite(one, tmp_path / "older", trained_on=None))
    assert older.trained_on_ is None
    older.save(tmp_path / "again")
    assert np.array_equal(older.predict(X_new), SparseGPRegressor.load(one).predict(X_new))


def test_a_newer_format_says_so(one, tmp_path):
    newer = rewrite(one, tmp_path / "new", format_version=FORMAT_VERSION + 1)
    with pytest.raises(StoreError, match="Install a newer mosaicgp"):
        SparseGPRegressor.load(newer)


@pytest.mark.parametrize("keep", [0, 5, 200, 0.5, 0.99])
def test_truncated_files_say_so(one, tmp_path, keep):
    data = one.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(StoreError, match="truncated or damaged"):
        SparseGPRegressor.load(cut)


def test_other_files_say_so(one, tmp_path):
    text = tmp_path / "text"
    text.write_text("a,b\n1,2\n" * 50)
    with pytest.raises(StoreError, match="not a mosaicgp model"):
        SparseGPRegressor.load(text)
    other = tmp_path / "other"
    save_file({"weights": np.zeros(3)}, other)
    with pytest.raises(StoreError, match="but not a mosaicgp model"):
        SparseGPRegressor.load(other)
    with pytest.raises(StoreError, match="not a mosaicgp model"):
        SparseGPRegressor.load(rewrite(one, tmp_path / "foreign", format="else"))
    with pytest.raises(StoreError, match="lacks parts"):
        SparseGPRegressor.load(rewrite(one, tmp_path / "lacking", partition="tree"))
    with pytest.raises(StoreError, match="folder"):
        SparseGPRegressor.load(tmp_path)
    (tmp_path / "main.checkpoint").write_text("")
    with pytest.raises(StoreError, match="is a checkpoint of a fit"):
        SparseGPRegressor.load(tmp_path)
    SparseGPRegressor.load(one).export(tmp_path / "predictor.npz")
    with pytest.raises(StoreError, match=r"predictor: mosaicgp\.serving\.load"):
        SparseGPRegressor.load(tmp_path / "predictor.npz")
    with pytest.raises(FileNotFoundError, match="no model at"):
        SparseGPRegressor.load(tmp_path / "missing")


def test_a_failed_save_leaves_nothing_behind(one, tmp_path):
    model = SparseGPRegressor.load(one)
    with pytest.raises(OSError, match="could not write"):
        model.save(tmp_path / "no" / "such" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_fresh_process_with_its_own_jax_settings_agrees(one, tmp_path):
    """Nothing depends on settings that these tests make: single precision stays the default."""
    script = (
        "import sys, numpy as np, jax, jax.numpy as jnp\n"
        "from mosaicgp import SparseGPRegressor\n"
        "X = np.load(sys.argv[2])\n"
        "model = SparseGPRegressor.load(sys.argv[1])\n"
        "refit = SparseGPRegressor('dtc', n_inducing=8, max_iter=200)\n"
        "refit.fit(X['X'], X['y'])\n"
        "assert jnp.ones(2).dtype == jnp.float32\n"
        "a, b = model.predict(X['new']), refit.predict(X['new'])\n"
        "assert a.dtype == b.dtype == np.float64\n"
        "np.savez(sys.argv[3], a=a, b=b)\n"
    )
    np.savez(tmp_path / "in.npz", X=X, y=y, new=X_new)
    arguments = [one, tmp_path / "in.npz", tmp_path / "out.npz"]
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, *arguments], check=True)
    expected = SparseGPRegressor.load(one).predict(X_new)
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["a"], expected)
        assert np.array_equal(found["b"], expected)
