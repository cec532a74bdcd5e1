"""Times steps of GPJax's `fit_natgrads`; one line of input a measurement.

Each call compiles, so a step is the difference between a long and a short fit.
"""

import sys
import time

import gpjax as gpx
import jax
import jax.numpy as jnp
import optax
from problem import INPUTS, RHO, n_steps, rows

jax.config.update("jax_enable_x64", True)


def seconds(n: int, m: int, n_steps: int) -> float:
    X, y, Z = map(jnp.asarray, rows(n, m))
    kernel = gpx.kernels.RBF(lengthscale=jnp.full(INPUTS, INPUTS**0.5))
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    q = gpx.variational_families.WhitenedVariationalGaussian(
        model=prior * gpx.likelihoods.Gaussian(), inducing_inputs=Z
    )
    began = time.perf_counter()
    _, history = gpx.fit_natgrads(
        model=q,
        objective=lambda model, data: -gpx.objectives.elbo(model, data),
        train_data=gpx.Dataset(X=X, y=y[:, None]),
        optim=optax.adam(0.01),
        natgrad_lr=RHO,
        num_iters=n_steps,
        verbose=False,
        safe=False,
    )
    jax.block_until_ready(history)
    return time.perf_counter() - began


for line in sys.stdin:
    n, m = map(int, line.split()[1:])
    short, long = 5, 5 + n_steps(m)
    print((seconds(n, m, long) - seconds(n, m, short)) / (long - short), flush=True)
