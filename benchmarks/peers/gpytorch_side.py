"""Times steps of GPyTorch's SVGP, NGD and Adam, and predictions."""

import gpytorch
import torch
from problem import INPUTS, N_DATA, RHO, answer, rows

torch.set_default_dtype(torch.float64)


class Model(gpytorch.models.ApproximateGP):
    def __init__(self, Z):
        q = gpytorch.variational.NaturalVariationalDistribution(len(Z))
        strategy = gpytorch.variational.VariationalStrategy(
            self, Z, q, learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
        kernel.lengthscale = INPUTS**0.5
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def stepper(n: int, m: int):
    X, y, Z = map(torch.tensor, rows(n, m))
    model, likelihood = Model(Z), gpytorch.likelihoods.GaussianLikelihood()
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=N_DATA, lr=RHO)
    others = [*model.hyperparameters(), *likelihood.parameters()]
    adam = torch.optim.Adam(others, lr=0.01)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=N_DATA)
    model.train(), likelihood.train()

    def step():
        natural.zero_grad(), adam.zero_grad()
        (-bound(model(X), y)).backward()
        natural.step(), adam.step()

    return step


def predictor(n: int, m: int):
    """The likelihood's mean and variance, 10,000 rows at a time: all at once takes longer."""
    X, _, Z = map(torch.tensor, rows(n, m))
    model, likelihood = Model(Z), gpytorch.likelihoods.GaussianLikelihood()
    model.eval(), likelihood.eval()
    parts = X.split(10_000)

    def predict():
        with torch.no_grad(), gpytorch.settings.skip_posterior_variances(False):
            found = [likelihood(model(part)) for part in parts]
            return [(f.mean.numpy(), f.variance.numpy()) for f in found]

    return predict


answer(stepper, predictor)
