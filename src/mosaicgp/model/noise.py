"""The noise structures: C of a block, its factor, and its covariance with a test row.

A noise structure is an object with the members of ``Noise``; everything else in the model
talks to the factor it returns. With k^ε a second SE-ARD kernel and U its
inducing inputs, R = K^ε − K^ε_U K^ε_UU⁻¹ K^ε_U and

    Iid       C = σ²I                      (dtc)
    Diagonal  C = σ²I + diag(R)            (fitc, fic)
    Block     C = σ²I + blkdiag(R)         (pitc, pic)
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_solve, solve_triangular

from mosaicgp.model.kernel import gram, se
from mosaicgp.model.linalg import cholesky, log_det, transposed, triangular_inverse


class NoiseParameters(NamedTuple):
    """σ², the variance and inverse length-scales (d,) of k^ε, and U (m, d) in the space of x."""

    noise_variance: Array
    eps_variance: Array
    eps_lam: Array
    U: Array


class NoiseState(NamedTuple):
    """Parameters, K^ε_UU at unit variance and the inverse of its lower factor, made once for all
    blocks."""

    parameters: NoiseParameters
    K_UU: Array
    root_UU: Array


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
        return log_det(self.chol)

    def inverse(self) -> Array:
        """C⁻¹ (n, n)."""
        return cho_solve((self.chol, True), jnp.eye(self.chol.shape[0], dtype=self.chol.dtype))


Factor = DiagonalFactor | DenseFactor


class Noise(Protocol):
    """What a noise structure must offer; instances are hashable and hold no arrays."""

    @property
    def correlated(self) -> bool:
        """Whether rows of one block are correlated."""
        ...

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        """Work shared by all blocks."""
        ...

    def factor(self, state: NoiseState, X: Array, mask: Array) -> Factor:
        """The factor of C over the rows of one block, X (n, d), mask (n,) of ones and zeros."""
        ...

    def covariance(self, state: NoiseState, X: Array, mask: Array) -> Array:
        """C itself (n, n); rows that pad a block form an identity block of their own."""
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

    correlated: ClassVar[bool] = False

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        raise NotImplementedError

    def factor(self, state: NoiseState, X: Array, mask: Array) -> DiagonalFactor:
        return DiagonalFactor(jnp.where(mask > 0, self.marginal(state, X), 1.0))

    def covariance(self, state: NoiseState, X: Array, mask: Array) -> Array:
        return jnp.diag(self.factor(state, X, mask).variance)

    def cross(self, state: NoiseState, X_new: Array, X: Array) -> Array:
        return jnp.zeros((X_new.shape[0], X.shape[0]), dtype=X.dtype)

    def joint(self, state: NoiseState, X_new: Array) -> Array:
        return jnp.diag(self.marginal(state, X_new))


@dataclass(frozen=True)
class Iid(_Independent):
    """C = σ²I."""

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        eye = jnp.eye(parameters.U.shape[0], dtype=parameters.U.dtype)
        return NoiseState(parameters, eye, eye)

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

    correlated: ClassVar[bool] = True

    def prepare(self, parameters: NoiseParameters, jitter: Array) -> NoiseState:
        return _prepare(parameters, jitter)

    def factor(self, state: NoiseState, X: Array, mask: Array) -> DenseFactor:
        return DenseFactor(cholesky(self.covariance(state, X, mask)))

    def covariance(self, state: NoiseState, X: Array, mask: Array) -> Array:
        both = mask[:, None] * mask[None, :]
        noise = jnp.where(mask > 0, state.parameters.noise_variance, 1.0)
        return _residual_gram(state, X) * both + jnp.diag(noise)

    def cross(self, state: NoiseState, X_new: Array, X: Array) -> Array:
        return _residual(state, X_new, X)

    def joint(self, state: NoiseState, X_new: Array) -> Array:
        noise = state.parameters.noise_variance * jnp.eye(X_new.shape[0], dtype=X_new.dtype)
        return _residual_gram(state, X_new) + noise

    def marginal(self, state: NoiseState, X_new: Array) -> Array:
        return _marginal(state, X_new)


@jax.custom_vjp
def projected_gram(K_UU: Array, root_UU: Array, K_UX: Array) -> Array:
    """K_XU K_UU⁻¹ K_UX (n, n), given the inverse of the lower factor of K_UU.

    Its derivative is written out, W = K_UU⁻¹K_UX: 2WR̄ for K_UX and −WR̄Wᵀ for K_UU, without
    going through the factor.
    """
    return _projected_forward(K_UU, root_UU, K_UX)[0]


def _projected_forward(
    K_UU: Array, root_UU: Array, K_UX: Array
) -> tuple[Array, tuple[Array, Array]]:
    white = root_UU @ K_UX
    return transposed(white) @ white, (root_UU, white)


def _projected_backward(saved: tuple[Array, Array], R_bar: Array) -> tuple[Array, Array, Array]:
    root_UU, white = saved
    W = transposed(root_UU) @ white
    WR = W @ R_bar
    return -WR @ W.T, jnp.zeros_like(root_UU), 2.0 * WR


projected_gram.defvjp(_projected_forward, _projected_backward)


def _prepare(parameters: NoiseParameters, jitter: Array) -> NoiseState:
    one = jnp.ones((), dtype=parameters.U.dtype)
    K_UU = se(parameters.U, parameters.U, parameters.eps_lam, one)
    K_UU = K_UU + jitter * jnp.eye(K_UU.shape[0], dtype=K_UU.dtype)
    return NoiseState(parameters, K_UU, triangular_inverse(cholesky(K_UU)))


def _explained(state: NoiseState, X: Array) -> Array:
    """L⁻¹ k^ε(U, X) at unit variance (m, n), L the lower factor of K^ε_UU."""
    one = jnp.ones((), dtype=X.dtype)
    K_UX = se(state.parameters.U, X, state.parameters.eps_lam, one)
    return state.root_UU @ K_UX


def _residual(state: NoiseState, A: Array, B: Array) -> Array:
    """R between the rows of A and of B (n, m)."""
    one = jnp.ones((), dtype=A.dtype)
    prior = se(A, B, state.parameters.eps_lam, one)
    explained = _explained(state, A).T @ _explained(state, B)
    return state.parameters.eps_variance * (prior - explained)


def _residual_gram(state: NoiseState, X: Array) -> Array:
    """R among the rows of X (n, n)."""
    one = jnp.ones((), dtype=X.dtype)
    K_UX = se(state.parameters.U, X, state.parameters.eps_lam, one)
    explained = projected_gram(state.K_UU, lax.stop_gradient(state.root_UU), K_UX)
    prior = gram(X, state.parameters.eps_lam, one)
    return state.parameters.eps_variance * (prior - explained)


def _marginal(state: NoiseState, X: Array) -> Array:
    """σ² + R_xx (n,)."""
    explained = jnp.sum(_explained(state, X) ** 2, axis=0)
    parameters = state.parameters
    return parameters.noise_variance + parameters.eps_variance * (1.0 - explained)
