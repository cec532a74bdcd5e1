"""The panels show the numbers they were given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from mosaicgp import metrics, plots
from mosaicgp.data import open_dataset
from report_models import fitted, table


class Known:
    hyperparameters_ = {  # noqa: RUF012
        "name": ["inverse_lengthscale[a]", "inverse_lengthscale[b[0]]", "sigma_f"],
        "standardised": [0.1, 2.0, np.nan],
        "standardised_lower": [-0.1, 1.5, np.nan],
        "standardised_upper": [0.3, 2.5, np.nan],
    }

    def predict(self, X, return_std=False):
        return X[:, 0], np.full(len(X), 2.0)


@pytest.fixture
def ax():
    return Figure().subplots()


def test_predictions_are_sorted_with_their_intervals(ax):
    X = np.array([[3.0], [1.0], [2.0]])
    y = np.array([3.5, 1.0, 9.0])
    assert plots.plot_predictions(Known(), X, y, ax, level=0.5) is ax
    line, inside, outside = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(inside.get_ydata(), [1.0, 3.5])
    np.testing.assert_array_equal(outside.get_ydata(), [9.0])
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(
        segments[:, :, 1], [[m - 1.34898, m + 1.34898] for m in (1, 2, 3)], rtol=1e-5
    )
    assert "2 of 3" in ax.get_title()


def test_only_some_rows_are_shown(ax):
    X = np.arange(200.0)[:, None]
    plots.plot_predictions(Known(), X, X[:, 0], ax, max_rows=50)
    assert len(ax.lines[0].get_ydata()) == 50


def test_inputs_are_sorted_by_relevance(ax):
    assert plots.plot_hyperparameters(Known(), ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b[0]"]
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, :, 0], [[-0.1, 0.3], [1.5, 2.5]])


def test_only_the_most_relevant_inputs_are_shown(ax):
    plots.plot_hyperparameters(Known(), ax, max_inputs=1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b[0]"]
    assert "top 1" in ax.get_title()


def test_without_axes_a_figure_is_made(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    import matplotlib.pyplot as plt

    axes = plots.plot_hyperparameters(Known())
    assert plt.get_fignums() == [axes.figure.number]
    plt.close(axes.figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: plots.plot_predictions(m, np.ones((2, 1)), np.ones(3)), "2 rows but y"),
        (lambda m: plots.plot_predictions(m, np.ones((2, 1)), np.ones(2), level=95), "level"),
        (lambda m: plots.plot_predictions(m, np.ones((2, 1)), np.ones(2), max_rows=0), "max_rows"),
        (lambda m: plots.plot_hyperparameters(m, max_inputs=0), "max_inputs"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(Known())


def test_importing_does_not_import_matplotlib():
    code = "import sys, mosaicgp.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_calibration_shows_coverage_at_every_level_and_pit(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = X[:, 0] + 1.5 * rng.normal(size=400)  # Known says 2: intervals are too wide
    assert plots.plot_calibration(Known(), X, y, ax) is ax
    curve = next(line for line in ax.lines if len(line.get_xdata()) == 101)
    for level, share in list(zip(*curve.get_data(), strict=True))[1:-1:7]:
        assert share == metrics.coverage(y, X[:, 0], np.full(400, 2.0), level)
    (inset,) = ax.child_axes
    counts = np.histogram(metrics.pit(y, X[:, 0], 2.0), bins=20, range=(0, 1))[0]
    heights = [patch.get_height() for patch in inset.patches]
    np.testing.assert_allclose(heights, counts / 20.0)
    assert f"{np.mean(np.abs(y - X[:, 0]) < 1.959964 * 2):.1%}" in ax.get_title()


def test_calibration_needs_targets(ax):
    with pytest.raises(ValueError, match="y: pass the targets"):
        plots.plot_calibration(Known(), np.ones((3, 1)), ax=ax)


@pytest.fixture(scope="module")
def fitted_models():
    X, y = table(128, 0)
    one = fitted(X.to_numpy()[:, :1], y.to_numpy(), "dtc", max_iter=2)
    return one, fitted(X.to_numpy()[:, :2], y.to_numpy(), max_iter=2)


def test_fit_over_one_input(ax, fitted_models):
    X, y = table(50, 1)
    model, X, y = fitted_models[0], X.to_numpy()[:, :1], y.to_numpy()
    assert plots.plot_fit(model, X, y, ax, level=0.9) is ax
    rows, mean = ax.lines
    np.testing.assert_array_equal(rows.get_xdata(), X[:, 0])
    grid = mean.get_xdata()
    expected, std = model.predict(grid[:, None], return_std=True)
    np.testing.assert_allclose(mean.get_ydata(), expected)
    upper = ax.collections[0].get_paths()[0].vertices[:, 1].max()
    np.testing.assert_allclose(upper, (expected + 1.644854 * std).max(), rtol=1e-6)
    assert ax.get_xlabel() == "x0"


def test_fit_over_more_inputs_from_a_dataset(ax, fitted_models):
    X, y = table(50, 1)
    model, X, y = fitted_models[1], X.to_numpy()[:, :2], y.to_numpy()
    plots.plot_fit(model, open_dataset(X, target=y), ax=ax)
    np.testing.assert_allclose(ax.lines[1].get_xdata(), model.predict(X))
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), y)


def test_calibration_and_predictions_of_a_dataset(ax, fitted_models):
    X, y = table(50, 1)
    dataset = open_dataset(X.to_numpy()[:, :2], target=y.to_numpy())
    plots.plot_calibration(fitted_models[1], dataset, ax=ax)
    assert "50 rows" in ax.get_title()
    plots.plot_predictions(fitted_models[1], dataset, ax=Figure().subplots())
    with pytest.raises(ValueError, match="leave y out"):
        plots.plot_calibration(fitted_models[1], dataset, y, ax)


def test_blocks_are_coloured_by_their_error(ax, fitted_models):
    X, y = table(50, 1)
    model, X, y = fitted_models[1], X.to_numpy()[:, :2], y.to_numpy()
    assert plots.plot_blocks(model, ax, X=X, y=y) is ax
    tiles, block = ax.collections[0], model.block_of(X)
    assert len(tiles.get_paths()) == model.partition_.n_blocks
    error = (model.predict(X) - y) ** 2
    expected = [np.sqrt(error[block == b].mean()) for b in range(model.partition_.n_blocks)]
    np.testing.assert_allclose(tiles.get_array(), expected)


def test_blocks_by_size_over_chosen_inputs(ax, fitted_models):
    plots.plot_blocks(fitted_models[1], ax, colour="size", inputs=("x1", "x0"))
    np.testing.assert_array_equal(ax.collections[0].get_array(), fitted_models[1].blocks_.sizes)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x0")
    with pytest.raises(ValueError, match="inputs='z'"):
        plots.plot_blocks(fitted_models[1], ax, inputs=("x1", "z"))
    with pytest.raises(ValueError, match="has no blocks"):
        plots.plot_blocks(fitted_models[0], ax)
