"""The scores against their definitions: integrals, SciPy's densities, Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, stats

from mosaicgp import metrics

finite = st.floats(-50.0, 50.0)
positive = st.floats(0.05, 20.0)
row = st.tuples(finite, finite, positive)
rows = st.lists(row, min_size=1, max_size=20).map(lambda values: np.array(values).T)

PROBABILISTIC = [metrics.mnlp, metrics.crps, metrics.coverage, metrics.pit]


def draw_calibrated(seed: int, n: int):
    """Targets that really come from their predictions."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n) * 10.0
    std = np.exp(rng.normal(size=n))
    return mean + std * rng.normal(size=n), mean, std


@given(rows)
def test_rmse_is_the_root_of_the_mean_square(values):
    y, mean, _ = values
    expected = np.sqrt(sum((a - b) ** 2 for a, b in zip(y, mean, strict=True)) / len(y))
    assert metrics.rmse(y, mean) == pytest.approx(expected, rel=1e-12)


@given(rows)
def test_mnlp_is_minus_the_mean_log_density(values):
    y, mean, std = values
    expected = -np.mean(stats.norm.logpdf(y, loc=mean, scale=std))
    assert metrics.mnlp(y, mean, std) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@given(row)
def test_crps_is_the_integral_of_its_definition(values):
    y, mean, std = values
    # ∫ (Φ((t − mean)/std) − 1[t ≥ y])² dt in units of std; both tails vanish beyond ten.
    z = (y - mean) / std
    below, _ = integrate.quad(
        lambda t: stats.norm.cdf(t) ** 2,
        min(-10.0, z),
        z,
        points=_kinks(z, below=True),
        limit=400,
    )
    above, _ = integrate.quad(
        lambda t: stats.norm.sf(t) ** 2, z, max(10.0, z), points=_kinks(z, below=False), limit=400
    )
    assert metrics.crps([y], [mean], [std]) == pytest.approx(std * (below + above), rel=1e-7)


def _kinks(z, *, below):
    inside = [t for t in (-8.0, 0.0, 8.0) if (t < z if below else t > z)]
    return inside or None


def test_crps_is_the_mean_over_rows():
    y, mean, std = draw_calibrated(seed=0, n=7)
    each = [metrics.crps(y[i : i + 1], mean[i : i + 1], std[i : i + 1]) for i in range(7)]
    assert metrics.crps(y, mean, std) == pytest.approx(np.mean(each), rel=1e-12)


def test_crps_of_a_sharp_prediction_is_its_absolute_error():
    assert metrics.crps([3.0], [1.0], [1e-9]) == pytest.approx(2.0, rel=1e-8)


@given(seed=st.integers(0, 2**32 - 1), level=st.floats(0.05, 0.99))
def test_coverage_of_calibrated_predictions_is_the_level(seed, level):
    n = 4000
    y, mean, std = draw_calibrated(seed, n)
    standard_error = np.sqrt(level * (1.0 - level) / n)
    # Six: of the many draws Hypothesis makes over the years, none should fail by chance.
    assert abs(metrics.coverage(y, mean, std, level=level) - level) < 6.0 * standard_error


def test_coverage_counts_rows_inside():
    y = np.array([0.0, 1.9, -1.9, 2.1, -2.1])
    assert metrics.coverage(y, np.zeros(5), np.ones(5)) == pytest.approx(0.6)
    assert metrics.coverage(y, np.zeros(5), 10.0 * np.ones(5)) == 1.0


@given(seed=st.integers(0, 2**32 - 1))
def test_pit_of_calibrated_predictions_is_uniform(seed):
    values = metrics.pit(*draw_calibrated(seed, 2000))
    assert values.shape == (2000,)
    assert stats.kstest(values, "uniform").pvalue > 1e-8


