"""Predictions on the host: rows cut into chunks, grouped by block, block factors cached.

Chunks and groups have fixed shapes, so that a row's prediction does not depend on the rows
predicted with it and nothing is compiled anew for another number of rows. Joint predictions are
padded to a multiple of a fixed number of rows for the same reason.
"""

from collections.abc import Callable, Iterator
from os import cpu_count
from threading import Lock
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from mosaicgp.block_moments import (
    BlockFactor,
    NewRows,
    Shared,
    block_factor,
    block_joint,
    block_mean,
    block_moments,
    in_threads,
)
from mosaicgp.data.blocks import Blocks
from mosaicgp.data.disk import DiskBlocks
from mosaicgp.data.partition import Partition
from mosaicgp.global_moments import (
    TILE,
    TILES,
    GlobalMoments,
    first_order_error,
    quick_error,
    theta_spread,
)
from mosaicgp.inference.parameters import Switches
from mosaicgp.model.family import Approximation
from mosaicgp.model.noise import Noise, NoiseState
from mosaicgp.model.posterior import InducingPosterior, nodes_to_theta
from mosaicgp.model.predictive import (
    PredictiveState,
    joint_moments,
    moments,
    predictive_state,
)
from mosaicgp.posterior import Posterior
from mosaicgp.precision import compiled, in_double
from mosaicgp.serving import Cache
from mosaicgp.serving import Noise as HostNoise

# Rows of a job, and those to which few of them are padded if it is jax that computes them.
CHUNK_ROWS, FEW_CHUNK = 1024, 128
BATCH_ROWS, MOST_QUICK = TILES * TILE, 8192
GROUP_ROWS = 512
FEW_ROWS = 64
MOST_ROWS = 4096
JOINT_ROWS = 64

# Bytes that predictions take by default, and the part of them for rows that are predicted together;
# the rest is for factors. A row is there as it came, put together with others, and standardised.
MEMORY = 2**30
ROWS_PART = 4
ROW_COPIES, ROW_RESULTS = 3, 8

# Bytes of a quick job, of which a row takes several copies.
QUICK_BYTES, QUICK_COPIES = 2**25, 7
CLOSED_JOINT_COST = 2e9

# Rows at which q(θ) spreads the kernel by less than this (``theta_spread``) take the first order of
# its expansion: what that leaves out is of the order of its square.
NARROW = 3e-5

# Predictions of y take a shorter way through q(θ) where it is wrong by at most this share of σ²:
# half of it is the largest relative error of the std.
LEFT_OUT = 2e-3

# Rows far away may overflow, or underflow, on their way to the prior.
FAR_ROWS: dict[str, Any] = {"over": "ignore", "under": "ignore", "invalid": "ignore"}

ThetaRoute = Literal["closed", "first order", "quick"]
Report = Callable[[int], None]

_state = compiled(predictive_state, static_argnames="noise")
_joint_moments = compiled(joint_moments, static_argnames=("bayesian", "order"))
_closed = compiled(moments, static_argnames="bayesian")


def _unseen(rows: int) -> None:
    """Nobody wants to know."""


class Local(NamedTuple):
    """What conditioning on a test row's own block needs: the rule, the training rows, θ nodes."""

    partition: Partition
    blocks: Blocks | DiskBlocks
    nodes: np.ndarray


