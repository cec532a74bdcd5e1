"""The time of a training step, and the pictures of the benchmarks."""

import resource
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

WINDOW = 25  # steps; what the validation score takes at every fiftieth is in every second window


def step_ms(seconds: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Milliseconds of a step in each window of the search, in which all steps do the same.

    The first windows, which wait for compilation, are left out. The median is that of a step that
    nothing else disturbed.
    """
    seconds, rates = np.asarray(seconds), np.asarray(rates)
    found = seconds[rates == rates.max()][2 * WINDOW :: WINDOW]
    return (1e3 * np.diff(found) / WINDOW).tolist()


def peak_mb() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def plot_by_rows(
    path: Path, panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]]
) -> None:
    """One panel a figure, one line a name: (rows, values)."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(7.2, 2.6), layout="constrained")
    for ax, (title, lines) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        for name, (rows, values) in lines.items():
            ax.semilogx(rows, values, marker="o", markersize=4, label=name)
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("rows")
        ax.set_title(title, fontsize="medium")
        if len(lines) > 1:
            ax.legend(frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def plot_bars(path: Path, panels: Mapping[str, Mapping[str, float]], form: str) -> None:
    """One panel a figure, one bar a name, with its value."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(7.6, 2.6), layout="constrained")
    for ax, (title, values) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        names = sorted(values, key=lambda name: values[name], reverse=True)
        colours = ["C0" if "mosaicgp" in name else "0.7" for name in names]
        bars = ax.barh(names, [values[name] for name in names], color=colours)
        ax.bar_label(bars, fmt=form, padding=3)
        ax.set_xlim(right=1.25 * max(values.values()))
        ax.set_title(title, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    plt.close(figure)
