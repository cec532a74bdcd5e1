"""Exact inference: all rows every iteration, on the bound collapsed at q*(s).

SciPy's optimisers climb the bound in the unconstrained parameters. Where the closed form of Ψ would
be slow, the climb uses the Mehler expansion to first order. A coarse climb before it, with a narrow
q(θ) that stays as it is, needs order zero only, which takes a fraction of the time, and leaves
little to do. At the end the bound is evaluated by a finer route where that can matter, and if it
differs the climb goes on with the finer one.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mosaicgp.data.blocks import Blocks
from mosaicgp.inference.anchor import Anchor, distance
from mosaicgp.inference.climb import (
    INTERRUPTED,
    Climb,
    Journal,
    Progress,
    Settings,
    Watch,
)
from mosaicgp.inference.evaluate import closed_form_cost
from mosaicgp.inference.parameters import SPREADS, Fixed, Free, Switches, constrain, price
from mosaicgp.inference.result import Status, Stop
from mosaicgp.model.bound import (
    Block,
    Parameters,
    Statistics,
    collapsed_bound,
    optimal_inducing,
    total_statistics,
)
from mosaicgp.model.expectations import ClosedForm, Mehler, Route
from mosaicgp.model.posterior import InducingPosterior, kl_theta
from mosaicgp.precision import compiled, in_double

JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

# Exponentials in the closed form of Ψ (about 70 ns each with their gradient): below the first it
# is used from the start, above the second never, with dense noise.
CLOSED_FORM_ALWAYS = 1e5
CLOSED_FORM_DENSE = 2e7

# A coarser route is good enough to climb by when a finer one changes the bound by less than this
# (nats): about what one standard deviation of a hyperparameter is worth.
ROUTE_TOLERANCE = 1.0

# Σ_k ξ_k mean(x_k²) up to which a finer route is not asked: its terms are of the square of this.
NARROW = 0.01

# A coarse climb ends when it gains less than so many times the tolerance, or has used this share of
# the iterations.
COARSE_TOL, COARSE_SHARE = 10.0, 2 / 3

# In at most so many parameters it keeps all of their curvature: fewer evaluations, and on some
# tables a better optimum, than with that of the last steps alone.
DENSE_CURVATURE = 1000

# A climb that starts from long length-scales may end where a function is smooth and the rest is
# noise; a second one, from ν so many times as large, is tried (docs/mathematics.md, "Two climbs").
FINER = 4.0

# Standard deviations of q(θ) in a coarse climb by the means it starts from; those near zero count
# as the second share of where ν starts.
COARSE_SPREAD, LEAST_MEAN = 0.01, 0.1


class ExactFit(NamedTuple):
    """The best state found, how it was found, and the trace of iterations.

    ``bound`` is that of the finest route to Ψ that the cost allows, or of a coarser one where q(θ)
    is too narrow for the difference to matter; ``price`` what the fit paid for k^ε beside it.
    """

    parameters: Parameters
    q: InducingPosterior
    bound: float
    price: float
    status: Status
    message: str
    seconds: float
    rejected: int
    jitter: float
    history: list[Progress]
    error: Exception | None = None


class FitError(RuntimeError):
    """No state with a finite bound was found; the message names the likely cause."""


def routes(blocks: Block, m: int, switches: Switches) -> list[Route]:
    """Routes to Ψ from coarse to fine; the next is taken only where it changes the bound."""
    if not switches.bayesian:
        return [Mehler(0)]
    n_blocks, block_size, d = blocks.X.shape
    dense = switches.approximation.blocked
    cost = closed_form_cost(n_blocks, block_size, m, dense)
    if cost <= CLOSED_FORM_ALWAYS:
        return [ClosedForm()]
    if not dense or cost <= CLOSED_FORM_DENSE:
        return [Mehler(1), ClosedForm()]
    return [Mehler(1), Mehler(2)] if d <= 16 else [Mehler(1)]


class Made(NamedTuple):
    """What a bound was made of."""

    parameters: Parameters
    statistics: Statistics


def _evaluate(
    free: Free,
    fixed: Fixed,
    blocks: Block,
    jitter: Array,
    switches: Switches,
    route: Route,
    anchor: Anchor | None,
    beyond: Array | bool,
) -> tuple[Array, Made]:
    """The collapsed bound less the price of k^ε, and what it was made of."""
    parameters = constrain(free, fixed, switches)
    noise = switches.approximation.noise
    statistics = total_statistics(parameters, blocks, noise, route, jitter, beyond)
    if anchor is not None:
        bound = collapsed_bound(statistics, anchor.eta)
        bound = bound - distance(anchor, free, parameters, switches)
        bound = bound - anchor.forget * price(free, switches)
    else:
        bound = collapsed_bound(statistics)
        if switches.bayesian:
            bound = bound - kl_theta(parameters.theta, switches.prior)
        bound = bound - price(free, switches)
    return bound, Made(parameters, statistics)


@partial(compiled, static_argnames=("switches", "route"))
def value_and_gradient(
    learned: dict[str, Array],
    free: Free,
    fixed: Fixed,
    blocks: Block,
    jitter: Array,
    switches: Switches,
    route: Route,
    anchor: Anchor | None = None,
    beyond: Array | bool = True,
) -> tuple[tuple[Array, Made], dict[str, Array]]:
    """The bound, what it was made of, and its gradient."""

    def bound(learned: dict[str, Array]) -> tuple[Array, Made]:
        moved = free._replace(**learned)
        return _evaluate(moved, fixed, blocks, jitter, switches, route, anchor, beyond)

    return jax.value_and_grad(bound, has_aux=True)(learned)


_value = partial(compiled, static_argnames=("switches", "route"))(_evaluate)
_inducing = compiled(optimal_inducing)


def climbing_route(
    free: Free, fixed: Fixed, blocks: Block, jitter: float, switches: Switches
) -> Route:
    """The coarsest route of the plan that agrees with the finest at this point."""
    plan = routes(blocks, free.inducing.shape[0], switches)
    bounds = [
        float(_value(free, fixed, blocks, jitter, switches, route, None, True)[0]) for route in plan
    ]
    return next(
        route
        for route, bound in zip(plan, bounds, strict=True)
        if route is plan[-1] or abs(bound - bounds[-1]) <= ROUTE_TOLERANCE
    )


class _Problem(NamedTuple):
    """What is climbed."""

    fixed: Fixed
    blocks: Block
    switches: Switches
    anchor: Anchor | None

    def look(self, free: Free, jitter: float, route: Route, beyond: bool = True) -> tuple:
        """((bound, made of), gradient) at a point."""
        learned = {name: getattr(free, name) for name in self.switches.learned()}
        return value_and_gradient(
            learned,
            free,
            self.fixed,
            self.blocks,
            jitter,
            self.switches,
            route,
            self.anchor,
            beyond,
        )

    def climb(
        self,
        start: Free,
        jitter: float,
        route: Route,
        watch: Watch,
        method: str,
        coarse: bool = False,
        scout: Free | None = None,
    ) -> Climb:
        """A climb by this route; a coarse one leaves out what is beyond order zero, and the widths
        of q(θ) as they are."""

        def evaluate(free: Free) -> tuple[Any, dict[str, Any]]:
            (bound, _), gradient = self.look(free, jitter, route, not coarse)
            if coarse:
                gradient |= {name: np.zeros_like(gradient[name]) for name in SPREADS}
            return bound, gradient

        names = self.switches.learned()
        key = (jitter, getattr(route, "order", -1), float(coarse))
        rows = float(np.sum(self.blocks.mask))
        return Climb(start, names, evaluate, key, rows, watch, method, coarse, self.price, scout)

    def price(self, free: Free) -> float:
        """What was taken from the bound for k^ε; an anchor has paid what it does not forget."""
        share = 1.0 if self.anchor is None else float(self.anchor.forget)
        return share * float(price(free, self.switches))


def _with_narrow_spread(free: Free) -> Free:
    """The same means, with a narrow q(θ) around them."""
    nu = np.maximum(np.abs(free.nu), LEAST_MEAN / np.sqrt(np.size(free.nu)))
    alpha = np.maximum(np.abs(free.alpha), LEAST_MEAN)
    log_xi, log_beta = (2.0 * np.log(COARSE_SPREAD * mean) for mean in (nu, alpha))
    return free._replace(log_xi=log_xi, log_beta=log_beta)


def _coarse_climb(
    start: Free, problem: _Problem, jitter: float, route: Route, watch: Watch
) -> Climb:
    """The climb that finds a start for the other."""
    settings = watch.settings
    learned = (getattr(start, name) for name in problem.switches.learned())
    dense = settings.optimizer == "l-bfgs-b" and sum(map(np.size, learned)) <= DENSE_CURVATURE
    rough = replace(
        settings,
        tol=COARSE_TOL * settings.tol,
        max_iter=int(np.ceil(COARSE_SHARE * settings.max_iter)),
    )
    narrow = _with_narrow_spread(start)
    # Both of one width: what that costs is no reason to prefer either.
    finer = narrow._replace(nu=FINER * narrow.nu) if problem.switches.rotate else None
    return problem.climb(
        narrow,
        jitter,
        route,
        watch._replace(settings=rough),
        "bfgs" if dense else settings.optimizer,
        coarse=True,
        scout=finer,
    )


def _finer(free: Free, switches: Switches) -> Free | None:
    """The same with shorter length-scales of f; None where Z would stay behind."""
    if not switches.rotate:
        return None
    log_xi = free.log_xi + 2.0 * np.log(FINER)
    return free._replace(nu=FINER * free.nu, log_xi=log_xi)


def _placed(climb: Climb) -> tuple[Status, str] | None:
    """Place the widths of q(θ) after a coarse climb; how the fit ended, if it ended there."""
    try:
        climb.place_spreads()
    except Stop as end:
        return end.status, end.message
    except KeyboardInterrupt:
        return "interrupted", INTERRUPTED
    return None


def _fit_from(start: Free, problem: _Problem, watch: Watch) -> ExactFit:
    """All stages from one start, raising the jitter when a matrix cannot be factored."""
    settings, switches = watch.settings, problem.switches
    plan = routes(problem.blocks, start.inducing.shape[0], switches)
    free, rejected = start, 0
    error: Exception | None = None
    jitters = [settings.jitter, *(jitter for jitter in JITTERS if jitter > settings.jitter)]
    to_search = settings.search and switches.bayesian and plan[0] == Mehler(1)
    while True:
        ended: tuple[Status, str] | None = None
        searched = to_search
        if to_search:
            coarse = _coarse_climb(start, problem, jitters[0], plan[0], watch)
            status, message = coarse.run()
            rejected += coarse.rejected
            if status in ("max_time", "interrupted", "failed"):
                ended = status, message
            if status != "failed":
                to_search = False
                free, error = _with_narrow_spread(coarse.best), coarse.error
        if not to_search:
            scout = _finer(start, switches) if settings.search and free is start else None
            climb = problem.climb(free, jitters[0], plan[0], watch, settings.optimizer, scout=scout)
            if searched:
                ended = _placed(climb) or ended
            status, message = ended or climb.run()
            free, rejected = climb.best, rejected + climb.rejected
            error = error or climb.error
        if status != "failed":
            (found, made), _ = problem.look(free, jitters[0], plan[0])
            fine = found
            if len(plan) > 1 and _spread(made.parameters, problem.blocks) > NARROW:
                arguments = (problem.fixed, problem.blocks, jitters[0], switches, plan[-1])
                fine, made = _value(free, *arguments, problem.anchor, True)
            gap = abs(float(fine) - float(found))
            if np.isfinite(gap) and not (status == "converged" and gap > ROUTE_TOLERANCE):
                break
            if np.isfinite(gap) and len(plan) > 1:
                plan = plan[1:]
                continue
        jitters.pop(0)
        if not jitters:
            raise FitError(
                "The bound is not finite however much is added to the diagonal of the "
                "covariances. Likely causes: a target with one huge value, or inputs with a few "
                "extreme rows; look for outliers in X and y, or lower n_inducing."
            )
    before = None if problem.anchor is None else problem.anchor.eta
    return ExactFit(
        made.parameters,
        _inducing(made.statistics, before),
        float(fine) + problem.price(free),
        problem.price(free),
        status,
        message,
        perf_counter() - watch.began,
        rejected,
        jitters[0],
        watch.history,
        error,
    )


def _spread(parameters: Parameters, blocks: Block) -> float:
    """Σ_k ξ_k mean(x_k²): how far the expansion of Ψ is from its first term."""
    mean = np.average(np.asarray(blocks.X) ** 2, axis=(0, 1), weights=np.asarray(blocks.mask))
    return float(np.sum(np.asarray(parameters.theta.xi) * mean))


@in_double
def fit_exact(
    start: Free,
    fixed: Fixed,
    data: Blocks,
    switches: Switches,
    settings: Settings,
    random_start: Callable[[], Free],
    report: Callable[[Progress], Any] = lambda progress: None,
    journal: Journal | None = None,
    anchor: Anchor | None = None,
) -> ExactFit:
    """Maximise the collapsed bound from ``start`` and from ``n_restarts`` random starts.

    With an ``anchor``, that of new rows given what is known before them.
    """
    journal = journal or Journal()
    began = journal.began
    blocks = Block(*map(jnp.asarray, (data.X, data.y, data.mask)))
    problem = _Problem(jax.tree.map(jnp.asarray, fixed), blocks, switches, anchor)
    best: ExactFit | None = None
    rejected = 0
    for attempt in range(1 + settings.n_restarts):
        point = start if attempt == 0 else random_start()
        try:
            # Where a model was is known to be good, a random start is a guess.
            own = settings if attempt == 0 else replace(settings, search=anchor is None)
            outcome = _fit_from(point, problem, Watch(own, began, [], report, journal))
        except FitError:
            if best is None:
                raise
            rejected += 1
            continue
        rejected += outcome.rejected
        if best is None or outcome.bound - outcome.price > best.bound - best.price:
            best = outcome
        if outcome.status in ("interrupted", "max_time"):
            best = best._replace(
                status=outcome.status, message=outcome.message, error=outcome.error
            )
            break
    assert best is not None
    return best._replace(seconds=perf_counter() - began, rejected=rejected)
