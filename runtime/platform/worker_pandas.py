"""pandas in a Python worker: there when somebody uses it, and not before.

The first value of Python's or numpy's that becomes one of Arrow has PyArrow import pandas, to know its objects when it
sees them.  That takes a third of a second of a core, of every worker that starts: of the first tasks of a job, and of
the first ones after a pause in which Spark has ended its workers.  But as long as nobody has imported pandas there are
no objects of it.  So PyArrow is told that it is not there, and looks again as soon as it is.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyarrow as pa

_PANDAS = "pandas"
#: What PyArrow knows of pandas by; another version may have another name for it.
_SHIM = "_pandas_api"
_done = False


def put_pandas_off() -> None:
    """Have this process import pandas when somebody asks for it by name; called as a task begins.

    Without effect where it is there already, or PyArrow has looked for it.
    """
    global _done
    if _done:
        return
    _done = True
    if _PANDAS in sys.modules or not hasattr(pa.lib, _SHIM):
        return
    hidden = _Hidden(threading.get_ident())
    sys.meta_path.insert(0, hidden)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(hidden)
    sys.meta_path.insert(0, _Noticed())


class _Hidden(MetaPathFinder):
    """Hides pandas from one thread; others may be importing it."""

    def __init__(self, thread_id: int) -> None:
        self._thread_id = thread_id

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS and threading.get_ident() == self._thread_id:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


class _Noticed(MetaPathFinder):
    """Finds pandas where the other finders do, and has PyArrow look for it when it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PANDAS:
            return None
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ToldLoader(spec.loader, self)
                return spec
        return None


class _ToldLoader(Loader):
    """Loads as another loader does, which it gives back its place."""

    def __init__(self, loader: Any, noticed: _Noticed) -> None:
        self._loader = loader
        self._noticed = noticed

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self._noticed)
        with contextlib.suppress(ImportError):  # of a version that PyArrow does without
            getattr(pa.lib, _SHIM).pd  # noqa: B018  (looks for it)
