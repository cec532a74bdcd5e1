"""Small tables for people: columns by name, printed aligned, handed on to pandas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np
from scipy.special import ndtri

from mosaicgp.data.scaling import Scaling
from mosaicgp.posterior import Posterior


class Table(Mapping[str, np.ndarray]):
    """An immutable table: ``table["mean"]`` is a column, ``table.row("sigma_f")`` a row."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {name: np.array(values) for name, values in columns.items()}
        if len({len(column) for column in self._columns.values()}) > 1:
            raise ValueError("columns of a table must have the same length")
        for column in self._columns.values():
            column.flags.writeable = False

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {list(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """Number of columns, as for any mapping; ``n_rows`` counts the rows."""
        return len(self._columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def row(self, name: str) -> dict[str, Any]:
        """The row whose ``name`` column equals ``name``."""
        found = np.flatnonzero(self["name"] == name)
        if len(found) == 0:
            raise KeyError(f"no row {name!r}; there are {list(self['name'])}")
        return {column: values[found[0]] for column, values in self._columns.items()}

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the same columns (needs pandas)."""
        import pandas

        return pandas.DataFrame({name: column.copy() for name, column in self._columns.items()})

    def _cells(self) -> list[list[str]]:
        def text(value: Any) -> str:
            if not isinstance(value, float | np.floating):
                return str(value)
            number = float(value)
            return f"{number:.4g}" if abs(number) < 1000 else f"{number:.2f}"

        return [[text(value) for value in row] for row in zip(*self._columns.values(), strict=True)]

    def __repr__(self) -> str:
        rows = [list(self._columns), *self._cells()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._cells()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def hyperparameter_table(
    posterior: Posterior,
    scaling: Scaling,
    names: list[str],
    has_eps: bool,
    theta_variance: np.ndarray | None = None,
) -> Table:
    """Posterior mean, std and 95% interval of every hyperparameter, in the user's units.

    ``theta_variance`` (d + 1,) replaces the variances of q(θ).

    λ and −λ are the same kernel, so it is |λ| and |σ_f| that are reported. The columns
    ``standardised*`` are per scale of the input (its standard deviation, of a rare flag more) and
    of the target, and so compare between inputs. The noise has point estimates only: standard
    deviation zero.
    """
    d = len(names)
    per_input = 1.0 / np.asarray(scaling.X_scale)
    label = [f"inverse_lengthscale[{name}]" for name in names] + ["sigma_f", "noise_std"]
    mean = np.append(posterior.nu, [posterior.alpha, np.sqrt(posterior.noise_variance)])
    if theta_variance is None:
        theta_variance = np.append(posterior.xi, posterior.beta)
    variance = np.append(theta_variance, 0.0)
    unit = np.append(per_input, [scaling.y_scale, scaling.y_scale])
    if has_eps:
        label += ["eps_std"] + [f"eps_inverse_lengthscale[{name}]" for name in names]
        mean = np.concatenate([mean, [np.sqrt(posterior.eps_variance)], posterior.eps_lam])
        variance = np.append(variance, np.zeros(d + 1))
        unit = np.concatenate([unit, [scaling.y_scale], per_input])
    centre, std, lower, upper = _folded(mean, np.sqrt(variance))
    return Table(
        {
            "name": label,
            "mean": centre * unit,
            "std": std * unit,
            "lower": lower * unit,
            "upper": upper * unit,
            "standardised": centre,
            "standardised_lower": lower,
            "standardised_upper": upper,
        }
    )


def _folded(mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean, std and central 95% interval of |x| for x ~ N(mean, std²)."""
    mean = np.abs(mean)
    z = ndtri(0.975)
    centre, spread = mean.copy(), std.copy()
    lower, upper = mean - z * std, mean + z * std
    # Far from zero folding changes nothing, and foldnorm loses its precision.
    near = (std > 0) & (mean < 8 * std)
    if near.any():
        from scipy.stats import foldnorm  # here: slow to import

        shape = mean[near] / std[near]
        centre[near], variance = foldnorm.stats(shape, scale=std[near], moments="mv")
        spread[near] = np.sqrt(variance)
        lower[near] = foldnorm.ppf(0.025, shape, scale=std[near])
        upper[near] = foldnorm.ppf(0.975, shape, scale=std[near])
    return centre, spread, lower, upper
