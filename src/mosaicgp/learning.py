"""A fit as the estimator asks for it: from its arguments and the user's table to what it keeps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from mosaicgp import arguments
from mosaicgp.checkpoints import Checkpoint
from mosaicgp.data.rows import Rows, is_dataset
from mosaicgp.fitting import fit_rows
from mosaicgp.intake import training_rows
from mosaicgp.job import Job, Outcome, Snapshots, Start
from mosaicgp.kept import Kept, kept_of
from mosaicgp.model.posterior import theta_nodes
from mosaicgp.plan import Plan, bytes_on_disk, rows_a_step
from mosaicgp.progress import progress_line, say

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor


class Learned(NamedTuple):
    """What a fit leaves, and what a callback raised."""

    kept: Kept
    error: Exception | None


def learn(
    model: SparseGPRegressor,
    X: Any,
    y: Any,
    checkpoint: str | Path | None,
    resume: bool,
    snapshot_at: Sequence[int],
    on_snapshot: Callable[[SparseGPRegressor], Any] | None,
) -> Learned:
    """Fit with the arguments of ``model``, which stays as it is."""
    arguments.check(model)
    rows = training_rows(model, X, y)
    n, d = rows.count(), rows.n_features
    plan = arguments.plan(model, n)
    if not is_dataset(X):
        # On another instance: what is fitted stays whole until a new fit ends.
        validate_data(type(model)(), X, skip_check_array=True)
    given = model.get_params(deep=False)
    seen_by = on_snapshot if snapshot_at else None
    arguments.check_fit(plan, checkpoint, resume, seen_by is not None)
    before = _fit_before(model, d)
    seed = int(check_random_state(model.random_state).randint(2**31))
    stored = None
    if checkpoint is not None:
        own = arguments.identity(given, before, plan)
        stored = Checkpoint(checkpoint, {"arguments": own, "data": rows.fingerprint()}, resume)
        seed = stored.seed(seed)
    rng = np.random.default_rng(seed)
    nodes = theta_nodes(arguments.n_theta(model, n), d, int(rng.integers(2**31)))

    def learned(outcome: Outcome) -> Learned:
        return Learned(kept_of(outcome, plan, given, nodes, X), outcome.error)

    snapshots = None
    if seen_by is not None:

        def take(outcome: Outcome) -> None:
            snapshot = type(model)(**given)
            snapshot._take(learned(outcome), X)
            seen_by(snapshot)

        snapshots = Snapshots(frozenset(snapshot_at), take)
    try:
        with _watched(rows, plan, model.verbose, model.callback) as report:
            outcome = fit_rows(rows, plan, rng, Job(report, before, stored, snapshots))
    finally:
        if stored is not None:
            stored.close()
    return learned(outcome)


@contextmanager
def _watched(
    rows: Rows, plan: Plan, verbose: int, callback: Callable[[Any], Any] | None
) -> Iterator[Callable[[Any], Any]]:
    """A function to call with the progress of every iteration, for the user's eyes and callback."""
    if verbose and (dropped := getattr(rows, "dropped", 0)):
        say(f"{dropped:,} rows with missing values are left out")
    if verbose and (size := bytes_on_disk(plan, rows)):
        say(f"fitting takes {size / 1e9:.2g} GB in {plan.work_dir or tempfile.gettempdir()}")
    with progress_line(verbose, plan.settings, rows_a_step(plan, rows.count())) as show:

        def report(progress: Any) -> Any:
            show(progress)
            return None if callback is None else callback(progress)

        yield report


def _fit_before(model: SparseGPRegressor, d: int) -> Start | None:
    """The present fit, if it is to be gone on from."""
    if not model.warm_start or not model.__sklearn_is_fitted__():
        return None
    if model.n_features_in_ != d:
        raise ValueError(
            f"warm_start=True: X has {d} columns, but the model was fitted with "
            f"{model.n_features_in_}. Pass the same columns, or set warm_start=False."
        )
    return Start(model.posterior_, model.scaling_)
