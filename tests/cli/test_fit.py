"""`mosaicgp fit`, in this process."""

import inspect
import json
from enum import StrEnum

import numpy as np
import pyarrow.parquet as pq
import pytest

from mosaicgp import SparseGPRegressor
from mosaicgp.arguments import WORDS
from mosaicgp.cli.fit import ARGUMENTS, fit
from mosaicgp.data import open_dataset

QUICK = ["-a", "dtc", "-m", "8", "--max-iter", "25", "--quiet"]
COLUMNS = ["--categorical", "city", "--exclude", "id"]


@pytest.fixture
def start(houses, tmp_path):
    """The beginning of a command that would fit."""
    return ["fit", houses / "train.csv", "-t", "price", "-o", tmp_path / "new.gp"]


def test_the_model_is_what_python_would_fit(run, start, houses, tmp_path):
    done = run(*start, *COLUMNS, *QUICK, "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["rows"] == 300 and found["target"] == "price"
    assert found["status"] == "max_iter" and "Warning: stopped after 25" in done.err
    columns = ["area", "rooms", "city"]
    data = open_dataset(houses / "train.csv", target="price", columns=columns, categorical=["city"])
    with pytest.warns(match="without converging"):
        ours = SparseGPRegressor("dtc", n_inducing=8, max_iter=25).fit(data)
    theirs = SparseGPRegressor.load(tmp_path / "new.gp")
    test = open_dataset(houses / "test.parquet")
    np.testing.assert_array_equal(theirs.predict(test), ours.predict(test))
    assert theirs.trained_on_.files == ("train.csv",)
    assert theirs.trained_on_.columns == tuple(columns)
    assert found["bound"] == ours.fit_result_.bound


def test_every_option_is_an_argument_with_its_words_and_default():
    options = inspect.signature(fit).parameters
    arguments = inspect.signature(SparseGPRegressor).parameters
    for name in ARGUMENTS:
        default = options[name].default
        if isinstance(default, StrEnum):
            assert [str(word) for word in type(default)] == WORDS[name], name
        assert default in (arguments[name].default, None), name
    apart = {"callback", "warm_start", "verbose", "random_state", "rotate_inducing"}
    apart |= {"adapt_partition"}  # the option turns it off
    apart |= {"prediction_memory"}  # an option of predict
    assert set(arguments) - set(ARGUMENTS) == apart


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"-t": "prize"}, "Did you mean 'price'?"),
        ({"-t": "PRICE"}, "Did you mean 'price'?"),
        ({"-t": "qqq"}, "The columns are 'id', 'area', 'rooms', 'city', 'price'."),
        ({"-t": "city"}, "must hold numbers"),
        ({"--exclude": "id,aera"}, "--exclude: there is no column 'aera'. Did you mean 'area'?"),
        ({"--categorical": "town"}, "--categorical: there is no column 'town'"),
        ({"--where": "area >"}, "--where: cannot read 'area >'"),
        ({"--where": "aera > 3"}, "--where: there is no column 'aera'. Did you mean 'area'?"),
        ({"--where": "area > 10000"}, "there are no rows"),
        ({"--columns": "area", "--exclude": "area"}, "no input columns are left"),
        ({"--learning-rate": "2"}, "--learning-rate must be at most 1"),
        ({"--max-time": "-1"}, "--max-time must"),
        ({"--resume": None}, "--checkpoint FOLDER"),
        ({"-o": "nowhere/new.gp"}, "there is no folder nowhere"),
    ],
)
def test_bad_options_end_with_2_and_a_remedy(run, start, changes, message, tmp_path):
    arguments = [*start, *COLUMNS, *QUICK]
    for option, value in changes.items():
        arguments += [option] if value is None else [option, value]
    done = run(*arguments)
    assert done.code == 2 and done.out == ""
    assert message in done.err
    assert done.err.startswith("Error: ")
    assert not (tmp_path / "new.gp").exists()


