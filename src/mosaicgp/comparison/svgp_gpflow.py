"""GPflow's SVGP as its manual trains it: natural gradients for q, Adam for everything else."""

from __future__ import annotations

import time

import gpflow
import numpy as np
import tensorflow as tf

STEPS = 5000
BATCH_ROWS = 1024
RHO, RATE = 0.1, 0.01
PREDICT_ROWS = 10_000


def predict(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    n_inducing: int,
    max_time: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of y at X_test, all standardised, after training on X and y."""
    import tf_keras

    began = time.perf_counter()
    rng = np.random.default_rng(seed)
    n, d = X.shape
    Z = X[rng.choice(n, size=min(n_inducing, n), replace=False)]
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(d, d**0.5))
    model = gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(0.1), Z, num_data=n)
    for own in (model.q_mu, model.q_sqrt):
        gpflow.set_trainable(own, False)
    natural, adam = gpflow.optimizers.NaturalGradient(RHO), tf_keras.optimizers.Adam(RATE)

    @tf.function(reduce_retracing=True)
    def step(rows: tf.Tensor, targets: tf.Tensor) -> None:
        loss = model.training_loss_closure((rows, targets), compile=False)
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    size = min(n, BATCH_ROWS)
    for _ in range(STEPS):
        rows = rng.choice(n, size=size, replace=False) if size < n else slice(None)
        step(tf.constant(X[rows]), tf.constant(y[rows, None]))
        if time.perf_counter() - began > max_time:
            break
    parts = np.array_split(X_test, -(-len(X_test) // PREDICT_ROWS))
    found = [[np.asarray(a)[:, 0] for a in model.predict_y(part)] for part in parts]
    mean, var = (np.concatenate(part) for part in zip(*found, strict=True))
    return mean, var