@given(rows)
def test_pit_is_the_predictive_distribution_function(values):
    y, mean, std = values
    np.testing.assert_allclose(
        metrics.pit(y, mean, std),
        stats.norm.cdf(y, loc=mean, scale=std),
        rtol=1e-12,
        atol=1e-300,
    )


@given(rows, finite, st.floats(0.1, 10.0))
def test_scores_follow_a_change_of_units(values, shift, scale):
    """Minutes or hours: what is in the units of y scales, the log density shifts, the rest stays.

    The tolerances allow for the rounding of y − mean: an error of ~1e-14 in the units of y, which
    is up to ~1e-12 in units of the smallest std.
    """
    y, mean, std = values
    moved = (shift + scale * y, shift + scale * mean, scale * std)
    approx = lambda value: pytest.approx(value, rel=1e-8, abs=1e-8)  # noqa: E731
    assert metrics.rmse(*moved[:2]) == approx(scale * metrics.rmse(y, mean))
    assert metrics.crps(*moved) == approx(scale * metrics.crps(y, mean, std))
    assert metrics.mnlp(*moved) == approx(metrics.mnlp(y, mean, std) + np.log(scale))
    np.testing.assert_allclose(metrics.pit(*moved), metrics.pit(y, mean, std), atol=1e-8)


def test_proper_scores_prefer_the_truth():
    y, mean, std = draw_calibrated(seed=1, n=20_000)
    for score in (metrics.mnlp, metrics.crps):
        truth = score(y, mean, std)
        assert truth < score(y, mean, 1.5 * std)
        assert truth < score(y, mean, std / 1.5)
        assert truth < score(y, mean + 0.3 * std, std)


@pytest.mark.parametrize("score", PROBABILISTIC)
def test_one_std_serves_every_row(score):
    y, mean, _ = draw_calibrated(seed=2, n=9)
    np.testing.assert_array_equal(score(y, mean, 2.0), score(y, mean, np.full(9, 2.0)))


def test_lists_integers_and_float32_are_taken():
    assert metrics.rmse([1, 2], np.array([1.0, 4.0], dtype=np.float32)) == pytest.approx(np.sqrt(2))
    y = np.array([1, 2], dtype=np.uint8)
    mean = np.array([2, 3], dtype=np.uint8)  # y − mean would wrap around in uint8
    assert metrics.rmse(y, mean) == 1.0
    assert metrics.mnlp(y, mean, 1) == pytest.approx(0.5 + 0.5 * np.log(2.0 * np.pi))


@pytest.mark.parametrize(
    ("y", "mean", "std", "message"),
    [
        ([[1.0], [2.0]], [1.0, 2.0], [1.0, 1.0], r"y must be one-dim.*\(2, 1\).*ravel"),
        (1.0, [1.0], [1.0], r"y must be one-dimensional, got shape \(\)"),
        ([1.0, 2.0], [1.0], [1.0, 1.0], "y has 2 rows and mean has 1"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, 1.0, 1.0], "y has 2 rows and std has 3"),
        ([], [], [], "y has no rows"),
        ([1.0, np.nan], [1.0, 2.0], [1.0, 1.0], "y must be finite, but row 1 has nan"),
        ([1.0, 2.0], [-np.inf, 2.0], [1.0, 1.0], "mean must be finite, but row 0 has -inf"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, 0.0], "std must be positive, but row 1 has 0.0"),
        ([1.0, 2.0], [1.0, 2.0], [-1.0, 1.0], "std must be positive, but row 0 has -1.0"),
        ([1.0, 2.0], [1.0, 2.0], -1.0, "std must be positive, but row 0 has -1.0"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, np.nan], "std must be finite, but row 1 has nan"),
        (["a", "b"], [1.0, 2.0], [1.0, 1.0], "y must hold real numbers"),
        ([1.0 + 1j, 2.0], [1.0, 2.0], [1.0, 1.0], "y must hold real numbers"),
        ([None, "x"], [1.0, 2.0], [1.0, 1.0], "y must hold real numbers"),
    ],
)
@pytest.mark.parametrize("score", PROBABILISTIC)
def test_bad_arguments_are_named(score, y, mean, std, message):
    with pytest.raises(ValueError, match=message):
        score(y, mean, std)