class Training(NamedTuple):
    """The rows of a block, and what U explains of their noise."""

    X: np.ndarray  # (n, d)
    explained: np.ndarray  # (n, m)


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
        self.noise = _host_noise(state.prepared.noise, approximation.has_eps)
        self._global = GlobalMoments(state)
        self._has_root = bool(np.all(np.isfinite(state.root)))
        self._v_square = float(jnp.sum(state.q.v_mean**2))
        self._shared = None if local is None else _shared(state, local.nodes)
        self._cache = Cache(0)
        self.bound_memory(MEMORY)
        self._factorising = [Lock() for _ in range(16)]

    def bound_memory(self, n_bytes: float) -> None:
        """Take about so many bytes from now on, beside results."""
        d = self.state.parameters.Z.shape[1]
        for_rows = n_bytes / ROWS_PART
        self.rows_at_once = max(TILE, int(for_rows / (8 * (ROW_COPIES * d + ROW_RESULTS))))
        self._cache.resize(int(n_bytes - for_rows))

    @in_double
    def moments(
        self, X_new: np.ndarray, of_y: bool, done: Report = _unseen
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance at each row of X_new (n, d); ``done`` is told of rows as they are."""
        mean, variance = np.empty(len(X_new)), np.empty(len(X_new))

        def chunk(job: tuple[ThetaRoute, np.ndarray]) -> int:
            route, part = job
            with np.errstate(**FAR_ROWS):
                found = self._through_s(route, np.take(X_new, part, axis=0), of_y)
            mean[part], variance[part] = found
            return len(part)

        def block(job: tuple[int, np.ndarray]) -> int:
            index, part = job
            training, factor = self._factor(index)
            for rows in _cut(part, GROUP_ROWS):
                with np.errstate(**FAR_ROWS):
                    new = self._new_rows(training, X_new[rows], of_y)
                    found = block_moments(self._at_nodes, factor, new)
                mean[rows], variance[rows] = (a[: len(rows)] for a in found)
            return len(part)

        if self.local is not None:
            counts = in_threads(block, _rows_by_block(self._block_index(self.local, X_new)))
        else:
            counts = in_threads(in_double(chunk), self._routes(X_new, of_y))
        for count in counts:
            done(count)
        return mean, variance

    @in_double
    def mean(self, X_new: np.ndarray, done: Report = _unseen) -> np.ndarray:
        """Mean at each row of X_new (n, d): that of y, and but for pic of f too."""
        mean = np.empty(len(X_new))

        def chunk(part: np.ndarray) -> int:
            with np.errstate(**FAR_ROWS):
                mean[part] = self._global.mean(np.take(X_new, part, axis=0))
            return len(part)

        def block(job: tuple[int, np.ndarray]) -> int:
            index, part = job
            training, factor = self._factor(index)
            for rows in _cut(part, GROUP_ROWS):
                with np.errstate(**FAR_ROWS):
                    new = self._new_rows(training, X_new[rows], of_y=True)
                    found = block_mean(self._at_nodes, factor, new)
                mean[rows] = found[: len(rows)]
            return len(part)

        if self.local is not None:
            counts = in_threads(block, _rows_by_block(self._block_index(self.local, X_new)))
        else:
            counts = in_threads(chunk, _cut(np.arange(len(X_new)), _even_size(*X_new.shape)))
        for count in counts:
            done(count)
        return mean

    def _through_s(
        self, route: ThetaRoute, X_new: np.ndarray, of_y: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance at each row, by one way through q(θ)."""
        n = len(X_new)
        if route == "quick":
            mean, variance = self._global.quick(X_new)
        elif route == "first order":
            mean, variance = self._global.first_order(X_new)
        else:
            padded = _pad(X_new, FEW_CHUNK if n <= FEW_CHUNK else CHUNK_ROWS)
            found = _closed(self.state, padded, bayesian=self.bayesian)
            mean, variance = (np.array(a)[:n] for a in found)
        if of_y:
            variance += self._noise_variance(X_new)
        return mean, variance

    def _noise_variance(self, X_new: np.ndarray) -> np.ndarray | float:
        """Of every row, in tiles: a row comes out the same in any company."""
        if not self.approximation.has_eps:
            return float(self.noise.noise_variance)
        parts = _cut(_pad(X_new, _rounded_up(len(X_new), TILE)), TILE)
        found = [self.noise.marginal(self.noise.explained(part)) for part in parts]
        return np.concatenate(found)[: len(X_new)]

    def _routes(self, X_new: np.ndarray, of_y: bool) -> Iterator[tuple[ThetaRoute, np.ndarray]]:
        """The way through q(θ) that rows take, each for itself, a chunk of rows at a time."""
        theta = self.state.parameters.theta
        # A row's noise is at least σ².
        noise_variance = float(self.state.parameters.noise.noise_variance)
        second = float(theta.alpha) ** 2 + float(theta.beta)
        room = LEFT_OUT * noise_variance / second if of_y else 0.0
        # The bounds hold where q(s) is nowhere wider than its prior; far rows may overflow them.
        with np.errstate(**FAR_ROWS):
            spread = theta_spread(X_new, np.asarray(theta.xi))
            quick = self._has_root & (quick_error(spread, self._v_square) <= room)
            first_order = self._has_root & (first_order_error(spread, self._v_square) <= room)
        narrow = first_order | (self._has_root & (spread <= NARROW))
        ways: dict[ThetaRoute, np.ndarray] = {
            "closed": ~narrow & ~quick,
            "first order": narrow & ~quick,
            "quick": quick,
        }
        for route, chosen in ways.items():
            rows = np.flatnonzero(chosen)
            size = _even_size(len(rows), X_new.shape[1]) if route == "quick" else CHUNK_ROWS
            for part in _cut(rows, size):
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

    @property
    def _at_nodes(self) -> Shared:
        assert self._shared is not None
        return self._shared

    def _factor(self, index: int) -> tuple[Training, BlockFactor]:
        """A block and its factor, from the cache or made now, once for all threads."""
        with self._factorising[index % len(self._factorising)]:
            kept = self._cache.get(index)
            if kept is None:
                kept = self._factorise(index)
                self._cache.put(index, kept)
        return kept

    def _factorise(self, index: int) -> tuple[Training, BlockFactor]:
        assert self.local is not None
        X, y, mask = (a[0] for a in self.local.blocks.take(np.array([index])))
        n = np.count_nonzero(mask)
        X, y = X[:n].astype(np.float64), y[:n].astype(np.float64)
        training = Training(X, self.noise.explained(X))
        C = self.noise.covariance(*training)
        return training, block_factor(self._at_nodes, X, y, C)

    def _new_rows(self, block: Training, X_new: np.ndarray, of_y: bool) -> NewRows:
        """Padded to one of few sizes, so that a row comes out the same in any company."""
        X = _pad(X_new, _rounded_up(len(X_new), FEW_ROWS))
        if not of_y:
            return NewRows(X, np.zeros((len(X), len(block.X))), np.zeros(len(X)))
        explained = self.noise.explained(X)
        cross = self.noise.cross(X, explained, *block)
        return NewRows(X, cross, self.noise.marginal(explained))

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
            training, factor = self._factor(index)
            rows = self._new_rows(training, X_new[part], of_y)
            k, C_new = len(part), np.zeros((len(rows.X), len(rows.X)))
            if of_y:
                shared = self.state.prepared.noise
                C_new = np.asarray(self._noise.joint(shared, jnp.asarray(rows.X)))
            mean, own, local_spread = block_joint(self._at_nodes, factor, rows, C_new)
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
    posterior: Posterior,
    switches: Switches,
    partition: Partition | None,
    blocks: Blocks | DiskBlocks | None,
    nodes: np.ndarray,
) -> Predictor:
    """A predictor for a fitted posterior, from the training rows by block where it needs them."""
    approximation, local = switches.approximation, None
    if approximation.local:
        assert partition is not None and blocks is not None
        local = Local(partition, blocks, nodes)
    state = _state(
        posterior.parameters(),
        posterior.inducing(),
        approximation.noise,
        jnp.asarray(posterior.jitter),
    )
    return Predictor(approximation, state, switches.bayesian, partition, local)


