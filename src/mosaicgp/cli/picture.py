"""Pictures in files, without a window and without touching pyplot's state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@contextmanager
def picture(path: Path, inches: tuple[float, float]) -> Iterator[Axes]:
    """Axes to draw on, written to the path at the end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mosaicgp.atomic import whole_file

    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    yield figure.subplots()
    with whole_file(path) as beside:
        figure.savefig(beside, dpi=120, format=path.suffix[1:].lower())
