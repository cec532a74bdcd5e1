"""The command ``mosaicgp paper`` at toy size, and what it writes."""

import csv

from typer.testing import CliRunner

from mosaicgp.cli import app

SIZES = ["--rows", "400", "--iterations", "40", "--inducing", "6"]
SMALL = [*SIZES, "--block-size", "60", "--target", "y"]
TIMES = ("seconds", "fit_s", "predict_s")


def paper(name, table, folder, *options):
    tested = [] if name == "convergence" else ["--test-share", "0.1"]
    arguments = [name, "--data", str(table), "--out", str(folder), *SMALL, *tested, *options]
    return CliRunner().invoke(app, ["paper", *arguments])


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def without_times(rows):
    return [{name: v for name, v in row.items() if name not in TIMES} for row in rows]
