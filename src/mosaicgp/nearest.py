"""A name that is not there, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def did_you_mean(name: str, names: Sequence[str], close: float = 0.5) -> str:
    """A sentence with the nearest of ``names``, after a space; nothing if none is near."""
    by_lower = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=close)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
