"""Hooks of mkdocs: which pages there are, and their examples run (``examples.py``).

README.md is the first page of the site; CONTRIBUTING.md and CHANGELOG.md are pages too, and their
links, which are right in the repository, are turned to the pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import examples

ROOT = Path(__file__).parents[2]
FROM_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md"} | {
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE.txt",
}


def on_config(config: Any) -> Any:
    config.nav = expanded(config.nav, Path(config.docs_dir))
    return config


def expanded(nav: list[Any], docs: Path) -> list[Any]:
    """The nav with patterns (``benchmarks/*.md``) replaced by the pages that match them.

    A title before a pattern becomes that of its one page. A pattern without pages goes.
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


def on_files(files: Files, config: Any) -> Files:
    for source, page in FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    name = page.file.src_uri.removesuffix(".md")
    try:
        ran = examples.run(markdown, name)
    except examples.ExampleError as error:
        raise PluginError(str(error)) from error
    folder = "/".join(name.split("/")[:-1])
    for figure in ran.figures:
        path = f"{folder}/figures/{figure.name}".lstrip("/")
        files.append(File.generated(config, path, content=figure.content))
    return turned(ran.text)


def turned(markdown: str) -> str:
    """Links of the repository as links of the site."""
    markdown = re.sub(r"\]\((?:\.\./)*(?:docs/)", "](", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+(CONTRIBUTING|CHANGELOG)\.md", r"](\1.md", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+README\.md", "](index.md", markdown)
    return re.sub(r"\]\(LICENSE\)", "](LICENSE.txt)", markdown)
