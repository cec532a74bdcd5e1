"""Covariance of the hyperparameters by linear response.

q(s) q(θ) is factorised, so the spread of q(θ) is that of θ with s held still: too narrow wherever
the two are correlated, which is everywhere. How the optimum moves when the log joint density is
tilted by t·λ_k says how much λ_k varies together with everything else (Giordano, Broderick & Jordan
2018): with H the Hessian of the collapsed bound in all learned parameters,

    cov(θ) ≈ [−H⁻¹] in the rows and columns of ν and α.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mosaicgp.data.blocks import Blocks
from mosaicgp.inference.exact import climbing_route, value_and_gradient
from mosaicgp.inference.parameters import Fixed, Free, Switches, release
from mosaicgp.model.bound import Block, Parameters
from mosaicgp.precision import in_double

STEP = 1e-4


@in_double
def linear_response(
    parameters: Parameters, data: Blocks, switches: Switches, jitter: float
) -> NDArray[np.float64]:
    """Covariance (d + 1, d + 1) of (λ, σ_f) at a fitted state, in standardised units."""
    blocks = Block(*map(jnp.asarray, (data.X, data.y, data.mask)))
    free, fixed = release(parameters, switches)
    route = climbing_route(free, fixed, blocks, jitter, switches)
    names = [name for name in switches.learned() if name != "inducing"]
    hessian, sizes = _hessian(names, free, fixed, blocks, jitter, switches, route)
    if not np.all(np.isfinite(hessian)):
        raise FloatingPointError("the curvature of the bound is not finite at the fitted state")
    covariance = np.linalg.inv(_positive(-hessian, switches.prior[1]))
    position = np.cumsum([0, *sizes])
    wanted = np.concatenate(
        [np.arange(position[k], position[k + 1]) for k in (names.index("nu"), names.index("alpha"))]
    )
    return covariance[np.ix_(wanted, wanted)]


def _hessian(
    names: list[str],
    free: Free,
    fixed: Fixed,
    blocks: Block,
    jitter: float,
    switches: Switches,
    route: Any,
) -> tuple[NDArray[np.float64], list[int]]:
    """Central differences of the gradient, which a fit has compiled already: (p, p)."""
    start = {name: np.asarray(getattr(free, name), dtype=np.float64) for name in names}
    sizes = [value.size for value in start.values()]
    learned = {name: getattr(free, name) for name in switches.learned()}

    def gradient(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        moved = {n: p.reshape(start[n].shape) for n, p in zip(names, parts, strict=True)}
        _, slope = value_and_gradient(
            {**learned, **moved}, free, fixed, blocks, jitter, switches, route, None, True
        )
        return np.concatenate([np.ravel(slope[name]) for name in names])

    centre = np.concatenate([value.ravel() for value in start.values()])
    rows = []
    for k in range(len(centre)):
        move = np.zeros_like(centre)
        move[k] = STEP
        rows.append((gradient(centre + move) - gradient(centre - move)) / (2 * STEP))
    hessian = np.array(rows)
    return 0.5 * (hessian + hessian.T), sizes


def _positive(precision: NDArray[np.float64], prior_variance: float) -> NDArray[np.float64]:
    """The nearest matrix that lets no direction vary by more than ten prior standard deviations.

    A climb that stopped a little before its optimum can leave a flat direction slightly convex.
    """
    values, vectors = np.linalg.eigh(precision)
    return (vectors * np.maximum(values, 1e-2 / prior_variance)) @ vectors.T
