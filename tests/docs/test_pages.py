"""What README and the pages of ``docs/`` say is so: their code compiles, and names what there is."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import typer
from mixedmode import MixedQuery
from mixedmode.planner.cli.app import app
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.frames.grouped import MixedGroupedData
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.planner.options.registry import OPTIONS
from mixedmode.testing import Harness

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]*))?\)")
#: Pages that are made when the site is built; `make docs` fails over links to others that are not there.
MADE = ("cli.md", "examples.md", "index.md", "options.md")


def blocks(path: Path, *languages: str) -> Iterator[str]:
    """The code of a page."""
    for indent, language, code in _BLOCK.findall(path.read_text()):
        if language in languages:
            yield "\n".join(line.removeprefix(indent) for line in code.splitlines())


def test_readme_is_short() -> None:
    """README says what, why and how to begin in 700 words; the rest is on pages."""
    assert len(README.read_text().split()) <= 700


def test_readme_example_is_the_file_that_runs() -> None:
    """The example of README is ``examples/quickstart.py``, line by line, which the tests of the examples run."""
    source = (ROOT / "examples" / "quickstart.py").read_text()
    _, _, body = source.partition('"""\n')
    assert next(blocks(README, "python")).strip() == body.strip()


def test_the_example_of_blocks_of_keys_runs() -> None:
    """As it stands on the page, over a backlog and then live."""
    page = ROOT / "docs" / "processors.md"
    (code,) = [code for code in blocks(page, "python") if "def handleArrowRows" in code]
    scope: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), scope)
    columns = {"schema": "customer string, amount double", "output": "customer string, n long, total double"}
    with Harness(scope["Totals"](), key="customer", **columns) as totals:
        told = [*totals.backlog([("b", 2.5), ("a", 1.0), ("b", 0.5)]), *totals.push([("b", 4.0)])]
        assert [tuple(row) for row in told] == [("a", 1, 1.0), ("b", 2, 3.0), ("b", 3, 7.0)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page_names_what_there_is(path: Path) -> None:
    """Python on a page compiles; names of ``mixedmode``, options and commands on it are there, and so are files."""
    options = {name for option in OPTIONS for name in option.names}
    for code in blocks(path, "python"):
        for node in ast.walk(ast.parse(code)):
            for name in _names_of_mixedmode(node):
                assert hasattr(mixedmode, name), f"{path.name}: mixedmode.{name}"
    for name in re.findall(r"`((?:execution|pipeline|state|sorter|sink)\.[a-z.-]*[a-z])`", path.read_text()):
        assert name in options, f"{path.name}: {name}"
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for code in blocks(path, "sh", ""):
        for words in map(_words, code.splitlines()):
            if words[:1] == ["mixedmode"]:
                assert words[1].startswith("-") or words[1] in commands, f"{path.name}: {words}"
    for target, _ in _LINK.findall(path.read_text()):
        there = (path.parent / target).exists() or (path.parent.name == "docs" and target in MADE)
        assert there, f"{path.name}: {target}"


def _names_of_mixedmode(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mixedmode":
        yield node.attr
    if isinstance(node, ast.ImportFrom) and node.module == "mixedmode":
        yield from (alias.name for alias in node.names)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def test_every_public_name_is_documented_with_an_example() -> None:
    """Each public name says what it is and shows how it is used; how errors are, the page on troubleshooting shows."""
    for name in mixedmode.__all__:
        thing = getattr(mixedmode, name)
        told = inspect.getdoc(thing) or ""
        assert len(told.split()) > 4, name
        if not (isinstance(thing, type) and issubclass(thing, mixedmode.MixedModeError)):
            shown = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n?\n*)+", told, re.MULTILINE)]
            assert any(map(_is_example, shown)), f"{name} has no example"


@pytest.mark.parametrize("kind", [MixedFrame, MixedGroupedData, MixedStreamWriter, MixedQuery, Harness])
def test_every_public_method_is_documented_with_an_example(kind: type) -> None:
    """Each method and property of what users call says what it does, shows how, and is on a page of the API."""
    assert any(f"{kind.__module__}.{kind.__name__}\n" in page.read_text() for page in (ROOT / "docs").glob("api-*.md"))
    for name, member in inspect.getmembers(kind, lambda member: callable(member) or isinstance(member, property)):
        told = "" if name.startswith("_") else inspect.getdoc(member) or ""
        if name.startswith("_") or told.startswith("Not supported"):  # what Spark has and a job has not
            continue
        shown = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n?\n*)+", told, re.MULTILINE)]
        shown += re.findall(r"``(.+?)``", told)
        names = {name, getattr(member, "__name__", name)}  # of an alias those of the other one
        assert len(told.split()) > 3 and any(_uses(names, code) for code in shown), f"{kind.__name__}.{name}"


def _uses(names: set[str], code: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in names for node in _nodes(code))


def _is_example(code: str) -> bool:
    """Whether it is Python that does something, unlike the words of a list."""
    return any(isinstance(node, (ast.Call, ast.Import, ast.ImportFrom)) for node in _nodes(code))


def _nodes(code: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return []
