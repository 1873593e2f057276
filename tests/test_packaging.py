"""The package that a user installs: what is in the wheel, and which way imports run."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("planner", "runtime", "sorter", "state")
#: Room -> what it must not import.  Dependencies run downwards only: planner -> runtime -> state, sorter.
FORBIDDEN = {
    "state": {"pyspark", "mixedmode.planner", "mixedmode.runtime"},
    "sorter": {"pyspark", "mixedmode.planner", "mixedmode.runtime"},
    "runtime": {"mixedmode.planner"},
}


def sources() -> set[str]:
    """The package's files, as paths below ``mixedmode/``."""
    files = [*ROOT.glob("*.py"), ROOT / "py.typed", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
    return {f"mixedmode/{path.relative_to(ROOT)}" for path in files}


def imported_modules(path: Path) -> set[str]:
    """Absolute names of everything that a file imports, type-checking imports left out."""
    package = ("mixedmode", *path.relative_to(ROOT).parent.parts)
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:
                visit(other)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            found.update({module}, (f"{module}.{alias.name}" for alias in node.names))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel built from a copy, so that nothing left over in the checkout gets in."""
    copy = tmp_path_factory.mktemp("wheel") / "any-name"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    build = "import setuptools.build_meta as backend; backend.build_wheel('out')"
    (copy / "out").mkdir()
    done = subprocess.run([sys.executable, "-c", build], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (copy / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_exactly_the_package(wheel_names: set[str]) -> None:
    """The wheel holds every source file of the package, the metadata, and nothing else (no top-level ``state``)."""
    content = {name for name in wheel_names if ".dist-info/" not in name}
    assert content == sources()


def test_wheel_holds_the_licence(wheel_names: set[str]) -> None:
    """The licence text is installed with the package."""
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


def test_the_command_leads_somewhere() -> None:
    """The console script ``mixedmode`` names a function that is there."""
    found = re.search(r'^mixedmode = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    assert callable(getattr(importlib.import_module(found[1]), found[2]))


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_imports_run_downwards(room: str) -> None:
    """No file of a room imports a room above it, and state and sorter know nothing of Spark."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for module in sorted(imported_modules(path))
        if any(module == above or module.startswith(f"{above}.") for above in FORBIDDEN[room])
    ]
    assert wrong == []


def test_relative_imports_are_resolved(tmp_path: Path) -> None:
    """The import check sees through relative imports, so that it can fail."""
    path = ROOT / "sorter" / "external.py"
    assert "mixedmode.errors" in imported_modules(path)


def test_tests_import_this_checkout() -> None:
    """``import mixedmode`` means the checkout that the tests belong to, not another installed copy."""
    import mixedmode

    assert Path(str(mixedmode.__file__)).resolve().parent == ROOT
