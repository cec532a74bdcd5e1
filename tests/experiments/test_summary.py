"""Means, paired differences and what the pages say of them, on lines with known answers."""

import numpy as np
import pytest
from scipy.stats import sem

from mosaicgp.experiments import accuracy, convergence, intervals, samples, table
from mosaicgp.experiments.datasets import Data
from mosaicgp.experiments.journal import END
from mosaicgp.experiments.methods import ESTIMATORS, make
from mosaicgp.experiments.pages import write
from mosaicgp.experiments.settings import Settings
from mosaicgp.experiments.summary import at_point, compared, difference, mean_of, unfinished

DATA = Data("t", np.zeros((2, 1)), np.zeros(2), ("a",), "y")


def end(method, split, rmse, mnlp=1.0, **others):
    scores = {"rmse": rmse, "mnlp": mnlp, "coverage": 0.95, "fit_s": 10.0, "predict_s": 1.0}
    how = {"iterations": 100, "status": "converged", "train_rows": 5000}
    how["settings"] = {"mosaicgp": "0.1.0"}
    return {"method": method, "split": split, "point": END, **scores, **how, **others}


def lines_of(scores):
    return [end(method, s, v) for method, found in scores.items() for s, v in found.items()]


def test_a_mean_has_the_error_of_scipy():
    values = [1.0, 2.0, 4.0, 7.0]
    found = mean_of(values)
    assert found.mean == 3.5 and found.n == 4
    np.testing.assert_allclose(found.error, sem(values))
    assert np.isnan(mean_of([2.0]).error) and str(mean_of([2.0])) == "2"


def test_differences_are_those_of_the_splits_that_both_have():
    ours, theirs = {0: 1.0, 1: 20.0, 2: 3.0, 3: 4.0, 4: 5.0}, {4: 7.0, 3: 5.0, 2: 6.0, 0: 2.0}
    found = difference(lines_of({"VBPIC+": ours, "SVIGP": theirs}), "VBPIC+", "SVIGP", "rmse")
    gaps = [1.0, 3.0, 1.0, 2.0]
    assert found.n == 4 and found.mean == np.mean(gaps)
    np.testing.assert_allclose(found.error, sem(gaps))
    assert compared(found) == f"+1.75, {1.75 / sem(gaps):.1f} standard errors"


@pytest.mark.parametrize(("n", "words"), [(1, "+1 (one split)"), (3, "+1 (3 splits)")])
def test_of_few_splits_no_standard_errors_are_given(n, words):
    splits = {s: float(s) for s in range(n)}
    above = {s: v + 1.0 for s, v in splits.items()}
    gap = difference(lines_of({"VBPIC+": splits, "SVIGP": above}), "VBPIC+", "SVIGP", "rmse")
    assert compared(gap) == words


def test_fits_that_did_not_converge_are_named():
    lines = [
        end("VBPIC+", 0, 1.0, status="failed", iterations=7),
        end("VBPIC+", 1, 1.0),
        end("SVIGP", 0, 1.0, status="max_iter", iterations=1000),
        end("SVIGP", 1, 1.0, status="max_iter", iterations=900),
        end("HistGradientBoosting", 0, 1.0, status=None, iterations=None),
        {"method": "SVIGP", "split": 1, "point": 10, "status": "stalled"},
    ]
    cut, failed = unfinished(lines)
    assert cut.endswith("SVIGP (2 of 2 splits, after 1,000 iterations).")
    assert failed.startswith("Failed") and "VBPIC+ (1 of 2 splits, after 7 iterations)" in failed


def said(scores):
    report = table.report(lines_of(scores), Settings(), DATA)
    return "\n".join(report.text)


def test_the_table_ranks_methods_on_splits_that_they_share():
    """A rival on the easiest split alone has the lowest mean and is no better for it."""
    ours = {0: 1.0, 1: 5.0, 2: 5.0, 3: 5.0}
    boosting = dict.fromkeys(ours, 0.1)
    text = said({"VBPIC+": ours, "rBCM": {0: 2.0}, "HistGradientBoosting 2000": boosting})
    assert "VBPIC+ has the lowest RMSE of the GP methods" in text
    assert "| rBCM | +1 (one split) | +0 (one split) |" in text
    assert "| HistGradientBoosting 2000 | -3.9, " in text
    elsewhere = said({"VBPIC+": ours, "rBCM": {7: 0.5}, "SVIGP": {0: 2.0}})
    assert "VBPIC+ has the lowest RMSE of the GP methods" in elsewhere
    assert "| rBCM | no split in common | no split in common |" in elsewhere
    alone = said({"VBPIC+": {0: 5.0}, "rBCM": {5: 0.1}})
    assert "no split in common" in alone and "lowest" not in alone
    text = said({"VBPIC+": ours, "SVIGP": {s: v - 0.5 for s, v in ours.items()}})
    assert "The lowest RMSE of the GP methods is that of SVIGP, not of VBPIC+" in text


