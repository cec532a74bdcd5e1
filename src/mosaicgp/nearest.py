"""Names as users type them: lists of them, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def listed_names(typed: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names of an option that was repeated or has commas in it; one of ``names`` may have some."""
    parts = ([text] if text in names else text.split(",") for text in typed)
    return [part if part in names else part.strip() for some in parts for part in some]


def did_you_mean(name: str, names: Sequence[str], close: float = 0.5) -> str:
    """A sentence with the nearest of ``names``, after a space; nothing if none is near."""
    by_lower = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=close)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def column_hint(name: str, columns: Sequence[str]) -> str:
    """The same for a column of a table, or what is wrong if all columns are read as one."""
    between = [mark for mark in (";", "\t", "|") if len(columns) == 1 and mark in columns[0]]
    if between:
        return f" The columns seem to be separated by {between[0]!r}: save the table with commas."
    return did_you_mean(name, columns)
