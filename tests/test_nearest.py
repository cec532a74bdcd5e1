"""Names as users type them."""

import pytest

from mosaicgp.nearest import column_hint, did_you_mean, listed_names


def test_lists_of_names_are_repeated_or_have_commas():
    names = ["a", "b", "c, d", " e"]
    assert listed_names(["a", "b"], names) == ["a", "b"]
    assert listed_names(["a, b", "x,y"], names) == ["a", "b", "x", "y"]
    assert listed_names(["c, d", " e"], names) == ["c, d", " e"]
    assert listed_names([], names) == []


def test_the_nearest_name():
    assert did_you_mean("Prize", ["price", "area"]) == " Did you mean 'price'?"
    assert did_you_mean("zzz", ["price", "area"]) == ""


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_columns_that_were_read_as_one(mark):
    hint = column_hint("price", [mark.join(["id", "area", "price"])])
    assert f"separated by {mark!r}" in hint and "commas" in hint
    assert column_hint("price", ["id;x", "prices"]) == " Did you mean 'prices'?"
