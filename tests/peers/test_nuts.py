"""q(θ) against a long NUTS run on the same model, with the noise that our fit learned."""

from typing import NamedTuple

import numpy as np
import pytest

import reference
from mosaicgp import SparseGPRegressor
from peers.exchange import Arrays, Ask, Note

pytestmark = pytest.mark.peers

ROWS = 60
CASES = {
    "two inputs": ([0.5, 1.0], 0.1),
    "three inputs": ([0.3, 0.7, 1.2], 0.1),
    "two inputs, little noise": ([0.5, 1.0], 0.01),
}


class Fitted(NamedTuple):
    """Mean and std of |λ_k| and |σ_f| under our q(θ), and the same problem for NUTS."""

    mean: np.ndarray
    std: np.ndarray
    question: Arrays


def fit(lam: list[float], noise_variance: float) -> Fitted:
    """Draw rows from the model with σ_f = 1, and fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, len(lam)))
    C = reference.se(X, X, np.array(lam), 1.0) + noise_variance * np.eye(ROWS)
    y = np.linalg.cholesky(C) @ rng.normal(size=ROWS)
    model = SparseGPRegressor("dtc", n_inducing=ROWS).fit(X, y)
    table, scaling, posterior = model.hyperparameters_, model.scaling_, model.posterior_
    assert posterior.prior[0] == 0.0, "half-normal priors on the other side need a centred prior"
    theta = slice(0, len(lam) + 1)
    unit = (table["mean"] / table["standardised"])[theta]
    return Fitted(
        mean=table["standardised"][theta],
        std=table["std"][theta] / unit,
        question={
            "X": scaling.transform_X(X),
            "y": scaling.transform_y(y),
            "noise_variance": posterior.noise_variance,
            "prior_variance": posterior.prior[1],
        },
    )


@pytest.fixture(scope="module")
def ours() -> dict[str, Fitted]:
    return {name: fit(*case) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def theirs(ask: Ask, ours: dict[str, Fitted]) -> dict[str, Arrays]:
    """All of NUTS' answers, from one run."""
    return ask("nuts", {name: fitted.question for name, fitted in ours.items()})


@pytest.mark.parametrize("name", CASES)
def test_q_theta(
    name: str,
    ours: dict[str, Fitted],
    theirs: dict[str, Arrays],
    note: Note,
) -> None:
    q, nuts = ours[name], theirs[name]
    assert np.all(nuts["r_hat"] < 1.01) and nuts["divergences"] == 0, "the chains did not mix"
    labels = [f"|lambda_{k + 1}|" for k in range(len(q.mean) - 1)] + ["|sigma_f|"]
    for k, label in enumerate(labels):
        note(
            f"{f'q(theta) against NUTS, {name}: {label}':<60} "
            f"mean {q.mean[k]:.3f} against {nuts['mean'][k]:.3f} ± {nuts['mean_error'][k]:.3f}, "
            f"std {q.std[k]:.3f} against {nuts['std'][k]:.3f}, "
            f"ratio {q.std[k] / nuts['std'][k]:.2f}"
        )
    shift = np.abs(q.mean - nuts["mean"])
    allowed = 0.5 * nuts["std"] + 2.0 * nuts["mean_error"]
    note(
        f"{f'q(theta) against NUTS, {name}':<60} "
        f"largest difference of means {np.max(shift / nuts['std']):.2f} posterior std, "
        f"allowed {np.min(allowed / nuts['std']):.2f}"
    )
    assert np.all(shift <= allowed)