def test_intervals_end_at_zero_and_those_of_the_prior_are_told_of():
    own = {"lambda_mean": [1.0, 0.05], "lambda_std": [0.1, 0.9], "mean_log_variance": -3.0}
    data = Data("t", np.zeros((2, 2)), np.zeros(2), ("a", "b"), "y")
    report = intervals.report([end("VBPIC+", 0, 1.0, **own)], Settings(), data)
    np.testing.assert_allclose([row["lower"] for row in report.rows], [0.8, 0.0])
    np.testing.assert_allclose([row["upper"] for row in report.rows], [1.2, 1.85])
    assert "1 of 2 intervals are about as wide as the prior's" in report.text[1]
    np.testing.assert_allclose(report.figure.axes[0].get_ylim(), (-0.03 * 1.2, 1.05 * 1.2))


def test_a_distance_that_falls_is_said_in_orders_of_magnitude():
    lines = [
        {"method": "VBDTC+", "split": s, "point": n} | dict.fromkeys(convergence.DISTANCES, value)
        for s in (0, 1)
        for n, value in ((1, 100.0 * 10.0**s), (100, 1.0 * 10.0**s))
    ]
    lines += [{"method": "VBDTC+", "split": s, "point": END, "exact": "converged"} for s in (0, 1)]
    report = convergence.report(lines, Settings(rows=1000), DATA)
    assert report.text[0].count("VBDTC+ 2.0") == 2 and "from 1 to 100 iterations" in report.text[0]
    assert "2 of 2 exact fits converged" in report.text[1]


def test_seconds_an_iteration_are_counted_from_the_first_look():
    own = {"curve": {"rmse": 3.0, "mnlp": 1.0}, "mnlp_f": 2.0}
    looks = [
        {"method": m, "split": s, "point": 10, "fit_s": seconds, "rmse": 4.0, "mnlp": 1.0}
        for m, seconds in (("VBPIC+", 1.0), ("VBDTC+", 5.0))
        for s in (0, 1)
    ]
    ends = [end("VBDTC+", 0, 3.0, **own), end("VBDTC+", 1, 5.0, **own | {"fit_s": 23.0})]
    ours = [end("VBPIC+", s, 2.0 + s, **own) for s in (0, 1)]
    report = accuracy.report([*ours, *looks, *ends], Settings(beside="AIRLINE"), DATA)
    # (10 − 5)/(100 − 10) and (23 − 5)/(100 − 10), their median; of VBPIC+ (10 − 1)/(100 − 10).
    text = "\n".join(report.text)
    assert "| an iteration | 0.1000 s, 512 rows | 0.1278 s, 1,024 rows |" in text
    assert "| the paper's (AIRLINE) | 0.038 s, about 2,000 rows | 0.0122 s, about 2,000" in text
    assert "VBDTC+ +1.5 (2 splits) (VBPIC+ is 38% below it)" in text


def test_how_far_below_is_said_of_the_splits_that_both_have():
    own = {"curve": {"rmse": 3.0, "mnlp": 1.0}, "mnlp_f": 2.0}
    lines = [end("VBPIC+", s, rmse, **own) for s, rmse in enumerate((4.0, 1.0, 1.0))]
    report = accuracy.report([*lines, end("VBDTC+", 0, 5.0, **own)], Settings(), DATA)
    assert "VBDTC+ +1 (one split) (VBPIC+ is 20% below it)" in "\n".join(report.text)


def test_a_fit_that_has_ended_stays_at_what_it_ended_with():
    places = [(0, 10, 5.0), (0, 15, 4.0), (1, 10, 3.0), (1, 20, 2.0), (1, 30, 1.0)]
    rows = [
        {"split": s, "iterations": n, "at": END if (s, n) in ((0, 15), (1, 30)) else n, "rmse": v}
        for s, n, v in places
    ]
    assert at_point(rows, "rmse", 10) == [5.0, 3.0]
    assert at_point(rows, "rmse", 20) == [4.0, 2.0]
    assert at_point(rows, "rmse", END) == [4.0, 1.0]


