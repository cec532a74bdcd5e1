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
from mosaicgp.data.blocks import Blocks
from mosaicgp.data.partition import PARTITIONS, Partition
from mosaicgp.data.scaling import Scaling
from mosaicgp.fitting import BLOCK_ROWS_A_STEP, Plan, Start, fit_table, make_blocks
from mosaicgp.inference import exact, training
from mosaicgp.inference.evaluate import full_bound
from mosaicgp.inference.parameters import Switches
from mosaicgp.inference.response import linear_response
from mosaicgp.inference.result import FitResult
from mosaicgp.inference.schedule import Anneal, RobbinsMonro, Schedule
from mosaicgp.model.family import APPROXIMATIONS, Approximation
from mosaicgp.model.posterior import theta_nodes
from mosaicgp.posterior import Posterior
from mosaicgp.prediction import Local, Predictor, predictor
from mosaicgp.progress import progress_line
from mosaicgp.tables import Table, hyperparameter_table

FloatArray = NDArray[np.float64]

EXACT_ROWS = 20_000

# What "auto" stands for, by inference.
AUTO_BLOCK_SIZE = {"exact": 128, "stochastic": 256}
AUTO_MAX_ITER = {"exact": 300, "stochastic": 2000}
SMALL_MAX_ITER = 500  # of stochastic inference, for tables that exact inference would take
AUTO_TOL = {"exact": 0.02, "stochastic": 0.002}
AUTO_N_THETA = {"exact": 16, "stochastic": 4}
AUTO_LEARNING_RATE = 0.04

# Looks at the validation NLPD in a fit, and shares of the budget after which rows are divided anew.
CHECKS = 40
ADAPT_AT = (0.1, 0.2, 0.3, 0.4, 0.5)


# In single precision Σ needs more on its diagonal to be factored.
STOCHASTIC_JITTER = {"float64": 1e-6, "float32": 1e-4}


class CallbackError(RuntimeError):
    """A callback raised; the fit stopped there, and the model is fitted with what it had."""


