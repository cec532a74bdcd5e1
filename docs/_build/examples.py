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
            parts += [text[end : match.start()], _with_output(match[0], example, output)]
            parts += [_image(figure, example.indent) for figure in drawn]
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
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        exec(code, names)
    return printed.getvalue().rstrip()


def _run_console(example: Example, names: dict[str, Any], page: str) -> str:
    """The commands, each with what it prints for a terminal 84 columns wide.

    What the page has below a command is what it printed once, for who reads the page unbuilt; it
    is replaced. Where that begins with "Error", the command has to fail.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "COLUMNS": "84", "NO_COLOR": "1"}
    said = []
    for part in re.split(r"^\$ ", example.code, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:[^\n]*\\\n)*[^\n]*", part)[0]
        recorded = part[len(command) :].lstrip()
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        printed = done.stdout.rstrip()
        if bool(done.returncode) != recorded.startswith("Error"):
            raise ExampleError(f"`{command}` ended with {done.returncode}: {printed}")
        said.append(f"$ {command}\n{printed}".rstrip())
    return "\n".join(said)


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


def _with_output(block: str, example: Example, output: str) -> str:
    """The block as the page shows it: commands with their output in one, Python above its own."""
    if not example.shown:
        return ""
    if example.language == "console":
        return textwrap.indent(f"```console\n{output}\n```", example.indent)
    if not output:
        return block
    shown = f"```{{ .text .output }}\n{output}\n```"
    return f"{block}\n\n{textwrap.indent(shown, example.indent)}"


def _image(figure: Figure, indent: str) -> str:
    return f"\n\n{indent}![{figure.alternative}](figures/{figure.name}){{ .figure }}"
