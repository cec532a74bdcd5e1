"""Run by an interpreter that has GPflow, not imported: `peer_script.py fit|predict IN OUT`.

SVGP with SE-ARD, random rows as the first inducing inputs, batches of 1,024 rows, natural gradients
for q(u) and Adam for the rest, inducing inputs among it. Standardised units.
"""

import sys
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

try:
    from tf_keras.optimizers import Adam
except ImportError:
    from tensorflow.keras.optimizers import Adam

BATCH_ROWS = 1024
RHO = 0.1
RATE = 0.01


def build(Z: np.ndarray, n: int) -> gpflow.models.SVGP:
    """The model at its start, for n rows."""
    d = Z.shape[1]
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(d, d**0.5))
    return gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(), Z, num_data=n)


def fit(
    X: np.ndarray, y: np.ndarray, n_inducing: int, max_iter: int, seed: int
) -> dict[str, np.ndarray]:
    """The arrays of a fitted model."""
    rng = np.random.default_rng(int(seed))
    n = len(X)
    Z = X[rng.choice(n, min(int(n_inducing), n), replace=False)]
    model = build(Z + 1e-6 * rng.standard_normal(Z.shape), n)
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    natural, adam = gpflow.optimizers.NaturalGradient(RHO), Adam(RATE)
    rows = min(BATCH_ROWS, n)
    held_X, held_y = tf.constant(X), tf.constant(y[:, None])

    @tf.function
    def step(chosen: tf.Tensor) -> None:
        loss = model.training_loss_closure(
            (tf.gather(held_X, chosen), tf.gather(held_y, chosen)), compile=False
        )
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    for _ in range(int(max_iter)):
        step(tf.constant(rng.integers(n, size=rows)))
    values = gpflow.utilities.read_values(model)
    return {name.lstrip(".").replace(".", "__"): value for name, value in values.items()}


def predict(X: np.ndarray, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Mean and variance of y, in parts: all rows at once take longer."""
    values = {"." + name.replace("__", "."): value for name, value in arrays.items()}
    model = build(values[".inducing_variable.Z"], 1)
    gpflow.utilities.multiple_assign(model, values)
    compiled = tf.function(model.predict_y)
    parts = np.array_split(X, max(1, len(X) // 10_000))
    moments = [[np.asarray(a)[:, 0] for a in compiled(tf.constant(part))] for part in parts]
    mean, var = (np.concatenate(part) for part in zip(*moments, strict=True))
    return {"mean": mean, "var": var}


if __name__ == "__main__":
    what, asked, answer = sys.argv[1:]
    with np.load(asked) as arrays:
        question: dict[str, Any] = dict(arrays)
    found: dict[str, Any] = fit(**question) if what == "fit" else predict(**question)
    np.savez(answer, **found)
