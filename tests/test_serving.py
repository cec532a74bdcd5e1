"""Exported predictors: the estimator's numbers from NumPy alone, and clear errors."""

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from mosaicgp import SparseGPRegressor, serving
from mosaicgp.arguments import switches
from mosaicgp.data.blocks import group
from mosaicgp.data.partition import PARTITIONS
from mosaicgp.global_moments import theta_spread
from mosaicgp.kept import Kept
from mosaicgp.prediction import LEFT_OUT, NARROW
from problems import KINDS

rng = np.random.default_rng(3)
X = pd.DataFrame(rng.normal(size=(120, 2)) * [10.0, 0.1] + [40.0, -3.0], columns=["age", "speed"])
X.iloc[100:110] = X.iloc[:10].to_numpy()  # duplicates
y = 1e3 + 50.0 * (np.sin(X["age"] / 5.0) + 10.0 * X["speed"] + 0.2 * rng.normal(size=120))
spread = X.to_numpy().std(axis=0)
X_new = pd.concat(
    [
        X[:20],  # training rows, and duplicates of them
        X[100:105],
        X[:30] + 0.3 * spread * rng.normal(size=(30, 2)),
        X[:5] + 4.0 * spread,
        X[:3] - 1e3 * spread,
        X[:2] + 1e6 * spread,
    ]
)


@pytest.fixture(scope="module")
def fitted():
    """The one fit of these tests; compiling a fit takes seconds."""
    settings = {"n_inducing": 10, "block_size": 30, "max_iter": 40, "tol": 5.0}
    return SparseGPRegressor("pic", **settings).fit(X, y)


def like(model, kind, hyperparameters="bayesian", partition="tree", most=None):
    """Another member of the family with the same posterior: predictions need no more."""
    other = SparseGPRegressor(kind, hyperparameters=hyperparameters, partition=partition)
    posterior, nodes = model.posterior_, model.theta_nodes_
    if hyperparameters == "point":
        posterior = replace(posterior, xi=np.zeros_like(posterior.xi), beta=0.0)
        nodes = np.zeros_like(nodes[:1])
    X_std = model.scaling_.transform_X(X)
    y_std = model.scaling_.transform_y(y)
    rule = PARTITIONS[partition].build(X_std, len(X) // 30, np.random.default_rng(0))
    blocked = kind in ("pitc", "pic")
    other.n_features_in_, other.feature_names_in_ = 2, model.feature_names_in_
    kept = Kept(
        arguments=other.get_params(),
        switches=switches(other, len(X_std), 0),
        posterior=posterior,
        scaling=model.scaling_,
        partition=rule if blocked else None,
        blocks=group(X_std, y_std, rule.assign(X_std), max_size=most) if blocked else None,
        nodes=nodes,
        fit_result=model.fit_result_,
        history=model.history_,
        block_rows=30,
    )
    other._keep(kept)
    return other


def exported(model, folder):
    model.export(folder / "predictor.npz")
    return serving.load(folder / "predictor.npz")


def assert_same(predictor, model, rows=X_new):
    # A variance is what the data leave of the prior's, and rounding is relative to that.
    rounding = 1e-12 * float(np.max(model.predict_f(X_new)[1]))
    mean, std = predictor.predict(rows, return_std=True)
    expected, expected_std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-9 * model.scaling_.y_scale)
    # The predictor has the closed form over q(θ), and the library may leave so much of it out.
    np.testing.assert_allclose(std**2, expected_std**2, rtol=LEFT_OUT, atol=rounding)
    np.testing.assert_array_equal(predictor.predict(rows), mean)
    f_mean, f_variance = predictor.predict_f(rows)
    expected, expected_variance = model.predict_f(rows)
    np.testing.assert_allclose(f_mean, expected, rtol=0, atol=1e-9 * model.scaling_.y_scale)
    # At rows where q(θ) is narrow the library takes the first order, and leaves out its square.
    spread = theta_spread(model.scaling_.transform_X(rows), model.posterior_.xi)
    left_out = np.where(spread <= NARROW, NARROW**2, 0.0) * float(np.max(expected_variance))
    error = np.abs(f_variance - expected_variance)
    assert np.all(error <= 1e-9 * expected_variance + rounding + left_out)


def test_a_fit_is_exported(fitted, tmp_path):
    predictor = exported(fitted, tmp_path)
    assert predictor.approximation == "pic"
    assert predictor.feature_names == ["age", "speed"]
    assert len(fitted.blocks_.label) > 2
    assert_same(predictor, fitted)


