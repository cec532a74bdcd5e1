"""How a fit that used its budget is judged, on histories made up for it."""

import numpy as np
import pytest

from mosaicgp.inference.records import Position, Progress, Settings
from mosaicgp.inference.schedule import ANNEAL_END, Anneal
from mosaicgp.inference.verdict import FEWEST, verdict

CHECK = 25


def searched(bounds, scores=None):
    """A history of a search; ``scores`` are those of every 25th iteration."""
    return [
        Progress(
            k,
            bound,
            scores[k // CHECK - 1] if scores is not None and k % CHECK == 0 else np.nan,
            0.1,
            0.02,
            True,
            0,
            "search",
            0.0,
        )
        for k, bound in enumerate(bounds, start=1)
    ]


def judged(history, adapted=0):
    at = Position(1000, 1e-6, [], iteration=1000, adapted=adapted)
    return verdict(history, at, Settings(schedule=Anneal(), max_iter=1000, tol=0.002))


def noise(n):
    return np.random.default_rng(0).normal(size=n)


@pytest.mark.parametrize(
    ("slope", "status", "why"),
    [(0.0, "converged", "gained little"), (0.05, "max_iter", "still improving")],
)
def test_bounds_that_rise_beyond_their_noise_are_not_the_end(slope, status, why):
    n = 2 * FEWEST
    found = judged(searched(slope * np.arange(n) + noise(n)))
    assert found[0] == status and why in found[1]


@pytest.mark.parametrize(("jump", "slope"), [(50.0, 0.0), (-50.0, 0.1)])
def test_bounds_of_other_blocks_are_not_compared(jump, slope):
    n, adapted = 3 * FEWEST, 2 * FEWEST
    bounds = slope * np.arange(n) + jump * (np.arange(n) >= adapted) + noise(n)
    assert judged(searched(bounds), adapted)[0] == ("max_iter" if slope else "converged")
    short = judged(searched(bounds[:-1]), adapted)
    assert short[0] == "max_iter" and "too few to tell" in short[1]


@pytest.mark.parametrize(
    ("gain", "status", "why"),
    [(0.0, "converged", "gained little"), (0.02, "max_iter", "still improving")],
)
def test_scores_of_held_rows_decide_where_there_are_any(gain, status, why):
    looks = FEWEST // CHECK
    rising = np.arange(float(FEWEST))  # the bound would say otherwise
    scores = 5.0 - gain * (np.arange(looks) >= looks // 2)
    found = judged(searched(rising, scores))
    assert found[0] == status and why in found[1]


def test_a_short_search_is_not_judged_by_its_scores():
    found = judged(searched(np.zeros(FEWEST - 1), np.full(FEWEST // CHECK, 5.0)))
    assert found[0] == "max_iter" and "too few to tell" in found[1]


@pytest.mark.parametrize(
    ("began", "status"), [(400, "max_time"), (round(1000 * ANNEAL_END), "max_iter")]
)
def test_what_ended_the_search_ended_the_fit(began, status):
    """A fit settles and ends before its time does; the budget that made it settle is named."""
    n = 2 * FEWEST
    at = Position(1000, 1e-6, [], iteration=began + 50, phase="settle", phase_began=began)
    settings = Settings(schedule=Anneal(), max_iter=1000, max_time=60.0, tol=0.002)
    found = verdict(searched(np.arange(n) + noise(n)), at, settings)
    assert found[0] == status and "still improving" in found[1]
