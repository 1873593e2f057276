"""Replaces methods of PySpark's classes by our own, each of which calls Spark's.

A class whose module nobody has imported yet gets them when it is imported; a program that never does pays nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import Lock
from types import ModuleType
from typing import Any

#: What a method stands in the place of, and what has made it.
_STOCK, _MADE_BY = "__mixedmode_stock__", "__mixedmode_replacement__"
_LOCK = Lock()
_awaited: set[str] = set()

#: Makes the method that takes the place of another one, which it is given.
Replacement = Callable[[Callable[..., Any]], Callable[..., Any]]


def replace_method(of: type, name: str, replacement: Replacement) -> None:
    """Put a method in the place of one of Spark's; once for each replacement, the last one in front of all others.

    Args:
        of: the class.
        name: the method's name.
        replacement: makes it.
    """
    made_by = replacement.func if isinstance(replacement, functools.partial) else replacement
    with _LOCK:
        before = getattr(of, name)
        if any(getattr(one, _MADE_BY, None) is made_by for one in _chain(before)):
            return
        method = functools.wraps(before)(replacement(before))
        setattr(method, _STOCK, before)
        setattr(method, _MADE_BY, made_by)
        setattr(of, name, method)


def stock_method(of: type, name: str) -> Callable[..., Any]:
    """Spark's own method, whether or not others are in its place."""
    return list(_chain(getattr(of, name)))[-1]


def _chain(method: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A method and those that it stands in the place of."""
    while True:
        yield method
        if _STOCK not in vars(method):
            return
        method = vars(method)[_STOCK]


def when_imported(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if it is there, else when it is imported.  Of several calls the first counts.

    Args:
        name: of the module.
        call: the function.
    """
    with _LOCK:
        if name in _awaited:
            return
        _awaited.add(name)
        if name not in sys.modules:
            sys.meta_path.insert(0, _Finder(name, call))
            return
    call(sys.modules[name])


class _Finder(MetaPathFinder):
    """Finds one module, once, as Python does, and has it loaded with a call at the end."""

    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name, self._call = name, call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            sys.meta_path.remove(self)
            spec.loader = _Loader(spec.loader, self._call)
        return spec


class _Loader(Loader):
    """Loads as another loader, which the module has for its own afterwards."""

    def __init__(self, loader: Loader, call: Callable[[ModuleType], None]) -> None:
        self._loader, self._call = loader, call

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._call(module)