@pytest.mark.parametrize("hyperparameters", ["bayesian", "point"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_predictor_equals_the_estimator(fitted, kind, hyperparameters, tmp_path):
    model = like(fitted, kind, hyperparameters)
    assert_same(exported(model, tmp_path), model)


@pytest.mark.parametrize(
    "settings",
    [
        {"partition": "kmeans"},
        {"partition": "kmeans", "most": 8},  # cells cut into several blocks
    ],
)
def test_whatever_the_blocks(fitted, settings, tmp_path):
    model = like(fitted, "pic", **settings)
    assert_same(exported(model, tmp_path), model)


def test_an_export_after_save_and_load_is_the_same_file(fitted, tmp_path):
    fitted.save(tmp_path / "model.mosaic")
    loaded = SparseGPRegressor.load(tmp_path / "model.mosaic")
    for name, model in (("a", fitted), ("b", loaded)):
        model.export(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "model.mosaic"]
    with np.load(tmp_path / "a") as a, np.load(tmp_path / "b") as b:
        assert a.files == b.files
        assert all(np.array_equal(a[name], b[name]) for name in a.files)


def test_many_rows_and_a_small_cache_change_nothing(fitted, tmp_path, monkeypatch):
    for kind in ("fitc", "pic"):
        model = like(fitted, kind)
        whole = exported(model, tmp_path).predict(X_new, return_std=True)
        for name in ("CHUNK_ROWS", "MOST_ROWS", "PAIRS"):
            monkeypatch.setattr(serving, name, 7)
        for cache_bytes in (0, 400_000):
            predictor = serving.load(tmp_path / "predictor.npz", cache_bytes=cache_bytes)
            for _ in range(2):
                parts = predictor.predict(X_new, return_std=True)
                np.testing.assert_allclose(parts, whole, rtol=1e-10)
            if kind == "pic":
                caches = predictor._model._weights, predictor._model._spreads
                assert sum(cache._size for cache in caches) <= cache_bytes
        monkeypatch.undo()


def test_a_cache_counts_the_bytes_of_what_it_holds():
    cache = serving.Cache(1000)
    for key, n in enumerate((40, 40, 20, 90)):  # doubles
        cache.put(key, (np.zeros(n), (np.zeros(2),)))
        assert cache._size <= 1000
    assert [cache.get(key) is not None for key in range(4)] == [False, False, True, True]
    cache.put(2, (np.zeros(21),))
    cache.put(4, (np.zeros(13),))  # 3 was used longest ago
    assert cache.get(3) is None and cache.get(2) is not None
    cache.resize(170)
    assert cache.get(4) is None and cache._size == 168
    cache.put(5, (np.zeros(200),))
    assert cache.get(5) is None and cache._size == 0


def test_the_rules_of_blocks_are_the_librarys(fitted, tmp_path):
    rows = np.concatenate([fitted.scaling_.transform_X(X), 3.0 * rng.normal(size=(5000, 2))])
    for partition in ("tree", "kmeans"):
        model = like(fitted, "pic", partition=partition)
        cells = exported(model, tmp_path)._model._cells
        assert np.array_equal(cells.assign(rows), model.partition_.assign(rows))


def test_intervals_are_those_of_the_prediction(fitted, tmp_path):
    predictor = exported(fitted, tmp_path)
    mean, std = predictor.predict(X_new, return_std=True)
    lower, upper = predictor.interval(X_new, level=0.9)
    np.testing.assert_allclose(lower, norm.ppf(0.05, mean, std), rtol=1e-9)
    np.testing.assert_allclose(upper, norm.ppf(0.95, mean, std), rtol=1e-9)
    assert np.all(predictor.interval(X_new)[1] > upper)
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match="between 0 and 1"):
            predictor.interval(X_new, level=level)


def test_columns_go_by_name(fitted, tmp_path):
    predictor = exported(fitted, tmp_path)
    expected = predictor.predict(X_new.to_numpy())
    assert np.array_equal(predictor.predict(X_new[["speed", "age"]]), expected)
    assert np.array_equal(predictor.predict({name: X_new[name] for name in X_new}), expected)
    with pytest.raises(ValueError, match=r"missing \['speed'\], unknown \['height'\]"):
        predictor.predict(X_new.rename(columns={"speed": "height"}))
    with pytest.raises(ValueError, match=r"unknown \['more'\]"):
        predictor.predict(X_new.assign(more=1.0))


def test_a_model_fitted_without_names_takes_columns_by_place(fitted, tmp_path):
    model = like(fitted, "dtc")
    del model.feature_names_in_
    predictor = exported(model, tmp_path)
    assert predictor.feature_names == ["x0", "x1"]
    expected = predictor.predict(X_new.to_numpy())
    assert np.array_equal(predictor.predict(X_new), expected)
    columns = {"x1": X_new["speed"], "x0": X_new["age"]}
    assert np.array_equal(predictor.predict(columns), expected)


def test_bad_rows_are_named(fitted, tmp_path):
    predictor = exported(fitted, tmp_path)
    with pytest.raises(ValueError, match="X has 3 columns, but the model was fitted with 2: age"):
        predictor.predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"write one row as \[\[...\]\]"):
        predictor.predict([40.0, -3.0])
    with pytest.raises(ValueError, match="NaN at row 1, column 'speed' \\(and 1 more"):
        predictor.predict([[40.0, -3.0], [40.0, np.nan], [np.inf, -3.0]])
    with pytest.raises(ValueError, match="infinity at row 0, column 'age'"):
        predictor.predict_f([[np.inf, -3.0]])
    with pytest.raises(ValueError, match="must hold numbers"):
        predictor.predict([["old", "fast"]])
    assert predictor.predict(np.zeros((0, 2))).shape == (0,)


