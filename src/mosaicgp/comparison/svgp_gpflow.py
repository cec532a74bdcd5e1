"""GPflow's SVGP as its manual trains it: natural gradients for q, Adam for everything else."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf

from mosaicgp.comparison.svgp import PREDICT_ROWS, RATE, RHO, batches, inducing_rows


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

    n, d = X.shape
    Z = X[inducing_rows(n, n_inducing, seed)]
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

    for rows in batches(n, max_time, seed):
        step(tf.constant(X[rows]), tf.constant(y[rows, None]))
    parts = np.array_split(X_test, -(-len(X_test) // PREDICT_ROWS))
    found = [[np.asarray(a)[:, 0] for a in model.predict_y(part)] for part in parts]
    mean, var = (np.concatenate(part) for part in zip(*found, strict=True))
    return mean, var
