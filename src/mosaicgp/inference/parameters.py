"""Unconstrained parameters, as an optimiser sees them, and the model's own.

What must stay positive is the exponential of a free number, so every value an optimiser can reach
is a valid model.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.model.bound import Parameters
from mosaicgp.model.family import Approximation
from mosaicgp.model.noise import NoiseParameters
from mosaicgp.model.posterior import ThetaPosterior

# Smallest noise variance, in units of the target's variance: keeps C⁻¹ within reach of float64.
NOISE_FLOOR = 1e-6

# The fields of ``Free`` that say how wide q(θ) is.
SPREADS = ("log_xi", "log_beta")

# Prior of k^ε, standardised: the mean of its variance, which is exponential, and the scale of its
# inverse length-scales, half-normal, in units of 1/√d (docs/mathematics.md, "A price for k^ε").
EPS_VARIANCE, EPS_SCALE = 0.5, 1000.0


class Free(NamedTuple):
    """Unconstrained numbers; ``inducing`` (m, d) lives in the space of x."""

    nu: Any
    log_xi: Any
    alpha: Any
    log_beta: Any
    log_noise: Any
    log_eps_variance: Any
    log_eps_lam: Any
    inducing: Any


@dataclass(frozen=True)
class Switches:
    """What is learned and how; static under compilation.

    ``rotate``: the inducing inputs Z follow ν, Z = ν ∘ inducing, as they would if chosen in the
    space of x; otherwise Z stays where the start put it.
    """

    approximation: Approximation
    bayesian: bool
    learn_inducing: bool = False
    rotate: bool = True
    prior: tuple[float, float] = (0.0, 1.0)

    def learned(self) -> tuple[str, ...]:
        """Names of the fields of ``Free`` that an optimiser may change."""
        names = ["nu", "alpha", "log_noise"]
        if self.bayesian:
            names += ["log_xi", "log_beta"]
        if self.approximation.has_eps:
            names += ["log_eps_variance", "log_eps_lam"]
        if self.learn_inducing:
            names += ["inducing"]
        return tuple(names)


class Fixed(NamedTuple):
    """Arrays that no optimiser changes: U (m, d) and the ν (d,) that rotated Z at the start."""

    U: Any
    nu_start: Any


def constrain(free: Free, fixed: Fixed, switches: Switches) -> Parameters:
    """The model's parameters."""
    zero = jnp.zeros_like(free.nu)
    theta = ThetaPosterior(
        nu=free.nu,
        xi=jnp.exp(free.log_xi) if switches.bayesian else zero,
        alpha=free.alpha,
        beta=jnp.exp(free.log_beta) if switches.bayesian else jnp.zeros_like(free.alpha),
    )
    noise = NoiseParameters(
        noise_variance=NOISE_FLOOR + jnp.exp(free.log_noise),
        eps_variance=jnp.exp(free.log_eps_variance),
        eps_lam=jnp.exp(free.log_eps_lam),
        U=fixed.U,
    )
    rotation = free.nu if switches.rotate else fixed.nu_start
    return Parameters(theta, rotation * free.inducing, noise)


def price(free: Free, switches: Switches) -> Array:
    """−log p(k^ε) but for a constant, in nats: what a fit pays beside the bound."""
    if not switches.approximation.has_eps:
        return jnp.zeros_like(free.alpha)
    relative = jnp.exp(free.log_eps_lam) * (float(np.sqrt(np.size(free.nu))) / EPS_SCALE)
    return jnp.exp(free.log_eps_variance) / EPS_VARIANCE + 0.5 * jnp.sum(relative**2)


def release(parameters: Parameters, switches: Switches) -> tuple[Free, Fixed]:
    """The unconstrained parameters of a fitted model: inverse of ``constrain``."""
    theta, Z, noise = parameters
    rotation = jnp.where(jnp.abs(theta.nu) > 1e-12, theta.nu, 1e-12)
    tiny = jnp.finfo(Z.dtype).tiny
    if not switches.rotate:
        rotation = jnp.ones_like(theta.nu)
    # Where Z still is a row of U, that row: Z/ν has lost it where ν is tiny. It is also better than
    # an input far from all rows, which Z that did not follow a tiny ν would give.
    at_U = jnp.abs(Z - theta.nu * noise.U) <= 1e-9 * (1.0 + jnp.abs(Z))
    far = jnp.abs(Z / rotation) > 10.0 * jnp.maximum(1.0, jnp.max(jnp.abs(noise.U), axis=0))
    follows_U = switches.rotate & (at_U | far)
    free = Free(
        nu=theta.nu,
        log_xi=jnp.log(theta.xi + tiny),
        alpha=theta.alpha,
        log_beta=jnp.log(theta.beta + tiny),
        log_noise=jnp.log(jnp.maximum(noise.noise_variance - NOISE_FLOOR, 1e-3 * NOISE_FLOOR)),
        log_eps_variance=jnp.log(noise.eps_variance),
        log_eps_lam=jnp.log(noise.eps_lam),
        inducing=jnp.where(follows_U, noise.U, Z / rotation),
    )
    return free, Fixed(noise.U, jnp.ones_like(theta.nu))
