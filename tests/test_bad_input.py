"""Bad arguments and data raise before any work; odd but legal data fit without a warning."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mosaicgp import SparseGPRegressor
from problems import SLOW_KINDS

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
y = X[:, 0] + 0.1 * rng.normal(size=30)


def with_value(array, where, value):
    changed = np.array(array, dtype=float)
    changed[where] = value
    return changed


BAD_DATA = {
    "nan in X": (with_value(X, (3, 1), np.nan), y, "NaN at row 3, column 1"),
    "infinity in X": (with_value(X, (4, 0), np.inf), y, "infinity at row 4, column 0"),
    "nan in y": (X, with_value(y, 7, np.nan), "Input y contains NaN or infinity: NaN at row 7"),
    "infinity in y": (X, with_value(y, 7, -np.inf), "infinity at row 7"),
    "none in y": (X, [None, *y[1:]], "y contains NaN or infinity: NaN at row 0"),
    "nan in a named column": (
        pd.DataFrame(with_value(X, (3, 1), np.nan), columns=["age", "speed"]),
        y,
        "row 3, column 'speed'",
    ),
    "no rows": (np.zeros((0, 2)), np.zeros(0), "0 sample"),
    "one dimension": (X[:, 0], y, "1D array"),
    "lengths differ": (X, y[:-1], r"\[30, 29\]"),
    "complex": (X + 1j, y, "[Cc]omplex"),
    "text": (
        pd.DataFrame({"age": X[:, 0], "carrier": ["AA"] * 30}),
        y,
        "text in column 'carrier': 'AA' in row 0",
    ),
    "dates": (
        pd.DataFrame({"age": X[:, 0], "day": pd.date_range("2024-01-01", periods=30)}),
        y,
        "dates or durations in column 'day'",
    ),
    "text in an array": (np.array([["a", "b"]] * 30, dtype=object), y, "text in column '0'"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_named_and_leaves_the_estimator_unfitted(name):
    X_bad, y_bad, message = BAD_DATA[name]
    model = SparseGPRegressor()
    with pytest.raises(ValueError, match=message):
        model.fit(X_bad, y_bad)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert not hasattr(model, "n_features_in_")


BAD_ARGUMENTS = [
    ({"approximation": "pict"}, ValueError, "dtc, fitc, fic, pitc, pic"),
    ({"hyperparameters": "map"}, ValueError, "bayesian, point"),
    ({"inference": "fast"}, ValueError, "auto, exact, stochastic"),
    ({"partition": "grid"}, ValueError, "tree, kmeans"),
    ({"optimizer": "adam"}, ValueError, "l-bfgs-b, cg"),
    ({"n_inducing": 0}, ValueError, "n_inducing must be at least 1"),
    ({"n_inducing": 2.5}, TypeError, "n_inducing must be an integer"),
    ({"block_size": 0}, ValueError, "block_size must be at least 1"),
    ({"block_size": "big"}, TypeError, "block_size must be an integer"),
    ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
    ({"tol": 0.0}, ValueError, "tol must be a finite number greater than 0"),
    ({"max_time": -1}, ValueError, "max_time"),
    ({"n_theta": 0}, ValueError, "n_theta"),
    ({"n_restarts": -1}, ValueError, "n_restarts"),
    ({"prior": (0.0, 0.0)}, ValueError, r"prior\[1\]"),
    ({"prior": 1.0}, ValueError, "prior must be a pair"),
    ({"learning_rate": 0.0}, ValueError, "learning_rate must be a finite number greater than 0"),
    ({"learning_rate": 3.0}, ValueError, "learning_rate must be at most 1"),
    ({"learn_inducing": "yes"}, ValueError, "is not known; choose one of auto, True, False"),
    ({"adapt_partition": "no"}, TypeError, "adapt_partition must be True or False, got 'no'"),
    ({"warm_start": "no"}, TypeError, "warm_start must be True or False"),
    ({"learn_inducing": 7}, ValueError, "learn_inducing=7 is not known"),
    ({"rotate_inducing": 0.5}, TypeError, "rotate_inducing must be True or False"),
    ({"schedule": "constant"}, ValueError, "anneal, robbins-monro"),
    ({"decay": 0.4}, ValueError, "decay"),
    ({"decay": 1.5}, ValueError, "too slowly or too fast"),
    ({"sampling": "all"}, ValueError, "iid, reshuffle"),
    ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
    ({"validation_rows": -1}, ValueError, "validation_rows must be at least 0"),
    ({"dtype": "float16"}, ValueError, "float64, float32"),
    ({"max_time": 0}, ValueError, "max_time must be a finite number greater than 0"),
    ({"callback": 3}, TypeError, "callback must be callable"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_ARGUMENTS)
def test_bad_arguments_are_named(arguments, error, message):
    model = SparseGPRegressor(**arguments)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_a_failed_refit_leaves_the_old_fit_alone():
    model = SparseGPRegressor("dtc", n_inducing=5, max_iter=200).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(with_value(rng.normal(size=(30, 3)), (0, 0), np.nan), y)
    assert np.array_equal(model.predict(X), before)


def test_arguments_set_after_a_fit_wait_for_the_next_one():
    model = SparseGPRegressor("dtc", n_inducing=5, max_iter=200).fit(X, y)
    bound = model.elbo(X, y)
    model.set_params(approximation="pic", hyperparameters="point", prior=(1.0, 2.0))
    assert model.elbo(X, y) == bound
    assert np.all(np.isfinite(model.predict(X)))


def test_prediction_checks_its_rows():
    model = SparseGPRegressor("dtc", n_inducing=5, max_iter=200).fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="NaN at row 1"):
        model.predict(with_value(X, (1, 0), np.nan))
    with pytest.raises(ValueError, match="cannot both"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample_y(X, 0)


def odd_data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    doubled = np.repeat(X[:15], 2, axis=0)
    return {
        "one row": (X[:1], y[:1]),
        "one column": (X[:, :1], y),
        "fewer rows than inducing points": (X[:6], y[:6]),
        "a constant column": (np.column_stack([X[:, 0], np.full(30, 3.0)]), y),
        "a constant target": (X, np.full(30, 5.0)),
        "duplicated rows": (doubled, y),
        "all rows the same": (np.ones((30, 2)), y),
        "tiny inputs": (1e-12 * X, 1e-12 * y),
        "huge inputs": (1e12 * X + 1e13, 1e12 * y),
        "integers": (np.round(10 * X).astype(int), np.round(10 * y).astype(int)),
        "float32": (X.astype(np.float32), y.astype(np.float32)),
        "Fortran order": (np.asfortranarray(X), y),
        "one huge target": (X, with_value(y, 3, 1e9)),
    }


@pytest.mark.parametrize("kind", SLOW_KINDS)
def test_odd_data_fits_without_a_warning(kind):
    """One test for all of them: most share a shape, and so a compilation."""
    for name, (X_odd, y_odd) in odd_data().items():
        model = SparseGPRegressor(kind, n_inducing=10, block_size=8, max_iter=300)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X_odd, y_odd)
            far = X_odd[:1] + 1e6 * (1 + np.abs(X_odd).max())
            mean, std = model.predict(np.vstack([X_odd, far]), return_std=True)
        assert np.all(np.isfinite(mean)), name
        assert np.all(std > 0) and np.all(np.isfinite(std)), name
        assert np.all(model.predict_f(X_odd)[1] > 0), name
        assert np.isfinite(model.elbo(X_odd, y_odd)), name


def test_read_only_memory_maps_work(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = SparseGPRegressor("dtc", n_inducing=5, max_iter=200).fit(mapped, y)
    assert np.array_equal(model.predict(mapped), model.predict(X))
