"""NUTS on the full Bayesian GP, in an environment of its own: `nuts_side.py FOLDER`.

Every ``NAME.npz`` of the folder holds X, y, noise_variance and the prior variance; ``NAME.out.npz``
``NAME.out.npz`` gets the posterior of |λ_k| and |σ_f|: mean, std, the Monte Carlo standard error of
the mean, and R-hat. The prior is N(0, v₀) on every λ_k and on σ_f; the likelihood is even in each,
so |λ_k| and |σ_f| have half-normal priors, and the chains need not cross zero.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

CHAINS, WARMUP, SAMPLES, SEED = 4, 500, 2000, 0


def model(X: jax.Array, y: jax.Array, noise_variance: float, prior_variance: float) -> None:
    """y ~ GP(0, σ_f² exp(−½‖Λ(x − x')‖²)) + noise, with f integrated out."""
    scale = jnp.sqrt(prior_variance)
    lam = numpyro.sample("lam", dist.HalfNormal(scale).expand([X.shape[1]]).to_event(1))
    sigma_f = numpyro.sample("sigma_f", dist.HalfNormal(scale))
    difference = (X[:, None, :] - X[None, :, :]) * lam
    K = sigma_f**2 * jnp.exp(-0.5 * jnp.sum(difference**2, axis=2))
    C = K + noise_variance * jnp.eye(len(y))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(y)), covariance_matrix=C), obs=y)


def run(problem: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Posterior summaries of (|λ_1|, ..., |λ_d|, |σ_f|)."""
    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=WARMUP,
        num_samples=SAMPLES,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(
        jax.random.key(SEED), *(problem[k] for k in ("X", "y", "noise_variance", "prior_variance"))
    )
    draws = mcmc.get_samples(group_by_chain=True)
    theta = np.concatenate([draws["lam"], draws["sigma_f"][:, :, None]], axis=2)
    mean, std = theta.mean(axis=(0, 1)), theta.std(axis=(0, 1))
    return {
        "mean": mean,
        "std": std,
        "mean_error": std / np.sqrt(effective_sample_size(theta)),
        "r_hat": split_gelman_rubin(theta),
        "divergences": np.sum(mcmc.get_extra_fields()["diverging"]),
    }


def main(folder: Path) -> None:
    """Answer every problem of the folder."""
    numpyro.enable_x64()
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as problem:
            np.savez(path.with_suffix(".out.npz"), **run(dict(problem)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
