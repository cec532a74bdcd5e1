"""The scikit-learn face: validates, standardises, delegates; no mathematics."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mosaicgp import arguments as _arguments
from mosaicgp import validation
from mosaicgp._version import __version__
from mosaicgp.checkpoints import Checkpoint, digest
from mosaicgp.data.absorbing import absorb
from mosaicgp.data.blocks import Blocks, StoredBlocks, chunk
from mosaicgp.data.disk import DiskBlocks, Workspace
from mosaicgp.data.division import arranged, chunked, regroup
from mosaicgp.data.partition import Partition
from mosaicgp.data.rows import ArrayRows, Rows, StandardRows, UserRows, is_dataset, whole
from mosaicgp.data.scaling import Scaling
from mosaicgp.fitting import (
    CHUNK_ROWS,
    Job,
    Outcome,
    Plan,
    Snapshots,
    Start,
    bytes_on_disk,
    fit_rows,
    rows_a_step,
)
from mosaicgp.inference import exact
from mosaicgp.inference.evaluate import full_bound
from mosaicgp.inference.parameters import Switches
from mosaicgp.inference.response import linear_response
from mosaicgp.inference.result import FitResult
from mosaicgp.model.posterior import theta_nodes
from mosaicgp.posterior import Posterior
from mosaicgp.prediction import MEMORY, Local, Predictor, predictor
from mosaicgp.progress import progress_line, say
from mosaicgp.record import TrainedOn
from mosaicgp.streaming import updated
from mosaicgp.tables import Table, hyperparameter_table

if TYPE_CHECKING:
    from mosaicgp.data.dataset import Dataset
    from mosaicgp.data.encoding import Encoding

FloatArray = NDArray[np.float64]


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
    approximation : {"pic", "dtc", "fitc", "fic", "pitc"}, default="pic"
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
        (500 up to 20,000 rows, 3,000 beyond a million, fewer with blocks of more than 512 rows).
    tol : float or "auto", default="auto"
        Exact: a fit has converged when four iterations in a row raise the bound by less than this,
        in nats of the whole table (0.02); a nat is what a standard deviation of a hyperparameter
        is worth. Stochastic: the search ends when six looks in a row do not lower the validation
        NLPD by this, in nats a row (0.002), and as many rows were seen as there are.
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
    storage : {"auto", "memory", "disk"}, default="auto"
        Where stochastic inference keeps the rows by block. "auto" is disk for tables of more than
        32 MB. The result is the same to the bit.
    work_dir : path or None, default=None
        Folder for those files. None is a temporary one, removed with the model; in a folder of
        your own "pic" leaves the rows by block, which it predicts from.
    prediction_memory : float, default=2**30
        Bytes that predictions take beside their results, about: a quarter for rows that are
        predicted together, the rest for the factors of blocks that "pic" keeps. "pic" factorises a
        block once for all rows that are there at a time, so more is quicker for large tables. The
        result is the same to rounding.
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
        Status, message, iterations, seconds, bound, whether the budget ran out. After
        ``partial_fit`` how the update ended; iterations, seconds and bound add up.
    history_ : Table
        Bound, validation NLPD, step sizes and seconds by iteration.
    blocks_ : Blocks or None
        Training rows by block, standardised; None where predictions do not need them: in a loaded
        model, and after stochastic inference without blocks.
    n_rows_seen_ : float
        Rows learned from; after ``partial_fit`` with ``forget`` old rows count as less.
    encoding_ : Encoding or None
        How the columns of a dataset became features.
    trained_on_ : TrainedOn or None
        Rows (also those dropped for missing values), columns, target, files and date of the fit;
        None in a file of before it was kept.
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
        storage: str = "auto",
        work_dir: str | Path | None = None,
        prediction_memory: float = MEMORY,
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
        self.storage = storage
        self.work_dir = work_dir
        self.prediction_memory = prediction_memory
        self.warm_start = warm_start
        self.callback = callback
        self.learn_inducing = learn_inducing
        self.rotate_inducing = rotate_inducing
        self.prior = prior
        self.n_theta = n_theta
        self.verbose = verbose
        self.random_state = random_state

    # -- fitting ---------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        snapshot_at: Sequence[int] = (),
        on_snapshot: Callable[[SparseGPRegressor], Any] | None = None,
    ) -> Self:
        """Learn from X (n, d) and y (n,): arrays, or tables of pandas, polars or Arrow.

        X may also be a dataset (``mosaicgp.data.open_dataset``) with its target in it; then y is
        left out, and the table need not fit in memory.

        With ``checkpoint``, a folder, the fit leaves its state there every few seconds; with
        ``resume=True`` it goes on from there, to the same model to the bit. It may go on with a
        larger ``max_iter``: exact inference at any time, stochastic while it searches, as the
        length of a fit decides when its steps shrink.

        ``on_snapshot`` is called after each of the iterations ``snapshot_at`` of stochastic
        inference, with a fitted model that is what this one would be if it ended there. The time
        that takes is not counted as the fit's. (More than a million rows are fitted in two stages;
        the iterations are those of the second.)
        """
        _arguments.check(self)
        rows = self._training_rows(X, y)
        n, d = rows.count(), rows.n_features
        plan = _arguments.plan(self, n)
        if not is_dataset(X):
            # On another instance: what is fitted stays whole until a new fit ends.
            validate_data(type(self)(), X, skip_check_array=True)
        if snapshot_at and on_snapshot is not None and isinstance(plan.settings, exact.Settings):
            raise ValueError(
                'snapshot_at: only stochastic inference has snapshots; set inference="stochastic".'
            )
        if resume and checkpoint is None:
            raise ValueError("resume=True needs the folder to go on from: checkpoint=folder.")
        before = self._fit_before(d)
        seed = int(check_random_state(self.random_state).randint(2**31))
        kept = None
        if checkpoint is not None:
            identity = {"arguments": self._identity(before), "data": rows.fingerprint()}
            kept = Checkpoint(checkpoint, identity, resume)
            seed = kept.seed(seed)
        rng = np.random.default_rng(seed)
        nodes = theta_nodes(_arguments.n_theta(self, n), d, int(rng.integers(2**31)))
        snapshots = None
        if snapshot_at and on_snapshot is not None:

            def take(outcome: Outcome) -> None:
                model = type(self)(**self.get_params(deep=False))
                model._name_features(X)
                model._keep_outcome(outcome, plan, nodes, X)
                on_snapshot(model)

            snapshots = Snapshots(frozenset(snapshot_at), take)
        try:
            outcome = self._fitted_rows(rows, plan, rng, before, kept, snapshots)
        finally:
            if kept is not None:
                kept.close()
        self._name_features(X)
        self._keep_outcome(outcome, plan, nodes, X)
        return self

    def _training_rows(self, X: Any, y: Any) -> UserRows:
        """Arrays and tables checked and copied to float64; a dataset as it is."""
        if not is_dataset(X):
            return ArrayRows(*validation.training_data(X, y, self))
        if y is not None:
            raise ValueError("y: the dataset has its target in it; leave y out.")
        if X.target is None:
            raise ValueError(
                "X: the dataset has no target. Name it: open_dataset(..., target=column)."
            )
        return X

    def _name_features(self, X: Any) -> None:
        if is_dataset(X):
            self.n_features_in_ = X.n_features
            self.feature_names_in_ = np.array(X.feature_names, dtype=object)
        else:
            validate_data(self, X, skip_check_array=True)

    def partial_fit(self, X: Any, y: Any = None, *, forget: float = 0.0) -> Self:
        """Learn from rows that came after those of the fit, without those.

        What the model knows, q(s) and q(θ), becomes the prior of the new rows; with "pic" and
        "pitc" they also join the blocks of the old. Scaling, inducing inputs and partition stay:
        when inputs leave the space that the fit saw, fit again. The first call is a fit.

        ``forget`` (0 ≤ forget < 1) is the share of old knowledge that is given up before the new
        rows come in: precision that old rows gave is multiplied by 1 − forget, and that share of
        old rows stays in the blocks. Data that drift need some of it: after k calls a row counts
        (1 − forget)^k.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        if not 0.0 <= validation.number("forget", forget, -1.0) < 1.0:
            raise ValueError(f"forget must be at least 0 and below 1, got {forget}.")
        rows, fitted = self._standardised(X, y), self._fitted
        n = rows.count()
        after = updated(
            self.posterior_,
            rows,
            fitted.switches,
            self.partition_,
            fitted.block_rows,
            self.n_rows_seen_,
            forget,
            self.max_time,
        )
        blocks, workspace = self.blocks_, self._workspace
        if self.partition_ is not None and blocks is not None:
            blocks, workspace = absorb(
                self.partition_,
                blocks,
                rows,
                self._n_rows_numbered,
                fitted.block_rows,
                1.0 - forget,
                np.random.default_rng(self._n_rows_numbered),
                self.work_dir,
            )
        self._keep(
            arguments=self._arguments,
            switches=fitted.switches,
            posterior=after.posterior,
            scaling=self.scaling_,
            partition=self.partition_,
            blocks=blocks,
            nodes=self.theta_nodes_,
            fit_result=FitResult(
                status=after.status,
                message=f"updated by {n} rows: {after.message}",
                iterations=self.fit_result_.iterations + after.iterations,
                seconds=self.fit_result_.seconds + after.seconds,
                bound=self.fit_result_.bound + after.bound + self.scaling_.log_jacobian(n),
                budget_exhausted=after.status in ("max_iter", "max_time"),
                rejected=after.rejected,
                jitter=after.posterior.jitter,
            ),
            history=self.history_,
            block_rows=fitted.block_rows,
            workspace=workspace,
            encoding=self.encoding_,
            rows_seen=((1.0 - forget) * self.n_rows_seen_ + n),
            rows_numbered=self._n_rows_numbered + n,
            trained_on=None if self.trained_on_ is None else self.trained_on_.updated(n),
        )
        return self

    def _fitted_rows(
        self,
        rows: Rows,
        plan: Plan,
        rng: np.random.Generator,
        before: Start | None,
        checkpoint: Checkpoint | None,
        snapshots: Snapshots | None,
    ) -> Outcome:
        a_step = rows_a_step(plan, rows.count())
        if self.verbose and (dropped := getattr(rows, "dropped", 0)):
            say(f"{dropped:,} rows with missing values are left out")
        if self.verbose and (size := bytes_on_disk(plan, rows)):
            say(f"fitting takes {size / 1e9:.2g} GB in {plan.work_dir or tempfile.gettempdir()}")
        with progress_line(self.verbose, plan.settings, a_step) as show:

            def report(progress: Any) -> Any:
                show(progress)
                return None if self.callback is None else self.callback(progress)

            return fit_rows(rows, plan, rng, Job(report, before, checkpoint, snapshots))

    def _identity(self, before: Start | None) -> dict[str, Any]:
        """What a fit's result depends on beside its rows, as a checkpoint keeps it."""
        # Whether a fit can go on with another max_iter, its inference knows.
        where = ("storage", "work_dir", "prediction_memory")
        apart = ("callback", "verbose", "max_time", "max_iter", *where)
        plain = _arguments.plain(self.get_params(deep=False))
        start = None if before is None else digest(before.posterior.to_arrays())
        own = {"warm_start from": start, "mosaicgp": __version__}
        return {name: value for name, value in plain.items() if name not in apart} | own

    def _keep_outcome(self, outcome: Outcome, plan: Plan, nodes: FloatArray, X: Any) -> None:
        local, workspace = plan.switches.approximation.local, outcome.workspace
        if workspace is not None:
            workspace.release(keep=local)
            workspace = workspace if local else None
        self._keep(
            arguments=self.get_params(deep=False),
            switches=plan.switches,
            posterior=outcome.posterior,
            scaling=outcome.scaling,
            partition=outcome.partition,
            blocks=_kept_blocks(outcome.blocks, local),
            nodes=nodes,
            fit_result=outcome.fit_result,
            history=outcome.history,
            block_rows=plan.block_rows,
            workspace=workspace,
            encoding=X.encoding if is_dataset(X) else None,
            rows_seen=float(outcome.n_rows),
            rows_numbered=outcome.n_rows,
            trained_on=TrainedOn.of(X, outcome.n_rows),
        )
        if outcome.error is not None:
            raise CallbackError(
                f"fit: {outcome.fit_result.message}. The model is fitted with the state it had."
            ) from outcome.error
        self._warn_unless_trained(outcome.fit_result)

    def _warn_unless_trained(self, result: FitResult) -> None:
        untrained = result.status == "max_time" and result.iterations == 0
        if result.status in ("max_iter", "stalled", "failed") or untrained:
            warnings.warn(f"fit: {result.message}", ConvergenceWarning, stacklevel=4)

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

    def _keep(
        self,
        arguments: dict[str, Any],
        switches: Switches,
        posterior: Posterior,
        scaling: Scaling,
        partition: Partition | None,
        blocks: Blocks | DiskBlocks | None,
        nodes: FloatArray,
        fit_result: FitResult,
        history: Table,
        block_rows: int,
        workspace: Workspace | None = None,
        encoding: Encoding | None = None,
        rows_seen: float = 0.0,
        rows_numbered: int = 0,
        trained_on: TrainedOn | None = None,
    ) -> None:
        """All that a fit or a load leaves behind.

        The arguments of the fit are kept too: ``set_params`` says how to fit next, and leaves
        what is fitted alone.
        """
        self._arguments = arguments
        self._fitted = Fitted(switches, block_rows)
        self._workspace = workspace  # a temporary folder goes when nothing refers to it
        self.encoding_ = encoding
        self.n_rows_seen_ = rows_seen
        self._n_rows_numbered = rows_numbered
        self.trained_on_ = trained_on
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
        memory = validation.number("prediction_memory", self.prediction_memory, 0.0)
        self._prepared.predictor.bound_memory(memory)
        return self._prepared.predictor

    def _make_predictor(self) -> Predictor:
        local = None
        if self._fitted.switches.approximation.local:
            assert self.partition_ is not None and self.blocks_ is not None
            local = Local(self.partition_, self.blocks_, self.theta_nodes_)
        return predictor(self.posterior_, self._fitted.switches, self.partition_, local)

    def with_theta_nodes(self, nodes: ArrayLike) -> Self:
        """The same fit, whose "pic" predictions average over these draws of the hyperparameters.

        ``nodes`` (n, d + 1) are standard normal, one row a draw: θ = (ν, α) + (√ξ, √β) · node.
        Zeros stand for the mean of q(θ).
        """
        check_is_fitted(self)
        drawn = np.array(nodes, dtype=np.float64)
        if drawn.ndim != 2 or drawn.shape[1] != self.n_features_in_ + 1 or len(drawn) == 0:
            raise ValueError(
                f"nodes: must have shape (n, {self.n_features_in_ + 1}), a column for each input "
                f"and one for the signal, got {drawn.shape}."
            )
        model = type(self)()
        model.__dict__.update(self.__dict__, theta_nodes_=drawn, _prepared=_Prepared())
        return model

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
        if not (return_std or return_cov):
            rows = self._new_rows(X)
            means = [self._predictor.mean(X_std) for X_std in rows]
            return self.scaling_.mean_to_user(np.concatenate(means))
        mean, spread = self._predict(X, of_y=True, joint=return_cov)
        return (mean, spread) if return_cov else (mean, np.sqrt(spread))

    def predict_to(
        self,
        out: str | Path | BinaryIO,
        X: Any,
        *,
        level: float = 0.95,
        overwrite: bool = False,
        keep: Sequence[str] = (),
        format: str | None = None,
        return_std: bool = True,
    ) -> int:
        """Predict a table of any size into a file: mean, std, lower and upper of y at each row, or
        with ``return_std=False``, which is quicker, the mean alone.

        X is a dataset, or what ``open_dataset`` opens: a path, a folder, a glob, a table; its
        columns ``keep`` are written before the predictions. ``out`` ends in ".parquet", ".csv" or
        ".arrow", or is a folder of Parquet files; it appears when it is whole. Or it is an open
        binary file, to be written in the given ``format``. Returns the number of rows.
        """
        from mosaicgp.data.opening import open_dataset
        from mosaicgp.scoring import Moments, Options, predict_to

        check_is_fitted(self)
        dataset = self._as_dataset(X if is_dataset(X) else open_dataset(X))
        assert dataset is not None

        compute = self._predictor

        def predict(X_user: FloatArray, done: Callable[[int], None]) -> Moments:
            X_std = self.scaling_.transform_X(X_user)
            if not return_std:
                return self.scaling_.mean_to_user(compute.mean(X_std, done)), None
            mean, var = compute.moments(X_std, True, done)
            return self.scaling_.mean_to_user(mean), np.sqrt(self.scaling_.var_to_user(var))

        options = Options(level, overwrite, self.verbose, tuple(keep), format)
        return predict_to(predict, dataset, out, compute.rows_at_once, options)

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
        rows = self._new_rows(X, at_once=joint)
        compute = self._predictor.joint if joint else self._predictor.moments
        parts = [compute(X_std, of_y) for X_std in rows]
        mean, spread = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.scaling_.mean_to_user(mean), self.scaling_.var_to_user(spread)

    def _new_rows(self, X: Any, at_once: bool = False) -> Iterator[FloatArray]:
        """Standardised rows, as many at a time as there is memory for."""
        check_is_fitted(self)
        if (dataset := self._as_dataset(X)) is not None:
            size = dataset.count() if at_once else self._predictor.rows_at_once
            return (self.scaling_.transform_X(part) for part, _ in dataset.chunks(size))
        X_user = validation.new_rows(X, self)
        validate_data(self, X, reset=False, skip_check_array=True)
        size = len(X_user) if at_once else self._predictor.rows_at_once
        parts = (X_user[start : start + size] for start in range(0, len(X_user), size))
        return map(self.scaling_.transform_X, parts)

    def _as_dataset(self, X: Any) -> Dataset | None:
        """Rows encoded as those that the model was fitted on, if it was fitted on a dataset."""
        if not is_dataset(X):
            if self.encoding_ is None or not hasattr(X, "columns"):
                return None
            from mosaicgp.data.opening import open_dataset

            X = open_dataset(X)
        if self.encoding_ is None and list(X.feature_names) != self._feature_names():
            raise ValueError(
                f"X: the dataset has the features {list(X.feature_names)}, but the model was "
                f"fitted with {self._feature_names()}. Open it with columns=... in that order."
            )
        return X if self.encoding_ is None else X.with_encoding(self.encoding_)

    # -- looking at a fit ------------------------------------------------------------------------

    def elbo(self, X: Any, y: Any = None) -> float:
        """The bound L(q) of these rows at the fitted state, in the user's units.

        Every constant is there, so that on the training rows it bounds their log evidence. With
        correlated noise and many rows, where the closed form of Ψ would take minutes, Ψ is summed
        to a high order of its expansion instead. The rows of a dataset pass through files in a
        temporary folder (in ``work_dir``, if there is one) and need not fit in memory.
        """
        check_is_fitted(self)
        if not is_dataset(X):
            return self._bound_of(self._blocks_of(X, y))
        rows = self._standardised(X, y)
        workspace = Workspace(None, within=self.work_dir)  # gone when this returns
        if self.partition_ is None:
            return self._bound_of(chunked(rows, CHUNK_ROWS, workspace))
        return self._bound_of(arranged(rows, self.partition_, self._fitted.block_rows, workspace))

    def _bound_of(self, blocks: Blocks | StoredBlocks) -> float:
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

    def corrected_hyperparameters(self, X: Any, y: Any = None) -> Table:
        """``hyperparameters_`` with spreads that count what q(θ) leaves out, from training rows.

        A factorised posterior is too narrow; linear response puts back how the hyperparameters
        vary together with the function and with each other. It costs two gradients of the bound
        for each learned number, about as long as the fit.
        """
        blocks = self._blocks_of(X, y)
        if self.fit_result_.status != "converged":
            warnings.warn(
                "corrected_hyperparameters: spreads are those around an optimum; this fit ended "
                f"before one ({self.fit_result_.status}); do not rely on them.",
                ConvergenceWarning,
                stacklevel=2,
            )
        covariance = linear_response(
            self.posterior_.parameters(), blocks, self._fitted.switches, self.posterior_.jitter
        )
        return self._hyperparameter_table(np.diag(covariance))

    def _blocks_of(self, X: Any, y: Any) -> Blocks:
        """New rows with targets, standardised and grouped as the training rows were."""
        X_std, y_std = whole(self._standardised(X, y))
        if self.partition_ is None:
            return chunk(X_std, y_std, CHUNK_ROWS)
        return regroup(X_std, y_std, self.partition_, self._fitted.block_rows)

    def _standardised(self, X: Any, y: Any) -> StandardRows:
        """New rows with targets; those of a dataset stay where they are."""
        check_is_fitted(self)
        if self.encoding_ is not None and hasattr(X, "columns"):
            if y is None:
                raise ValueError("y: pass the targets, or a dataset that has its target in it.")
            from mosaicgp.data.opening import open_dataset

            X, y = open_dataset(X, target=np.asarray(y)), None
        if is_dataset(X):
            return StandardRows(self._training_rows(self._as_dataset(X), y), self.scaling_)
        rows = self._training_rows(X, y)
        validate_data(self, X, reset=False, skip_check_array=True)
        return StandardRows(rows, self.scaling_)

    def block_of(self, X: Any) -> NDArray[np.int64]:
        """The block (n,) of each row of X; zeros where the approximation has no blocks."""
        (X_std,) = self._new_rows(X, at_once=True)
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

    def report(self, path: str | Path, X: Any = None, y: Any = None, **options: Any) -> None:
        """Write an HTML report of the fitted model; see ``mosaicgp.report.write_report``.

        X and y are rows to check it by, best ones that it was not trained on.
        """
        from mosaicgp.report import write_report

        write_report(self, path, X, y, **options)

    # -- how it shows itself: scikit-learn's way until it is fitted ------------------------------

    def __rich__(self) -> Any:
        from rich.text import Text

        from mosaicgp.summary import as_rich

        return as_rich(self) if self.__sklearn_is_fitted__() else Text(repr(self))

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()
        if not self.__sklearn_is_fitted__():
            return diagram
        from mosaicgp.summary import as_html

        return as_html(self) + diagram

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions and cached factors are made again on the other side, where the files
        # of this side's blocks may not be.
        state = super().__getstate__()
        if "_prepared" in state:
            state = state | {"_prepared": _Prepared(), "_workspace": None}
        if isinstance(blocks := state.get("blocks_"), DiskBlocks):
            state = state | {"blocks_": blocks.in_memory()}
        return state


def _kept_blocks(blocks: Blocks | StoredBlocks | None, local: bool) -> Blocks | DiskBlocks | None:
    """What of the rows by block stays with a model; ``local`` predictions need them."""
    if isinstance(blocks, Blocks | DiskBlocks | None):
        return blocks if local or not isinstance(blocks, DiskBlocks) else None
    return blocks.in_memory() if local else None  # a copy: the user may change the table


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
