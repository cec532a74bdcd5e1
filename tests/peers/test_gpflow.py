"""dtc/point/exact is Titsias' bound, and fitc/point with k^ε = k predicts as FITC does: GPflow."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from mosaicgp import SparseGPRegressor
from mosaicgp.model.bound import Parameters, collapsed_bound, optimal_inducing, total_statistics
from mosaicgp.model.expectations import Mehler
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.noise import NoiseParameters
from mosaicgp.model.predictive import moments, predictive_state
from peers.exchange import Agree, Arrays, Ask, Note
from problems import Problem, random_problem

pytestmark = pytest.mark.peers

SEEDS = range(4)
GPFLOW_JITTER = 1e-6

# Rounding times the largest condition number that Kuu can have here, m / jitter.
M = 10
ROUNDING = np.finfo(float).eps * M / GPFLOW_JITTER


@dataclass(frozen=True)
class Case:
    """A random problem at point values and k^ε = k, and rows to predict."""

    problem: Problem
    parameters: Parameters
    X_new: np.ndarray

    @property
    def alpha(self) -> float:
        return float(self.parameters.theta.alpha)

    def question(self) -> Arrays:
        """The same for GPflow: inducing inputs in the space of x, as U is."""
        noise = self.parameters.noise
        return {
            "X": self.problem.X,
            "y": self.problem.y,
            "X_new": self.X_new,
            "inducing": np.asarray(noise.U),
            "lengthscales": 1.0 / np.abs(self.parameters.theta.nu),
            "variance": noise.eps_variance,
            "noise_variance": noise.noise_variance,
            "jitter": GPFLOW_JITTER,
            "optimise": False,
        }

    def answer(self, kind: str) -> Arrays:
        """Our bound and predictions; the jitter of Σ is relative to unit amplitude."""
        noise = APPROXIMATIONS[kind].noise
        jitter = jnp.asarray(GPFLOW_JITTER / self.alpha**2)
        stacked = self.problem.stacked
        statistics = total_statistics(self.parameters, stacked, noise, Mehler(0), jitter)
        state = predictive_state(self.parameters, optimal_inducing(statistics), noise, jitter)
        f_mean, f_var = moments(state, jnp.asarray(self.X_new), bayesian=False)
        y_var = f_var + noise.marginal(state.prepared.noise, jnp.asarray(self.X_new))
        bound = collapsed_bound(statistics)
        return {"elbo": bound, "f_mean": f_mean, "f_var": f_var, "y_var": y_var}


def make_case(seed: int) -> Case:
    """Seed 0 has one input, seed 1 two, and so on; ν and α are of either sign."""
    with jax.enable_x64(True):
        problem = random_problem("dtc", seed, d=1 + seed, m=M, sizes=(17, 12, 21))
        theta, Z, noise = problem.parameters
        theta = theta._replace(xi=jnp.zeros_like(theta.xi), beta=jnp.zeros_like(theta.beta))
        noise = NoiseParameters(noise.noise_variance, theta.alpha**2, theta.nu, Z / theta.nu)
        X_new = 1.5 * np.random.default_rng(seed).normal(size=(30, 1 + seed))
        return Case(problem, Parameters(theta, Z, noise), X_new)


@dataclass(frozen=True)
class Fitted:
    """Our estimator on scikit-learn's diabetes data, and rows it has not seen."""

    model: SparseGPRegressor
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray

    def in_user_units(self) -> Arrays:
        """For GPflow, from the table that a user sees."""
        table, scaling = self.model.hyperparameters_, self.model.scaling_
        signal, noise = (table.row(name)["mean"] for name in ("sigma_f", "noise_std"))
        return {
            "X": self.X,
            "y": self.y - scaling.y_mean,
            "X_new": self.X_new,
            "inducing": scaling.X_mean + scaling.X_scale * self.inducing,
            "lengthscales": 1.0 / table["mean"][: self.X.shape[1]],
            "variance": signal**2,
            "noise_variance": noise**2,
            "jitter": self.model.posterior_.jitter * signal**2,
            "optimise": False,
        }

    def standardised(self) -> Arrays:
        """For GPflow, from the posterior, in the units in which the bound was climbed."""
        posterior, scaling = self.model.posterior_, self.model.scaling_
        return {
            "X": scaling.transform_X(self.X),
            "y": scaling.transform_y(self.y),
            "X_new": scaling.transform_X(self.X_new),
            "inducing": self.inducing,
            "lengthscales": 1.0 / np.abs(posterior.nu),
            "variance": posterior.alpha**2,
            "noise_variance": posterior.noise_variance,
            "jitter": posterior.jitter * posterior.alpha**2,
            "optimise": True,
        }

    @property
    def inducing(self) -> np.ndarray:
        """Inducing inputs in the space of the standardised x."""
        return self.model.posterior_.Z / self.model.posterior_.nu


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [make_case(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    X, y = load_diabetes(return_X_y=True)
    model = SparseGPRegressor("dtc", hyperparameters="point", n_inducing=40)
    return Fitted(model.fit(X[:300], y[:300]), X[:300], y[:300], X[300:])


@pytest.fixture(scope="module")
def theirs(ask: Ask, cases: list[Case], fitted: Fitted) -> dict[str, Arrays]:
    """All of GPflow's answers, from one run of it."""
    questions = {f"seed {seed}": case.question() for seed, case in zip(SEEDS, cases, strict=True)}
    questions["user"] = fitted.in_user_units()
    questions["standardised"] = fitted.standardised()
    return ask("gpflow", questions)


@pytest.mark.parametrize("seed", SEEDS)
def test_dtc_is_sgpr(seed: int, cases: list[Case], theirs: dict[str, Arrays], agree: Agree) -> None:
    ours, gpflow = cases[seed].answer("dtc"), theirs[f"seed {seed}"]
    label = f"dtc against SGPR, seed {seed}"
    agree(f"{label}: bound", ours["elbo"], gpflow["elbo"], ROUNDING * abs(gpflow["elbo"]))
    for name in ("f_mean", "f_var", "y_var"):
        agree(f"{label}: {name}", ours[name], gpflow[f"sgpr_{name}"], ROUNDING)


@pytest.mark.parametrize("seed", SEEDS)
def test_fitc_is_gprfitc(
    seed: int, cases: list[Case], theirs: dict[str, Arrays], agree: Agree
) -> None:
    ours, gpflow = cases[seed].answer("fitc"), theirs[f"seed {seed}"]
    for name in ("f_mean", "f_var"):
        label = f"fitc against GPRFITC, seed {seed}: {name}"
        agree(label, ours[name], gpflow[f"fitc_{name}"], ROUNDING)


def test_estimator_in_user_units(fitted: Fitted, theirs: dict[str, Arrays], agree: Agree) -> None:
    model, gpflow = fitted.model, theirs["user"]
    y_scale = model.scaling_.y_scale
    f_mean, f_var = model.predict_f(fitted.X_new)
    y_mean, y_std = model.predict(fitted.X_new, return_std=True)
    sgpr_mean = gpflow["sgpr_f_mean"] + model.scaling_.y_mean
    label = "estimator against SGPR, user's units"
    bound = model.elbo(fitted.X, fitted.y)
    agree(f"{label}: elbo", bound, gpflow["elbo"], ROUNDING * abs(gpflow["elbo"]))
    agree(f"{label}: mean of f", f_mean, sgpr_mean, ROUNDING * y_scale)
    agree(f"{label}: variance of f", f_var, gpflow["sgpr_f_var"], ROUNDING * y_scale**2)
    agree(f"{label}: mean of y", y_mean, sgpr_mean, ROUNDING * y_scale)
    agree(f"{label}: variance of y", y_std**2, gpflow["sgpr_y_var"], ROUNDING * y_scale**2)


def test_estimator_finds_the_optimum(
    fitted: Fitted, theirs: dict[str, Arrays], agree: Agree, note: Note
) -> None:
    model, gpflow = fitted.model, theirs["standardised"]
    n = len(fitted.y)
    bound = model.fit_result_.bound + n * np.log(model.scaling_.y_scale)
    agree("fit_result_.bound against SGPR, standardised", bound, gpflow["elbo"], ROUNDING * n)
    allowed = 0.5  # nats: half of what a standard deviation of a hyperparameter is worth
    for start in ("given", "default"):
        gain = float(gpflow[f"from_{start}"] - gpflow["elbo"])
        where = {"given": "our optimum", "default": "its own start"}[start]
        note(
            f"{f'bound that SGPR climbs to from {where}':<60} "
            f"is {gain:.1e} nats above ours, allowed {allowed:.1e}"
        )
        assert gain <= allowed
    assert gpflow["from_given"] >= gpflow["elbo"], "SciPy lost what it was given"
