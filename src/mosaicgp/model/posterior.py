"""q(θ) and q(s): records, natural parameters, KL divergences, nodes of θ.

q(s) is kept in the whitened basis s = Lv, Σ = LLᵀ, where its prior is N(0, I): q(v) = N(v_mean,
v_rootᵀ v_root) with v_root lower triangular, the inverse of the Cholesky factor of the precision.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import ndtri

from mosaicgp.model.linalg import cholesky, gram_of_lower, triangular_inverse


class ThetaPosterior(NamedTuple):
    """q(λ_k) = N(ν_k, ξ_k), q(σ_f) = N(α, β); ξ = β = 0 for point estimates."""

    nu: Array
    xi: Array
    alpha: Array
    beta: Array


class InducingPosterior(NamedTuple):
    """q(v) = N(v_mean, v_rootᵀ v_root), v_mean (m,), v_root (m, m) lower triangular."""

    v_mean: Array
    v_root: Array

    def v_cov(self) -> Array:
        """Covariance of v (m, m)."""
        return gram_of_lower(self.v_root)

    def moments(self, L: Array) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of s = Lv."""
        root = self.v_root @ L.T
        return L @ self.v_mean, root.T @ root


class NaturalParameters(NamedTuple):
    """η = (P v_mean, P) of q(v), P the precision (m, m)."""

    precision_mean: Array
    precision: Array


def from_natural(eta: NaturalParameters) -> InducingPosterior:
    """q(v) from its natural parameters."""
    v_root = triangular_inverse(cholesky(eta.precision))
    return InducingPosterior(v_root.T @ (v_root @ eta.precision_mean), v_root)


def to_natural(q: InducingPosterior) -> NaturalParameters:
    """Natural parameters of q(v)."""
    chol = triangular_inverse(q.v_root)
    precision = chol @ chol.T
    return NaturalParameters(precision @ q.v_mean, precision)


def kl_inducing(q: InducingPosterior) -> Array:
    """KL(q(s) ‖ N(0, Σ)) = KL(q(v) ‖ N(0, I))."""
    trace = jnp.sum(q.v_root**2)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.abs(jnp.diagonal(q.v_root))))
    return 0.5 * (trace + q.v_mean @ q.v_mean - q.v_mean.shape[0] - log_det)


def kl_theta(q: ThetaPosterior, prior: tuple[float, float] | tuple[Array, Array]) -> Array:
    """KL(q(θ) ‖ p(θ)) with p = N(μ₀, v₀) on every λ_k and on σ_f, alike or one each (d + 1,)."""
    mean = jnp.append(q.nu, q.alpha)
    variance = jnp.append(q.xi, q.beta)
    mu0, v0 = prior
    ratio = variance / v0
    return 0.5 * jnp.sum(ratio + (mean - mu0) ** 2 / v0 - 1.0 - jnp.log(ratio))


def theta_nodes(n: int, d: int, seed: int) -> np.ndarray:
    """n fixed standard-normal nodes for (λ, σ_f), shape (n, d + 1), drawn once when a fit ends.

    A scrambled Sobol sequence through the normal quantile, with antipodes and each column scaled
    to unit variance: the first two moments of every coordinate are exact.
    """
    if n == 1:
        return np.zeros((1, d + 1))
    from scipy.stats import qmc  # here: slow to import

    half = (n + 1) // 2
    sobol = qmc.Sobol(d + 1, seed=np.random.default_rng(seed))
    base = ndtri(sobol.random_base2(int(np.ceil(np.log2(half))))[:half])
    nodes = np.concatenate([base, -base])[:n]
    nodes -= nodes.mean(axis=0)
    return nodes / nodes.std(axis=0)


def nodes_to_theta(nodes: Array, q: ThetaPosterior) -> tuple[Array, Array]:
    """λ (n, d) and σ_f (n,) at standard-normal nodes (n, d + 1)."""
    return q.nu + jnp.sqrt(q.xi) * nodes[:, :-1], q.alpha + jnp.sqrt(q.beta) * nodes[:, -1]
