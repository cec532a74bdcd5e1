"""Predictions on the host: rows cut into chunks, grouped by block, block factors cached.

Chunks and groups have fixed shapes, so that a row's prediction does not depend on the rows
predicted with it and nothing is compiled anew for another number of rows. Joint predictions are
padded to a multiple of a fixed number of rows for the same reason.
"""

from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.block_moments import BlockMoments, in_threads
from mosaicgp.data.blocks import Blocks
from mosaicgp.data.disk import DiskBlocks
from mosaicgp.data.partition import Partition
from mosaicgp.inference.parameters import Switches
from mosaicgp.model.bound import Block
from mosaicgp.model.family import Approximation
from mosaicgp.model.noise import Noise
from mosaicgp.model.posterior import InducingPosterior, nodes_to_theta
from mosaicgp.model.predictive import (
    LocalFactor,
    LocalJoint,
    NewRows,
    PredictiveState,
    first_order_error,
    joint_moments,
    local_factor,
    local_joint,
    mean_of_f,
    moments,
    new_rows,
    predictive_state,
    quick_error,
    quick_moments,
    theta_spread,
)
from mosaicgp.posterior import Posterior
from mosaicgp.precision import in_double

# A chunk is padded to the next of these; rows that are not quick go by the second.
CHUNKS = (128, 1024, 2048)
_, CHUNK_ROWS, QUICK_ROWS = CHUNKS
GROUP_ROWS = 256
FEW_ROWS = 64
MOST_ROWS = 4096
JOINT_ROWS = 64
CACHE_BYTES = 2**30
CLOSED_JOINT_COST = 2e9

# Rows at which q(θ) spreads the kernel by less than this (``theta_spread``) take the first order of
# its expansion: what that leaves out is of the order of its square.
NARROW = 3e-5

# Predictions of y take a shorter way through q(θ) where it is wrong by at most this share of σ²:
# half of it is the largest relative error of the std.
LEFT_OUT = 2e-3

ThetaRoute = Literal["closed", "first order", "quick"]

_state = jax.jit(predictive_state, static_argnames="noise")
_joint_moments = jax.jit(joint_moments, static_argnames=("bayesian", "order"))


_mean = jax.jit(mean_of_f)


@partial(jax.jit, static_argnames=("noise", "bayesian", "of_y", "route"))
def _moments(
    state: PredictiveState,
    X_new: Array,
    noise: Noise,
    bayesian: bool,
    of_y: bool,
    route: ThetaRoute,
) -> tuple[Array, Array]:
    if route == "quick":
        mean, variance = quick_moments(state, X_new)
    else:
        mean, variance = moments(state, X_new, bayesian, route == "first order")
    if of_y:
        variance = variance + noise.marginal(state.prepared.noise, X_new)
    return mean, variance


@partial(jax.jit, static_argnames="noise")
def _factorise(state: PredictiveState, nodes: Array, block: Block, noise: Noise) -> LocalFactor:
    """One block at every node of θ, nodes in front."""
    C = noise.covariance(state.prepared.noise, block.X, block.mask)
    theta = nodes_to_theta(nodes, state.parameters.theta)
    return jax.lax.map(lambda t: local_factor(state, t[0], t[1], block, C), theta)


_new_rows = jax.jit(new_rows, static_argnames=("noise", "of_y"))


@partial(jax.jit, static_argnames=("noise", "of_y"))
def _group_joint(
    state: PredictiveState,
    nodes: Array,
    block: Block,
    factor: LocalFactor,
    X_new: Array,
    noise: Noise,
    of_y: bool,
) -> LocalJoint:
    theta = nodes_to_theta(nodes, state.parameters.theta)
    rows = new_rows(state, X_new, block, noise, of_y)
    n = X_new.shape[0]
    C_new = noise.joint(state.prepared.noise, X_new) if of_y else jnp.zeros((n, n), X_new.dtype)

    def draw(t: tuple[Array, Array, LocalFactor]) -> LocalJoint:
        lam, sigma_f, local = t
        return local_joint(state, lam, sigma_f, block, local, rows, C_new)

    return jax.lax.map(draw, (*theta, factor))


class Local(NamedTuple):
    """What conditioning on a test row's own block needs: the rule, the training rows, θ nodes."""

    partition: Partition
    blocks: Blocks | DiskBlocks
    nodes: np.ndarray


