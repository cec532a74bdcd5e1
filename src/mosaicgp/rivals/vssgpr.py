"""Variational sparse spectrum GP regression (Gal & Turner 2015), stochastic."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp import validation
from mosaicgp.data.blocks import chunk
from mosaicgp.inference.exact import FitError
from mosaicgp.inference.initial import select_inducing
from mosaicgp.inference.result import FitResult
from mosaicgp.model.bound import Statistics, collapsed_bound, natural_step, optimal_inducing
from mosaicgp.model.posterior import InducingPosterior, NaturalParameters, from_natural
from mosaicgp.precision import compiled, in_double
from mosaicgp.rivals.base import FloatArray, Rival
from mosaicgp.rivals.maximise import adam, adam_direction, annealed, annealed_result
from mosaicgp.rivals.spectrum import Spectrum, bound, kl_spectrum, predictive, statistics

if TYPE_CHECKING:
    import optax

CHUNK_ROWS = 4096

# Largest step of the natural gradient after the first ten.
RHO = 0.1


class VSSGPR(Rival):
    """Variational sparse spectrum GP regression, VSSGPR (Gal & Turner 2015), stochastic.

    f is a sum of ``n_features`` random cosines, whose frequencies and phases have a variational
    posterior (a Gaussian with diagonal covariance, and an interval) about which the bound is in
    closed form; each cosine is localised at a reference point of its own. A step takes a few rows,
    and does not cost more for more rows. Reference points, inverse length-scales, signal and noise
    have point estimates.

    The weights of the cosines have a Gaussian posterior with a full covariance, which follows by
    natural gradients and becomes optimal for all rows when training ends. The paper's stochastic
    variant keeps a diagonal one; the bound here is never lower for that.

    Inputs and target are standardised inside; predictions are in the user's units.

    Parameters
    ----------
    n_features : int, default=200
        Cosines K.
    batch_size : int, default=512
        Rows of a step.
    max_iter : int, default=3000
        Steps of training.
    learning_rate : float, default=0.02
        Size of a step of Adam; constant for the first half of training, then falling to zero.
    max_time : float or None, default=None
        Seconds that training may take; its steps then fall to zero in that time.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    fitted_ : SpectrumPosterior
        Frequencies, phases, reference points, hyperparameters and q(a), standardised.
    scaling_ : Scaling
        Means and scales of inputs and target.
    fit_result_ : FitResult
        Status, message, iterations, seconds; ``bound`` is that on the log evidence of all rows, in
        the user's units.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mosaicgp.rivals import VSSGPR
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> model = VSSGPR(n_features=20, max_iter=500).fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[2.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.5)) < 0.1)
    True
    """

    anneals = True

    def __init__(
        self,
        *,
        n_features: int = 200,
        batch_size: int = 512,
        max_iter: int = 3000,
        learning_rate: float = 0.02,
        max_time: float | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_time = max_time
        self.random_state = random_state

    def _check_arguments(self) -> None:
        self._check_counts_and_time("n_features", "batch_size", "max_iter")
        validation.number("learning_rate", self.learning_rate, 0.0)

    @in_double
    def _learn(
        self, X: FloatArray, y: FloatArray, rng: np.random.Generator
    ) -> tuple[SpectrumPosterior, FitResult]:
        began = perf_counter()
        n = len(y)
        state = _initial_state(starting_spectrum(X, self.n_features, rng))
        size = min(self.batch_size, n)
        taken, rejected = 0, 0
        for rate in annealed(self.learning_rate, self.max_iter, self.max_time):
            rows = rng.integers(n, size=size)
            rho = max(RHO * rate / self.learning_rate, 1.0 / (taken + 1))
            state, accepted = _step(state, X[rows], y[rows], n / size, rho, rate)
            taken += 1
            rejected += not accepted
        total = _total_statistics(state.spectrum, X, y)
        q = optimal_inducing(total)
        value = float(collapsed_bound(total) - kl_spectrum(state.spectrum))
        if not np.isfinite(value):
            raise FitError(
                f"The bound is not finite after {taken} steps, {rejected} of which were refused. "
                "Lower learning_rate, or look for outliers in X and y."
            )
        result = annealed_result(taken, self.max_iter, perf_counter() - began, value, rejected)
        fitted = jax.tree.map(np.asarray, (state.spectrum, q))
        return SpectrumPosterior(*fitted), result


def starting_spectrum(X: FloatArray, n_features: int, rng: np.random.Generator) -> Spectrum:
    """Frequencies drawn from the prior, reference points among the rows."""
    d = X.shape[1]
    Z = select_inducing(X, n_features, rng)
    Z = Z[np.arange(n_features) % len(Z)]  # again from the first, where rows are few
    return Spectrum(
        mu=jnp.asarray(rng.normal(size=(n_features, d))),
        log_s=jnp.full((n_features, d), np.log(0.1)),
        Z=jnp.asarray(Z),
        centre=jnp.asarray(rng.uniform(0.0, 2.0 * np.pi, size=n_features)),
        logit_h=jnp.full(n_features, -2.0),
        log_lam=jnp.full(d, -0.5 * np.log(d)),
        log_sigma_f=jnp.zeros(()),
        log_noise=jnp.log(0.2),
    )


class State(NamedTuple):
    """All that a step changes; ``q`` is q(a) of the natural parameters ``eta``."""

    spectrum: Spectrum
    eta: NaturalParameters
    q: InducingPosterior
    optimiser: optax.OptState


def _initial_state(spectrum: Spectrum) -> State:
    k = len(spectrum.mu)
    eta = NaturalParameters(jnp.zeros(k), jnp.eye(k))
    return State(spectrum, eta, from_natural(eta), adam().init(spectrum))


@compiled
def _step(
    state: State, X: Array, y: Array, weight: Array, rho: Array, rate: Array
) -> tuple[State, Array]:
    """One step; what is not finite leaves the state as it was."""
    gradient = jax.value_and_grad(bound, has_aux=True)
    (value, weighted), slope = gradient(state.spectrum, state.q, X, y, jnp.ones_like(y), weight)
    direction, optimiser = adam_direction(slope, state.optimiser)
    spectrum = jax.tree.map(lambda old, by: old + rate * by, state.spectrum, direction)
    eta = natural_step(state.eta, weighted, rho)
    after = State(spectrum, eta, from_natural(eta), optimiser)
    total = sum((jnp.sum(leaf) for leaf in (*spectrum, *after.q)), start=value)
    accepted = jnp.isfinite(total)
    kept = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), after, state)
    return kept, accepted


@compiled
def _add(total: Statistics, spectrum: Spectrum, X: Array, y: Array, mask: Array) -> Statistics:
    return jax.tree.map(jnp.add, total, statistics(spectrum, X, y, mask))


def _total_statistics(spectrum: Spectrum, X: FloatArray, y: FloatArray) -> Statistics:
    """Statistics of all rows, a chunk at a time."""
    k = spectrum.mu.shape[0]
    total = Statistics(jnp.zeros((k, k)), jnp.zeros(k), jnp.zeros(()))
    for start in range(0, len(y), CHUNK_ROWS * 16):
        part = slice(start, start + CHUNK_ROWS * 16)
        blocks = chunk(X[part], y[part], CHUNK_ROWS)
        for rows in zip(blocks.X, blocks.y, blocks.mask, strict=True):
            total = _add(total, spectrum, *rows)
    return total


_predictive = compiled(predictive)


@dataclass(frozen=True, eq=False)
class SpectrumPosterior:
    """q(ω), q(b) and the hyperparameters, and q(a)."""

    spectrum: Spectrum
    q: InducingPosterior

    @in_double
    def moments(self, X: FloatArray, of_y: bool) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,) of y, or of f."""
        blocks = chunk(X, np.zeros(len(X)), CHUNK_ROWS)
        parts = [_predictive(self.spectrum, self.q, rows) for rows in blocks.X]
        mean, var = (np.concatenate(part)[: len(X)] for part in zip(*parts, strict=True))
        return mean, var + (float(self.spectrum.noise_variance) if of_y else 0.0)
