"""The documentation: its pages, links, commands and quoted messages; `make docs` builds it."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from mosaicgp.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(#[^)\s]*)?\)")


def load(name):
    """A module of docs/_build, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"_build/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


examples, pages = load("examples"), load("pages")


def relative(path):
    return path.relative_to(ROOT).as_posix()


def nav_entries():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    return re.findall(r"[\w/*-]+\.md", text)


def without_fences(text):
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_every_page_is_in_the_nav_and_every_entry_is_there():
    listed = pages.expanded(nav_entries(), DOCS)
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(
        there | {name for name in pages.FROM_ROOT.values() if ".md" in name}
    )


def test_patterns_in_the_nav(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("a/2.md", "a/1.md", "cli.md"):
        (tmp_path / name).touch()
    nav = ["index.md", {"A": ["a/*.md", {"Command line": "cli*.md"}]}, {"B": ["none/*.md"]}]
    expected = ["index.md", {"A": ["a/1.md", "a/2.md", {"Command line": "cli.md"}]}]
    assert pages.expanded(nav, tmp_path) == expected


def test_links_of_the_repository_become_links_of_the_site():
    text = "[a](docs/a.md) [b](CONTRIBUTING.md#x) [c](README.md) [d](LICENSE) [e](f.md)"
    expected = "[a](a.md) [b](CONTRIBUTING.md#x) [c](index.md) [d](LICENSE.txt) [e](f.md)"
    assert pages.turned(text, "index.md") == expected
    assert pages.turned("[b](../CONTRIBUTING.md#x)", "page.md") == "[b](CONTRIBUTING.md#x)"
    text = "[b](../../CHANGELOG.md) [c](../../README.md#x) [d](README.md#y)"  # d is beside it
    expected = "[b](../CHANGELOG.md) [c](../index.md#x) [d](README.md#y)"
    assert pages.turned(text, "a/b.md") == expected


def anchors(path):
    """Those of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", without_fences(path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_links_lead_to_files_and_headings(path):
    text = re.sub(r"`[^`\n]*`", "", without_fences(path.read_text("utf-8")))
    for target, anchor in LINK.findall(text):
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not anchor or anchor[1:] in anchors(page), target + anchor


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_examples_are_python(path):
    for _, example in examples.find(path.read_text("utf-8")):
        if example.language == "python":
            compile(example.code, str(path), "exec")
        else:
            assert example.code.startswith("$ ")


def test_an_example_that_fails_names_its_line():
    with pytest.raises(examples.ExampleError, match=r"page\.md, example at line 4: ValueError: no"):
        examples.run("# A page\n\n```python\nraise ValueError('no')\n```\n", "page")
    with pytest.raises(examples.ExampleError, match="UserWarning"):
        examples.run("```python\nimport warnings\nwarnings.warn('x')\n```\n", "page")
    with pytest.raises(examples.ExampleError, match="`false` ended with 1"):
        examples.run("```console\n$ true\n$ false\n```\n", "page")
    with pytest.raises(examples.ExampleError, match="`true` ended with 0"):
        examples.run("```console\n$ true\nError: no\n```\n", "page")


def test_what_examples_print_and_draw_stands_below_them():
    text = "\n".join(
        [
            "<!-- run\nimport matplotlib.pyplot as plt\nprint('unseen')\n-->",
            "=== tab\n",
            "    ```python\n    print('a')\n    plt.plot([1])[0].axes.set_title('line')\n    ```",
            "```console\n$ echo \\\nb\nprinted once\n```",
            "```py\nno python\n```\n",
        ]
    )
    page = examples.run(text, "page")
    assert page.outputs == ["unseen", "a", "$ echo \\\nb\nb"]
    assert "unseen" not in page.text
    assert "    ```{ .text .output }\n    a\n    ```" in page.text
    assert "    ![line](figures/page-1.svg){ .figure }" in page.text
    assert b"<svg" in page.figures[0].content
    assert "```py\nno python\n```" in page.text


def test_the_examples_of_data_and_serving_run():
    shown = "\n".join(run_page("data").outputs).splitlines()
    assert shown[0] == "(3, 6) (3,)" and shown[2:4] == ["3 rows kept, 1 dropped", "(4, 6) None"]
    assert shown[4].startswith("column 'delay' has a missing value (null or NaN) in row 2.")
    outputs = run_page("serving").outputs
    assert outputs[1] == "True"
    assert float(outputs[3].removeprefix("largest difference: ")) < 1e-9


def test_the_examples_of_the_rivals_run():
    errors = dict(output.split() for output in run_page("rivals").outputs if output)
    assert list(errors) == ["FullGP", "RobustBCM", "VSSGPR", "DistVGP"]
    assert max(map(float, errors.values())) < 0.5


def run_page(name):
    return examples.run((DOCS / f"{name}.md").read_text(encoding="utf-8"), name)


# -- what pages quote ----------------------------------------------------------------------------


def source_strings():
    """Every string of the source, with … for what is formatted into it."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


SOURCE_STRINGS = set(source_strings())


def quoted_messages():
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    return re.findall(r"^#### `(.*)`$", text, re.MULTILINE)


@pytest.mark.parametrize("message", quoted_messages())
def test_quoted_messages_are_those_of_the_source(message):
    words = [part.strip() for part in message.split("…") if part.strip()]
    pattern = re.compile(".*".join(map(re.escape, words)), re.DOTALL)
    assert any(pattern.search(string) for string in SOURCE_STRINGS)


def shown_commands():
    """The `mosaicgp` commands of all pages."""
    for path in PAGES:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", path.read_text("utf-8"), re.DOTALL):
            for line in block.replace("\\\n", "").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words and words[0] == "mosaicgp" and "|" not in words:
                    yield pytest.param(words[1:], id=" ".join(words))


@pytest.mark.parametrize("words", list(shown_commands()))
def test_shown_commands_are_understood(words):
    group = typer.main.get_command(app)
    context = group.make_context("mosaicgp", list(words), resilient_parsing=True)
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    if "--help" not in rest:
        command.make_context(name, rest, parent=context)


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
    assert (tmp_path / "index.html").exists() and (tmp_path / "figures/choosing-1.svg").exists()
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css)', page.read_text("utf-8"))