class Predictor:
    """Predicts in standardised units from a fitted state; holds a bounded cache of factors."""

    def __init__(
        self,
        approximation: Approximation,
        state: PredictiveState,
        bayesian: bool,
        partition: Partition | None,
        local: Local | None,
    ) -> None:
        self.approximation = approximation
        self.state = state
        self.bayesian = bayesian
        self.partition = partition
        self.local = local
        self._has_root = bool(np.all(np.isfinite(state.root)))
        self._v_square = float(jnp.sum(state.q.v_mean**2))
        self._cache: OrderedDict[int, LocalFactor] = OrderedDict()
        self._factorising = Lock()

    @in_double
    def moments(self, X_new: np.ndarray, of_y: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance at each row of X_new (n, d)."""
        mean, variance = np.empty(len(X_new)), np.empty(len(X_new))

        def chunk(job: tuple[ThetaRoute, np.ndarray]) -> None:
            route, part = job
            rows = _pad(X_new[part], next(size for size in CHUNKS if size >= len(part)))
            found = _moments(self.state, rows, self._noise, self.bayesian, of_y, route)
            mean[part], variance[part] = (np.asarray(a)[: len(part)] for a in found)

        def block(job: tuple[int, np.ndarray]) -> None:
            index, part = job
            compute = self._block_moments(index)
            for rows, new in self._groups(index, X_new, part, of_y):
                found = compute(new)
                mean[rows], variance[rows] = (a[: len(rows)] for a in found)

        if self.local is not None:
            in_threads(in_double(block), _rows_by_block(self._block_index(self.local, X_new)))
        else:
            in_threads(in_double(chunk), self._routes(X_new, of_y))
        return mean, variance

    @in_double
    def mean(self, X_new: np.ndarray) -> np.ndarray:
        """Mean at each row of X_new (n, d): that of y, and but for pic of f too."""
        mean = np.empty(len(X_new))

        def chunk(part: np.ndarray) -> None:
            rows = _pad(X_new[part], next(size for size in CHUNKS if size >= len(part)))
            mean[part] = np.asarray(_mean(self.state, rows))[: len(part)]

        def block(job: tuple[int, np.ndarray]) -> None:
            index, part = job
            compute = self._block_moments(index)
            for rows, new in self._groups(index, X_new, part, of_y=True):
                mean[rows] = compute.mean(new)[: len(rows)]

        if self.local is not None:
            in_threads(in_double(block), _rows_by_block(self._block_index(self.local, X_new)))
        else:
            in_threads(in_double(chunk), _cut(np.arange(len(X_new)), QUICK_ROWS))
        return mean

    def _routes(self, X_new: np.ndarray, of_y: bool) -> Iterator[tuple[ThetaRoute, np.ndarray]]:
        """The way through q(θ) that rows take, each for itself, a chunk of rows at a time."""
        theta = self.state.parameters.theta
        # A row's noise is at least σ².
        noise_variance = float(self.state.parameters.noise.noise_variance)
        second = float(theta.alpha) ** 2 + float(theta.beta)
        room = LEFT_OUT * noise_variance / second if of_y else 0.0
        # The bounds hold where q(s) is nowhere wider than its prior; far rows may overflow them.
        with np.errstate(over="ignore", invalid="ignore"):
            spread = theta_spread(X_new, np.asarray(theta.xi))
            quick = self._has_root & (quick_error(spread, self._v_square) <= room)
            first_order = self._has_root & (first_order_error(spread, self._v_square) <= room)
        narrow = first_order | (spread <= NARROW)
        ways: dict[ThetaRoute, np.ndarray] = {
            "quick": quick,
            "first order": narrow & ~quick,
            "closed": ~narrow & ~quick,
        }
        for route, chosen in ways.items():
            size = QUICK_ROWS if route == "quick" else CHUNK_ROWS
            for part in _cut(np.flatnonzero(chosen), size):
                yield route, part

    @in_double
    def joint(self, X_new: np.ndarray, of_y: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n,) and covariance (n, n) of all rows together."""
        if self.local is not None:
            return self._local_joint(self.local, X_new, of_y)
        n, (m, d) = len(X_new), self.state.parameters.Z.shape
        order = None if float(n) ** 2 * m**2 <= CLOSED_JOINT_COST else (2 if d <= 16 else 1)
        mean, covariance = self._joint_of_f(self.state, X_new, order)
        if self.approximation.factorised:
            # fic: test rows share s and θ only; what each has of its own stays on the diagonal.
            covariance -= self._own_covariance(X_new, order)
        if of_y:
            covariance += self._noise_joint(X_new)
        np.fill_diagonal(covariance, self.moments(X_new, of_y)[1])
        return mean, covariance

    def _own_covariance(self, X_new: np.ndarray, order: int | None) -> np.ndarray:
        """E[K_** − K_*Z Σ⁻¹ K_Z*]: what f* has beside s, between rows (n, n)."""
        silent = InducingPosterior(*map(jnp.zeros_like, self.state.q))
        return self._joint_of_f(
            self.state._replace(q=silent, spread=jnp.zeros_like(self.state.spread)), X_new, order
        )[1]

    def _joint_of_f(
        self, state: PredictiveState, X_new: np.ndarray, order: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        n = len(X_new)
        padded = jnp.asarray(_pad(X_new, _rounded_up(n, JOINT_ROWS)))
        mean, covariance = _joint_moments(state, padded, self.bayesian, order)
        return np.array(mean)[:n], np.array(covariance)[:n, :n]

    def _noise_joint(self, X_new: np.ndarray) -> np.ndarray:
        noise_state = self.state.prepared.noise
        full = np.array(self._noise.joint(noise_state, jnp.asarray(X_new)))
        if self.partition is None:
            return full
        labels = self.partition.assign(X_new)
        return full * (labels[:, None] == labels[None, :])

    @property
    def _noise(self) -> Noise:
        return self.approximation.noise

    def _block(self, local: Local, index: int) -> Block:
        return Block(*(jnp.asarray(a[0]) for a in local.blocks.take(np.array([index]))))

    def _factor(self, local: Local, index: int) -> LocalFactor:
        with self._factorising:
            if index in self._cache:
                self._cache.move_to_end(index)
                return self._cache[index]
            nodes = jnp.asarray(local.nodes)
            factor = _factorise(self.state, nodes, self._block(local, index), self._noise)
            size = sum(part.nbytes for part in factor)
            while self._cache and (len(self._cache) + 1) * size > CACHE_BYTES:
                self._cache.popitem(last=False)
            self._cache[index] = jax.block_until_ready(factor)
            return factor

    def _block_moments(self, index: int) -> BlockMoments:
        assert self.local is not None
        theta = nodes_to_theta(jnp.asarray(self.local.nodes), self.state.parameters.theta)
        return BlockMoments(
            np.asarray(self.state.parameters.Z),
            self._block(self.local, index),
            (np.asarray(theta[0]), np.asarray(theta[1])),
            self._factor(self.local, index),
        )

    def _groups(
        self, index: int, X_new: np.ndarray, part: np.ndarray, of_y: bool
    ) -> Iterator[tuple[np.ndarray, NewRows]]:
        """Row numbers of a block, and those rows padded to one of few sizes."""
        assert self.local is not None
        block = self._block(self.local, index)
        for rows in _cut(part, GROUP_ROWS):
            padded = jnp.asarray(_pad(X_new[rows], _rounded_up(len(rows), FEW_ROWS)))
            yield rows, _new_rows(self.state, padded, block, noise=self._noise, of_y=of_y)

    def _local_joint(
        self, local: Local, X_new: np.ndarray, of_y: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        labels = self._block_index(local, X_new)
        n, n_nodes = len(X_new), len(local.nodes)
        means = np.empty((n_nodes, n))
        spread = np.empty((n_nodes, n, self.state.parameters.Z.shape[0]))
        covariance = np.zeros((n, n))
        for index in np.unique(labels):
            part = np.flatnonzero(labels == index)
            joint = _group_joint(
                self.state,
                jnp.asarray(local.nodes),
                self._block(local, index),
                self._factor(local, index),
                jnp.asarray(_pad(X_new[part], _rounded_up(k := len(part), FEW_ROWS))),
                self._noise,
                of_y,
            )
            mean, own, local_spread = map(np.asarray, joint)
            means[:, part], spread[:, part] = mean[:, :k], local_spread[:, :k]
            covariance[np.ix_(part, part)] = own[:, :k, :k].mean(axis=0)
        # Rows of different blocks share s and θ, and nothing else.
        flat = spread.transpose(1, 0, 2).reshape(n, -1)
        centred = means - means.mean(axis=0)
        covariance += (flat @ flat.T + centred.T @ centred) / n_nodes
        return means.mean(axis=0), covariance

    def _block_index(self, local: Local, X_new: np.ndarray) -> np.ndarray:
        """The first training block of each row's cell."""
        return np.searchsorted(local.blocks.label, local.partition.assign(X_new))


@in_double
def predictor(
    posterior: Posterior, switches: Switches, partition: Partition | None, local: Local | None
) -> Predictor:
    """A predictor for a fitted posterior."""
    approximation = switches.approximation
    state = _state(
        posterior.parameters(),
        posterior.inducing(),
        approximation.noise,
        jnp.asarray(posterior.jitter),
    )
    return Predictor(approximation, state, switches.bayesian, partition, local)


def _pad(rows: np.ndarray, size: int) -> np.ndarray:
    return np.pad(rows, ((0, size - len(rows)), (0, 0)))


def _cut(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Row numbers, at most ``size`` at a time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _rounded_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _rows_by_block(labels: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(block, row numbers), at most MOST_ROWS rows at a time."""
    order = np.argsort(labels, kind="stable")
    values, starts = np.unique(labels[order], return_index=True)
    return [
        (int(value), part)
        for value, rows in zip(values, np.split(order, starts[1:]), strict=True)
        for part in _cut(rows, MOST_ROWS)
    ]
