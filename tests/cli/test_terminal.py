"""The installed command as a process: in a terminal, in pipes, and interrupted."""

import json
import re
import subprocess
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mosaicgp import SparseGPRegressor
from terminal import SCRIPT, Terminal, environment, piped

COLOUR = re.compile(rb"\x1b\[(\d+;)*(3[0-8]|4[0-8]|9[0-7])[;m]")
COLUMNS = ["--categorical", "city", "--exclude", "id"]


@pytest.fixture
def start(houses, tmp_path):
    """The beginning of a command that fits."""
    train = ["fit", houses / "train.csv", "-t", "price", "-o", tmp_path / "new.gp"]
    return [*train, *COLUMNS, "-a", "dtc", "-m", "5"]


def test_fit_in_a_terminal_has_a_live_line(start, tmp_path):
    terminal = Terminal(*start, "--max-iter", "10")
    assert terminal.end() == 0
    assert b"\x1b[" in terminal.raw  # a line that is written over
    assert COLOUR.search(terminal.raw)
    for words in ("Learning 'price'", "bound", "rows/s", "10/10", "status", "kB)"):
        assert words in terminal.text, terminal.text
    assert SparseGPRegressor.load(tmp_path / "new.gp").n_rows_seen_ == 300


def test_commands_in_a_terminal(model, houses, tmp_path):
    shown = Terminal("inspect", model)
    assert shown.end() == 0
    assert b"\x1b[1m" in shown.raw and "300 rows of train.csv" in shown.text
    plain = Terminal("evaluate", model, houses / "test.csv", NO_COLOR="1")
    assert plain.end() == 0
    assert not COLOUR.search(plain.raw) and "coverage 95%" in plain.text
    out = tmp_path / "out.csv"
    predicted = Terminal("predict", model, houses / "test.csv", "-o", out)
    assert predicted.end() == 0
    assert "60 predictions written" in predicted.text and len(out.read_text().splitlines()) == 61
    data = ["compare", houses / "train.csv", "-t", "price", *COLUMNS]
    compared = Terminal(*data, "--method", "linear")
    assert compared.end() == 0 and "95% coverage" in compared.text
    page = tmp_path / "report.html"
    reported = Terminal("report", model, houses / "test.csv", "-o", page)
    assert reported.end() == 0 and "Report: " in reported.text
    assert "Model of price" in page.read_text()


def test_commands_in_a_pipe(model, houses, tmp_path):
    page = tmp_path / "report.html"
    reported = piped("report", model, houses / "test.csv", "-o", page, "--json")
    assert reported.returncode == 0
    assert json.loads(reported.stdout)["bytes"] == page.stat().st_size
    data = ["compare", houses / "train.parquet", "-t", "price", *COLUMNS]
    compared = piped(*data, "--method", "linear")
    assert compared.returncode == 0 and b"95% coverage" in compared.stdout
    sizes = ["--inducing", "5", "--splits", "1", "--exclude", "id", "--exclude", "city"]
    method = ["--method", "HistGradientBoosting", "-o", tmp_path / "paper", "--json"]
    named = ["--data", houses / "train.parquet", "--target", "price"]
    made = piped("paper", "table", *named, *sizes, *method)
    assert made.returncode == 0 and b"\x1b" not in made.stdout + made.stderr
    assert (tmp_path / "paper" / "table.csv").read_text().count("\n") == 2
    assert json.loads(made.stdout)["page"] == str(tmp_path / "paper" / "table.md")


def test_the_shell_completes_commands_and_words():
    for typed, expected in (("pre", ["predict"]), ("fit --approximation p", ["pitc", "pic"])):
        asked = {
            "_MOSAICGP_COMPLETE": "complete_bash",
            "COMP_WORDS": f"mosaicgp {typed}",
            "COMP_CWORD": str(len(typed.split())),
        }
        done = subprocess.run([SCRIPT], capture_output=True, env=environment(**asked), text=True)
        assert done.stdout.split() == expected


FAULTS = {
    "fit nowhere.csv -t price -o new.mosaic": "there is no file nowhere.csv",
    "fit TRAIN -t prise -o new.mosaic": "Did you mean 'price'?",
    "fit TRAIN -t price -o there.csv": "--force",
    "predict TRAIN TEST -o new.csv": "is not a mosaicgp model",
    "predict MODEL TEST -o there.csv": "--force",
    "evaluate MODEL TEST -t prise": "Did you mean 'price'?",
    "report nowhere.mosaic": "no model at nowhere.mosaic",
    "report MODEL TEST -o there.csv": "--force",
    "inspect TRAIN": "is not a mosaicgp model",
    "compare TRAIN -t prise": "Did you mean 'price'?",
    "demo -o there.csv": "must end in one of",
    "paper table --data TRAIN --target prise": "Did you mean 'price'?",
}


