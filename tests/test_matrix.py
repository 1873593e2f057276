"""The versions that ``make test-matrix`` tries, and what it takes for proof."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import matrix
import pytest

TESTS = Path(__file__).parent


def test_the_oldest_allowed_pyarrow_and_the_newest_of_later_majors_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that were asked for are the newest that begin so, even below the range."""
    monkeypatch.setattr(matrix, "_dependencies", lambda: ["pyspark>=4.1", "pyarrow>=9.0.1"])
    offered = ["10.0.1", "10.0.0", "9.1.0", "9.0.1", "9.0.0", "8.0.0", "1.0.0"]
    assert matrix._to_try(offered, ()) == ["9.0.1", "10.0.1"]
    assert matrix._to_try(offered, ("8", "9", "10.0.0", "11")) == ["8.0.0", "9.1.0", "10.0.0"]
    assert matrix._to_try(["8.0.0"], ()) == matrix._to_try([], ()) == []


def test_a_run_with_other_versions_than_it_should_have_is_a_failed_one() -> None:
    """One that says nothing of its versions, too."""
    row, imported = matrix.Row("4.1", "19.0.0"), {"pyspark": "4.1.4", "pyarrow": "19.0.0"}
    assert matrix._passed_with(imported, row) == "passed (pyspark 4.1.4, pyarrow 19.0.0)"
    for changed in ({"pyspark": "4.10.0"}, {"pyarrow": "26.0.1"}):
        assert matrix._passed_with({**imported, **changed}, row).startswith("failed")
    assert matrix._passed_with({}, row).startswith("failed")
    assert matrix._passed_with({}, matrix.Row("4.1")).startswith("failed")


def test_environments_have_what_all_tests_import() -> None:
    """``conftest.py`` and the modules beside it that it imports need nothing else to be imported."""
    seen: set[str] = set()
    libraries: set[str] = set()
    left = ["conftest"]
    while left:
        seen.add(module := left.pop())
        for node in ast.parse((TESTS / f"{module}.py").read_text()).body:
            named = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            named += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {one.split(".")[0] for one in named} - seen:
                if (TESTS / f"{name}.py").exists():
                    left.append(name)
                else:
                    libraries.add(name)
    installed = {
        re.split(r"[<>=;]", one)[0].removeprefix("pytest-") for one in [*matrix._dependencies(), *matrix.TOOLS]
    }
    assert libraries - {*sys.stdlib_module_names, "mixedmode"} <= installed
