"""The named constructors are rows of the family; the package and its page."""

import operator
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

from mosaicgp import SparseGPRegressor, rivals
from mosaicgp.model.bound import total_statistics
from mosaicgp.model.expectations import Mehler
from mosaicgp.model.family import APPROXIMATIONS
from problems import JITTER, random_problem

ROWS = {
    "SVIGP": ("dtc", "stochastic"),
    "PICPlus": ("pic", "stochastic"),
    "DistVGP": ("dtc", "exact"),
    "DTC": ("dtc", "exact"),
    "FITC": ("fitc", "exact"),
    "FIC": ("fic", "exact"),
    "PITC": ("pitc", "exact"),
    "PIC": ("pic", "exact"),
}

PARTS = slice(0, 1), slice(1, None)


@pytest.mark.parametrize("name", ROWS)
def test_a_name_is_its_row(name):
    approximation, inference = ROWS[name]
    made = getattr(rivals, name)(n_inducing=7, random_state=3)
    assert type(made) is SparseGPRegressor
    row = SparseGPRegressor(
        approximation,
        hyperparameters="point",
        inference=inference,
        n_inducing=7,
        random_state=3,
    )
    assert made.get_params() == row.get_params()
    construct = getattr(rivals, name)
    assert pickle.loads(pickle.dumps(construct)) is construct
    assert construct.__name__ == name and f'inference="{inference}"' in construct.__doc__
    with pytest.raises(TypeError, match="approximation"):
        construct(approximation="dtc")


def test_sums_of_workers_are_the_sums_of_one():
    """What DistVGP says of itself: statistics of parts add up to those of the whole."""
    problem = random_problem("dtc", 0)
    arguments = (APPROXIMATIONS["dtc"].noise, Mehler(0), JITTER)
    whole = total_statistics(problem.parameters, problem.stacked, *arguments)
    halves = (jax.tree.map(operator.itemgetter(p), problem.stacked) for p in PARTS)
    workers = [total_statistics(problem.parameters, half, *arguments) for half in halves]
    for total, *parts in zip(whole, *workers, strict=True):
        np.testing.assert_allclose(total, sum(parts), rtol=1e-12)


def test_names_are_found_when_asked_for():
    assert set(dir(rivals)) == set(rivals.__all__)
    assert all(callable(getattr(rivals, name)) for name in rivals.__all__)
    with pytest.raises(AttributeError, match=r"'mosaicgp\.rivals' has no attribute 'SVGP'"):
        _ = rivals.SVGP
    script = (
        "import sys, mosaicgp.rivals\n"
        "assert not {'jax', 'numpy', 'sklearn', 'scipy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
