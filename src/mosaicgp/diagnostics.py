"""How far two fitted posteriors are from each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_is_fitted

from mosaicgp.posterior import Posterior, prior_factor


class Divergence(NamedTuple):
    """KL(q_a ‖ q_b) of the inducing outputs q(s) and of the hyperparameters q(θ), in nats."""

    inducing: float
    theta: float


def kl(model_a: Any, model_b: Any) -> Divergence:
    """KL divergence from one fitted model to another, in standardised units.

    The models must have the same inducing inputs and the same inputs, as a fit and its update have,
    and fits of the same rows with the same ``random_state`` and ``learn_inducing=False``. The
    inducing outputs are compared one by one, wherever the length-scales have moved them. λ and −λ
    are the same kernel, so signs are folded. For point estimates the divergence of θ is not finite
    unless they are equal.
    """
    for model in (model_a, model_b):
        check_is_fitted(model)
    a, b = model_a.posterior_, model_b.posterior_
    if a.Z.shape != b.Z.shape:
        raise ValueError(
            f"kl: the models have {a.Z.shape} and {b.Z.shape} inducing inputs; only fits with the "
            "same number of inducing points and of columns can be compared."
        )
    if not (np.allclose(a.U, b.U) and (np.allclose(a.Z, b.Z) or _same_in_x(a, b))):
        raise ValueError(
            "kl: the models have different inducing inputs, so their inducing outputs are not the "
            "same things; fit the same rows with the same random_state and learn_inducing=False."
        )
    return Divergence(_inducing(a, b), _theta(a, b))


def _same_in_x(a: Posterior, b: Posterior) -> bool:
    """Whether the inducing inputs Z/ν are the same in the space of x."""
    return np.allclose(a.Z * b.nu, b.Z * a.nu)


def _inducing(a: Posterior, b: Posterior) -> float:
    """KL between N(m_a, S_a) and N(m_b, S_b), through factors that are well conditioned."""
    L_a, L_b = (prior_factor(q.Z, q.jitter) for q in (a, b))
    # s = L_b v: q_b(v) is kept by the factor of its precision, and q_a moves to that basis.
    move = solve_triangular(L_b, L_a, lower=True)
    precision_root = np.linalg.inv(b.v_root)
    root = a.v_root @ move.T @ precision_root
    same_sign = 1.0 if a.alpha * b.alpha >= 0 else -1.0  # (α, s) and (−α, −s) are the same f
    shift = (same_sign * move @ a.v_mean - b.v_mean) @ precision_root
    log_det = np.linalg.slogdet(root)[1]
    return float(0.5 * (np.sum(root**2) + shift @ shift - len(shift)) - log_det)


def _theta(a: Posterior, b: Posterior) -> float:
    mean_a, mean_b = (np.abs(np.append(q.nu, q.alpha)) for q in (a, b))
    var_a, var_b = (np.append(q.xi, q.beta) for q in (a, b))
    if np.array_equal(mean_a, mean_b) and np.array_equal(var_a, var_b):
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = var_a / var_b + (mean_a - mean_b) ** 2 / var_b - 1.0 - np.log(var_a / var_b)
    return float(0.5 * np.sum(terms)) if np.all(np.isfinite(terms)) else float("inf")
