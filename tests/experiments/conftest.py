"""The table that toy experiments are of."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=500)
    path = tmp_path_factory.mktemp("data") / "waves.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), path)
    return path