def test_a_page_names_machines_and_methods_on_fewer_splits(tmp_path):
    lines = [end("rBCM", 1, 1.0, machine="one")]
    lines += [end("SVIGP", s, 1.0, machine=name) for s, name in enumerate(["one", "other", "one"])]
    lines[0] |= {"settings": {"mosaicgp": "0.0.9"}, "status": "failed"}
    many = Data("t", np.zeros((500, 1)), np.zeros(500), ("a",), "y")
    report = table.report(lines, Settings(), many)
    page = write(tmp_path, "table", report, Settings().identity(many), lines, "command", [])
    assert "\n- one.\n- other.\n- Wall time" in page.read_text()
    assert "3 random splits (rBCM on 1 of them), seed 0 to 2" in page.read_text()
    assert "mosaicgp 0.0.9, 0.1.0." in page.read_text()
    assert "last good state: rBCM (1 of 1 splits, after 100 iterations)." in page.read_text()
    assert "; 5% of them test rows" in page.read_text()


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        (("a1", "a1"), None),
        ((None, None), None),
        (("a1", "b2"), "states of the source, one after the other: a1, b2."),
        (("a1", None), "states of the source, one after the other: a1, one not recorded."),
    ],
)
def test_a_page_of_several_states_of_the_source_says_so(tmp_path, sources, told):
    lines = [end("rBCM", s, 1.0) | ({"source": n} if n else {}) for s, n in enumerate(sources)]
    many = Data("t", np.zeros((500, 1)), np.zeros(500), ("a",), "y")
    report = table.report(lines, Settings(), many)
    page = write(tmp_path, "table", report, Settings().identity(many), lines, "command", [])
    text = page.read_text()
    assert told in text if told else "states of the source" not in text


@pytest.mark.parametrize(
    ("method", "expected"),
    {
        "VBPIC+": {"approximation": "pic", "hyperparameters": "bayesian", "n_inducing": 7},
        "VBFITC+": {"approximation": "fitc", "hyperparameters": "bayesian", "max_iter": 300},
        "VBDTC+": {"approximation": "dtc", "hyperparameters": "bayesian", "random_state": 3},
        "PIC+": {"approximation": "pic", "hyperparameters": "point", "inference": "stochastic"},
        "SVIGP": {"approximation": "dtc", "hyperparameters": "point", "inference": "stochastic"},
        "Dist-VGP": {"approximation": "dtc", "inference": "exact", "learn_inducing": True},
        "rBCM": {"max_iter": 200, "random_state": 3},
        "VSSGPR": {"n_features": 7, "max_iter": 300},
    }.items(),
)
def test_methods_are_made_with_the_settings_of_a_run(method, expected):
    parameters = make(method, Settings(inducing=7, iterations=300), 3).get_params()
    assert expected.items() <= parameters.items()


def test_every_method_of_the_table_has_a_description():
    assert set(table.ABOUT) == {*ESTIMATORS, "GPflow SVGP"}


@pytest.mark.parametrize(
    ("many", "words"),
    [
        ([1.1, 1.9, 3.1], "a change of +0.033. No step to more draws raises it by more"),
        ([2.0, 3.0, 4.0], "raise it by more than its standard error: from 1 to 4."),
    ],
)
def test_draws_that_do_harm_are_named(many, words):
    lines = [
        {"method": "VBPIC+", "split": s, "point": END, "iterations": 10}
        | {"relative_std": 0.1, "relative_signal_std": 0.1, "mean_log_variance": -3.0}
        | {"draws": {n: {"rmse": v, "mnlp": 1.0} for n, v in found.items()}}
        for s, found in enumerate(
            {"1": few, "4": more, "mean": few}
            for few, more in zip([1.0, 2.0, 3.0], many, strict=True)
        )
    ]
    assert words in samples.report(lines, Settings(draws=(1, 4)), DATA).text[0]


def test_crps_is_shown_where_every_fit_has_it():
    lines = [end("VBPIC+", 0, 1.0, crps=0.4), end("SVIGP", 0, 2.0, crps=0.3)]
    report = table.report(lines, Settings(), DATA)
    assert "| VBPIC+ | 1 | 1 | 1 | 0.4 | 0.950 |" in report.text[0]
    assert "The lowest CRPS of the GP methods is that of SVIGP" in report.text[1]
    assert [row["crps"] for row in report.rows] == [0.4, 0.3]
    older = table.report([*lines, end("rBCM", 0, 2.0)], Settings(), DATA)
    assert "crps" not in older.rows[0] and "CRPS" not in older.text[0] + older.text[1]
    assert "CRPS is left out: fits of rBCM are of before it." in older.text