@pytest.mark.parametrize("command", FAULTS)
def test_faults_end_with_2_and_one_line(command, model, houses, tmp_path, monkeypatch):
    """The same in a pipe and in a terminal; nothing is written or replaced."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("precious")
    paths = {"TRAIN": houses / "train.parquet", "TEST": houses / "test.csv", "MODEL": model}
    arguments = [paths.get(word, word) for word in command.split()]
    terminal = Terminal(*arguments)
    done = piped(*arguments)
    assert done.returncode == 2 and done.stdout == b""
    assert terminal.end() == 2
    for text in (done.stderr.decode(), terminal.text):
        assert text.startswith("Error: ") and FAULTS[command] in text
        assert text.count("\n") == 1, text
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]
    assert (tmp_path / "there.csv").read_text() == "precious"


@pytest.mark.parametrize(
    "command", ["--help", "fit --help", "predict --help", "compare --help", "inspect MODEL"]
)
def test_no_control_characters_in_a_pipe(command, model):
    arguments = [model if word == "MODEL" else word for word in command.split()]
    done = piped(*arguments)
    assert done.returncode == 0 and done.stderr == b""
    assert not set(done.stdout) & (set(range(32)) - {10}), done.stdout
    if "--help" in command and command != "--help":
        assert b"Examples" in done.stdout and b"mosaicgp " + command.split()[0].encode() in (
            done.stdout
        )


def test_the_pipeline_of_a_machine(start, houses, tmp_path):
    """Fit and evaluate with JSON alone on standard output; errors leave it empty."""
    fitted = piped(*start, "--max-iter", "5", "--json")
    assert fitted.returncode == 0 and json.loads(fitted.stdout)["iterations"] == 5
    assert b"\x1b" not in fitted.stderr
    scored = piped("evaluate", tmp_path / "new.gp", houses / "test.csv", "--json")
    assert scored.returncode == 0 and json.loads(scored.stdout)["rows"] == 60
    again = piped(*start, "--json")
    assert again.returncode == 2 and again.stdout == b"" and b"--force" in again.stderr


def test_a_pipe_that_is_closed_early(model, tmp_path):
    rows = 400_000
    rng = np.random.default_rng(0)
    columns = {"area": rng.uniform(30, 200, rows), "rooms": np.ones(rows)}
    many = tmp_path / "many.parquet"
    pq.write_table(pa.table(columns | {"city": pa.array(["Oslo"] * rows)}), many)
    command = [str(SCRIPT), "predict", str(model), str(many), "-o", "-"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().strip() == b'"mean","std","lower","upper"'
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_ctrl_c_before_training_leaves_nothing(start, tmp_path):
    terminal = Terminal(*start)
    terminal.read_until("Learning")
    terminal.press_ctrl_c()
    assert terminal.end() == 130
    assert "nothing was written" in terminal.text and "Traceback" not in terminal.text
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_training_keeps_the_best_model(start, tmp_path):
    endless = ["--inference", "stochastic", "--max-iter", "10000000", "--validation-rows", "0"]
    terminal = Terminal(*start, *endless, "--checkpoint", tmp_path / "run")
    terminal.read_until("left")
    terminal.press_ctrl_c()
    assert terminal.end() == 130
    assert "Stopping" in terminal.text and "best model so far was written" in terminal.text
    kept = SparseGPRegressor.load(tmp_path / "new.gp")
    assert kept.fit_result_.status == "interrupted" and kept.n_iter_ > 0


def test_ctrl_c_while_predicting_leaves_nothing(model, tmp_path):
    rows = 4_000_000
    columns = {"area": np.linspace(30, 200, rows), "rooms": np.ones(rows)}
    city = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int8), ["Oslo"])
    many, folder = tmp_path / "many.parquet", tmp_path / "out"
    pq.write_table(pa.table(columns | {"city": city}), many)
    folder.mkdir()
    terminal = Terminal("predict", model, many, "-o", folder / "out.parquet")
    deadline = time.monotonic() + 60.0
    while not list(folder.glob("*.part")):  # some of it is written
        assert time.monotonic() < deadline
        time.sleep(0.01)
    terminal.press_ctrl_c()
    assert terminal.end() == 130
    assert "nothing was written" in terminal.text and "Traceback" not in terminal.text
    assert list(folder.iterdir()) == []
