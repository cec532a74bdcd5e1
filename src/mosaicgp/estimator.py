"""The scikit-learn face: validates, standardises, delegates; no mathematics."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mosaicgp import validation
from mosaicgp.data.blocks import Blocks, chunk, group
from mosaicgp.data.partition import PARTITIONS, Partition, build_partition
from mosaicgp.data.scaling import Scaling
from mosaicgp.inference.evaluate import full_bound
from mosaicgp.inference.exact import Settings, fit_exact
from mosaicgp.inference.initial import select_inducing, starting_values
from mosaicgp.inference.parameters import Fixed, Switches
from mosaicgp.inference.response import linear_response
from mosaicgp.inference.result import FitResult
from mosaicgp.model.family import APPROXIMATIONS, Approximation
from mosaicgp.model.posterior import theta_nodes
from mosaicgp.posterior import Posterior
from mosaicgp.prediction import Local, Predictor, predictor
from mosaicgp.progress import progress_line
from mosaicgp.tables import Table, hyperparameter_table

FloatArray = NDArray[np.float64]

EXACT_ROWS = 20_000
AUTO_BLOCK_SIZE = 128
CHUNK_ROWS = 1024
SMALL_ROWS = 512
AUTO_MAX_ITER = 300


class Fitted(NamedTuple):
    """What of the arguments a fitted model goes on using."""

    switches: Switches
    block_rows: int


class SparseGPRegressor(RegressorMixin, BaseEstimator):
    """Sparse Gaussian process regression with a posterior over the hyperparameters.

    Inputs and target are standardised inside; everything that is returned is in the user's units
    unless said otherwise.

    Parameters
    ----------
    approximation : {"dtc", "fitc", "fic", "pitc", "pic"}, default="pic"
        Noise structure and test conditional. "dtc": noise independent and equal everywhere;
        "fitc", "fic": independent, depending on the input; "pitc": correlated within a block;
        "pic": the same, and a new row also learns directly from the rows of its own block.
    hyperparameters : {"bayesian", "point"}, default="bayesian"
        Learn a distribution of the inverse length-scales and of the signal's standard deviation,
        or point estimates of them.
    inference : {"auto", "exact", "stochastic"}, default="auto"
        "exact" uses all rows every iteration; "auto" chooses it for tables of up to 20,000 rows.
        "stochastic" is not available yet.
    n_inducing : int, default=100
        Inducing points; fewer are used when there are fewer distinct rows.
    block_size : int or "auto", default="auto"
        Rows of a block, for "pitc" and "pic". "auto" is 128.
    partition : {"tree", "kmeans"}, default="tree"
        How the input space is divided into blocks: a tree of cuts into blocks of equal size, or
        the cells of k-means centres.
    optimizer : {"l-bfgs-b", "cg"}, default="l-bfgs-b"
        SciPy's optimiser for exact inference.
    max_iter : int or "auto", default="auto"
        Most iterations of a fit. "auto" is 300 for exact inference.
    tol : float, default=0.02
        A fit has converged when four iterations in a row raise the bound by less than this, in
        nats of the whole table: a nat is what a standard deviation of a hyperparameter is worth.
    max_time : float or None, default=None
        Seconds after which training stops with the best state found.
    n_restarts : int, default=0
        Further starts from random values; the best bound wins.
    learn_inducing : bool, default=False
        Also move the inducing inputs to raise the bound.
    rotate_inducing : bool, default=True
        Let the rotated inducing inputs Z follow the inverse length-scales while they are learned,
        as inducing inputs chosen among the rows do; False keeps Z where it started.
    prior : (float, float), default=(0.0, 1.0)
        Mean and variance of the Gaussian prior on each inverse length-scale and on the signal's
        standard deviation, in standardised units.
    n_theta : int, default=16
        Draws of the hyperparameters that a "pic" prediction averages over, made when a fit ends.
    verbose : int, default=0
        1 shows a progress line.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    posterior_ : Posterior
        q(s), q(θ) and the noise, in standardised units.
    scaling_ : Scaling
        Means and scales of inputs and target.
    hyperparameters_ : Table
        Mean, standard deviation and 95% interval of each hyperparameter.
    fit_result_ : FitResult
        Status, message, iterations, seconds, bound, whether the budget ran out.
    history_ : Table
        Bound, step length and seconds by iteration.
    blocks_ : Blocks or None
        Training rows by block, standardised; None in a loaded model that does not need them.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mosaicgp import SparseGPRegressor
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = SparseGPRegressor(approximation="dtc", n_inducing=20).fit(X, y)
    >>> mean, std = model.predict([[2.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.5)) < 0.05)
    True
    """

    def __init__(
        self,
        approximation: str = "pic",
        *,
        hyperparameters: str = "bayesian",
        inference: str = "auto",
        n_inducing: int = 100,
        block_size: int | str = "auto",
        partition: str = "tree",
        optimizer: str = "l-bfgs-b",
        max_iter: int | str = "auto",
        tol: float = 0.02,
        max_time: float | None = None,
        n_restarts: int = 0,
        learn_inducing: bool = False,
        rotate_inducing: bool = True,
        prior: tuple[float, float] = (0.0, 1.0),
        n_theta: int = 16,
        verbose: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.approximation = approximation
        self.hyperparameters = hyperparameters
        self.inference = inference
        self.n_inducing = n_inducing
        self.block_size = block_size
        self.partition = partition
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_restarts = n_restarts
        self.learn_inducing = learn_inducing
        self.rotate_inducing = rotate_inducing
        self.prior = prior
        self.n_theta = n_theta
        self.verbose = verbose
        self.random_state = random_state

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from X (n, d) and y (n,): arrays, or tables of pandas or polars."""
        settings = self._settings()
        X_user, y_user = validation.training_data(X, y, self)
        self._check_inference(len(y_user))
        # Names are checked on another instance: what is fitted stays whole until a new fit ends.
        validate_data(type(self)(), X, skip_check_array=True)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        switches = self._switches()
        scaling = Scaling.fit(X_user, y_user)
        X_std, y_std = scaling.transform_X(X_user), scaling.transform_y(y_user)
        partition = self._build_partition(X_std, rng)
        blocks = _make_blocks(X_std, y_std, partition, self._block_rows())
        U = select_inducing(X_std, self.n_inducing, rng)
        start = starting_values(U, switches.approximation)

        def to_user(bound: float) -> float:
            return bound + scaling.log_jacobian(len(y_std))

        with progress_line(self.verbose, settings.max_iter, to_user) as report:
            outcome = fit_exact(
                start,
                Fixed(U, start.nu),
                blocks,
                switches,
                settings,
                lambda: starting_values(U, switches.approximation, rng),
                report,
            )
        validate_data(self, X, skip_check_array=True)
        self._keep(
            arguments=self.get_params(deep=False),
            posterior=Posterior.build(
                outcome.parameters, outcome.q, switches.prior, outcome.jitter
            ),
            scaling=scaling,
            partition=partition,
            blocks=blocks,
            nodes=self._theta_nodes(X_std.shape[1], rng),
            fit_result=FitResult(
                status=outcome.status,
                message=outcome.message,
                iterations=len(outcome.history),
                seconds=outcome.seconds,
                bound=to_user(outcome.bound),
                budget_exhausted=outcome.status in ("max_iter", "max_time"),
                rejected=outcome.rejected,
                jitter=outcome.jitter,
            ),
            history=Table(
                {
                    "iteration": [p.iteration for p in outcome.history],
                    "bound": [to_user(p.bound) for p in outcome.history],
                    "step": [p.step for p in outcome.history],
                    "seconds": [p.seconds for p in outcome.history],
                }
            ),
        )
        untrained = outcome.status == "max_time" and not outcome.history
        if outcome.status in ("max_iter", "stalled") or untrained:
            warnings.warn(f"fit: {outcome.message}", ConvergenceWarning, stacklevel=2)
        return self

    def _settings(self) -> Settings:
        """Check every argument before any work."""
        validation.one_of("approximation", self.approximation, list(APPROXIMATIONS))
        validation.one_of("hyperparameters", self.hyperparameters, ["bayesian", "point"])
        validation.one_of("inference", self.inference, ["auto", "exact", "stochastic"])
        validation.one_of("partition", self.partition, list(PARTITIONS))
        validation.one_of("optimizer", self.optimizer, ["l-bfgs-b", "cg"])
        validation.whole("n_inducing", self.n_inducing, 1)
        validation.whole("n_theta", self.n_theta, 1)
        validation.whole("n_restarts", self.n_restarts, 0)
        if self.block_size != "auto":
            validation.whole("block_size", self.block_size, 1)
        if np.shape(self.prior) != (2,):
            raise ValueError(f"prior must be a pair (mean, variance), got {self.prior!r}.")
        validation.number("prior[0]", self.prior[0], -np.inf)
        validation.number("prior[1]", self.prior[1], 0.0)
        if self.max_time is not None:
            validation.number("max_time", self.max_time, 0.0)
        max_iter: Any = self.max_iter
        return Settings(
            optimizer="cg" if self.optimizer == "cg" else "l-bfgs-b",
            max_iter=AUTO_MAX_ITER
            if max_iter == "auto"
            else validation.whole("max_iter", max_iter, 1),
            tol=validation.number("tol", self.tol, 0.0),
            max_time=self.max_time,
            n_restarts=self.n_restarts,
        )

    def _check_inference(self, n: int) -> None:
        if self.inference == "stochastic":
            raise NotImplementedError(
                'inference="stochastic" is not available yet; use inference="exact".'
            )
        if self.inference == "auto" and n > EXACT_ROWS:
            raise NotImplementedError(
                f"X has {n:,} rows; tables of more than {EXACT_ROWS:,} need stochastic inference, "
                'which is not available yet. Fit a sample of rows, or pass inference="exact" '
                "and wait."
            )

    def _switches(self) -> Switches:
        return Switches(
            approximation=self._approximation,
            bayesian=self.hyperparameters == "bayesian",
            learn_inducing=bool(self.learn_inducing),
            rotate=bool(self.rotate_inducing),
            prior=(float(self.prior[0]), float(self.prior[1])),
        )

    @property
    def _approximation(self) -> Approximation:
        return APPROXIMATIONS[self.approximation]

    def _block_rows(self) -> int:
        return AUTO_BLOCK_SIZE if self.block_size == "auto" else int(self.block_size)

    def _build_partition(self, X_std: FloatArray, rng: np.random.Generator) -> Partition | None:
        if not self._approximation.blocked:
            return None
        return build_partition(self.partition, X_std, self._block_rows(), rng)

    def _theta_nodes(self, d: int, rng: np.random.Generator) -> FloatArray:
        n = self.n_theta if self.hyperparameters == "bayesian" else 1
        return theta_nodes(n, d, int(rng.integers(2**31)))

    def _keep(
        self,
        arguments: dict[str, Any],
        posterior: Posterior,
        scaling: Scaling,
        partition: Partition | None,
        blocks: Blocks | None,
        nodes: FloatArray,
        fit_result: FitResult,
        history: Table,
    ) -> None:
        """All that a fit or a load leaves behind.

        The arguments of the fit are kept too: ``set_params`` says how to fit next, and leaves
        what is fitted alone.
        """
        self._arguments = arguments
        self._fitted = Fitted(self._switches(), self._block_rows())
        self.posterior_ = posterior
        self.scaling_ = scaling
        self.partition_ = partition
        self.blocks_ = blocks
        self.theta_nodes_ = nodes
        self.fit_result_ = fit_result
        self.history_ = history
        self.n_iter_ = fit_result.iterations
        self.hyperparameters_ = self._hyperparameter_table(None)
        self._predictor = self._make_predictor()

    def _hyperparameter_table(self, theta_variance: FloatArray | None) -> Table:
        has_eps = self._fitted.switches.approximation.has_eps
        names = self._feature_names()
        return hyperparameter_table(self.posterior_, self.scaling_, names, has_eps, theta_variance)

    def _make_predictor(self) -> Predictor:
        local = None
        if self._fitted.switches.approximation.local:
            assert self.partition_ is not None and self.blocks_ is not None
            local = Local(self.partition_, self.blocks_, self.theta_nodes_)
        return predictor(self.posterior_, self._fitted.switches, self.partition_, local)

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if names is None else list(names)

    # -- prediction ------------------------------------------------------------------------------

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of y at the rows of X (n, d), with its std (n,) or covariance (n, n) on request."""
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be asked for; choose one.")
        mean, spread = self._predict(X, of_y=True, joint=return_cov)
        if return_cov:
            return mean, spread
        return (mean, np.sqrt(spread)) if return_std else mean

    def predict_f(self, X: Any, return_cov: bool = False) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,), or covariance (n, n), of the latent f, without noise."""
        return self._predict(X, of_y=False, joint=return_cov)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Draws of y at the rows of X, jointly Gaussian with the predicted moments: (n, k)."""
        validation.whole("n_samples", n_samples, 1)
        mean, covariance = self._predict(X, of_y=True, joint=True)
        rng = check_random_state(random_state)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return mean[:, None] + root @ rng.standard_normal((len(mean), n_samples))

    def _predict(self, X: Any, of_y: bool, joint: bool) -> tuple[FloatArray, FloatArray]:
        X_std = self._new_rows(X)
        compute = self._predictor.joint if joint else self._predictor.moments
        mean, spread = compute(X_std, of_y)
        return self.scaling_.mean_to_user(mean), self.scaling_.var_to_user(spread)

    def _new_rows(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X_user = validation.new_rows(X, self)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.scaling_.transform_X(X_user)

    # -- looking at a fit ------------------------------------------------------------------------

    def elbo(self, X: Any, y: Any) -> float:
        """The bound L(q) of these rows at the fitted state, in the user's units.

        Every constant is there, so that on the training rows it bounds their log evidence. With
        correlated noise and many rows, where the closed form of Ψ would take minutes, Ψ is summed
        to a high order of its expansion instead.
        """
        blocks = self._blocks_of(X, y)
        bound = full_bound(
            self.posterior_.parameters(),
            self.posterior_.inducing(),
            blocks,
            self.posterior_.jitter,
            self._fitted.switches,
        )
        return bound + self.scaling_.log_jacobian(blocks.n)

    def corrected_hyperparameters(self, X: Any, y: Any) -> Table:
        """``hyperparameters_`` with spreads that count what q(θ) leaves out, from training rows.

        A factorised posterior is too narrow; linear response puts back how the hyperparameters
        vary together with the function and with each other. It costs two gradients of the bound
        for each learned number, about as long as the fit.
        """
        blocks = self._blocks_of(X, y)
        covariance = linear_response(
            self.posterior_.parameters(), blocks, self._fitted.switches, self.posterior_.jitter
        )
        return self._hyperparameter_table(np.diag(covariance))

    def _blocks_of(self, X: Any, y: Any) -> Blocks:
        """New rows with targets, standardised and grouped as the training rows were."""
        check_is_fitted(self)
        X_user, y_user = validation.training_data(X, y, self)
        validate_data(self, X, reset=False, skip_check_array=True)
        return _make_blocks(
            self.scaling_.transform_X(X_user),
            self.scaling_.transform_y(y_user),
            self.partition_,
            self._fitted.block_rows,
        )

    def block_of(self, X: Any) -> NDArray[np.int64]:
        """The block (n,) of each row of X; zeros where the approximation has no blocks."""
        X_std = self._new_rows(X)
        if self.partition_ is None:
            return np.zeros(len(X_std), dtype=np.int64)
        return self.partition_.assign(X_std)

    # -- keeping a fit ---------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file: arrays and a JSON header, no code."""
        from mosaicgp.store import save

        check_is_fitted(self)
        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> SparseGPRegressor:
        """Read a model that ``save`` wrote; it predicts to the bit what the saved one did."""
        from mosaicgp.store import load

        return load(path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions and cached factors are made again on the other side.
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_predictor"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.__sklearn_is_fitted__():
            self._predictor = self._make_predictor()


def _make_blocks(
    X_std: FloatArray, y_std: FloatArray, partition: Partition | None, block_rows: int
) -> Blocks:
    """Rows by block; a cell that ties made much too large is cut."""
    if partition is None:
        return chunk(X_std, y_std, CHUNK_ROWS)
    # Small tables share few shapes, and so compilations; in large ones padding costs more.
    pad = 32 if len(y_std) <= SMALL_ROWS else 8
    labels = partition.assign(X_std)
    return group(X_std, y_std, labels, pad_multiple=pad, max_size=4 * block_rows)


def _shorthand(kind: str) -> Callable[..., SparseGPRegressor]:
    """A constructor with ``approximation`` set, under the name that the paper uses."""

    def construct(**arguments: Any) -> SparseGPRegressor:
        return SparseGPRegressor(approximation=kind, **arguments)

    construct.__name__ = construct.__qualname__ = f"VB{kind.upper()}"
    construct.__doc__ = f'''``SparseGPRegressor(approximation="{kind}", ...)``.'''
    return construct


VBDTC = _shorthand("dtc")
VBFITC = _shorthand("fitc")
VBFIC = _shorthand("fic")
VBPITC = _shorthand("pitc")
VBPIC = _shorthand("pic")
