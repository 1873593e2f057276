"""The import graph of the package, read from its sources: type hints and imports inside functions are imports, too."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

PACKAGE = "mixedmode"
#: Folders of the package beside the files at its root.
FOLDERS = ("planner", "runtime", "sorter", "state", "testing")


class Sources:
    """Source files by their paths below the package's root.

    Args:
        texts: path with slashes (``runtime/spec.py``) -> Python.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.trees = {path: ast.parse(text, path) for path, text in texts.items()}
        self._found: dict[tuple[Callable[..., Any], ast.Module], list[Any]] = {}

    @classmethod
    def at(cls, root: Path) -> Sources:
        """Those of a checkout."""
        modules = [path for path in root.glob("*.py") if path.name != "setup.py"]
        files = [*modules, *(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))]
        return cls({path.relative_to(root).as_posix(): path.read_text() for path in sorted(files)})

    def changed(self, texts: Mapping[str, str]) -> Sources:
        """A copy with other or more files."""
        copy = Sources(texts)
        copy.trees = {**self.trees, **copy.trees}
        copy._found = self._found
        return copy

    def found(self, path: str, find: Callable[[ast.Module], Iterable[Any]]) -> list[Any]:
        """What a function finds in a file; a file is looked through once, for all copies that have it, too."""
        key = (find, self.trees[path])
        if key not in self._found:
            self._found[key] = [*find(self.trees[path])]
        return self._found[key]

    def imports(self, path: str) -> Iterator[str]:
        """What a file imports: paths of the package's own files, and dotted names of all else."""
        for node in self.found(path, _import_statements):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield self._file(tuple(alias.name.split("."))) or alias.name
            else:
                module = self._base(path, node.level) + tuple((node.module or "").split(".") if node.module else ())
                for alias in node.names:
                    name = (*module, alias.name)
                    yield self._file(name) or self._file(module) or ".".join(name)

    def arrows(self) -> dict[str, set[str]]:
        """The package's files, and for each those that it imports."""
        return {path: {found for found in self.imports(path) if found in self.trees} - {path} for path in self.trees}

    def circle(self) -> list[str]:
        """Files that import each other in a circle, the first one again at the end; empty: there is none."""
        try:
            graphlib.TopologicalSorter(self.arrows()).prepare()
        except graphlib.CycleError as error:
            found: list[str] = error.args[1]
            return found
        return []

    def names(self, path: str, reference: str) -> bool:
        """Whether a reference such as ``..spec.JobSpec``, in a docstring of a file, leads to something."""
        parts = reference.lstrip(".").split(".")
        base = self._base(path, len(reference) - len(reference.lstrip(".")))
        for cut in range(len(parts), 0, -1):
            file = self._file((*base, *parts[:cut]))
            if file is not None:
                return {*self.found(file, _names)}.issuperset(parts[cut:])
        return False

    @staticmethod
    def _base(path: str, level: int) -> tuple[str, ...]:
        """The package that a relative import starts from; () for an absolute one."""
        folders = (PACKAGE, *path.split("/")[:-1])
        return folders[: len(folders) - level + 1] if level else ()

    def _file(self, module: tuple[str, ...]) -> str | None:
        """The file of a dotted name; None: it is not the package's, or is a name inside of a file."""
        if not module or module[0] != PACKAGE:
            return None
        path = "/".join(module[1:])
        candidates = (f"{path}.py", f"{path}/__init__.py") if path else ("__init__.py",)
        return next((one for one in candidates if one in self.trees), None)


def _import_statements(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


def _names(tree: ast.Module) -> Iterator[str]:
    """The names that the statements of a file bind."""
    return (name for node in ast.walk(tree) for name in _bound(node))


def _bound(node: ast.AST) -> tuple[str, ...]:
    """The names that a statement binds."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return (node.name,)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return (node.id,)
    return (node.attr,) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else ()
