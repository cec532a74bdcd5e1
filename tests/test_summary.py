"""How a model shows itself in terminals and notebooks."""

from __future__ import annotations

import io

import pytest
import sklearn
from rich.console import Console

from mosaicgp import SparseGPRegressor
from report_models import EVIL, fitted, table


@pytest.fixture(scope="module")
def model():
    X, y = table(60, 0)
    return fitted(X, y, "dtc", max_iter=2)


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
    assert "dtc, fitted" in text and EVIL in text
    assert f"{row['standardised']:.3g}" in text
    assert f"{row['standardised_lower']:.3g} to {row['standardised_upper']:.3g}" in text
    assert model.fit_result_.status in text
    assert repr(model) == repr(SparseGPRegressor(**model.get_params()))


def test_notebooks_get_the_card_and_the_diagram(model):
    html = model._repr_mimebundle_()["text/html"]
    assert html == model._repr_html_()
    assert "dtc, fitted" in html and "sk-estimator" in html
    assert EVIL not in html and "&lt;script&gt;" in html
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")
