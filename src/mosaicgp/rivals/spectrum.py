"""The variational sparse spectrum of Gal & Turner (2015): features, their moments, the bound.

f(x) = Σ_k a_k φ_k(x) with K features

    φ_k(x) = √(2σ_f²/K) cos(ω_kᵀΛ(x − z_k) + b_k),   ω_k ~ N(0, I), b_k ~ U[0, 2π), a_k ~ N(0, 1),

whose covariance is the SE-ARD kernel, wherever the reference points z_k are. The posterior is
q(ω_k) = N(μ_k, diag(s_k)), q(b_k) uniform within h_k of c_k, q(a) a Gaussian. With
u = μ_kᵀΛ(x − z_k) + c_k and e = exp(−½ Σ_j s_kj λ_j²(x_j − z_kj)²),

    E[φ_k]  = √(2σ_f²/K) e cos(u) sin(h_k)/h_k
    E[φ_k²] = (2σ_f²/K) (½ + ½ e⁴ cos(2u) sin(2h_k)/2h_k)

and different features are independent. a stands where the whitened s of ``model.bound`` does, so
its statistics, bound and natural step are used as they are.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from mosaicgp.model.bound import Statistics, data_bound
from mosaicgp.model.posterior import InducingPosterior, kl_inducing

NOISE_FLOOR = 1e-6


class Spectrum(NamedTuple):
    """Unconstrained numbers: q(ω), q(b), the reference points, and the hyperparameters."""

    mu: Array  # (K, d)
    log_s: Array  # (K, d)
    Z: Array  # (K, d)
    centre: Array  # (K,): c
    logit_h: Array  # (K,): h = π sigmoid(logit_h)
    log_lam: Array  # (d,)
    log_sigma_f: Array
    log_noise: Array

    @property
    def noise_variance(self) -> Array:
        """σ² of the white noise."""
        return NOISE_FLOOR + jnp.exp(self.log_noise)

    @property
    def h(self) -> Array:
        """Half-widths (K,) of q(b)."""
        return jnp.pi * jax.nn.sigmoid(self.logit_h)


def feature_moments(spectrum: Spectrum, X: Array) -> tuple[Array, Array]:
    """E[φ_k(x)] and its variance at the rows of X (n, d): (n, K) each."""
    mu, s, h = spectrum.mu, jnp.exp(spectrum.log_s), spectrum.h
    lam = jnp.exp(spectrum.log_lam)
    R, C = X * lam, spectrum.Z * lam
    u = R @ mu.T - jnp.sum(mu * C, axis=1) + spectrum.centre
    distance = R**2 @ s.T - 2.0 * R @ (s * C).T + jnp.sum(s * C**2, axis=1)
    e = jnp.exp(-0.5 * jnp.maximum(distance, 0.0))
    scale = 2.0 * jnp.exp(2.0 * spectrum.log_sigma_f) / mu.shape[0]
    mean = jnp.sqrt(scale) * e * jnp.cos(u) * jnp.sinc(h / jnp.pi)
    square = scale * (0.5 + 0.5 * e**4 * jnp.cos(2.0 * u) * jnp.sinc(2.0 * h / jnp.pi))
    return mean, square - mean**2


def statistics(spectrum: Spectrum, X: Array, y: Array, mask: Array) -> Statistics:
    """Statistics of the rows of X (n, d) and y (n,) whose mask (n,) is 1, as in ``model.bound``."""
    mean, spread = feature_moments(spectrum, X)
    mean, spread = mean * mask[:, None], spread * mask[:, None]
    y = y * mask
    noise, n = spectrum.noise_variance, jnp.sum(mask)
    psi = (mean.T @ mean + jnp.diag(jnp.sum(spread, axis=0))) / noise
    fit = n * jnp.log(2.0 * jnp.pi * noise) + y @ y / noise
    # ``model.bound`` adds ½Tr(psi), which a model without inducing points does not have.
    return Statistics(psi, mean.T @ y / noise, -0.5 * (fit + jnp.trace(psi)))


def kl_spectrum(spectrum: Spectrum) -> Array:
    """KL(q(ω) q(b) ‖ p(ω) p(b))."""
    frequencies = jnp.exp(spectrum.log_s) + spectrum.mu**2 - 1.0 - spectrum.log_s
    return 0.5 * jnp.sum(frequencies) - jnp.sum(jax.nn.log_sigmoid(spectrum.logit_h))


def bound(
    spectrum: Spectrum, q: InducingPosterior, X: Array, y: Array, mask: Array, weight: Array
) -> tuple[Array, Statistics]:
    """The bound on the log evidence where these rows stand for ``weight`` times as many.

    Also the statistics of the rows, so weighted. Rows drawn uniformly make it unbiased.
    """
    weighted = jax.tree.map(lambda part: weight * part, statistics(spectrum, X, y, mask))
    return data_bound(weighted, q) - kl_inducing(q) - kl_spectrum(spectrum), weighted


def predictive(spectrum: Spectrum, q: InducingPosterior, X: Array) -> tuple[Array, Array]:
    """Mean (n,) and variance (n,) of f at the rows of X (n, d)."""
    mean, spread = feature_moments(spectrum, X)
    root = mean @ q.v_root.T
    by_weight = jnp.sum(q.v_root**2, axis=0) + q.v_mean**2  # E[a_k²]
    return mean @ q.v_mean, jnp.sum(root**2, axis=1) + spread @ by_weight
