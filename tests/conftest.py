"""Settings for all tests: double precision, strict promotion, Hypothesis without deadlines."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import jax
import pytest
from hypothesis import HealthCheck, settings

# Tests compile much and compute little. Half the time of a compilation is optimising its code; of
# what is left most goes to XLA's newer emitters of loops (a file of tests: 30 s of processor time
# with them, 11 s with the older ones). That flag may go one day, and XLA ends a process over a flag
# that it does not know. Flags are read when jax first computes.
UNOPTIMISED = "--xla_backend_optimization_level=0"
OLDER_LOOPS = "--xla_cpu_use_fusion_emitters=false"


def understood(flags: str) -> bool:
    """Whether this version of XLA knows the flags."""
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    return not subprocess.run(
        command, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True
    ).returncode


if "XLA_FLAGS" not in os.environ:  # in a worker they are there
    both = f"{UNOPTIMISED} {OLDER_LOOPS}"
    os.environ["XLA_FLAGS"] = both if understood(both) else UNOPTIMISED

settings.register_profile(
    "mosaicgp",
    deadline=None,
    max_examples=15,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("mosaicgp")


# Tests of minutes, which are begun first.
LONGEST = "test_sklearn.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Else one worker ends with the longest file and the other with nothing."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(autouse=True, scope="session")
def double_precision() -> Iterator[None]:
    """Arrays that a test makes itself are float64, and mixing dtypes is an error.

    For the whole session: compiled functions are kept by these settings.
    """
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(autouse=True, scope="module")
def compiled_code_is_let_go() -> Iterator[None]:
    """Every compiled function keeps a few pieces of memory mapped, and a process may have 65,530 on
    Linux: a worker that runs half of the tests in one go reaches that, and XLA then crashes."""
    yield
    jax.clear_caches()
    gc.collect()
