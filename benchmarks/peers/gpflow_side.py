"""Times steps of GPflow's SVGP, natural gradient and Adam, and predictions."""

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras
from problem import INPUTS, N_DATA, RHO, answer, rows


def build(Z):
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(INPUTS, INPUTS**0.5))
    return gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(), Z, num_data=N_DATA)


def stepper(n: int, m: int):
    X, y, Z = rows(n, m)
    model = build(Z)
    for fixed in (model.inducing_variable, model.q_mu, model.q_sqrt):
        gpflow.set_trainable(fixed, False)
    natural, adam = gpflow.optimizers.NaturalGradient(RHO), tf_keras.optimizers.Adam(0.01)
    loss = model.training_loss_closure((tf.constant(X), tf.constant(y[:, None])))

    @tf.function
    def step():
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    return step


def predictor(n: int, m: int):
    """`predict_y` compiled, 10,000 rows at a time: all at once takes longer."""
    X, _, Z = rows(n, m)
    predict = tf.function(build(Z).predict_y)
    parts = [tf.constant(part) for part in np.array_split(X, max(1, n // 10_000))]
    return lambda: [[np.asarray(a) for a in predict(part)] for part in parts]


answer(stepper, predictor)
