"""The scikit-learn face: what is fitted, and methods that delegate; no mathematics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mosaicgp import arguments as _arguments
from mosaicgp import inspection, validation
from mosaicgp.data.rows import is_dataset
from mosaicgp.inference.result import BY_CALLBACK
from mosaicgp.intake import as_dataset, new_rows
from mosaicgp.kept import Fitted, Kept, portable
from mosaicgp.kept import Prepared as _Prepared
from mosaicgp.learning import Learned, learn
from mosaicgp.prediction import MEMORY, Predictor, draws, predictor
from mosaicgp.streaming import taken_further
from mosaicgp.tables import Table, hyperparameter_table

FloatArray = NDArray[np.float64]


class CallbackError(RuntimeError):
    """A callback raised; the fit stopped there, and the model is fitted with what it had."""


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
        SciPy's optimiser for exact inference. A coarse climb before it, which finds a start, uses
        "bfgs" in place of "l-bfgs-b".
    max_iter : int or "auto", default="auto"
        Most iterations of a fit. "auto" is 300 for exact inference, 2,000 for stochastic
        (500 up to 20,000 rows, 8,000 beyond a million, fewer with blocks of more than 512 rows).
        Stochastic fits of `pitc` and `pic` beyond 20,000 rows make up to 600 cheap ones before, in
        which f learns beside independent noise; these are not counted or reported. Of exact fits
        up to 40 go to a second start, with shorter length-scales.
    tol : float or "auto", default="auto"
        Exact: a fit has converged when four iterations in a row raise the bound by less than this,
        in nats of the whole table (0.02); a nat is what a standard deviation of a hyperparameter
        is worth. Stochastic: the search ends when six looks in a row do not lower the validation
        NLPD by this, in nats a row (0.002), after 1,000 iterations at the least, and as many rows
        were seen as there are.
    max_time : float or None, default=None
        Seconds after which training stops with the best state found.
    n_restarts : int, default=0
        Exact inference: further starts from random values; the best wins.
    learning_rate : float or "auto", default="auto"
        Stochastic inference: largest change of a parameter in a step, about; that of an inverse
        length-scale or of the signal in shares of its size. "auto" is 0.04.
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
    learn_inducing : bool or "auto", default="auto"
        Also move the inducing inputs to raise the bound. "auto" does so in stochastic inference of
        more than 20,000 rows, where it costs next to nothing, if ``max_iter`` is at least 1,000 (it
        is less for large blocks) and ``rotate_inducing`` is not False.
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
        Bound, validation NLPD, step sizes and seconds by iteration. Of exact inference also which
        iterations were ``coarse``: their bound is an approximation.
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
        learn_inducing: bool | str = "auto",
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
        self._take(learn(self, X, y, checkpoint, resume, snapshot_at, on_snapshot), X)
        return self

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
        self._keep(taken_further(self, X, y, forget))
        return self

    def _take(self, learned: Learned, X: Any) -> None:
        """What was learned from X; raises what a callback raised, and warns of a poor end."""
        if is_dataset(X):
            self.n_features_in_ = X.n_features
            self.feature_names_in_ = np.array(X.feature_names, dtype=object)
        else:
            validate_data(self, X, skip_check_array=True)
        self._keep(learned.kept)
        result = learned.kept.fit_result
        if learned.error is not None:
            raise CallbackError(
                f"fit: {result.message}. The model is fitted with the state it had."
            ) from learned.error
        untrained = result.status == "max_time" and result.iterations == 0
        cut = result.status == "interrupted" and not result.message.startswith(BY_CALLBACK)
        if result.status in ("max_iter", "stalled", "failed") or cut or untrained:
            warnings.warn(f"fit: {result.message}", ConvergenceWarning, stacklevel=3)

    def _keep(self, kept: Kept) -> None:
        """All that a fit, an update or a load leaves behind."""
        self._arguments = kept.arguments
        self._fitted = Fitted(kept.switches, kept.block_rows)
        self._workspace = kept.workspace  # a temporary folder goes when nothing refers to it
        self.encoding_ = kept.encoding
        self.n_rows_seen_ = kept.rows_seen
        self._n_rows_numbered = kept.rows_numbered
        self.trained_on_ = kept.trained_on
        self.posterior_ = kept.posterior
        self.scaling_ = kept.scaling
        self.partition_ = kept.partition
        self.blocks_ = kept.blocks
        self.theta_nodes_ = kept.nodes
        self.fit_result_ = kept.fit_result
        self.history_ = kept.history
        self.n_iter_ = kept.fit_result.iterations
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
            rows_by_block = (self.partition_, self.blocks_, self.theta_nodes_)
            found = predictor(self.posterior_, self._fitted.switches, *rows_by_block)
            self._prepared.predictor = found
        memory = validation.number("prediction_memory", self.prediction_memory, 0.0)
        self._prepared.predictor.bound_memory(memory)
        return self._prepared.predictor

    def with_theta_nodes(self, nodes: ArrayLike) -> Self:
        """The same fit, whose "pic" predictions average over these draws of the hyperparameters.

        ``nodes`` (n, d + 1) are standard normal, one row a draw: θ = (ν, α) + (√ξ, √β) · node.
        Zeros stand for the mean of q(θ).
        """
        check_is_fitted(self)
        drawn = _arguments.nodes(nodes, self.n_features_in_)
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
            means = [self._predictor.mean(X_std) for X_std in new_rows(self, X)]
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
        dataset = as_dataset(self, X if is_dataset(X) else open_dataset(X))
        assert dataset is not None
        compute, scaling = self._predictor, self.scaling_

        def predict(X_user: FloatArray, done: Callable[[int], None]) -> Moments:
            X_std = scaling.transform_X(X_user)
            if not return_std:
                return scaling.mean_to_user(compute.mean(X_std, done)), None
            mean, var = compute.moments(X_std, True, done)
            return scaling.mean_to_user(mean), np.sqrt(scaling.var_to_user(var))

        options = Options(level, overwrite, self.verbose, tuple(keep), format)
        return predict_to(predict, dataset, out, compute.rows_at_once, options)

    def predict_f(self, X: Any, return_cov: bool = False) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and variance (n,), or covariance (n, n), of the latent f, without noise."""
        return self._predict(X, of_y=False, joint=return_cov)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Draws of y at the rows of X, jointly Gaussian with the predicted moments: (n, k)."""
        validation.whole("n_samples", n_samples, 1)
        mean, covariance = self._predict(X, of_y=True, joint=True)
        return draws(mean, covariance, n_samples, check_random_state(random_state))

    def _predict(self, X: Any, of_y: bool, joint: bool) -> tuple[FloatArray, FloatArray]:
        rows = new_rows(self, X, at_once=joint)
        compute = self._predictor.joint if joint else self._predictor.moments
        parts = [compute(X_std, of_y) for X_std in rows]
        mean, spread = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.scaling_.mean_to_user(mean), self.scaling_.var_to_user(spread)

    # -- looking at a fit ------------------------------------------------------------------------

    def elbo(self, X: Any, y: Any = None) -> float:
        """The bound L(q) of these rows at the fitted state, in the user's units.

        Every constant is there, so that on the training rows it bounds their log evidence. With
        correlated noise and many rows, where the closed form of Ψ would take minutes, Ψ is summed
        to a high order of its expansion instead. The rows of a dataset pass through files in a
        temporary folder (in ``work_dir``, if there is one) and need not fit in memory.
        """
        check_is_fitted(self)
        return inspection.bound_of(self, X, y)

    def mean_log_variance(self) -> float:
        """Mean over inputs of log ξ, the log variance of each inverse length-scale under q(θ).

        In standardised units; how sure the fit is of its length-scales, on one scale for fits with
        different inputs. Minus infinity for point estimates.
        """
        check_is_fitted(self)
        return inspection.mean_log_variance(self.posterior_)

    def corrected_hyperparameters(self, X: Any, y: Any = None) -> Table:
        """``hyperparameters_`` with spreads that count what q(θ) leaves out, from training rows.

        A factorised posterior is too narrow; linear response puts back how the hyperparameters
        vary together with the function and with each other. It costs two gradients of the bound
        for each learned number, about as long as the fit.
        """
        return self._hyperparameter_table(inspection.response_variances(self, X, y))

    def block_of(self, X: Any) -> NDArray[np.int64]:
        """The block (n,) of each row of X; zeros where the approximation has no blocks."""
        (X_std,) = new_rows(self, X, at_once=True)
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
        return portable(super().__getstate__())
