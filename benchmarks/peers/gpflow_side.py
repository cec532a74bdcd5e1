"""Times steps of GPflow's SVGP, natural gradient and Adam; one line of input a measurement."""

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras
from problem import INPUTS, N_DATA, RHO, answer, rows


def stepper(n: int, m: int):
    X, y, Z = rows(n, m)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(INPUTS, INPUTS**0.5))
    model = gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(), Z, num_data=N_DATA)
    for fixed in (model.inducing_variable, model.q_mu, model.q_sqrt):
        gpflow.set_trainable(fixed, False)
    natural, adam = gpflow.optimizers.NaturalGradient(RHO), tf_keras.optimizers.Adam(0.01)
    loss = model.training_loss_closure((tf.constant(X), tf.constant(y[:, None])))

    @tf.function
    def step():
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    return step


answer(stepper)
