"""The report of a fitted model: one HTML file that needs nothing beside itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaicgp.estimator import SparseGPRegressor
    from mosaicgp.report.content import Content

__all__ = ["write_report"]


def write_report(
    model: SparseGPRegressor,
    path: str | Path,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    overwrite: bool = False,
) -> Content:
    """Write a report of a fitted model to an HTML file, and return the numbers in it.

    Parameters
    ----------
    model : fitted SparseGPRegressor
    path : the file to write; it appears when it is whole
    X, y : rows to check the model by, best ones that it was not trained on; X may be a dataset
        with its target in it, y left out. Of more than 10,000 so many are drawn at random. None
        takes training rows, where the model keeps them ("pic" does).
    title : heading; "Model of" the target if None
    overwrite : whether a file that is there may be replaced
    """
    from sklearn.utils.validation import check_is_fitted

    from mosaicgp.atomic import whole_file
    from mosaicgp.report.content import build
    from mosaicgp.report.page import page

    check_is_fitted(model)
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already; pass overwrite=True to replace it.")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into.")
    content = build(model, X, y, title)
    text = page(content)
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return content