@pytest.mark.parametrize("kind", ["fitc", "pic"])
def test_a_server_needs_numpy_alone(fitted, kind, tmp_path):
    model = like(fitted, kind)
    model.export(tmp_path / "predictor.npz")
    shutil.copy(serving.__file__, tmp_path / "serving.py")
    script = (
        "import sys\n"
        "for name in ('jax', 'scipy', 'sklearn', 'pandas', 'mosaicgp'):\n"
        "    sys.modules[name] = None\n"
        "import numpy as np, serving\n"
        "predictor = serving.load('predictor.npz')\n"
        "mean, std = predictor.predict(np.load('rows.npy'), return_std=True)\n"
        "np.savez('out.npz', mean=mean, std=std)\n"
    )
    np.save(tmp_path / "rows.npy", X_new.to_numpy())
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, cwd=tmp_path)
    mean, std = model.predict(X_new, return_std=True)
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-9)
        np.testing.assert_allclose(found["std"], std, rtol=0.5 * LEFT_OUT)


def test_serving_imports_numpy_and_the_standard_library_only():
    with open(serving.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    found |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert {str(name).split(".")[0] for name in found} <= {*sys.stdlib_module_names, "numpy"}


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def path(fitted, tmp_path):
    like(fitted, "pic").export(tmp_path / "predictor.npz")
    return tmp_path / "predictor.npz"


def rewrite(path, header=None, **arrays):
    """The file with other entries in its header and other arrays; None takes one away."""
    with np.load(path) as file:
        old = {name: file[name] for name in file.files}
    new = json.loads(str(old["header"])) | (header or {})
    kept = {**old, "header": np.array(json.dumps(new)), **arrays}
    other = path.with_name("other.npz")
    np.savez(other, **{name: array for name, array in kept.items() if array is not None})
    return other


def test_a_newer_format_says_so(path):
    newer = rewrite(path, header={"format_version": serving.FORMAT_VERSION + 1})
    with pytest.raises(serving.PredictorFileError, match="from a newer mosaicgp"):
        serving.load(newer)


def test_other_files_say_so(path, fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="no predictor at"):
        serving.load(tmp_path / "missing.npz")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "text").write_text("a,b\n1,2\n")
    for name in ("array.npy", "text"):
        with pytest.raises(serving.PredictorFileError, match="is not a mosaicgp predictor"):
            serving.load(tmp_path / name)
    with pytest.raises(serving.PredictorFileError, match="is not a mosaicgp predictor"):
        serving.load(tmp_path)
    fitted.save(tmp_path / "model")
    with pytest.raises(serving.PredictorFileError, match=r"saved model.*SparseGPRegressor\.load"):
        serving.load(tmp_path / "model")
    np.savez(tmp_path / "plain.npz", weights=np.zeros(3))
    for other in (tmp_path / "plain.npz", rewrite(path, header={"format": "else"})):
        with pytest.raises(serving.PredictorFileError, match="npz file, but not a mosaicgp"):
            serving.load(other)


@pytest.mark.parametrize("keep", [0, 5, 200, 0.5, 0.99])
def test_truncated_files_say_so(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(serving.PredictorFileError, match="or is truncated"):
        serving.load(path)


def test_a_damaged_file_says_so(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(serving.PredictorFileError, match="damaged"):
        serving.load(path)


def test_no_pickles_are_read(path):
    other = rewrite(path, Z=np.array([{}], dtype=object))
    with pytest.raises(serving.PredictorFileError, match="allow_pickle=False"):
        serving.load(other)


def test_missing_parts_are_named(path):
    with pytest.raises(serving.PredictorFileError, match=r"lacks parts of one .*v_mean"):
        serving.load(rewrite(path, v_mean=None))
    with pytest.raises(serving.PredictorFileError, match="does not describe a tree"):
        serving.load(rewrite(path, children=np.zeros((3, 2), dtype=np.int64)))
    with pytest.raises(serving.PredictorFileError, match="differ in number"):
        serving.load(rewrite(path, header={"feature_names": ["age"]}))


def test_what_cannot_be_exported_says_so(fitted, tmp_path):
    with pytest.raises(NotFittedError):
        SparseGPRegressor().export(tmp_path / "predictor.npz")
    model = like(fitted, "pic")
    model.blocks_ = None
    with pytest.raises(ValueError, match="predicts from its training rows"):
        model.export(tmp_path / "predictor.npz")
    with pytest.raises(OSError, match="could not write the predictor"):
        like(fitted, "dtc").export(tmp_path / "no" / "such" / "folder")
    assert list(tmp_path.iterdir()) == []
