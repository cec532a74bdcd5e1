"""The prelude of a fit with noise in blocks: f learns beside independent noise first.

A noise kernel that learns from the first step on explains what f has no part in yet, and f dies
(docs/mathematics.md, "Stochastic bound").
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from mosaicgp.data.rows import ArrayRows, StandardRows
from mosaicgp.data.sampling import RowSampler
from mosaicgp.inference import records
from mosaicgp.inference.exact import FitError
from mosaicgp.inference.initial import sample_rows
from mosaicgp.inference.parameters import release
from mosaicgp.inference.schedule import RHO
from mosaicgp.inference.training import fit_stochastic
from mosaicgp.model.family import APPROXIMATIONS
from mosaicgp.model.posterior import to_natural
from mosaicgp.origin import Origin
from mosaicgp.plan import ROWS_A_STEP, Plan
from mosaicgp.precision import compiled, in_double

# Rows and iterations, at most.
PRELUDE_ROWS = 2**16
PRELUDE_ITERATIONS = 600

# Its share of the time of a fit, and the seconds that a fit must have for it: compiling takes some.
PRELUDE_TIME = 0.1
LEAST_TIME = 30.0


@in_double
def after_prelude(
    rows: StandardRows,
    plan: Plan,
    settings: records.Settings,
    rng: np.random.Generator,
    origin: Origin,
    began: float,
) -> Origin:
    """``origin`` with f as it is after learning beside independent noise, from some of the rows.

    As it was, where there is no time for it or nothing comes of it.
    """
    limit = settings.max_time
    if limit is not None and limit - (perf_counter() - began) < LEAST_TIME:
        return origin
    switches = replace(plan.switches, approximation=APPROXIMATIONS["dtc"])
    shorter = replace(
        settings,
        schedule=replace(settings.schedule, rho=RHO),
        max_iter=min(PRELUDE_ITERATIONS, settings.max_iter),
        max_time=None if limit is None else PRELUDE_TIME * limit,
        adapt_at=(),
        dtype="float64",  # without blocks single precision fails sooner, and gains little
    )
    sampler = RowSampler(_some(rows, rng), ROWS_A_STEP, np.empty(0, dtype=np.int64), rng)
    data = records.TrainingData(sampler, None)
    try:
        fit = fit_stochastic(origin.free, origin.fixed, data, switches, shorter, rng)
    except FitError:  # the fit itself may do better, or says so
        return origin
    if fit.status == "interrupted":  # nothing is learned yet that could be kept
        raise KeyboardInterrupt
    # q(v) of another jitter is of another prior.
    if fit.status == "failed" or fit.jitter != settings.jitter:
        return origin
    free, _ = compiled(release, static_argnums=1)(fit.parameters, switches)
    of_f = {name: np.asarray(getattr(free, name)) for name in switches.learned()}
    del of_f["log_noise"]
    return Origin(origin.free._replace(**of_f), origin.fixed, compiled(to_natural)(fit.q))


def _some(rows: StandardRows, rng: np.random.Generator) -> StandardRows:
    """At most ``PRELUDE_ROWS`` of the rows, in memory."""
    n = rows.count()
    if n <= PRELUDE_ROWS and isinstance(rows.rows, ArrayRows):
        return rows
    chosen = sample_rows(n, rng, PRELUDE_ROWS)
    return StandardRows(ArrayRows(*rows.rows.gather(chosen)), rows.scaling)
