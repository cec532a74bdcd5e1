"""Small random problems, as records of the model and as plain NumPy arrays for the reference."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from mosaicgp.model.bound import Block, Parameters
from mosaicgp.model.family import APPROXIMATIONS, Approximation
from mosaicgp.model.noise import NoiseParameters
from mosaicgp.model.posterior import InducingPosterior, ThetaPosterior

KINDS = tuple(APPROXIMATIONS)

# For tests that take long: those that share their code with another go to `make test-slow`.
SLOW_KINDS = [
    pytest.param(kind, marks=pytest.mark.slow if kind in ("fitc", "fic", "pitc") else ())
    for kind in KINDS
]
JITTER = 1e-9


@dataclass(frozen=True)
class Problem:
    """Rows in blocks of unequal size (padded in ``stacked``), a model and a q(s) at random."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    blocks: list[np.ndarray]
    parameters: Parameters
    stacked: Block
    q: InducingPosterior

    @property
    def approximation(self) -> Approximation:
        return APPROXIMATIONS[self.kind]

    @property
    def theta(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """ν, ξ, α, β as the reference takes them."""
        nu, xi, alpha, beta = self.parameters.theta
        return np.asarray(nu), np.asarray(xi), float(alpha), float(beta)

    @property
    def Z(self) -> np.ndarray:
        return np.asarray(self.parameters.Z)

    @property
    def C(self) -> np.ndarray:
        """Dense noise covariance (n, n)."""
        noise = self.parameters.noise
        return reference.noise_covariance(
            self.kind,
            self.X,
            self.blocks,
            np.asarray(noise.U),
            float(noise.noise_variance),
            float(noise.eps_variance),
            np.asarray(noise.eps_lam),
            JITTER,
        )

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of s."""
        L = np.linalg.cholesky(reference.prior_cov(self.Z, JITTER))
        return tuple(map(np.asarray, self.q.moments(jnp.asarray(L))))


def random_problem(
    kind: str, seed: int, d: int = 2, m: int = 4, sizes: tuple[int, ...] = (5, 3, 6)
) -> Problem:
    """A problem whose Σ is well conditioned, so that the naive reference is accurate too."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    corners = rng.permutation(np.linspace(-2.0, 2.0, m))
    Z = corners[:, None] * rng.choice([-1.0, 1.0], size=d) + 0.3 * rng.normal(size=(m, d))
    U = corners[:, None] * rng.choice([-1.0, 1.0], size=d) + 0.3 * rng.normal(size=(m, d))
    theta = ThetaPosterior(
        nu=rng.normal(size=d),
        xi=rng.uniform(0.01, 0.4, size=d),
        alpha=rng.uniform(0.5, 1.5) * rng.choice([-1.0, 1.0]),
        beta=rng.uniform(0.01, 0.3),
    )
    noise = NoiseParameters(
        noise_variance=rng.uniform(0.05, 0.5),
        eps_variance=rng.uniform(0.1, 1.0),
        eps_lam=rng.uniform(0.3, 1.5, size=d),
        U=U,
    )
    parameters = jax.tree.map(jnp.asarray, Parameters(theta, Z, noise))
    blocks = np.split(rng.permutation(n), np.cumsum(sizes)[:-1])
    q = InducingPosterior(
        jnp.asarray(rng.normal(size=m)),
        jnp.asarray(np.tril(0.2 * rng.normal(size=(m, m))) + np.diag(rng.uniform(0.3, 1.0, m))),
    )
    return Problem(kind, X, y, blocks, parameters, stack(X, y, blocks), q)


def stack(X: np.ndarray, y: np.ndarray, blocks: list[np.ndarray]) -> Block:
    """Blocks padded to one size, with one row to spare."""
    size = max(map(len, blocks)) + 1
    X_out = np.zeros((len(blocks), size, X.shape[1]))
    y_out, mask = np.zeros((len(blocks), size)), np.zeros((len(blocks), size))
    for b, rows in enumerate(blocks):
        X_out[b, : len(rows)], y_out[b, : len(rows)] = X[rows], y[rows]
        mask[b, : len(rows)] = 1.0
    return Block(*map(jnp.asarray, (X_out, y_out, mask)))