def _host_noise(state: NoiseState, has_eps: bool) -> HostNoise:
    noise_variance, eps_variance, eps_lam, U = map(np.asarray, state.parameters)
    white_U = np.asarray(state.root_UU)
    if not has_eps:
        U, white_U = U[:0], white_U[:0, :0]
    return HostNoise(noise_variance, eps_variance, eps_lam, U, white_U)


def _shared(state: PredictiveState, nodes: np.ndarray) -> Shared:
    lam, sigma_f = nodes_to_theta(jnp.asarray(nodes), state.parameters.theta)
    parts = lam, sigma_f, state.parameters.Z, state.white, *state.q
    return Shared(*map(np.asarray, parts))


def _even_size(n: int, d: int) -> int:
    """Rows of a job, at most MOST_QUICK and fewer of many inputs, so that every thread has as many
    of them."""
    most = min(MOST_QUICK, max(TILE, QUICK_BYTES // (8 * QUICK_COPIES * d) // TILE * TILE))
    batch = min(BATCH_ROWS, most)
    workers, batches = cpu_count() or 1, max(1, -(-n // batch))
    jobs = workers * -(-batches * batch // (workers * most))
    return -(-batches // jobs) * batch


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


def draws(
    mean: np.ndarray, covariance: np.ndarray, n: int, rng: np.random.RandomState
) -> np.ndarray:
    """Draws (rows, n) of a Gaussian, whose covariance may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean[:, None] + root @ rng.standard_normal((len(mean), n))
