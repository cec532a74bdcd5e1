"""A small table, a model fitted to it once, and the command run in this process."""

import io
import sys
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mosaicgp.cli import app

QUICK = ["-a", "dtc", "-m", "8", "--max-iter", "25", "--quiet"]
COLUMNS = ["--categorical", "city", "--exclude", "id"]


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def table(n, seed):
    rng = np.random.default_rng(seed)
    area, rooms = rng.uniform(30.0, 200.0, n), rng.integers(1, 7, n).astype(float)
    city = rng.choice(["Lyon", "Oslo", "Rome"], n)
    price = 2.0 * area + 30.0 * np.sin(area / 20.0) + 10.0 * rooms + 50.0 * (city == "Oslo")
    columns = {"id": [f"h{k}" for k in range(n)], "area": area, "rooms": rooms, "city": city}
    return pa.table(columns | {"price": price + rng.normal(0.0, 8.0, n)})


@pytest.fixture(scope="session")
def houses(tmp_path_factory):
    """A folder with `train.csv` and `test.csv`, and the same as Parquet."""
    folder = tmp_path_factory.mktemp("houses")
    for name, n, seed in (("train", 300, 0), ("test", 60, 1)):
        rows = table(n, seed)
        pyarrow.csv.write_csv(rows, folder / f"{name}.csv")
        pq.write_table(rows, folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="session")
def model(houses):
    """A model that the command fitted."""
    path = houses / "houses.gp"
    arguments = ["fit", str(houses / "train.csv"), "-t", "price", "-o", str(path)]
    result = CliRunner().invoke(app, [*arguments, *COLUMNS, *QUICK])
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def run(capsys, monkeypatch):
    """The command in this process, its streams apart."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            app([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Done(ended.value.code or 0, out, err)

    return run