def test_rmse_checks_its_arguments():
    with pytest.raises(ValueError, match="y has 3 rows and mean has 2"):
        metrics.rmse([1.0, 2.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, np.nan])
def test_coverage_checks_its_level(level):
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        metrics.coverage([1.0], [1.0], [1.0], level=level)


class Known:
    """A model whose predictions are written down."""

    mean = np.array([0.0, 1.0, 2.0])
    std = np.array([1.0, 2.0, 3.0])
    f_var = np.array([0.25, 1.0, 4.0])

    def predict(self, X, *, return_std):
        assert return_std
        return self.mean, self.std

    def predict_f(self, X):
        return self.mean, self.f_var


def test_evaluate_scores_y_by_predict_and_f_by_predict_f():
    y = np.array([0.5, 9.0, 1.0])
    assert metrics.evaluate(Known(), np.zeros((3, 1)), y) == {
        "rmse": metrics.rmse(y, Known.mean),
        "mnlp": metrics.mnlp(y, Known.mean, Known.std),
        "mnlp_f": metrics.mnlp(y, Known.mean, np.sqrt(Known.f_var)),
        "crps": metrics.crps(y, Known.mean, Known.std),
        "coverage_95": pytest.approx(2 / 3),
    }


@given(
    mean=st.floats(-3.0, 30.0),
    std=st.floats(0.05, 20.0),
    count=st.integers(0, 60),
    logs=st.booleans(),
)
def test_mnlp_counts_is_the_probability_of_what_rounds_to_the_count(mean, std, count, logs):
    scale = np.log1p if logs else np.asarray
    mean = np.log1p(max(mean, 0.0)) if logs else mean
    above = stats.norm.cdf(scale(count + 0.5), mean, std)
    below = stats.norm.cdf(scale(count - 0.5), mean, std) if count else 0.0
    assume(above - below > 1e-9)
    found = metrics.mnlp_counts([count], [mean], std, logs=logs)
    assert found == pytest.approx(-np.log(above - below), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("logs", [False, True])
def test_probabilities_of_all_counts_are_together_one(logs):
    mean, std = (1.2, 0.8) if logs else (4.0, 3.0)
    each = [np.exp(-metrics.mnlp_counts([c], [mean], std, logs=logs)) for c in range(5000)]
    assert sum(each) == pytest.approx(1.0, abs=1e-9)


def test_counts_far_from_their_prediction_keep_a_finite_surprise():
    """Next to a cell's near end the tail is φ(z)/z: -log of that, to a few per cent."""
    for mean, count, z in ((0.0, 50, 495.0), (50.0, 0, 495.0)):
        expected = 0.5 * z**2 + np.log(z) + 0.5 * np.log(2.0 * np.pi)
        assert metrics.mnlp_counts([count], [mean], 0.1) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("count", [1e7, 1e10, 1e13, 1e16])
def test_huge_counts_have_the_density_of_their_place(count):
    logs = metrics.mnlp_counts([count], [np.log1p(count) + 0.7], 1.3, logs=True)
    expected = -stats.norm.logpdf(-0.7, scale=1.3) + np.log1p(count)
    assert logs == pytest.approx(expected, rel=1e-7)
    plain = metrics.mnlp_counts([count], [0.0], count)
    assert plain == pytest.approx(-stats.norm.logpdf(1.0) + np.log(count), rel=1e-7)


@pytest.mark.parametrize("counts", [[0.0, 1.5], [-1.0, 2.0]])
def test_what_is_no_count_is_told_of(counts):
    with pytest.raises(ValueError, match="counts must be whole numbers from zero on"):
        metrics.mnlp_counts(counts, [0.0, 0.0], 1.0)
