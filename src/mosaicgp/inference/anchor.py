"""What was learned before, as the prior of a fit on new rows (streaming).

The posterior over s after the old rows stands for them: in natural parameters, prior plus what the
rows said, of which a share ``forget`` is taken back. q(θ) is the prior of the next q(θ), flattened
by the same share. The noise has no posterior; its parameters are held near where they were, as
firmly as n rows of that noise would: the Fisher information of a log variance from n rows is n/2.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from mosaicgp.inference.parameters import Free, Switches
from mosaicgp.model.bound import Parameters
from mosaicgp.model.posterior import InducingPosterior, NaturalParameters, kl_theta, to_natural

NOISE = ("log_noise", "log_eps_variance", "log_eps_lam")


class Anchor(NamedTuple):
    """Prior of s (whitened), means and variances (d + 1,) of θ, where the noise was, and the share
    of all that is forgotten."""

    eta: NaturalParameters
    theta_mean: Array
    theta_variance: Array
    free: Free
    noise_precision: Array
    forget: Array


def anchor_of(
    parameters: Parameters,
    q: InducingPosterior,
    free: Free,
    switches: Switches,
    n: float,
    forget: float,
) -> Anchor:
    """From a fit of n rows, ``free`` its unconstrained parameters."""
    kept = 1.0 - forget
    eta = to_natural(q)
    eye = jnp.eye(eta.precision.shape[0], dtype=eta.precision.dtype)
    before = NaturalParameters(kept * eta.precision_mean, eye + kept * (eta.precision - eye))
    theta = parameters.theta
    mean = jnp.append(theta.nu, theta.alpha)
    if switches.bayesian:
        variance = jnp.append(theta.xi, theta.beta)
        mu0, v0 = switches.prior
        precision = kept / variance + forget / v0
        mean = (kept * mean / variance + forget * mu0 / v0) / precision
    else:
        # A point estimate says nothing of its spread; as firm as a scale seen in n rows.
        precision = kept * n / 2.0 / jnp.maximum(mean**2, 1e-4)
    noise_precision = jnp.asarray(kept * n / 2.0)
    return Anchor(before, mean, 1.0 / precision, free, noise_precision, jnp.asarray(forget))


def distance(anchor: Anchor, free: Free, parameters: Parameters, switches: Switches) -> Array:
    """What takes the place of KL(q(θ) ‖ p(θ)), in nats."""
    theta = parameters.theta
    prior = (anchor.theta_mean, anchor.theta_variance)
    if switches.bayesian:
        total = kl_theta(theta, prior)
    else:
        moved = jnp.append(theta.nu, theta.alpha) - anchor.theta_mean
        total = 0.5 * jnp.sum(moved**2 / anchor.theta_variance)
    for name in NOISE:
        moved = getattr(free, name) - getattr(anchor.free, name)
        total = total + 0.5 * anchor.noise_precision * jnp.sum(moved**2)
    return total
