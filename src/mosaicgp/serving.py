"""A fitted model for serving, with NumPy alone: ``load(path).predict(X, return_std=True)``.

``SparseGPRegressor.export`` writes the file. This module imports nothing but NumPy and the standard
library, so it may be copied to a server that has no mosaicgp. It repeats the formulas of
``model/predictive.py`` in NumPy; tests hold the two together.

Inside, X, y and their moments are standardised, n counts new rows, m inducing points, d inputs.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import NormalDist
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

FORMAT = "mosaicgp-predictor"
FORMAT_VERSION = 1

CHUNK_ROWS = 512
MOST_ROWS = 1024  # of one block at a time
PAIRS = 512  # of inducing inputs at a time
CACHE_BYTES = 2**28
RAISED = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)  # shares of the largest variance

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int64]
Moments = tuple[FloatArray, FloatArray | None]
Record = TypeVar("Record")


class PredictorFileError(ValueError):
    """A file that is not a predictor this module can read; the message says why."""


def load(path: str | Path, cache_bytes: int = CACHE_BYTES) -> Predictor:
    """Read what ``SparseGPRegressor.export`` wrote; no code in the file is run.

    ``cache_bytes`` bounds what a "pic" predictor keeps of the blocks it has predicted in.
    """
    header, arrays = _read(Path(path))
    try:
        scaling = _record(_Scaling, arrays)
        noise = _record(Noise, arrays)
        model: _Global | _Local
        if header["approximation"] == "pic":
            cells = _record({"tree": _Tree, "kmeans": _KMeans}[header["partition"]], arrays)
            model = _Local(_record(_LocalArrays, arrays), noise, cells, cache_bytes)
        else:
            model = _Global(_record(_GlobalArrays, arrays), noise)
        names = [str(name) for name in header["feature_names"]]
        if len(names) != len(scaling.X_mean):
            raise ValueError("names and scales of the inputs differ in number")
        named, encoded = bool(header["named"]), bool(header.get("encoded"))
        return Predictor(header["approximation"], names, named, encoded, scaling, model)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise PredictorFileError(
            f"{path} has the header of a mosaicgp predictor but lacks parts of one ({error}); "
            "it was not written by SparseGPRegressor.export or was changed since."
        ) from error


class Predictor:
    """Predictions of one fitted model, in the user's units; safe to share between threads.

    X is an array (n, d), or a table or mapping of columns, which are then taken by name.
    """

    def __init__(
        self,
        approximation: str,
        feature_names: list[str],
        named: bool,
        encoded: bool,
        scaling: _Scaling,
        model: _Global | _Local,
    ) -> None:
        self.approximation = approximation
        self.feature_names = feature_names
        self._named = named
        self._encoded = encoded
        self._scaling = scaling
        self._model = model

    def predict(
        self, X: Any, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of y at the rows of X, (n,), and on request its standard deviation (n,)."""
        mean, variance = self._predict(X, of_y=True, spread=return_std)
        return mean if variance is None else (mean, np.sqrt(variance))

    def predict_f(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,) of the latent f, without noise."""
        mean, variance = self._predict(X, of_y=False, spread=True)
        assert variance is not None
        return mean, variance

    def interval(self, X: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends (n,), (n,) of the central interval that holds y with ``level``."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}.")
        mean, variance = self._predict(X, of_y=True, spread=True)
        assert variance is not None
        half = NormalDist().inv_cdf(0.5 + 0.5 * level) * np.sqrt(variance)
        return mean - half, mean + half

    def _predict(self, X: Any, of_y: bool, spread: bool) -> Moments:
        rows = self._scaling.transform_X(self._rows(X))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            mean, variance = self._model.moments(rows, of_y, spread)
        y_scale = float(self._scaling.y_scale)
        mean = mean * y_scale + float(self._scaling.y_mean)
        return mean, None if variance is None else variance * y_scale**2

    def _rows(self, X: Any) -> FloatArray:
        """X (n, d) in float64, finite, its columns in the order of the fit."""
        columns = getattr(X, "column_names", getattr(X, "columns", None))  # Arrow, or others
        columns = X.keys() if isinstance(X, Mapping) else columns
        if columns is not None and self._encoded:
            raise ValueError(
                "X: the model was fitted on encoded columns (dates, times or categories); "
                f"pass an array of the features {', '.join(self.feature_names)}, encoded alike."
            )
        if columns is not None and (self._named or isinstance(X, Mapping)):
            X = np.column_stack([_numbers(X[name]) for name in self._known(list(columns))])
        values = _numbers(X)
        d = len(self.feature_names)
        if values.ndim != 2:
            raise ValueError(
                f"X must have rows and columns, (n, {d}), got the shape {values.shape}; "
                "write one row as [[...]]."
            )
        if values.shape[1] != d:
            raise ValueError(
                f"X has {values.shape[1]} columns, but the model was fitted with {d}: "
                f"{', '.join(self.feature_names)}."
            )
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, column = bad[0]
            what = "NaN" if np.isnan(values[row, column]) else "infinity"
            more = f" (and {len(bad) - 1} more values like it)" if len(bad) > 1 else ""
            raise ValueError(
                f"X contains NaN or infinity: {what} at row {row}, column "
                f"{self.feature_names[column]!r}{more}. Drop or impute such rows first."
            )
        return values

    def _known(self, columns: list[Any]) -> list[Any]:
        """The table's own names of the columns, in the order of the fit."""
        own = {str(name): name for name in columns}
        missing = [name for name in self.feature_names if name not in own]
        unknown = [name for name in own if name not in self.feature_names]
        if missing or unknown:
            raise ValueError(
                f"X has {len(own)} columns that are not the {len(self.feature_names)} of the fit: "
                f"missing {missing}, unknown {unknown}."
            )
        return [own[name] for name in self.feature_names]


