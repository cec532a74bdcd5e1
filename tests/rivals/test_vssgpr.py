"""The variational sparse spectrum against quadrature, draws, and plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.base import clone

import reference
from mosaicgp.inference.exact import FitError
from mosaicgp.model.bound import collapsed_bound, optimal_inducing
from mosaicgp.model.posterior import InducingPosterior
from mosaicgp.rivals import VSSGPR
from mosaicgp.rivals import spectrum as model
from mosaicgp.rivals.maximise import annealed_result
from mosaicgp.rivals.spectrum import Spectrum

SEEDS = st.integers(0, 10**6)
bound, statistics, predictive = map(jax.jit, (model.bound, model.statistics, model.predictive))


def problem(seed, n=3, k=2, d=2):
    rng = np.random.default_rng(seed)
    spectrum = Spectrum(
        mu=rng.normal(size=(k, d)),
        log_s=np.log(rng.uniform(0.05, 1.0, size=(k, d))),
        Z=rng.normal(size=(k, d)),
        centre=rng.uniform(0.0, 2.0 * np.pi, size=k),
        logit_h=rng.normal(size=k),
        log_lam=rng.normal(scale=0.3, size=d),
        log_sigma_f=rng.normal(scale=0.3),
        log_noise=np.log(rng.uniform(0.1, 0.5)),
    )
    root = np.tril(0.3 * rng.normal(size=(k, k))) + np.eye(k)
    q = InducingPosterior(rng.normal(size=k), root)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    return jax.tree.map(jnp.asarray, (spectrum, q)), X, y


def features(spectrum, omega, b, X):
    """φ_k(x) at given frequencies (..., K, d) and phases (..., K): (..., n, K)."""
    lam, k = np.exp(spectrum.log_lam), spectrum.mu.shape[0]
    apart = lam * (X[:, None, :] - np.asarray(spectrum.Z))  # (n, K, d)
    angle = np.sum(omega[..., None, :, :] * apart, axis=-1) + b[..., None, :]
    return np.sqrt(2.0 * np.exp(2.0 * spectrum.log_sigma_f) / k) * np.cos(angle)


def from_q(spectrum, rng, n):
    """n draws of the frequencies and of the phases."""
    k, d = spectrum.mu.shape
    s = np.exp(np.asarray(spectrum.log_s))
    omega = np.asarray(spectrum.mu) + np.sqrt(s) * rng.normal(size=(n, k, d))
    return omega, np.asarray(spectrum.centre + spectrum.h * rng.uniform(-1.0, 1.0, size=(n, k)))


@settings(max_examples=5)
@given(SEEDS)
def test_moments_of_the_features_by_quadrature(seed):
    (spectrum, _), X, _ = problem(seed)
    t = np.linspace(-8.0, 8.0, 81)  # equal steps, which follow quick cosines under a Gaussian best
    w = 0.2 * np.exp(-0.5 * t**2)
    t_b, w_b = np.polynomial.legendre.leggauss(16)
    nodes = np.stack(np.meshgrid(t, t, t_b), axis=-1).reshape(-1, 3)
    weights = np.multiply.outer(np.multiply.outer(w, w), w_b).ravel() / (4.0 * np.pi)
    mu, s, centre, h = map(
        np.asarray, (spectrum.mu, np.exp(spectrum.log_s), spectrum.centre, spectrum.h)
    )
    omega = mu + np.sqrt(s) * nodes[:, None, :2]
    phi = features(spectrum, omega, centre + h * nodes[:, 2:], X)
    first, second = (np.tensordot(weights, phi**power, axes=1) for power in (1, 2))
    mean, var = model.feature_moments(spectrum, X)
    np.testing.assert_allclose(mean, first, atol=1e-8)
    np.testing.assert_allclose(var, second - first**2, atol=1e-8)


@given(SEEDS)
def test_statistics_are_those_of_drawn_features(seed):
    """E[ΦᵀΦ] and E[Φ], products of different features included, within standard errors."""
    (spectrum, _), X, y = problem(seed)
    phi = features(spectrum, *from_q(spectrum, np.random.default_rng(seed), 20_000), X)
    noise = float(spectrum.noise_variance)
    got = statistics(spectrum, X, y, np.ones(len(y)))
    for drawn, value in (
        (np.einsum("snk,snl->skl", phi, phi) / noise, got.psi),
        (np.einsum("snk,n->sk", phi, y) / noise, got.projection),
    ):
        error = drawn.std(axis=0) / np.sqrt(len(drawn))
        assert np.all(np.abs(drawn.mean(axis=0) - value) < 5.5 * error + 1e-9)


def naive_bound(spectrum, q, X, y):
    """E log N(y; Φa, σ²I), a row at a time, − KL(q(a)) − KL(q(ω)) − KL(q(b))."""
    mean, var = map(np.asarray, model.feature_moments(spectrum, X))
    m, S = np.asarray(q.v_mean), np.asarray(q.v_root.T @ q.v_root)
    noise = float(spectrum.noise_variance)
    total = 0.0
    for row, spread, target in zip(mean, var, y, strict=True):
        second = np.outer(row, row) + np.diag(spread)
        square = target**2 - 2.0 * target * row @ m + np.sum(second * (S + np.outer(m, m)))
        total += -0.5 * (np.log(2.0 * np.pi * noise) + square / noise)
    kl_a = 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])
    s = np.exp(spectrum.log_s)
    kl_omega = 0.5 * np.sum(s + spectrum.mu**2 - 1.0 - np.log(s))
    kl_b = np.sum(np.log(np.pi / spectrum.h))
    return total - kl_a - float(kl_omega) - float(kl_b)


@given(SEEDS)
def test_the_bound_is_the_naive_one_and_batches_are_unbiased(seed):
    (spectrum, q), X, y = problem(seed, n=5)
    whole = float(bound(spectrum, q, X, y, np.ones(5), 1.0)[0])
    np.testing.assert_allclose(whole, naive_bound(spectrum, q, X, y), rtol=1e-9, atol=1e-9)
    # Every batch of one row that can be drawn, and the same by a mask.
    parts = [float(bound(spectrum, q, X, y, np.eye(5)[i], 5.0)[0]) for i in range(5)]
    np.testing.assert_allclose(np.mean(parts), whole, rtol=1e-9)


def log_evidence(spectrum, X, y, rng, draws=40_000):
    """log E[N(y; 0, ΦΦᵀ + σ²I)] over frequencies and phases of the prior, and its error."""
    k, d = spectrum.mu.shape
    omega = rng.normal(size=(draws, k, d))
    phi = features(spectrum, omega, rng.uniform(0.0, 2.0 * np.pi, size=(draws, k)), X)
    C = phi @ np.swapaxes(phi, 1, 2) + float(spectrum.noise_variance) * np.eye(len(y))
    fit = np.einsum("i,sij,j->s", y, np.linalg.inv(C), y)
    likelihood = np.exp(-0.5 * (fit + np.linalg.slogdet(2.0 * np.pi * C)[1]))
    return np.log(likelihood.mean()), likelihood.std() / likelihood.mean() / np.sqrt(draws)


@given(SEEDS)
def test_the_bound_is_below_the_evidence_and_highest_at_the_optimal_weights(seed):
    (spectrum, q), X, y = problem(seed)
    ones = np.ones(len(y))
    total = statistics(spectrum, X, y, ones)
    best = optimal_inducing(total)
    collapsed = float(collapsed_bound(total) - model.kl_spectrum(spectrum))
    np.testing.assert_allclose(collapsed, bound(spectrum, best, X, y, ones, 1.0)[0], rtol=1e-9)
    assert float(bound(spectrum, q, X, y, ones, 1.0)[0]) <= collapsed + 1e-9
    evidence, error = log_evidence(spectrum, X, y, np.random.default_rng(seed))
    assert collapsed <= evidence + 5.0 * error


def test_the_prior_is_the_se_ard_kernel_wherever_the_reference_points_are():
    (spectrum, _), X, _ = problem(0)
    rng = np.random.default_rng(0)
    omega, b = rng.normal(size=(200_000, 2, 2)), rng.uniform(0.0, 2.0 * np.pi, size=(200_000, 2))
    phi = features(spectrum, omega, b, X)
    drawn = phi @ np.swapaxes(phi, 1, 2)
    K = reference.se(X, X, np.exp(spectrum.log_lam), float(np.exp(2.0 * spectrum.log_sigma_f)))
    assert np.all(np.abs(drawn.mean(axis=0) - K) < 5.0 * drawn.std(axis=0) / np.sqrt(len(drawn)))


@given(SEEDS)
def test_predictive_moments_are_those_of_draws(seed):
    (spectrum, q), X, _ = problem(seed)
    rng = np.random.default_rng(seed)
    phi = features(spectrum, *from_q(spectrum, rng, 40_000), X)
    a = np.asarray(q.v_mean) + rng.normal(size=(40_000, 2)) @ np.asarray(q.v_root)
    f = np.einsum("snk,sk->sn", phi, a)
    mean, var = predictive(spectrum, q, X)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 5.5 * f.std(axis=0) / 200.0)
    squares = (f - mean) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - var) < 5.5 * squares.std(axis=0) / 200.0)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    y = 10.0 + 5.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    return 100.0 * X, y


SETTINGS = {"n_features": 20, "batch_size": 100, "max_iter": 300, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def fitted():
    return VSSGPR(**SETTINGS).fit(*table(500))


def test_it_learns_and_its_variance_is_sane(fitted):
    X, y = table(400, seed=1)
    mean, std = fitted.predict(X, return_std=True)
    assert np.sqrt(np.mean((y - mean) ** 2)) < 0.8
    assert 0.88 < np.mean(np.abs(y - mean) < 1.96 * std) < 0.999
    noise = np.sqrt(fitted.fitted_.spectrum.noise_variance) * fitted.scaling_.y_scale
    assert 0.4 < noise < 0.75 and np.all(std > noise)
    f_mean, f_var = fitted.predict_f(X)
    np.testing.assert_array_equal(f_mean, mean)
    np.testing.assert_allclose(f_var + noise**2, std**2)
    # Away from the rows no feature is known: the mean is that of y, and the spread is larger.
    far_mean, far_std = fitted.predict([[1e5, 1e5]], return_std=True)
    np.testing.assert_allclose(far_mean, fitted.scaling_.y_mean, rtol=1e-6)
    assert 1.5 * np.median(std) < far_std[0] < 100.0 * y.std()


def test_the_reported_bound_is_that_of_all_rows(fitted):
    X, y = table(500)
    spectrum, q = fitted.fitted_.spectrum, fitted.fitted_.q
    expected = naive_bound(
        spectrum, q, fitted.scaling_.transform_X(X), fitted.scaling_.transform_y(y)
    )
    expected += fitted.scaling_.log_jacobian(500)
    np.testing.assert_allclose(fitted.fit_result_.bound, expected, rtol=1e-8)
    white = multivariate_normal(np.full(500, y.mean()), y.var()).logpdf(y)
    assert fitted.fit_result_.bound > white + 200.0


def test_seeds_few_rows_and_time(fitted):
    X, y = table(500)
    again, other = (clone(fitted).set_params(max_iter=20, random_state=r) for r in (0, 1))
    first = clone(again).fit(X, y).predict(X)
    np.testing.assert_array_equal(again.fit(X, y).predict(X), first)
    assert not np.array_equal(other.fit(X, y).predict(X), first)
    assert fitted.n_iter_ == 300 and fitted.fit_result_.rejected == 0
    assert fitted.fit_result_.status == "max_iter"
    few = VSSGPR(n_features=20, max_iter=2).fit(X[:3], y[:3])  # fewer rows than features
    assert np.all(np.isfinite(few.predict(X, return_std=True)))
    timed = VSSGPR(**(SETTINGS | {"max_iter": 10**6}), max_time=0.2).fit(X, y)
    assert timed.fit_result_.status == "max_time" and timed.fit_result_.seconds < 5.0


def test_steps_that_are_refused_are_told_of():
    X, y = table(100)
    with pytest.raises(FitError, match=r"not finite after 30 steps.*Lower learning_rate"):
        VSSGPR(n_features=5, max_iter=30, learning_rate=1e3).fit(X, y)
    result = annealed_result(30, 30, 1.0, -5.0, rejected=2)
    assert result.rejected == 2 and "2 of them not finite and refused" in result.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"batch_size": "all"}, "batch_size must be an integer"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate must be a finite number greater than 0"),
        ({"max_time": 0.0}, "max_time must be a finite number greater than 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        VSSGPR(**arguments).fit(*table(10))
