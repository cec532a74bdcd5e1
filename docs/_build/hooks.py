"""Hooks of mkdocs: adds the pages at the root of the repository, and runs the examples of all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import examples
import pages

ROOT = Path(__file__).parents[2]


def on_config(config: Any) -> Any:
    config.nav = pages.expanded(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: Any) -> Files:
    for source, page in pages.FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    uri = page.file.src_uri
    try:
        ran = examples.run(markdown, uri.removesuffix(".md"))
    except examples.ExampleError as error:
        raise PluginError(str(error)) from error
    for figure in ran.figures:
        path = (Path(uri).parent / "figures" / figure.name).as_posix()
        files.append(File.generated(config, path, content=figure.content))
    return pages.turned(ran.text, uri)