def test_text_columns_get_a_hint_all_at_once(run, start):
    done = run(*start, *QUICK)
    assert done.code == 2
    assert "columns 'id', 'city' hold text" in done.err
    assert "--categorical id,city" in done.err and "--exclude id,city" in done.err


def test_missing_values_name_the_option(run, start, tmp_path, houses):
    holes = tmp_path / "holes.csv"
    lines = (houses / "train.csv").read_text().splitlines()
    cells = lines[5].split(",")
    lines[5] = ",".join([cells[0], "", *cells[2:]])
    holes.write_text("\n".join(lines))
    start[1] = holes
    done = run(*start, *COLUMNS, *QUICK)
    assert done.code == 2 and "--missing drop" in done.err and "'area'" in done.err
    done = run(*start, *COLUMNS, *QUICK, "--missing", "drop", "--json")
    assert done.code == 0 and json.loads(done.out)["rows"] == 299


def test_output_that_exists_needs_force(run, start, tmp_path):
    (tmp_path / "new.gp").write_text("precious")
    done = run(*start, *COLUMNS, *QUICK)
    assert done.code == 2 and "--force" in done.err
    assert (tmp_path / "new.gp").read_text() == "precious"
    assert run(*start, *COLUMNS, *QUICK, "--force").code == 0
    assert SparseGPRegressor.load(tmp_path / "new.gp").n_rows_seen_ == 300


def test_the_rows_are_never_replaced(run, houses, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_bytes((houses / "train.csv").read_bytes())
    done = run("fit", mine, "-t", "price", "-o", mine, *COLUMNS, *QUICK, "--force")
    assert done.code == 2 and "holds the rows" in done.err
    assert mine.read_bytes() == (houses / "train.csv").read_bytes()


@pytest.mark.parametrize("data", ["nowhere.csv", "nowhere-*.csv", "."])
def test_data_that_is_not_there(run, start, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start[1] = data
    done = run(*start, *QUICK)
    assert done.code == 2 and done.err.startswith("Error: ")


def test_checkpoints_go_on_with_more_iterations(run, start, tmp_path):
    run_folder = ["--checkpoint", tmp_path / "run"]
    first = run(*start, *COLUMNS, *QUICK, *run_folder, "--json")
    refused = run(*start, *COLUMNS, *QUICK, *run_folder, "--force")
    assert refused.code == 2 and "--resume" in refused.err
    longer = [*start, *COLUMNS, *QUICK, *run_folder, "--resume", "--force", "--json"]
    second = run(*longer, "--max-iter", "40")
    one, two = json.loads(first.out), json.loads(second.out)
    assert (one["iterations"], two["iterations"]) == (25, 40)
    assert two["bound"] > one["bound"]
    other = run(*longer, "-m", "9")
    assert other.code == 2 and "--n-inducing was 8, is 9" in other.err
    found = run("inspect", tmp_path / "run")
    assert found.code == 0 and "checkpoints of a fit" in found.out


def test_a_saved_model_is_trained_further(run, start, model):
    done = run(*start, *COLUMNS, *QUICK, "--start-from", model, "--json")
    assert done.code == 0
    before = SparseGPRegressor.load(model).fit_result_.bound
    assert json.loads(done.out)["bound"] > before


def test_several_files_and_standard_input(run, start, houses):
    content = (houses / "train.parquet").read_bytes()
    piped = run(*["fit", "-", *start[2:]], *COLUMNS, *QUICK, "--json", stdin=content)
    assert json.loads(piped.out)["rows"] == 300
    both = [houses / "train.parquet", houses / "test.parquet"]
    done = run("fit", *both, *start[2:], *COLUMNS, *QUICK, "--json", "--force")
    assert json.loads(done.out)["rows"] == 300 + pq.read_metadata(both[1]).num_rows
    mixed = run("fit", "-", both[0], *start[2:], "--force")
    assert mixed.code == 2 and "standard input" in mixed.err
