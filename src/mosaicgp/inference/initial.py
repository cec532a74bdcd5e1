"""Starting values that come from the data, standardised: variance one, of rare flags less."""

from bisect import bisect_left

import numpy as np
from scipy.spatial.distance import cdist

from mosaicgp.inference.parameters import Free
from mosaicgp.model.family import Approximation

SELECTION_ROWS = 10_000

# Inverse length-scales of k^ε at the start, in units of 1/√d, and neighbours of a typical row.
EPS_RATIO = 2.0
NEIGHBOURS = 0.5


def select_inducing(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """At most m distinct rows of X (n, d) as inducing inputs, by randomly pivoted Cholesky.

    A row is drawn with probability proportional to the prior variance that the rows drawn so far
    leave unexplained (Chen, Epperly, Tropp & Webber 2022): coverage, as in greedy selection, but
    weighted by density, so that outliers do not take all places. When the kernel at its starting
    length-scale is explained, the remaining places go to rows drawn at random.
    """
    X = np.unique(X[sample_rows(len(X), rng)], axis=0)
    m = min(m, len(X))
    rotated = X / np.sqrt(X.shape[1])
    residual = np.ones(len(X))
    columns = np.zeros((len(X), m))
    chosen: list[int] = []
    while len(chosen) < m and residual.sum() > 1e-6 * len(X):
        pick = int(rng.choice(len(X), p=residual / residual.sum()))
        kernel = np.exp(-0.5 * np.sum((rotated - rotated[pick]) ** 2, axis=1))
        k = len(chosen)
        column = (kernel - columns[:, :k] @ columns[pick, :k]) / np.sqrt(residual[pick])
        columns[:, k] = column
        residual = np.maximum(residual - column**2, 0.0)
        residual[pick] = 0.0
        chosen.append(pick)
    left = np.setdiff1d(np.arange(len(X)), chosen)
    chosen += list(rng.choice(left, size=m - len(chosen), replace=False))
    return X[chosen]


def starting_values(
    U: np.ndarray,
    approximation: Approximation,
    rng: np.random.Generator | None = None,
    ratio: float = EPS_RATIO,
) -> Free:
    """Free parameters to start from; with ``rng``, a random start around them.

    ν = 1/√d keeps kernel values of order one whatever d (docs/mathematics.md, "Start"); the
    inverse length-scales of k^ε are ``ratio`` times that.
    """
    d = U.shape[1]
    nu = np.full(d, 1.0 / np.sqrt(d))
    free = Free(
        nu=nu,
        log_xi=2.0 * np.log(0.1 * nu),
        alpha=np.array(1.0),
        log_beta=np.array(np.log(0.01)),
        log_noise=np.array(np.log(0.2 if not approximation.has_eps else 0.1)),
        log_eps_variance=np.array(np.log(0.3)),
        log_eps_lam=np.log(ratio * nu),
        inducing=U.copy(),
    )
    if rng is None:
        return free
    moved = ("nu", "log_noise", "log_eps_variance", "log_eps_lam")
    jumps = {name: rng.normal(scale=0.5, size=np.shape(getattr(free, name))) for name in moved}
    return free._replace(
        nu=free.nu * np.exp(jumps.pop("nu")),
        **{name: getattr(free, name) + jump for name, jump in jumps.items()},
    )


def eps_ratio(X: np.ndarray, mask: np.ndarray, most: float) -> float:
    """How many times 1/√d the inverse length-scales of k^ε start at, of a few blocks X (k, n, d)
    with mask (k, n).

    As many as ``most``, unless rows would have no neighbours, and all slopes of k^ε vanish: a
    typical row is to be as correlated with the others of its block as with ``NEIGHBOURS`` rows at
    its own place.
    """
    real = [rows[is_real > 0] for rows, is_real in zip(X, mask, strict=True)]
    few = [rows[:: max(4, len(rows) // 64)] for rows in real]
    distances = [cdist(*pair, "sqeuclidean") / X.shape[2] for pair in zip(few, real, strict=True)]
    # A row itself is no neighbour, nor is its double: k^ε has no slope there.
    apart = [np.where(block > 0.0, block, np.inf) for block in distances]

    def enough(ratio: float) -> bool:
        each = [np.sum(np.exp(-0.5 * ratio**2 * block), axis=1) for block in apart]
        return bool(np.median(np.concatenate(each)) >= NEIGHBOURS)

    ratios = np.geomspace(most, EPS_RATIO, 40)
    return float(ratios[bisect_left(ratios[:-1], True, key=enough)])


def sample_rows(n: int, rng: np.random.Generator, most: int = SELECTION_ROWS) -> np.ndarray:
    """Sorted numbers of the rows that stand for all n: all of them, where they are not many."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, size=most, replace=False))
