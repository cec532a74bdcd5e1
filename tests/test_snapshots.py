"""Fits looked at on their way, and predictions with other draws of the hyperparameters."""

import warnings

import numpy as np
import pytest

from mosaicgp import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 2))
y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=600)


def model(kind="dtc", **arguments):
    few = {"n_inducing": 8, "block_size": 50, "validation_rows": 0, "inference": "stochastic"}
    return SparseGPRegressor(kind, **{**few, "max_iter": 60, **arguments})


def fitted(model, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **arguments)


def assert_same(one, other):
    for name, array in one.posterior_.to_arrays().items():
        np.testing.assert_array_equal(array, other.posterior_.to_arrays()[name], err_msg=name)
    np.testing.assert_array_equal(one.predict(X[:20]), other.predict(X[:20]))


@pytest.fixture(scope="module")
def pic_and_snapshots():
    seen = []
    return fitted(model("pic"), snapshot_at=(1, 25, 60), on_snapshot=seen.append), seen


def test_a_snapshot_is_the_fit_that_ends_there():
    """With steps that do not depend on the budget, as those of "anneal" do."""
    seen = []
    plain = {"schedule": "robbins-monro"}
    fitted(model(**plain), snapshot_at=[30], on_snapshot=seen.append)
    assert_same(seen[0], fitted(model(max_iter=30, **plain)))


def test_looking_does_not_change_the_fit(pic_and_snapshots):
    looked_at, seen = pic_and_snapshots
    assert_same(looked_at, fitted(model("pic")))
    assert [snapshot.n_iter_ for snapshot in seen] == [1, 25, 60]
    assert len(seen[1].history_["bound"]) <= 25
    errors = [np.mean((snapshot.predict(X) - y) ** 2) for snapshot in seen]
    assert errors[-1] < errors[0]


def test_time_of_looking_is_not_the_fits():
    import time

    began = time.perf_counter()
    found = fitted(model(), snapshot_at=(5, 10), on_snapshot=lambda m: time.sleep(0.5))
    assert found.fit_result_.seconds < time.perf_counter() - began - 0.9


def test_a_resumed_fit_goes_on_with_its_snapshots(tmp_path, monkeypatch):
    from mosaicgp import checkpoints

    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    seen = []

    def end_at_30(snapshot):
        seen.append(snapshot.n_iter_)
        if snapshot.n_iter_ == 30:
            raise RuntimeError("stop here")

    arguments = {"snapshot_at": (10, 30, 50), "on_snapshot": end_at_30, "checkpoint": tmp_path}
    with pytest.raises(RuntimeError, match="stop here"):
        fitted(model(), **arguments)
    later = []
    on_snapshot = lambda snapshot: later.append(snapshot.n_iter_)  # noqa: E731
    again = fitted(model(), **{**arguments, "on_snapshot": on_snapshot}, resume=True)
    assert (seen, later) == ([10, 30], [30, 50])
    assert_same(again, fitted(model()))


def test_exact_inference_has_no_snapshots():
    with pytest.raises(ValueError, match="only stochastic inference has snapshots"):
        fitted(model(inference="exact"), snapshot_at=[1], on_snapshot=print)


def test_draws_of_the_hyperparameters_can_be_chosen(pic_and_snapshots):
    found, _ = pic_and_snapshots
    same = found.with_theta_nodes(found.theta_nodes_)
    np.testing.assert_array_equal(found.predict(X[:20]), same.predict(X[:20]))
    mean = found.with_theta_nodes(np.zeros((1, 3)))
    assert np.any(mean.predict(X[:20]) != found.predict(X[:20]))
    twice = found.with_theta_nodes(np.zeros((2, 3)))
    np.testing.assert_allclose(mean.predict(X[:20]), twice.predict(X[:20]), rtol=1e-12)


@pytest.mark.parametrize("nodes", [np.zeros(3), np.zeros((2, 4)), np.zeros((0, 3))])
def test_draws_of_another_shape_are_refused(pic_and_snapshots, nodes):
    with pytest.raises(ValueError, match=r"nodes: must have shape \(n, 3\)"):
        pic_and_snapshots[0].with_theta_nodes(nodes)
