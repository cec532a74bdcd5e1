"""Which pages the site has, and how links of the repository become links of the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# Files at the root of the repository that are pages too, under these names.
FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE.txt",
}


def expanded(nav: list[Any], docs: Path) -> list[Any]:
    """The nav with patterns (``benchmarks/*.md``) replaced by the pages that match them.

    A title before a pattern becomes that of its page. A pattern without pages goes, and so does a
    section without any.
    """
    pages: list[Any] = []
    for entry in nav:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            if inside := expanded(value, docs):
                pages.append({title: inside})
        elif "*" in value:
            found = sorted(path.relative_to(docs).as_posix() for path in docs.glob(value))
            pages += [path if title is None else {title: path} for path in found]
        else:
            pages.append(entry)
    return pages


def turned(markdown: str, page: str) -> str:
    """Links out of ``docs/``, right in the repository, as links between pages of the site."""
    up = "../" * page.count("/")

    def turn(match: re.Match[str]) -> str:
        climb, target = match.groups()
        if not climb and page not in FROM_ROOT.values():
            return match[0]  # beside the page, a README of a folder say
        if target.startswith("docs/"):
            return f"]({up}{target.removeprefix('docs/')}"
        return f"]({up}{FROM_ROOT[target]}"

    names = "|".join(map(re.escape, FROM_ROOT))
    return re.sub(rf"\]\(((?:\.\./)*)(docs/[^)#]+|{names})(?=[)#])", turn, markdown)
