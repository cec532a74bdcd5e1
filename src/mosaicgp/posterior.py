"""The fitted posterior as users see it: arrays under the names of the notation table."""

from __future__ import annotations

from dataclasses import dataclass, fields

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mosaicgp.model.bound import Parameters
from mosaicgp.model.noise import NoiseParameters
from mosaicgp.model.posterior import InducingPosterior, ThetaPosterior
from mosaicgp.precision import in_double

Array = NDArray[np.float64]


def prior_factor(Z: Array, jitter: float) -> Array:
    """Lower factor of Σ; in NumPy, since a fit should not wait to compile it."""
    squares = np.sum(Z**2, axis=1)
    distance = np.maximum(squares[:, None] + squares[None, :] - 2.0 * Z @ Z.T, 0.0)
    Sigma = np.exp(-0.5 * distance)
    np.fill_diagonal(Sigma, 1.0 + jitter)
    return np.linalg.cholesky(Sigma)


def _moments_of_s(Z: Array, q: InducingPosterior, jitter: float) -> tuple[Array, Array]:
    """Mean and covariance of s."""
    L = prior_factor(Z, jitter)
    root = np.asarray(q.v_root) @ L.T
    return L @ np.asarray(q.v_mean), root.T @ root


@dataclass(frozen=True, eq=False)
class Posterior:
    """Variational posterior and fitted parameters, in standardised units.

    Z (m, d) lives in the space of Λx, U (m, d) in the space of x; q(s) = N(q_mean, q_cov) with
    prior covariance k(Z, Z) + jitter·I. q(λ_k) = N(nu_k, xi_k), q(σ_f) = N(alpha, beta).
    ``noise_variance`` is σ², ``eps_variance`` and ``eps_lam`` belong to the noise kernel k^ε.
    ``v_mean`` and ``v_root`` are q(s) whitened: s = Lv, cov(v) = v_rootᵀ v_root.
    """

    Z: Array
    q_mean: Array
    q_cov: Array
    nu: Array
    xi: Array
    alpha: float
    beta: float
    U: Array
    noise_variance: float
    eps_variance: float
    eps_lam: Array
    prior: tuple[float, float]
    v_mean: Array
    v_root: Array
    jitter: float

    @classmethod
    @in_double
    def build(
        cls,
        parameters: Parameters,
        q: InducingPosterior,
        prior: tuple[float, float],
        jitter: float,
    ) -> Posterior:
        """From the records of the model."""
        q_mean, q_cov = _moments_of_s(np.asarray(parameters.Z), q, jitter)
        theta, noise = parameters.theta, parameters.noise
        arrays = {
            "Z": parameters.Z,
            "q_mean": q_mean,
            "q_cov": q_cov,
            "nu": theta.nu,
            "xi": theta.xi,
            "U": noise.U,
            "eps_lam": noise.eps_lam,
            "v_mean": q.v_mean,
            "v_root": q.v_root,
        }
        return cls(
            **{name: np.asarray(value) for name, value in arrays.items()},
            alpha=float(theta.alpha),
            beta=float(theta.beta),
            noise_variance=float(noise.noise_variance),
            eps_variance=float(noise.eps_variance),
            prior=prior,
            jitter=jitter,
        )

    @in_double
    def parameters(self) -> Parameters:
        """The model's record of everything but q(s)."""
        theta = ThetaPosterior(
            *map(jnp.asarray, (self.nu, self.xi, self.alpha, self.beta)),
        )
        noise = NoiseParameters(
            *map(jnp.asarray, (self.noise_variance, self.eps_variance, self.eps_lam, self.U)),
        )
        return Parameters(theta, jnp.asarray(self.Z), noise)

    @in_double
    def inducing(self) -> InducingPosterior:
        """The model's record of q(s), whitened."""
        return InducingPosterior(jnp.asarray(self.v_mean), jnp.asarray(self.v_root))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Every field as an array."""
        return {f.name: np.asarray(getattr(self, f.name), dtype=np.float64) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Posterior:
        """Inverse of ``to_arrays``."""
        values: dict = {}
        for f in fields(cls):
            value = arrays[f.name]
            if f.name == "prior":
                values[f.name] = (float(value[0]), float(value[1]))
            else:
                values[f.name] = value if value.ndim else float(value)
        return cls(**values)
