"""What importing the package costs, and that its public names are there all the same."""

import subprocess
import sys

import pytest

import mosaicgp


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_the_package_alone_imports_nothing_heavy():
    done = run(
        "import sys, mosaicgp\n"
        "assert set(mosaicgp.__all__) <= set(dir(mosaicgp))\n"
        "heavy = {'jax', 'numpy', 'scipy', 'sklearn', 'optax'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "mosaicgp.metrics.rmse([1.0], [1.0])\n"
        "assert 'jax' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr


def test_commands_start_without_what_only_their_work_needs():
    done = run(
        "import sys, mosaicgp.cli.app\n"
        "heavy = {'jax', 'scipy', 'sklearn', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    assert done.returncode == 0, done.stderr


def test_the_estimator_does_not_import_what_few_fits_need():
    done = run(
        "import sys\n"
        "from mosaicgp import *\n"
        "assert SparseGPRegressor().approximation == VBPIC().approximation == 'pic'\n"
        "heavy = {'optax', 'sklearn.cluster', 'matplotlib', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", mosaicgp.__all__)
def test_public_names_are_found_and_kept(name):
    assert getattr(mosaicgp, name) is getattr(mosaicgp, name)


def test_an_unknown_name_says_so():
    with pytest.raises(AttributeError, match="'mosaicgp' has no attribute 'VBFOO'"):
        _ = mosaicgp.VBFOO
    with pytest.raises(ImportError, match="VBFOO"):
        from mosaicgp import VBFOO  # noqa: F401
