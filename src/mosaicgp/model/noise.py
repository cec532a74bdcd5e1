"""The noise structures: C of a block, its factor, and its covariance with a test row.

A noise structure is an object of the five methods of ``Noise``; everything else in the model
talks to the factor it returns. With k^ε a second SE-ARD kernel and U its
inducing inputs, R = K^ε − K^ε_U K^ε_UU⁻¹ K^ε_U and

    Iid       C = σ²I                      (dtc)
    Diagonal  C = σ²I + diag(R)            (fitc, fic)
    Block     C = σ²I + blkdiag(R)         (pitc, pic)
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from mosaicgp.model.kernel import cholesky, gram, se


class NoiseParameters(NamedTuple):
    """σ², the variance and inverse length-scales (d,) of k^ε, and U (m, d) in the space of x."""

    noise_variance: Array
    eps_variance: Array
    eps_lam: Array
    U: Array


class NoiseState(NamedTuple):
    """Parameters with the lower factor of K^ε_UU (unit variance), made once for all blocks."""

    parameters: NoiseParameters
    chol_UU: Array


class DiagonalFactor(NamedTuple):
    """C = diag(variance); rows that pad a block have variance one."""

    variance: Array

    def whiten(self, A: Array) -> Array:
        """C^−½ A for A (n, k)."""
        return A / jnp.sqrt(self.variance)[:, None]

    def log_det(self) -> Array:
        """log|C|."""
        return jnp.sum(jnp.log(self.variance))


class DenseFactor(NamedTuple):
    """C = chol cholᵀ (n, n); rows that pad a block form an identity block of their own."""

    chol: Array

    def whiten(self, A: Array) -> Array:
        """chol⁻¹ A for A (n, k)."""
        return solve_triangular(self.chol, A, lower=True)

    def log_det(self) -> Array:
        """log|C|."""
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.chol)))

    def inverse(self) -> Array:
        """C⁻¹ (n, n)."""
        return cho_solve((self.chol, True), jnp.eye(self.chol.shape[0], dtype=self.chol.dtype))


Factor = DiagonalFactor | DenseFactor


class Noise(Protocol):
    """What a noise structure must offer; instances are hashable and hold no arrays."""

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        """Work shared by all blocks."""
        ...

    def factor(self, state: NoiseState, X: Array, mask: Array) -> Factor:
        """The factor of C over the rows of one block, X (n, d), mask (n,) of ones and zeros."""
        ...

    def cross(self, state: NoiseState, X_new: Array, X: Array) -> Array:
        """cov(ε*, ε) between new rows and training rows of one block (n_new, n)."""
        ...

    def joint(self, state: NoiseState, X_new: Array) -> Array:
        """C_** among new rows of one block (n_new, n_new)."""
        ...

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        """The diagonal of C_** (n_new,)."""
        ...


class _Independent:
    """Noise independent between rows: all follows from its variance at a row."""

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        raise NotImplementedError

    def factor(self, state: NoiseState, X: Array, mask: Array) -> DiagonalFactor:
        return DiagonalFactor(jnp.where(mask > 0, self.marginal(state, X), 1.0))

    def cross(self, state: NoiseState, X_new: Array, X: Array) -> Array:
        return jnp.zeros((X_new.shape[0], X.shape[0]), dtype=X.dtype)

    def joint(self, state: NoiseState, X_new: Array) -> Array:
        return jnp.diag(self.marginal(state, X_new))


@dataclass(frozen=True)
class Iid(_Independent):
    """C = σ²I."""

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        return NoiseState(parameters, jnp.eye(parameters.U.shape[0], dtype=parameters.U.dtype))

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        return jnp.full(X_new.shape[0], state.parameters.noise_variance)


@dataclass(frozen=True)
class Diagonal(_Independent):
    """C = σ²I + diag(R): noise that depends on the input and is independent between rows."""

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        return _prepare(parameters, jitter)

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        return _marginal(state, X_new)


@dataclass(frozen=True)
class Block:
    """C = σ²I + blkdiag(R): noise correlated within a block, independent between blocks."""

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        return _prepare(parameters, jitter)

    def factor(self, state: NoiseState, X: Array, mask: Array) -> DenseFactor:
        both = mask[:, None] * mask[None, :]
        noise = jnp.where(mask > 0, state.parameters.noise_variance, 1.0)
        C = _residual_gram(state, X) * both + jnp.diag(noise)
        return DenseFactor(cholesky(C))

    def cross(self, state: NoiseState, X_new: Array, X: Array) -> Array:
        return _residual(state, X_new, X)

    def joint(self, state: NoiseState, X_new: Array) -> Array:
        noise = state.parameters.noise_variance * jnp.eye(X_new.shape[0], dtype=X_new.dtype)
        return _residual_gram(state, X_new) + noise

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        return _marginal(state, X_new)


def _prepare(parameters: NoiseParameters, jitter: Array) -> NoiseState:
    one = jnp.ones((), dtype=parameters.U.dtype)
    K_UU = se(parameters.U, parameters.U, parameters.eps_lam, one)
    eye = jnp.eye(K_UU.shape[0], dtype=K_UU.dtype)
    return NoiseState(parameters, cholesky(K_UU + jitter * eye))


def _explained(state: NoiseState, X: Array) -> Array:
    """chol_UU⁻¹ k^ε(U, X) at unit variance (m, n)."""
    one = jnp.ones((), dtype=X.dtype)
    K_UX = se(state.parameters.U, X, state.parameters.eps_lam, one)
    return solve_triangular(state.chol_UU, K_UX, lower=True)


def _residual(state: NoiseState, A: Array, B: Array) -> Array:
    """R between the rows of A and of B (n, m)."""
    one = jnp.ones((), dtype=A.dtype)
    prior = se(A, B, state.parameters.eps_lam, one)
    explained = _explained(state, A).T @ _explained(state, B)
    return state.parameters.eps_variance * (prior - explained)


def _residual_gram(state: NoiseState, X: Array) -> Array:
    """R among the rows of X (n, n)."""
    one = jnp.ones((), dtype=X.dtype)
    explained = _explained(state, X)
    prior = gram(X, state.parameters.eps_lam, one)
    return state.parameters.eps_variance * (prior - explained.T @ explained)


def _marginal(state: NoiseState, X: Array) -> Array:
    """σ² + R_xx (n,)."""
    explained = jnp.sum(_explained(state, X) ** 2, axis=0)
    parameters = state.parameters
    return parameters.noise_variance + parameters.eps_variance * (1.0 - explained)
