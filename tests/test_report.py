"""The numbers of the report against independent computations, its page, and a model's card."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sklearn
from rich.console import Console
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from mosaicgp import SparseGPRegressor
from mosaicgp.cli import app
from mosaicgp.data import open_dataset
from mosaicgp.report import write_report
from mosaicgp.report.content import build
from mosaicgp.report.page import page
from mosaicgp.report.trust import findings, verdict
from mosaicgp.sample import drawn, share_learned
from report_models import EVIL, fitted, table

X_TRAIN, Y_TRAIN = table(256, 0)
X_NEW, Y_NEW = table(120, 1)


@pytest.fixture(scope="module")
def model():
    return fitted(X_TRAIN, Y_TRAIN)


@pytest.fixture(scope="module")
def content(model):
    return build(model, X_NEW, Y_NEW)


@pytest.fixture(scope="module")
def dtc():
    return fitted(X_TRAIN.to_numpy()[:, :1], Y_TRAIN.to_numpy(), "dtc", hyperparameters="point")


def test_scores_are_those_of_the_predictions(model, content):
    mean, std = model.predict(X_NEW, return_std=True)
    y, rows = Y_NEW.to_numpy(), content.checked
    assert rows.n == rows.sample.total == 120
    np.testing.assert_allclose(rows.rmse, np.sqrt(np.mean((y - mean) ** 2)))
    np.testing.assert_allclose(
        rows.explained, 1.0 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2)
    )
    z = np.abs(y - mean) / std
    assert rows.coverage[0.95] == np.mean(z < 1.959964)
    assert rows.inside[20] == np.mean(z <= 0.6744898)  # half of the levels: 50%
    assert rows.far == np.mean(z > 3.0)
    np.testing.assert_array_equal(rows.uncertain, np.argsort(-std, kind="stable")[:10])


def test_inputs_carry_their_hyperparameters(model, content):
    for k, name in enumerate(X_TRAIN.columns):
        row = model.hyperparameters_.row(f"inverse_lengthscale[{name}]")
        found = content.inputs[k]
        assert found.name == name
        assert (found.relevance, found.lower) == (row["standardised"], row["standardised_lower"])
        assert (found.per_unit, found.unit_upper) == (row["mean"], row["upper"])
        eps = model.hyperparameters_.row(f"eps_inverse_lengthscale[{name}]")
        assert found.noise == eps["standardised"]
    assert [i.constant for i in content.inputs] == [False, False, True]
    assert sorted(content.relevant) == [0, 1]


def test_effects_are_predictions_of_f_at_the_medians(model, content):
    effect = content.effects[0]
    k = content.relevant[0]
    places = X_NEW.iloc[[0] * len(effect.x)].copy()
    for name in X_NEW:
        places[name] = X_NEW[name].median()
    places[X_NEW.columns[k]] = effect.x
    mean, variance = model.predict_f(places)
    np.testing.assert_allclose(effect.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(effect.upper - effect.mean, 1.959964 * np.sqrt(variance), rtol=1e-5)


def test_regions_are_where_the_predicted_spread_is_large(model, content):
    _, std = model.predict(X_NEW, return_std=True)
    assert content.checked.regions
    for region in content.checked.regions:
        x = X_NEW.iloc[:, region.k]
        here = (x >= region.lower) & (x <= region.upper)
        assert region.n == here.sum() == 20
        np.testing.assert_allclose(region.ratio, std[here].mean() / std.mean())
        assert region.ratio > 1.05


def test_rows_that_were_trained_on_are_recognised(model):
    assert share_learned(model, drawn(model, X_TRAIN, Y_TRAIN, 1000)) == 1.0
    assert share_learned(model, drawn(model, X_NEW, Y_NEW, 1000)) == 0.0
    both = pd.concat([X_TRAIN[:60], X_NEW[:60]]), [*Y_TRAIN[:60], *Y_NEW[:60]]
    half = drawn(model, *both, 1000)
    assert share_learned(model, half) == 0.5
    assert "memory" in {f.about for f in findings(build(model, X_TRAIN, Y_TRAIN))}


def test_rows_beyond_the_training_rows_are_noticed(model, content):
    far = X_NEW.copy()
    far.iloc[:30, 0] += 50.0
    rows = build(model, far, Y_NEW).checked
    new, trained = X_NEW.to_numpy(), X_TRAIN.to_numpy()
    beyond = np.any((new < trained.min(axis=0)) | (new > trained.max(axis=0)), axis=1)
    expected = np.mean(beyond | (np.arange(120) < 30))
    np.testing.assert_allclose(rows.outside, expected)
    assert rows.unknown > content.checked.unknown


def test_tiles_carry_the_errors_of_their_blocks(model, content):
    error = Y_NEW.to_numpy() - model.predict(X_NEW)
    block = model.block_of(X_NEW)
    assert content.mosaic.n_blocks == len(content.mosaic.tiles) == model.partition_.n_blocks
    of_noise = model.hyperparameters_["standardised"][-3:][list(content.mosaic.inputs)]
    assert len(of_noise) == 2 and of_noise[0] >= of_noise[1]
    for tile in content.mosaic.tiles:
        here = block == tile.block
        assert tile.n == here.sum()
        if tile.n:
            np.testing.assert_allclose(tile.rmse, np.sqrt(np.mean(error[here] ** 2)))


def test_a_sample_is_drawn_of_many_rows(model):
    sample = drawn(model, X_NEW, Y_NEW, 40)
    assert (len(sample.y), sample.total) == (40, 120)
    np.testing.assert_array_equal(sample.X, X_NEW.to_numpy()[sample.rows])
    np.testing.assert_array_equal(sample.y, Y_NEW.to_numpy()[sample.rows])


# -- what it says --------------------------------------------------------------------------------


def said(content, **changes):
    changed = replace(content, checked=replace(content.checked, **changes))
    return {finding.about: finding for finding in findings(changed)}


def test_words_follow_the_figures(content):
    right = {p: p for p in (0.5, 0.8, 0.9, 0.95, 0.99)}
    assert said(content, coverage=right)["coverage"].level == "good"
    narrow = said(content, coverage=right | {0.95: 0.7})["coverage"]
    assert narrow.level == "bad" and "too narrow" in narrow.text and "70%" in narrow.text
    heavy = said(content, coverage=right | {0.5: 0.8})["coverage"]
    assert heavy.level == "caution" and "50% intervals hold 80%" in heavy.text
    assert said(content, explained=-0.2)["accuracy"].level == "bad"
    assert said(content, far=0.05)["outliers"].level == "caution"
    assert "too low" in said(content, pit=np.full(120, 0.9))["bias"].text
    assert "25%" in said(content, outside=0.25)["reach"].text
    assert "extrapolates" in said(content, unknown=0.5)["reach"].text


def test_a_few_huge_counts_have_a_remedy(content):
    counts = np.floor(np.exp(7.0 * np.linspace(0.0, 1.0, 120) ** 8))
    sample = content.checked.sample

    def outliers(y, far=0.05):
        found = said(content, sample=replace(sample, y=y), far=far)
        return found["outliers"].text if "outliers" in found else ""

    assert "its logarithm" in outliers(counts)
    assert "its logarithm" not in outliers(counts - 2.0)  # has none
    assert "its logarithm" in outliers(counts - 1e-12)
    assert "its logarithm" not in outliers(np.arange(120.0))
    both = np.append(np.linspace(80.0, 120.0, 118), [0.0, 400.0])
    assert (np.max(both) - np.median(both)) / np.std(both) > 6.0
    assert "its logarithm" not in outliers(both)  # that of zero is as far away
    assert "its logarithm" not in outliers(1e-6 * counts)  # log(1 + y) is y there
    assert "its logarithm" not in outliers(1.0 * (counts > 900.0))  # as far away as before
    assert outliers(counts, far=0.001) == ""


def test_an_input_that_only_the_shared_noise_follows_is_not_called_idle(content):
    def about(noise, eps_std=1.0):
        first, second, constant = content.inputs
        inputs = [
            first._replace(name="a", relevance=1.0, upper=1.0, noise=0.01),
            second._replace(name="b", relevance=0.01, upper=0.02, noise=noise),
            constant,
        ]
        changed = replace(content, inputs=inputs, relevant=[0, 1], eps_std=eps_std, noise_std=1.0)
        return next(f.text for f in findings(changed) if f.about == "inputs")

    assert "hardly" not in about(2.0) and "in common beside that follows b." in about(2.0)
    assert "1 input hardly matters." in about(0.0) and "follows a." in about(0.0)
    assert "in common" not in about(2.0, eps_std=0.01)


@pytest.mark.parametrize(
    ("status", "level"), [("converged", "good"), ("max_time", "caution"), ("failed", "bad")]
)
def test_the_end_of_training_is_told(content, status, level):
    ended = replace(content, fit=replace(content.fit, status=status, message="it ended so"))
    found = findings(ended)
    assert found[0].level == level and "it ended so" in found[0].text
    assert (verdict(found) == "Do not rely on this model yet.") == (level == "bad")


# -- the page ------------------------------------------------------------------------------------


class Strict(HTMLParser):
    """Every element that is opened is closed in its turn; collects addresses and headings."""

    EMPTY = ("meta", "link", "br")

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.scripts = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.addresses += [
            v for k, v in attrs if k in ("src", "href", "action", "data", "xlink:href")
        ]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked_page(text):
    parser = Strict()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert parser.addresses == ["data:,"]
    assert parser.scripts == 1
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert "nan" not in re.sub(r'data-v="nan"', "", text).lower().replace("covariance", "").split()
    assert len(text.encode()) < 2_000_000
    return text


def test_the_page_is_whole_and_harmless(content):
    text = checked_page(page(replace(content, title="</title><script>1</script>")))
    assert EVIL not in text
    assert "&lt;script&gt;alert(" in text
    assert "y &lt;b&gt;" in text
    assert f"{content.checked.coverage[0.95]:.1%}" in text


def test_without_rows_the_training_rows_are_shown_and_named_as_such(model):
    content = build(model)
    assert content.checked.sample.learned and content.checked.n == 256
    np.testing.assert_allclose(np.sort(content.checked.sample.y), np.sort(Y_TRAIN))
    text = checked_page(page(content))
    assert "All 256 training rows that the model keeps" in text
    assert verdict(findings(content)) == "Not yet checked on rows it has not seen."


def test_without_rows_or_blocks_the_rest_is_shown(dtc, tmp_path):
    dtc.save(tmp_path / "model")
    content = build(SparseGPRegressor.load(tmp_path / "model"))
    assert content.checked is None and content.mosaic is None and len(content.effects) == 1
    text = checked_page(page(content))
    assert text.count("mosaicgp report MODEL DATA") == 3
    assert "has no blocks" in text
    assert "point estimates, without intervals" in text


def test_one_input_with_rows(dtc):
    X, y = X_NEW.to_numpy()[:, :1], Y_NEW.to_numpy()
    content = build(dtc, X, y)
    assert content.checked.learned == 0.0
    assert "Its one input is x0." in page(content)
    checked_page(page(content))


@pytest.mark.slow
def test_after_an_update():
    X, y = X_NEW.to_numpy()[:, :1], Y_NEW.to_numpy()
    model = fitted(X_TRAIN.to_numpy()[:, :1], Y_TRAIN.to_numpy(), "dtc").partial_fit(X, y)
    text = checked_page(page(build(model)))
    assert "376, in a fit and 1 later update" in text


@pytest.mark.slow
def test_many_inputs():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 280))
    content = build(fitted(X, X[:, 7], "dtc", max_iter=2), X, X[:, 7])
    text = checked_page(page(content))
    assert len(content.effects) == 6
    assert "the 20 most relevant of 280" in text
    assert text.count('<td title="x') == 280 + len(content.checked.regions)


# -- the file and the command --------------------------------------------------------------------


def test_a_file_is_not_replaced_unasked(model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_report(model, path)
    assert path.read_text() == "mine"
    model.report(path, X_NEW, Y_NEW, title="Mine", overwrite=True)
    assert "<h1>Mine</h1>" in path.read_text()
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_report(model, tmp_path / "nowhere" / "report.html")
    with pytest.raises(NotFittedError):
        write_report(SparseGPRegressor(), tmp_path / "other.html")


def test_command(tmp_path):
    data = X_TRAIN.iloc[:, :1].set_axis(["a"], axis=1).assign(target=Y_TRAIN)
    data.to_csv(tmp_path / "data.csv", index=False)
    dataset = open_dataset(tmp_path / "data.csv", target="target")
    fitted(dataset, None, "dtc", hyperparameters="point").save(tmp_path / "model.gp")
    out = tmp_path / "r.html"
    command = ["report", str(tmp_path / "model.gp"), str(tmp_path / "data.csv"), "--out", str(out)]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["rows"] == 256 and result["bytes"] == out.stat().st_size
    assert result["target"] == "target" and result["findings"]
    assert "Model of target" in out.read_text()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2 and "--force" in again.output
    forced = CliRunner().invoke(app, [*command[:2], "--out", str(out), "--force", "--title", "T"])
    assert forced.exit_code == 0 and "<h1>T</h1>" in out.read_text()
    assert "No rows were given" in forced.output


# -- the card of a model --------------------------------------------------------------------------


def printed(value) -> str:
    stream = io.StringIO()
    Console(file=stream, width=100).print(value)
    return stream.getvalue()


def test_unfitted_it_is_scikit_learns():
    model = SparseGPRegressor("dtc", max_iter=3)
    assert printed(model).strip() == repr(model)
    assert "border-radius:8px" not in model._repr_mimebundle_()["text/html"]
    assert "sk-estimator" in model._repr_html_()


def test_fitted_it_has_a_card(model):
    text = printed(model)
    row = model.hyperparameters_.row(f"inverse_lengthscale[{EVIL}]")
    assert "pic, fitted" in text and EVIL in text
    assert f"{row['standardised']:.3g}" in text
    assert f"{row['standardised_lower']:.3g} to {row['standardised_upper']:.3g}" in text
    assert model.fit_result_.status in text
    assert repr(model) == repr(SparseGPRegressor(**model.get_params()))


def test_notebooks_get_the_card_and_the_diagram(model):
    html = model._repr_mimebundle_()["text/html"]
    ids = re.compile("sk-[a-z-]*id-[0-9]+")  # scikit-learn counts up
    assert ids.sub("", html) == ids.sub("", model._repr_html_())
    assert "pic, fitted" in html and "sk-estimator" in html
    assert EVIL not in html and "&lt;script&gt;" in html
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")
