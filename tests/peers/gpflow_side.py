"""GPflow's answers, in an environment of its own: `gpflow_side.py FOLDER`.

Every ``NAME.npz`` of the folder holds X (n, d), y (n,), X_new, inducing (m, d), lengthscales (d,),
variance, noise_variance, jitter (added to the diagonal of Kuu) and optimise; ``NAME.out.npz`` gets
the bound of SGPR, the predictions of SGPR and of GPRFITC, and, if asked for, the bounds of SGPR
that SciPy climbs to from there and from GPflow's own starting values, the inducing inputs held.
"""

import sys
from pathlib import Path

import gpflow
import numpy as np

Arrays = dict[str, np.ndarray]

LEARNED = ("lengthscales", "variance", "noise_variance")


def build(model: type, problem: Arrays) -> gpflow.models.GPModel:
    """SGPR or GPRFITC at the problem's values."""
    kernel = gpflow.kernels.SquaredExponential(
        variance=problem["variance"], lengthscales=problem["lengthscales"]
    )
    built = model(
        (problem["X"], problem["y"][:, None]),
        kernel,
        problem["inducing"],
        noise_variance=problem["noise_variance"],
    )
    gpflow.set_trainable(built.inducing_variable, False)
    return built


def predictions(prefix: str, model: gpflow.models.GPModel, X_new: np.ndarray) -> Arrays:
    """Moments of f and of y."""
    f_mean, f_var = model.predict_f(X_new)
    _, y_var = model.predict_y(X_new)
    values = {"f_mean": f_mean, "f_var": f_var, "y_var": y_var}
    return {f"{prefix}_{name}": value.numpy()[:, 0] for name, value in values.items()}


def climb(model: gpflow.models.SGPR) -> np.ndarray:
    """The bound at the optimum that L-BFGS-B finds from the model's values."""
    options = {"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-6}
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options=options
    )
    return model.elbo().numpy()


def answer(problem: Arrays) -> Arrays:
    """Everything that GPflow has to say on one problem."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=float(problem["jitter"]))):
        sgpr = build(gpflow.models.SGPR, problem)
        fitc = build(gpflow.models.GPRFITC, problem)
        found = {"elbo": sgpr.elbo().numpy()}
        found |= predictions("sgpr", sgpr, problem["X_new"])
        found |= predictions("fitc", fitc, problem["X_new"])
        if problem["optimise"]:
            ones = {name: np.ones_like(problem[name]) for name in LEARNED}
            default = build(gpflow.models.SGPR, problem | ones)
            found |= {"from_given": climb(sgpr), "from_default": climb(default)}
    return found


def main(folder: Path) -> None:
    """Answer every problem of the folder."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as problem:
            np.savez(path.with_suffix(".out.npz"), **answer(dict(problem)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