def _numbers(values: Any) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers in rows of equal length: {error}.") from error


# ---------------------------------------------------------------------------------------------
# The file


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.exists():
        raise FileNotFoundError(f"no predictor at {path}")
    if not zipfile.is_zipfile(path):
        if _is_saved_model(path):
            raise PredictorFileError(
                f"{path} is a saved model, not an exported predictor. Load it with "
                "SparseGPRegressor.load, which needs all of mosaicgp; its method export writes a "
                "predictor."
            )
        raise PredictorFileError(f"{path} is not a mosaicgp predictor, or is truncated.")
    try:
        with np.load(path, allow_pickle=False) as file:
            if "header" not in file.files:
                raise PredictorFileError(f"{path} is an npz file, but not a mosaicgp predictor.")
            header = json.loads(str(file["header"]))
            _check_version(path, header)
            return header, {name: file[name] for name in file.files if name != "header"}
    except PredictorFileError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise PredictorFileError(
            f"{path} is not a mosaicgp predictor, or is damaged ({error})."
        ) from error


def _is_saved_model(path: Path) -> bool:
    """Whether this is a safetensors file, which begins with the length of its JSON, of a model."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return b"mosaicgp-model" in file.read(min(length, 2**20))


def _check_version(path: Path, header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise PredictorFileError(f"{path} is an npz file, but not a mosaicgp predictor.")
    version = header.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise PredictorFileError(
            f"{path} has format version {version}, written by mosaicgp "
            f"{header.get('mosaicgp_version')}; this serving.py reads up to {FORMAT_VERSION}. "
            "Take serving.py from a newer mosaicgp."
        )


def _record(kind: Callable[..., Record], arrays: Mapping[str, np.ndarray]) -> Record:
    """A dataclass of arrays from those of its names."""
    return kind(**{field.name: arrays[field.name] for field in fields(kind)})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Scaling:
    """standardised = (user − mean) / scale."""

    X_mean: FloatArray  # (d,)
    X_scale: FloatArray  # (d,)
    y_mean: FloatArray  # ()
    y_scale: FloatArray  # ()

    def transform_X(self, X: FloatArray) -> FloatArray:
        """User's inputs (n, d) to standardised inputs (n, d)."""
        return (X - self.X_mean) / self.X_scale


# ---------------------------------------------------------------------------------------------
# Kernels and noise


def unit_cross(A: FloatArray, B: FloatArray) -> FloatArray:
    """exp(−½‖a − b‖²) between rows: (n, m)."""
    K: FloatArray = A @ B.T
    K -= 0.5 * np.sum(A**2, axis=1)[:, None]
    K -= 0.5 * np.sum(B**2, axis=1)
    return np.exp(np.minimum(K, 0.0, out=K), out=K)