class _Prepared:
    """A place for what predictions share; it is no part of the fitted state."""

    def __init__(self) -> None:
        self.predictor: Predictor | None = None


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
        "exact" uses all rows every iteration, "stochastic" a few blocks, at a cost that does not
        depend on the number of rows. "auto" is exact for tables of up to 20,000 rows.
    n_inducing : int, default=100
        Inducing points; fewer are used when there are fewer distinct rows.
    block_size : int or "auto", default="auto"
        Rows of a block, for "pitc" and "pic". "auto" is 128 for exact inference, else 256. Larger
        blocks predict better and cost more: a step costs their cube.
    partition : {"tree", "kmeans"}, default="tree"
        How the input space is divided into blocks: a tree of cuts into blocks of equal size, or
        the cells of k-means centres.
    adapt_partition : bool, default=True
        Stochastic inference divides the rows anew as it learns along which inputs the noise is
        correlated, so that a block holds rows that have something to say about each other.
    optimizer : {"l-bfgs-b", "cg"}, default="l-bfgs-b"
        SciPy's optimiser for exact inference.
    max_iter : int or "auto", default="auto"
        Most iterations of a fit. "auto" is 300 for exact inference, 2,000 for stochastic
        (500 up to 20,000 rows, and fewer with blocks of more than 512 rows).
    tol : float or "auto", default="auto"
        Exact: a fit has converged when four iterations in a row raise the bound by less than this,
        in nats of the whole table (0.02); a nat is what a standard deviation of a hyperparameter
        is worth. Stochastic: the search ends when six looks in a row do not lower the validation
        NLPD by this, in nats a row (0.002).
    max_time : float or None, default=None
        Seconds after which training stops with the best state found.
    n_restarts : int, default=0
        Exact inference: further starts from random values; the best bound wins.
    learning_rate : float or "auto", default="auto"
        Stochastic inference: largest change of a parameter in a step, about. "auto" is 0.04.
    schedule : {"anneal", "robbins-monro"}, default="anneal"
        Step sizes: constant, then falling to zero with the iterates averaged; or falling from the
        start as (1 + t/100)^−decay, which the guarantee of convergence asks for.
    decay : float, default=0.7
        Exponent of "robbins-monro", above 0.5 and at most 1.
    sampling : {"iid", "reshuffle"}, default="iid"
        Draw the blocks of a step independently (unbiased), or by random reshuffling (unbiased over
        a pass, less noisy).
    batch_size : int or "auto", default="auto"
        Rows of a stochastic step; whole blocks with "pitc" and "pic". "auto" is 1,024 rows, or
        blocks of together 512.
    validation_rows : int or "auto", default="auto"
        Rows held back from training to watch the predictions by; they rejoin their blocks when it
        ends (they are drawn anew whenever the rows are divided anew). "auto" is 1,000 of tables of
        5,000 rows or more.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stochastic steps.
    warm_start : bool, default=False
        Go on from the present fit, with its scaling, its inducing inputs (``n_inducing`` has no
        effect) and its posterior.
    callback : callable or None, default=None
        Called with the progress of every iteration (``iteration``, ``bound``, ``seconds`` and
        more); returning True ends the fit with what it has.
    learn_inducing : bool, default=False
        Also move the inducing inputs to raise the bound.
    rotate_inducing : bool, default=True
        Let the rotated inducing inputs Z follow the inverse length-scales while they are learned,
        as inducing inputs chosen among the rows do; False keeps Z where it started.
    prior : (float, float), default=(0.0, 1.0)
        Mean and variance of the Gaussian prior on each inverse length-scale and on the signal's
        standard deviation, in standardised units.
    n_theta : int or "auto", default="auto"
        Draws of the hyperparameters that a "pic" prediction averages over, made when a fit ends;
        a prediction costs that many factorisations of a block. "auto" is 16 after exact inference
        and 4 after stochastic, where q(θ) is narrow.
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
        Bound, validation NLPD, step sizes and seconds by iteration.
    blocks_ : Blocks or None
        Training rows by block, standardised; None where predictions do not need them: in a loaded
        model, and after stochastic inference without blocks.
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
        adapt_partition: bool = True,
        optimizer: str = "l-bfgs-b",
        max_iter: int | str = "auto",
        tol: float | str = "auto",
        max_time: float | None = None,
        n_restarts: int = 0,
        learning_rate: float | str = "auto",
        schedule: str = "anneal",
        decay: float = 0.7,
        sampling: str = "iid",
        batch_size: int | str = "auto",
        validation_rows: int | str = "auto",
        dtype: str = "float64",
        warm_start: bool = False,
        callback: Callable[[Any], Any] | None = None,
        learn_inducing: bool = False,
        rotate_inducing: bool = True,
        prior: tuple[float, float] = (0.0, 1.0),
        n_theta: int | str = "auto",
        verbose: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.approximation = approximation
        self.hyperparameters = hyperparameters
        self.inference = inference
        self.n_inducing = n_inducing
        self.block_size = block_size
        self.partition = partition
        self.adapt_partition = adapt_partition
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_restarts = n_restarts
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.decay = decay
        self.sampling = sampling
        self.batch_size = batch_size
        self.validation_rows = validation_rows
        self.dtype = dtype
        self.warm_start = warm_start
        self.callback = callback
        self.learn_inducing = learn_inducing
        self.rotate_inducing = rotate_inducing
        self.prior = prior
        self.n_theta = n_theta
        self.verbose = verbose
        self.random_state = random_state

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from X (n, d) and y (n,): arrays, or tables of pandas or polars."""
        self._check_arguments()
        X_user, y_user = validation.training_data(X, y, self)
        plan = self._plan(len(y_user))
        # Names are checked on another instance: what is fitted stays whole until a new fit ends.
        validate_data(type(self)(), X, skip_check_array=True)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        before = self._fit_before(X_user.shape[1])
        with progress_line(self.verbose, plan.settings) as show:

            def report(progress: Any) -> Any:
                show(progress)
                return None if self.callback is None else self.callback(progress)

            outcome = fit_table(X_user, y_user, plan, rng, report, before)
        validate_data(self, X, skip_check_array=True)
        self._keep(
            arguments=self.get_params(deep=False),
            posterior=outcome.posterior,
            scaling=outcome.scaling,
            partition=outcome.partition,
            blocks=outcome.blocks,
            nodes=self._theta_nodes(X_user.shape, rng),
            fit_result=outcome.fit_result,
            history=outcome.history,
            block_rows=plan.block_rows,
        )
        if outcome.error is not None:
            raise CallbackError(
                f"fit: {outcome.fit_result.message}. The model is fitted with the state it had."
            ) from outcome.error
        self._warn_unless_trained(outcome.fit_result)
        return self

    def _warn_unless_trained(self, result: FitResult) -> None:
        untrained = result.status == "max_time" and result.iterations == 0
        if result.status in ("max_iter", "stalled", "failed") or untrained:
            warnings.warn(f"fit: {result.message}", ConvergenceWarning, stacklevel=3)

    def _check_arguments(self) -> None:
        """Check every argument before any work."""
        validation.one_of("approximation", self.approximation, list(APPROXIMATIONS))
        validation.one_of("hyperparameters", self.hyperparameters, ["bayesian", "point"])
        validation.one_of("inference", self.inference, ["auto", "exact", "stochastic"])
        validation.one_of("partition", self.partition, list(PARTITIONS))
        validation.one_of("optimizer", self.optimizer, ["l-bfgs-b", "cg"])
        validation.one_of("schedule", self.schedule, ["anneal", "robbins-monro"])
        validation.one_of("sampling", self.sampling, ["iid", "reshuffle"])
        validation.one_of("dtype", self.dtype, ["float64", "float32"])
        validation.whole("n_inducing", self.n_inducing, 1)
        validation.whole("n_restarts", self.n_restarts, 0)
        least = {
            "block_size": 1,
            "batch_size": 1,
            "max_iter": 1,
            "n_theta": 1,
            "validation_rows": 0,
        }
        for name, smallest in least.items():
            if getattr(self, name) != "auto":
                validation.whole(name, getattr(self, name), smallest)
        for name in ("tol", "learning_rate"):
            if getattr(self, name) != "auto":
                validation.number(name, getattr(self, name), 0.0)
        if float(_or_auto(self.learning_rate, AUTO_LEARNING_RATE)) > 1.0:
            raise ValueError(
                f"learning_rate must be at most 1, got {self.learning_rate}: parameters are "
                "logarithms, and steps of more than 1 jump over every optimum. Try 0.01 to 0.1."
            )
        if not 0.5 < validation.number("decay", self.decay, 0.5) <= 1.0:
            raise ValueError(
                f"decay must be above 0.5 and at most 1, got {self.decay}: otherwise the steps "
                "shrink too slowly or too fast to converge."
            )
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable or None, got {self.callback!r}.")
        if np.shape(self.prior) != (2,):
            raise ValueError(f"prior must be a pair (mean, variance), got {self.prior!r}.")
        validation.number("prior[0]", self.prior[0], -np.inf)
        validation.number("prior[1]", self.prior[1], 0.0)
        if self.max_time is not None:
            validation.number("max_time", self.max_time, 0.0)

    def _inference(self, n: int) -> str:
        if self.inference != "auto":
            return self.inference
        return "exact" if n <= EXACT_ROWS else "stochastic"

    def _plan(self, n: int) -> Plan:
        """The arguments, checked, as a table of n rows takes them."""
        inference = self._inference(n)
        block_rows = _or_auto(self.block_size, AUTO_BLOCK_SIZE[inference])
        max_iter = _or_auto(self.max_iter, self._auto_max_iter(inference, n, block_rows))
        tol = _or_auto(self.tol, AUTO_TOL[inference])
        settings: exact.Settings | training.Settings
        if inference == "exact":
            settings = exact.Settings(
                optimizer="cg" if self.optimizer == "cg" else "l-bfgs-b",
                max_iter=max_iter,
                tol=tol,
                max_time=self.max_time,
                n_restarts=self.n_restarts,
            )
        else:
            settings = training.Settings(
                schedule=self._schedule(),
                max_iter=max_iter,
                max_time=self.max_time,
                tol=tol,
                check_every=min(max(25, max_iter // CHECKS), 50),
                adapt_at=ADAPT_AT,
                sampling="reshuffle" if self.sampling == "reshuffle" else "iid",
                dtype=self.dtype,
                jitter=STOCHASTIC_JITTER[self.dtype],
            )
        return Plan(
            switches=self._switches(),
            n_inducing=self.n_inducing,
            block_rows=block_rows,
            partition=self.partition,
            adapt_partition=bool(self.adapt_partition),
            batch_rows=_or_auto(self.batch_size, None),
            held_rows=_or_auto(self.validation_rows, None),
            settings=settings,
        )

    def _auto_max_iter(self, inference: str, n: int, block_rows: int) -> int:
        """Fewer iterations where a step costs more, as it does with the cube of large blocks."""
        if inference == "exact":
            return AUTO_MAX_ITER["exact"]
        most = SMALL_MAX_ITER if n <= EXACT_ROWS else AUTO_MAX_ITER["stochastic"]
        if not self._approximation.blocked or block_rows <= BLOCK_ROWS_A_STEP:
            return most
        return max(300, round(most * (BLOCK_ROWS_A_STEP / block_rows) ** 1.5))

    def _schedule(self) -> Schedule:
        rate = _or_auto(self.learning_rate, AUTO_LEARNING_RATE)
        if self.schedule == "anneal":
            return Anneal(rate)
        return RobbinsMonro(rate, decay=self.decay)

    def _fit_before(self, d: int) -> Start | None:
        """The present fit, if it is to be gone on from."""
        if not self.warm_start or not self.__sklearn_is_fitted__():
            return None
        if self.n_features_in_ != d:
            raise ValueError(
                f"warm_start=True: X has {d} columns, but the model was fitted with "
                f"{self.n_features_in_}. Pass the same columns, or set warm_start=False."
            )
        return Start(self.posterior_, self.scaling_)

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

    def _theta_nodes(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Nodes of θ for a table of n rows and d columns."""
        n, d = shape
        auto = AUTO_N_THETA[self._inference(n)]
        n_nodes = _or_auto(self.n_theta, auto) if self.hyperparameters == "bayesian" else 1
        return theta_nodes(n_nodes, d, int(rng.integers(2**31)))

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
        block_rows: int,
    ) -> None:
        """All that a fit or a load leaves behind.

        The arguments of the fit are kept too: ``set_params`` says how to fit next, and leaves
        what is fitted alone.
        """
        self._arguments = arguments
        self._fitted = Fitted(self._switches(), block_rows)
        self.posterior_ = posterior
        self.scaling_ = scaling
        self.partition_ = partition
        self.blocks_ = blocks
        self.theta_nodes_ = nodes
        self.fit_result_ = fit_result
        self.history_ = history
        self.n_iter_ = fit_result.iterations
        self.hyperparameters_ = self._hyperparameter_table(None)
        self._prepared = _Prepared()

    def _hyperparameter_table(self, theta_variance: FloatArray | None) -> Table:
        has_eps = self._fitted.switches.approximation.has_eps
        names = self._feature_names()
        return hyperparameter_table(self.posterior_, self.scaling_, names, has_eps, theta_variance)

    @property
    def _predictor(self) -> Predictor:
        """Made by the first prediction, which no fit should wait for."""
        if self._prepared.predictor is None:
            self._prepared.predictor = self._make_predictor()
        return self._prepared.predictor

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

    def mean_log_variance(self) -> float:
        """Mean over inputs of log ξ, the log variance of each inverse length-scale under q(θ).

        In standardised units; how sure the fit is of its length-scales, on one scale for fits with
        different inputs. Minus infinity for point estimates.
        """
        check_is_fitted(self)
        with np.errstate(divide="ignore"):
            return float(np.mean(np.log(self.posterior_.xi)))

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
        return make_blocks(
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

    def export(self, path: str | Path) -> None:
        """Write a predictor for ``mosaicgp.serving``, which needs NumPy alone; see ``save`` too.

        It predicts y and f by row, and cannot be fitted further.
        """
        from mosaicgp.export import export

        check_is_fitted(self)
        export(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions and cached factors are made again on the other side.
        state = super().__getstate__()
        return state | {"_prepared": _Prepared()} if "_prepared" in state else state


def _or_auto(value: Any, auto: Any) -> Any:
    return auto if isinstance(value, str) and value == "auto" else value


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
