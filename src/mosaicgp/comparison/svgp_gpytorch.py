"""GPyTorch's SVGP as its manual trains it: natural gradients for q, Adam for everything else."""

from __future__ import annotations

import gpytorch
import numpy as np
import torch

from mosaicgp.comparison.svgp import PREDICT_ROWS, RATE, RHO, batches, inducing_rows


class _Model(gpytorch.models.ApproximateGP):
    def __init__(self, Z: torch.Tensor) -> None:
        q = gpytorch.variational.NaturalVariationalDistribution(len(Z))
        strategy = gpytorch.variational.VariationalStrategy(
            self, Z, q, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
        kernel.lengthscale = Z.shape[1] ** 0.5
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def predict(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    n_inducing: int,
    max_time: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of y at X_test, all standardised, after training on X and y."""
    n = len(y)
    rows, targets = torch.tensor(X), torch.tensor(y)
    model = _Model(rows[inducing_rows(n, n_inducing, seed)].clone()).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.1
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=n, lr=RHO)
    adam = torch.optim.Adam([*model.hyperparameters(), *likelihood.parameters()], lr=RATE)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    model.train(), likelihood.train()
    for some in batches(n, max_time, seed):
        natural.zero_grad(), adam.zero_grad()
        (-bound(model(rows[some]), targets[some])).backward()
        natural.step(), adam.step()
    model.eval(), likelihood.eval()
    with torch.no_grad():
        found = [likelihood(model(part)) for part in torch.tensor(X_test).split(PREDICT_ROWS)]
    return (
        np.concatenate([f.mean.numpy() for f in found]),
        np.concatenate([f.variance.numpy() for f in found]),
    )
