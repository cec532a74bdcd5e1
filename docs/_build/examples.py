"""Runs the examples of a page and puts what they print and draw below them.

A page is a session: its blocks share their names, and a folder that is theirs alone.

- ```` ```python ```` runs, and so does every line of ```` ```console ```` that begins with "$ ";
- a comment ``<!-- run ... -->`` is Python that runs unseen, for data that an example needs and for
  pictures that need no code beside them;
- ```` ```py ````, ```` ```sh ```` and every other fence are shown as they are.

An exception, a warning or a command that fails ends the build, and names the line of the page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^(?P<indent>[ ]*)```(?P<language>python|console)(?: [^\n]*)?\n(?P<code>.*?)^(?P=indent)```$"
    r"|^<!-- run\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)
FIGURE_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "savefig.transparent": True,
    "svg.hashsalt": "mosaicgp",
}


class ExampleError(Exception):
    """An example of the documentation does not run; the message says where and why."""


@dataclass(frozen=True)
class Example:
    """A block that runs: where it begins (lines from 1), and how far it stands from the margin."""

    language: str
    code: str
    line: int
    indent: str
    shown: bool


@dataclass(frozen=True)
class Figure:
    """A picture that an example drew, as SVG."""

    name: str
    alternative: str
    content: bytes


@dataclass(frozen=True)
class Page:
    """A page after its examples ran: its text with what they said, and the pictures it shows."""

    text: str
    figures: list[Figure]
    outputs: list[str]


def find(text: str) -> Iterator[tuple[re.Match[str], Example]]:
    """The blocks of a page that run, in their order."""
    for match in BLOCK.finditer(text):
        hidden = match["hidden"]
        code = textwrap.dedent(match["code"] if hidden is None else hidden)
        line = text.count("\n", 0, match.start()) + 2
        language = "python" if hidden is not None else match["language"]
        yield match, Example(language, code, line, match["indent"] or "", hidden is None)


def run(text: str, name: str) -> Page:
    """Run the examples of the page called ``name`` (without .md) in a new folder."""
    blocks = list(find(text))
    if not blocks:
        return Page(text, [], [])
    parts: list[str] = []
    figures: list[Figure] = []
    outputs: list[str] = []
    end = 0
    names: dict[str, Any] = {"__name__": "__main__"}
    with _session():
        for match, example in blocks:
            output = _output(example, names, f"{name}.md")
            drawn = _figures(f"{name.replace('/', '-')}-{len(figures) + 1}")
            parts += [text[end : match.start()], match[0] if example.shown else ""]
            parts.append(_below(output, drawn, example))
            figures += drawn
            outputs.append(output)
            end = match.end()
    return Page("".join([*parts, text[end:]]), figures, outputs)


@contextlib.contextmanager
def _session() -> Iterator[None]:
    import matplotlib

    matplotlib.use("agg")
    with (
        tempfile.TemporaryDirectory(prefix="mosaicgp-docs-") as folder,
        contextlib.chdir(folder),
        matplotlib.rc_context(FIGURE_STYLE),
    ):
        sys.path.insert(0, folder)  # as for a script in that folder
        try:
            yield
        finally:
            sys.path.remove(folder)


def _output(example: Example, names: dict[str, Any], page: str) -> str:
    run_block = _run_python if example.language == "python" else _run_console
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return run_block(example, names, page)
    except Exception as error:
        where = f"{page}, example at line {example.line}"
        raise ExampleError(f"{where}: {type(error).__name__}: {error}") from error


def _run_python(example: Example, names: dict[str, Any], page: str) -> str:
    # Empty lines before it: a traceback then has the line numbers of the page.
    code = compile("\n" * (example.line - 1) + example.code, page, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue().rstrip()


def _run_console(example: Example, names: dict[str, Any], page: str) -> str:
    """What the commands print, for a terminal 100 columns wide."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    said = []
    continued = example.code.replace("\\\n", "")
    for command in re.findall(r"^\$ (.*)$", continued, re.MULTILINE):
        done = subprocess.run(
            command, shell=True, text=True, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise ExampleError(f"`{command}` ended with {done.returncode}: {done.stdout.strip()}")
        said.append(done.stdout.rstrip())
    return "\n".join(line for line in said if line)


def _figures(first: str) -> list[Figure]:
    """The open figures of pyplot, which are closed."""
    import matplotlib.pyplot as plt

    drawn = []
    for number in plt.get_fignums():
        figure, content = plt.figure(number), io.BytesIO()
        titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
        alternative = figure.get_label() or "; ".join(titles)
        if not alternative:
            raise ExampleError("a figure needs words for those who cannot see it: give it a title")
        figure.savefig(content, format="svg", metadata={"Date": None})
        name = f"{first}.svg" if not drawn else f"{first}-{len(drawn)}.svg"
        drawn.append(Figure(name, alternative, content.getvalue()))
    plt.close("all")
    return drawn


def _below(output: str, figures: list[Figure], example: Example) -> str:
    parts = [f"```{{ .text .output }}\n{output}\n```"] if output and example.shown else []
    parts += [f"![{f.alternative}](figures/{f.name}){{ .figure }}" for f in figures]
    return "".join("\n\n" + textwrap.indent(part, example.indent) for part in parts)
