"""Rows that keep coming: nothing lost against a fit on everything, and drift followed."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mosaicgp import SparseGPRegressor, streaming
from mosaicgp.metrics import mnlp, rmse

KINDS = ["dtc", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("fitc", "pitc")), "pic"]


def table(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0] + shift) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


def small(kind, **arguments):
    return SparseGPRegressor(kind, n_inducing=30, block_size=40, max_iter=60, **arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_against_a_fit_on_everything(kind):
    """Within a tenth of the error, and 0.05 nats a row."""
    X, y = table(900, 0)
    new = table(500, 1)
    whole = fitted(small(kind), X, y)
    stream = fitted(small(kind), X[:300], y[:300])
    before = rmse(new[1], stream.predict(new[0]))
    for first in (300, 500, 700):
        stream.partial_fit(X[first : first + 200], y[first : first + 200])
    found = [
        (rmse(new[1], m.predict(new[0])), mnlp(new[1], *m.predict(new[0], return_std=True)))
        for m in (stream, whole)
    ]
    assert found[0][0] < 1.1 * found[1][0]
    assert found[0][1] < found[1][1] + 0.05
    assert found[0][0] < before
    assert stream.n_rows_seen_ == 900
    if kind == "pic":
        rows = stream.blocks_.rows[stream.blocks_.rows >= 0]
        assert np.array_equal(np.sort(rows), np.arange(900))


def test_at_fixed_hyperparameters_it_is_the_posterior_of_all_rows():
    """q(s) after the stream, at the θ it ended with, is near that of one pass over all rows."""
    X, y = table(600, 0)
    stream = fitted(small("dtc", hyperparameters="point"), X[:400], y[:400])
    nu = stream.posterior_.nu.copy()
    stream.partial_fit(X[400:], y[400:])
    assert_allclose(stream.posterior_.nu, nu, rtol=0.15)  # firm after 400 rows
    again = fitted(small("dtc", hyperparameters="point"), X, y)
    assert_allclose(stream.predict(X[:50]), again.predict(X[:50]), atol=0.05)


@pytest.mark.parametrize("kind", ["dtc", pytest.param("pic", marks=pytest.mark.slow)])
def test_forgetting_follows_drift(kind):
    fresh, stubborn = (fitted(small(kind), *table(400, 0)) for _ in range(2))
    for k in range(1, 5):
        rows = table(200, k, shift=0.4 * k)
        fresh.partial_fit(*rows, forget=0.6)
        stubborn.partial_fit(*rows)
    now = table(300, 99, shift=1.6)
    errors = [rmse(now[1], model.predict(now[0])) for model in (fresh, stubborn)]
    assert errors[0] < 0.75 * errors[1]
    assert fresh.n_rows_seen_ < 500 < stubborn.n_rows_seen_ == 1200


def test_blocks_on_disk_take_new_rows_too(tmp_path):
    X, y = table(600, 0)
    common = {"inference": "stochastic", "validation_rows": 0}
    memory = fitted(small("pic", storage="memory", **common), X[:400], y[:400])
    disk = fitted(small("pic", storage="disk", **common), X[:400], y[:400])
    for model in (memory, disk):
        model.partial_fit(X[400:], y[400:])
    assert disk.blocks_.n == memory.blocks_.n == 600
    new = table(50, 3)[0]
    np.testing.assert_array_equal(disk.predict(new), memory.predict(new))
    disk.save(tmp_path / "m.mosaic")
    loaded = SparseGPRegressor.load(tmp_path / "m.mosaic")
    more = table(30, 4)
    for model in (disk, loaded):
        model.partial_fit(*more)
    np.testing.assert_array_equal(disk.predict(new), loaded.predict(new))


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_no_cell_becomes_empty_and_new_rows_are_predicted_from(storage, tmp_path):
    common = {"inference": "stochastic", "validation_rows": 0, "storage": storage}
    model = fitted(small("pic", work_dir=tmp_path / "work", **common), *table(800, 0))
    n_cells = model.partition_.n_blocks
    for k in range(1, 5):
        X, y = table(300, k)
        model.partial_fit(X[X[:, 0] < -2], y[X[:, 0] < -2], forget=0.8)
    assert np.array_equal(np.unique(model.blocks_.label), np.arange(n_cells))
    assert np.all(np.isfinite(model.predict(table(100, 9)[0])))
    # In cells that were cut the first part, which predictions use, holds the newest rows.
    newest = model._n_rows_numbered - 1
    label = model.block_of(X[X[:, 0] < -2][-1:])[0]
    first = int(np.searchsorted(model.blocks_.label, label))
    assert newest in model.blocks_.rows_of(first)
    model.save(tmp_path / "m.mosaic")


def test_other_arguments_do_not_change_a_fitted_model():
    model = fitted(small("dtc"), *table(200, 0)).set_params(approximation="pic")
    model.partial_fit(*table(50, 1))
    assert np.all(np.isfinite(model.predict(table(10, 2)[0])))


def test_the_result_says_what_the_update_did(monkeypatch):
    model = fitted(small("dtc", max_time=60.0), *table(200, 0))
    before = model.fit_result_
    model.partial_fit(*table(50, 1))
    after = model.fit_result_
    assert after.message.startswith("updated by 50 rows: ") and after.status in after.message
    assert after.iterations > before.iterations and after.seconds > before.seconds
    monkeypatch.setattr(streaming, "MAX_ITER", 1)
    model.partial_fit(*table(50, 2, shift=1.0))
    assert model.fit_result_.status == "max_iter" and model.fit_result_.budget_exhausted
    assert model.fit_result_.iterations == after.iterations + 1


def test_the_first_call_is_a_fit_and_bad_arguments_are_named():
    X, y = table(60, 0)
    model = small("dtc").partial_fit(X, y)
    assert model.n_rows_seen_ == 60
    with pytest.raises(ValueError, match="forget must be"):
        model.partial_fit(X, y, forget=1.0)
    with pytest.raises(ValueError, match="2 features"):
        model.partial_fit(X[:, :1], y)
