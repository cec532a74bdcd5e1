"""Scaling: units, constant columns, extreme magnitudes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from mosaicgp.data.scaling import Scaling

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=50)
@given(
    seed=seeds,
    n=st.integers(2, 50),
    exponent=st.integers(-12, 12),
    offset=st.sampled_from([0.0, 1.0, -1e3, 1e6]),
)
def test_standardises_to_mean_zero_and_std_one(seed, n, exponent, offset):
    rng = np.random.default_rng(seed)
    scale = 10.0**exponent
    X = scale * (rng.standard_normal((n, 3)) + offset)
    y = scale * (rng.standard_normal(n) + offset)
    scaling = Scaling.fit(X, y)
    for standardised in (scaling.transform_X(X), scaling.transform_y(y)[:, None]):
        np.testing.assert_allclose(standardised.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(standardised.std(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(scaling.mean_to_user(scaling.transform_y(y)), y, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 100_003])
@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e-300, 1e12 + 0.3, -1e300, 5e-324])
def test_constant_columns_have_scale_one_and_become_zero(n, value):
    X = np.full((n, 2), value)
    scaling = Scaling.fit(X, X[:, 0])
    np.testing.assert_array_equal(scaling.X_scale, 1.0)
    np.testing.assert_array_equal(scaling.X_mean, value)
    assert scaling.y_scale == 1.0
    np.testing.assert_array_equal(scaling.transform_X(X), 0.0)
    np.testing.assert_array_equal(scaling.transform_y(X[:, 0]), 0.0)


def test_constant_up_to_rounding_is_constant():
    X = np.array([[0.3, 1e12], [0.1 + 0.2, np.nextafter(1e12, 2e12)], [0.3, 1e12]])
    np.testing.assert_array_equal(Scaling.fit(X, X[:, 0]).X_scale, 1.0)


@pytest.mark.parametrize("n", [10, 300_000])
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_small_variation_on_a_huge_offset_survives(n, spread):
    # StandardScaler alone calls such a column constant once n * offset * eps exceeds its std.
    X = (1e12 + spread * np.random.default_rng(n).standard_normal(n))[:, None]
    scaling = Scaling.fit(X, X[:, 0])
    np.testing.assert_allclose(scaling.X_scale, (X - 1e12).std(), rtol=1e-9)
    np.testing.assert_allclose(scaling.transform_X(X).std(), 1.0, rtol=1e-6)
    assert abs(scaling.transform_X(X).mean()) < 0.05


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-170, 1e-12, 1e12, 1e170, 1e300])
def test_no_warning_and_no_bad_division_at_any_scale(scale):
    X = scale * np.array([[-1.0], [0.5], [2.0]])
    scaling = Scaling.fit(X, X[:, 0])
    assert scaling.X_scale[0] >= np.finfo(float).tiny
    expected = 1.0 if scale > 1e-310 else 0.0
    np.testing.assert_allclose(scaling.transform_X(X).std(), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, bool])
def test_other_dtypes_are_computed_in_float64(dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((40, 3)) * 50).astype(dtype)
    y = X[:, 0]
    scaling = Scaling.fit(X, y)
    reference = Scaling.fit(X.astype(float), y.astype(float))
    np.testing.assert_array_equal(scaling.X_scale, reference.X_scale)
    np.testing.assert_array_equal(scaling.transform_X(X), reference.transform_X(X.astype(float)))
    assert scaling.transform_X(X).dtype == scaling.transform_y(y).dtype == np.float64


def test_leaves_its_arguments_alone():
    X = np.arange(12.0).reshape(4, 3)
    y = np.arange(4.0)
    scaling = Scaling.fit(X, y)
    scaling.transform_X(X), scaling.transform_y(y)
    np.testing.assert_array_equal(X, np.arange(12.0).reshape(4, 3))
    np.testing.assert_array_equal(y, np.arange(4.0))


@settings(max_examples=30)
@given(seed=seeds, exponent=st.integers(-6, 6))
def test_predictions_and_densities_go_back_to_the_users_units(seed, exponent):
    rng = np.random.default_rng(seed)
    y = 10.0**exponent * (3.0 + rng.standard_normal(20))
    scaling = Scaling.fit(rng.standard_normal((20, 1)), y)
    mean, std = rng.standard_normal(20), rng.uniform(0.1, 2.0, 20)
    user_mean, user_std = scaling.mean_to_user(mean), scaling.std_to_user(std)
    np.testing.assert_allclose(scaling.var_to_user(std**2), user_std**2, rtol=1e-12)
    standardised = norm.logpdf(scaling.transform_y(y), mean, std).sum()
    in_user_units = norm.logpdf(y, user_mean, user_std).sum()
    np.testing.assert_allclose(standardised + scaling.log_jacobian(20), in_user_units, rtol=1e-9)


@pytest.mark.parametrize("chunk", [7, 1000])
@pytest.mark.parametrize("share", [0.005, 0.5, 0.99])
def test_a_flag_has_at_least_a_quarter_of_its_distance_as_scale(share, chunk):
    """Rare or not, and also where the first rows do not show its second value."""
    rng = np.random.default_rng(0)
    flag = np.sort(np.where(rng.permutation(1000) < 1000 * share, 5.0, -1.0))
    third = np.where(np.arange(1000) == 999, 0.5, (np.arange(1000) > 990).astype(float))
    X = np.column_stack([flag, third, rng.standard_normal(1000)])
    scaling = Scaling.of_chunks(
        (X[k : k + chunk], flag[k : k + chunk]) for k in range(0, 1000, chunk)
    )
    assert scaling.X_scale[0] == pytest.approx(max(6.0 / 4.0, flag.std()))
    np.testing.assert_allclose(scaling.X_scale[1:], X[:, 1:].std(axis=0))  # three values, many
    assert scaling.y_scale == pytest.approx(flag.std())
    assert np.ptp(scaling.transform_X(X)[:, 0]) <= 4.0 + 1e-12


def test_a_flag_of_huge_values_has_a_finite_scale():
    X = np.where(np.arange(100) == 0, 8e307, -8e307)[:, None]
    assert np.isfinite(Scaling.fit(X, np.arange(100.0)).X_scale[0])


def test_a_flag_of_rounding_is_constant():
    X = np.where(np.arange(100) == 0, 1e20 + 16384.0, 1e20)[:, None]
    assert Scaling.fit(X, np.arange(100.0)).X_scale[0] == 1.0


@pytest.mark.parametrize("chunk", [300, 1000])
def test_one_target_that_decides_the_scale_is_told_of(chunk):
    y = np.random.default_rng(0).standard_normal(1000)
    X = y[:, None]
    parts = [slice(k, k + chunk) for k in range(0, 1000, chunk)]
    Scaling.of_chunks((X[part], y[part]) for part in parts)  # warnings are errors here
    y[700] = -1e9
    with pytest.warns(UserWarning, match=r"One target, -1e\+09, lies 32 standard deviations"):
        Scaling.of_chunks((X[part], y[part]) for part in parts)