def unit_gram(A: FloatArray) -> FloatArray:
    """The same among the rows of A, with ones on the diagonal."""
    K = unit_cross(A, A)
    np.fill_diagonal(K, 1.0)
    return K


def lower_factor(R: FloatArray) -> FloatArray:
    """Lower factor of R (n, n), positive definite but for rounding: its diagonal may be raised."""
    largest = np.max(np.diagonal(R))
    for raised in (0.0, *RAISED) if np.isfinite(largest) else ():
        more = np.full(len(R), raised * largest)
        try:
            L = np.linalg.cholesky(R + np.diag(more) if raised else R)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(np.sum(np.diagonal(L))):  # a NaN anywhere ends up there
            return L.astype(np.float64, copy=False)
    raise np.linalg.LinAlgError(
        f"the covariance of a block of {len(R)} training rows cannot be factored. A target or an "
        "input with a few huge values is the usual cause: repair or drop such rows, and fit again."
    )


def _above_rounding(variance: FloatArray, scale: FloatArray | float) -> FloatArray:
    return np.maximum(variance, np.finfo(np.float64).eps * scale)


@dataclass(frozen=True, eq=False)
class Noise:
    """C = σ²I + R or its diagonal, R = K^ε − K^ε_U K^ε_UU⁻¹ K^ε_U; U is empty for "dtc".

    ``white_U`` (m, m) is the inverse of the lower factor of K^ε_UU at unit variance.
    """

    noise_variance: FloatArray  # ()
    eps_variance: FloatArray  # ()
    eps_lam: FloatArray  # (d,)
    U: FloatArray  # (m, d)
    white_U: FloatArray  # (m, m)

    def unit(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """k^ε between rows at unit variance."""
        return unit_cross(A * self.eps_lam, B * self.eps_lam)

    def explained(self, X: FloatArray) -> FloatArray:
        """k^ε(X, U) at unit variance, whitened: (n, m)."""
        return self.unit(X, self.U) @ self.white_U.T

    def marginal(self, explained: FloatArray) -> FloatArray:
        """The variance of ε* (n,)."""
        if len(self.U) == 0:
            return np.full(len(explained), float(self.noise_variance))
        return self.noise_variance + self.eps_variance * (1.0 - np.sum(explained**2, axis=1))

    def cross(
        self, X: FloatArray, explained: FloatArray, X_b: FloatArray, explained_b: FloatArray
    ) -> FloatArray:
        """cov(ε*, ε_b) (n, n_b)."""
        C = self.unit(X, X_b)
        C -= explained @ explained_b.T
        C *= self.eps_variance
        return C

    def covariance(self, X_b: FloatArray, explained_b: FloatArray) -> FloatArray:
        """C of a block (n_b, n_b)."""
        C = self.eps_variance * (unit_gram(X_b * self.eps_lam) - explained_b @ explained_b.T)
        C[np.diag_indices_from(C)] += self.noise_variance
        return C


# ---------------------------------------------------------------------------------------------
# Through s alone: dtc, fitc, fic, pitc


@dataclass(frozen=True, eq=False)
class _GlobalArrays:
    """q(θ) and q(s), s = Lv, Σ = LLᵀ, cov(v) = v_rootᵀv_root."""

    nu: FloatArray  # (d,)
    xi: FloatArray  # (d,)
    alpha: FloatArray  # ()
    beta: FloatArray  # ()
    Z: FloatArray  # (m, d)
    weights: FloatArray  # (m,) Σ⁻¹q_mean
    white: FloatArray  # (m, m) L⁻¹
    v_root: FloatArray  # (m, m)
    excess: FloatArray  # (m, m) Σ⁻¹(S + mmᵀ − Σ)Σ⁻¹, or empty for point estimates


class _Global:
    """Moments over q(θ) in closed form."""

    def __init__(self, arrays: _GlobalArrays, noise: Noise) -> None:
        self._arrays = arrays
        self._noise = noise
        self._i, self._j = np.triu_indices(len(arrays.excess))
        # An off-diagonal pair counts twice.
        twice = np.where(self._i == self._j, 1.0, 2.0)
        self._pair_weight = twice * arrays.excess[self._i, self._j]

    def moments(self, X: FloatArray, of_y: bool, spread: bool) -> Moments:
        """Mean (n,) and, if ``spread``, variance (n,)."""
        mean = np.empty(len(X))
        variance = np.empty(len(X)) if spread else None
        for start in range(0, len(X), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            unit = self._unit_omega(X[part])
            unit_mean = unit @ self._arrays.weights
            mean[part] = self._arrays.alpha * unit_mean
            if variance is not None:
                variance[part] = self._variance(X[part], unit, unit_mean)
                if of_y:
                    variance[part] += self._noise.marginal(self._noise.explained(X[part]))
        return mean, variance

    def _unit_omega(self, X: FloatArray) -> FloatArray:
        """E[K_XZ] at σ_f = 1 (n, m)."""
        a = self._arrays
        s2 = 1.0 + a.xi * X**2
        centre = a.nu * X
        square = np.sum(centre**2 / s2, axis=1)[:, None] - 2.0 * (centre / s2) @ a.Z.T
        square += (1.0 / s2) @ (a.Z**2).T
        log_scale = 0.5 * np.sum(np.log(s2), axis=1)[:, None]
        return np.exp(-0.5 * np.maximum(square, 0.0) - log_scale)

    def _variance(self, X: FloatArray, unit: FloatArray, unit_mean: FloatArray) -> FloatArray:
        """Variance of f* (n,)."""
        a = self._arrays
        second = float(a.alpha**2 + a.beta)
        white = unit @ a.white.T
        conditional = 1.0 - np.sum(white**2, axis=1) + np.sum((white @ a.v_root.T) ** 2, axis=1)
        variance = second * conditional + a.beta * unit_mean**2
        if len(self._i):
            variance += second * self._remainder(X, np.ascontiguousarray(unit.T))
        return _above_rounding(variance, second)

    def _remainder(self, X: FloatArray, unit: FloatArray) -> FloatArray:
        """Σ_zz' excess_zz' ω ω' expm1(D) at unit amplitude (n,), for the unit ω (m, n)."""
        a = self._arrays
        features = self._row_features(X)
        total = np.zeros(len(X))
        for start in range(0, len(self._i), PAIRS):
            part = slice(start, start + PAIRS)
            i, j = self._i[part], self._j[part]
            z, z2 = a.Z[i], a.Z[j]
            one = np.ones((len(i), 1))
            terms = np.concatenate([one, z + z2, z**2 + z2**2, z * z2], axis=1) @ features
            # As in the library: keeps the exponential from overflowing far outside the data.
            np.minimum(terms, 300.0, out=terms)
            np.expm1(terms, out=terms)
            terms *= unit[i]
            terms *= unit[j]
            total += self._pair_weight[part] @ terms
        return total

    def _row_features(self, X: FloatArray) -> FloatArray:
        """Coefficients in D of (1, z + z', z² + z'², zz'), at each row: (3d + 1, n)."""
        a = self._arrays
        square = X**2
        s2 = 1.0 + a.xi * square
        both = 1.0 + 2.0 * a.xi * square
        cross_term = a.xi * square / both
        constant = np.log(s2) - 0.5 * np.log(both) + (a.nu * square) ** 2 * a.xi / (both * s2)
        columns = [
            np.sum(constant, axis=1)[:, None],
            -cross_term * a.nu * X / s2,
            -0.5 * cross_term * a.xi * square / s2,
            cross_term,
        ]
        return np.concatenate(columns, axis=1).T


# ---------------------------------------------------------------------------------------------
# Through s and the row's own block: pic


@dataclass(frozen=True, eq=False)
class _Tree:
    """A row goes left at node j if its projection on direction[j] is at most threshold[j]."""

    direction: FloatArray  # (n_nodes, d)
    threshold: FloatArray  # (n_nodes,)
    children: Labels  # (n_nodes, 2): a node, or ~cell

    def __post_init__(self) -> None:
        after = np.arange(len(self.threshold))[:, None]
        if not np.all((self.children < 0) | (self.children > after)):
            raise ValueError("`children` does not describe a tree")

    def assign(self, X: FloatArray) -> Labels:
        """Cell (n,) of each row."""
        node = np.zeros(len(X), dtype=np.int64)
        rows = np.arange(len(X) if len(self.threshold) else 0)
        while len(rows):
            at = node[rows]
            # One input after the other, as the library adds them: the same bits, the same side.
            along = np.zeros(len(rows))
            for x, w in zip(X[rows].T, self.direction[at].T, strict=True):
                along += x * w
            node[rows] = self.children[at, (along > self.threshold[at]).astype(np.int64)]
            rows = rows[node[rows] >= 0]
        return np.where(node < 0, ~node, node)


@dataclass(frozen=True, eq=False)
class _KMeans:
    """The cell of the nearest centre."""

    centres: FloatArray  # (n_cells, d), in the scaled space
    scale: FloatArray  # (d,)

    def assign(self, X: FloatArray) -> Labels:
        """Cell (n,) of each row."""
        distance = np.zeros((len(X), len(self.centres)))
        for x, centre in zip((X * self.scale).T, self.centres.T, strict=True):
            distance += (x[:, None] - centre[None, :]) ** 2
        return np.argmin(distance, axis=1)


@dataclass(frozen=True, eq=False)
class _LocalArrays:
    """q(s), the nodes of θ, and training rows: block b has the rows start[b] to start[b + 1]."""

    lam: FloatArray  # (t, d)
    sigma_f: FloatArray  # (t,)
    Z: FloatArray  # (m, d)
    white: FloatArray  # (m, m) L⁻¹
    v_mean: FloatArray  # (m,)
    v_root: FloatArray  # (m, m)
    X: FloatArray  # (N, d)
    y: FloatArray  # (N,)
    start: Labels  # (B + 1,)
    block_of_cell: Labels  # (n_cells,)


class _Weights(NamedTuple):
    """A block's part in the mean at each node.

    k(x, Z) inducing + k(x, X_b) rows is that of f; y adds k^ε(x, X_b) rows − k^ε(x, U) noise.
    """

    inducing: FloatArray  # (t, m)
    rows: FloatArray  # (t, n_b)
    noise: FloatArray  # (t, m)


class _Spread(NamedTuple):
    """Its part in the variance, with V = K_bZ L⁻ᵀ and chol the factor of K_bb − VVᵀ + C_bb."""

    V: FloatArray  # (t, n_b, m)
    chol_inverse: FloatArray  # (t, n_b, n_b)
    white_V: FloatArray  # (t, n_b, m) chol⁻¹V
    explained: FloatArray  # (n_b, m) of the noise


class _Local:
    """The average over nodes of θ, each row with the training rows of its own block."""

    def __init__(
        self, arrays: _LocalArrays, noise: Noise, cells: _Tree | _KMeans, cache_bytes: int
    ) -> None:
        self._arrays = arrays
        self._noise = noise
        self._cells = cells
        # A mean needs the weights alone: they are small, and must not make room for the rest.
        self._weights = Cache(cache_bytes // 4)
        self._spreads = Cache(cache_bytes - cache_bytes // 4)

    def moments(self, X: FloatArray, of_y: bool, spread: bool) -> Moments:
        """Mean (n,) and, if ``spread``, variance (n,)."""
        mean = np.empty(len(X))
        variance = np.empty(len(X)) if spread else None
        for block, part in self._by_block(X):
            means, variances = self._given_theta(block, X[part], of_y, spread)
            mean[part] = means.mean(axis=0)
            if variance is not None:
                assert variances is not None
                variance[part] = variances.mean(axis=0) + means.var(axis=0)
        return mean, variance

    def _by_block(self, X: FloatArray) -> Iterator[tuple[int, Labels]]:
        """(block, row numbers), at most MOST_ROWS rows at a time."""
        label = np.empty(len(X), dtype=np.int64)
        for first in range(0, len(X), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            label[part] = self._arrays.block_of_cell[self._cells.assign(X[part])]
        order = np.argsort(label, kind="stable")
        blocks, starts, counts = np.unique(label[order], return_index=True, return_counts=True)
        for block, start, count in zip(blocks, starts, counts, strict=True):
            for first in range(start, start + count, MOST_ROWS):
                yield int(block), order[first : min(first + MOST_ROWS, start + count)]

    def _given_theta(self, block: int, X: FloatArray, of_y: bool, spread: bool) -> Moments:
        """Means (t, n) and, if ``spread``, variances (t, n) of rows of one block, at each node."""
        a, noise = self._arrays, self._noise
        X_b, _ = self._rows(block)
        weights, factor = self._factor(block, spread)
        means = np.zeros((len(a.lam), len(X)))
        K_noise = np.zeros((len(X), len(X_b)))
        if of_y:
            K_noise = noise.eps_variance * noise.unit(X, X_b)
            K_U = noise.eps_variance * noise.unit(X, noise.U)
            means += (K_noise @ weights.rows.T - K_U @ weights.noise.T).T
        marginal = np.zeros(len(X))
        if of_y and factor is not None:
            explained = noise.explained(X)
            marginal = noise.marginal(explained)
            K_noise -= noise.eps_variance * explained @ factor.explained.T
        variances = np.empty_like(means) if factor is not None else None
        for t, (lam, sigma_f) in enumerate(zip(a.lam, a.sigma_f, strict=True)):
            K_Z = sigma_f * unit_cross(X * lam, a.Z)
            K_b = sigma_f**2 * unit_cross(X * lam, X_b * lam)
            means[t] += K_Z @ weights.inducing[t] + K_b @ weights.rows[t]
            if factor is None or variances is None:
                continue
            V_new = K_Z @ a.white.T
            T = (K_b + K_noise - V_new @ factor.V[t].T) @ factor.chol_inverse[t].T
            G = V_new - T @ factor.white_V[t]
            prior = sigma_f**2 + marginal
            own = prior - np.sum(V_new**2, axis=1) - np.sum(T**2, axis=1)
            from_s = np.sum((G @ a.v_root.T) ** 2, axis=1)
            variances[t] = _above_rounding(own, prior) + from_s
        return means, variances

    def _rows(self, block: int) -> tuple[FloatArray, FloatArray]:
        part = slice(self._arrays.start[block], self._arrays.start[block + 1])
        return self._arrays.X[part], self._arrays.y[part]

    def _factor(self, block: int, spread: bool) -> tuple[_Weights, _Spread | None]:
        """From the caches, or made now."""
        weights = self._weights.get(block)
        factor = self._spreads.get(block) if spread else None
        if weights is None or (spread and factor is None):
            weights, factor = self._factorise(block)
            self._weights.put(block, weights)
            if spread:
                self._spreads.put(block, factor)
        return weights, factor if spread else None

    def _factorise(self, block: int) -> tuple[_Weights, _Spread]:
        """One block at every node."""
        a, noise = self._arrays, self._noise
        X, y = self._rows(block)
        explained = noise.explained(X)
        C = noise.covariance(X, explained)
        t, n, m = len(a.lam), len(X), len(a.Z)
        V, chol_inverse, white_V = np.empty((t, n, m)), np.empty((t, n, n)), np.empty((t, n, m))
        inducing, rows = np.empty((t, m)), np.empty((t, n))
        for k, (lam, sigma_f) in enumerate(zip(a.lam, a.sigma_f, strict=True)):
            V[k] = sigma_f * unit_cross(X * lam, a.Z) @ a.white.T
            R = sigma_f**2 * unit_gram(X * lam) + C - V[k] @ V[k].T
            chol_inverse[k] = np.tril(np.linalg.inv(lower_factor(R)))
            white_V[k] = chol_inverse[k] @ V[k]
            rows[k] = chol_inverse[k].T @ (chol_inverse[k] @ (y - V[k] @ a.v_mean))
            inducing[k] = a.white.T @ (a.v_mean - V[k].T @ rows[k])
        weights = _Weights(inducing, rows, rows @ explained @ noise.white_U)
        return weights, _Spread(V, chol_inverse, white_V, explained)


class Cache:
    """Records of arrays, at most so many bytes; what was used longest ago is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: int) -> Any:
        """The record of this name; None if it is not there, or not any more."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: int, record: Any) -> None:
        """Keep a record, if there is room for it at all."""
        with self._lock:
            self._drop(key)
            self._kept[key] = record
            self._size += _bytes(record)
            self._make_room()

    def resize(self, most: int) -> None:
        """Hold at most so many bytes from now on."""
        with self._lock:
            self._most = most
            self._make_room()

    def _make_room(self) -> None:
        while self._size > self._most and self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: int) -> None:
        if key in self._kept:
            self._size -= _bytes(self._kept.pop(key))


def _bytes(record: Any) -> int:
    return sum(_bytes(part) if isinstance(part, tuple) else part.nbytes for part in record)
