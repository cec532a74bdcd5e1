"""Settings for all tests: double precision, strict promotion, Hypothesis without deadlines."""

import gc
import os
from collections.abc import Iterator

# Tests compile much and compute little: half the time of a compilation is optimising its code.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "mosaicgp",
    deadline=None,
    max_examples=15,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("mosaicgp")


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
