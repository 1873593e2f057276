"""Computes a digest of an object's code: the same digest computes the same."""

from __future__ import annotations

import hashlib
import os
import pickle
import site
import sys
import sysconfig
from functools import cache
from types import FunctionType
from typing import Any, TypeGuard


def code_fingerprint(instance: object) -> str | None:
    """Digest of a user's object, or function: its attributes and the source of all loaded code that is not installed.
    This package counts as installed, also where it is not.

    Sources, not pickles: a pickle of a class holds a random id, or only its name.  A change in any of the user's
    modules changes the digest, needed or not.
    """
    named: Any = instance if isinstance(instance, FunctionType) else type(instance)
    file = getattr(sys.modules.get(named.__module__), "__file__", None)
    if not (_is_source(file) and os.path.isfile(file)):
        return None
    try:
        attributes = pickle.dumps(_attributes(instance), protocol=4)
    except Exception:  # whatever an attribute's own __reduce__ raises
        return None
    digest = hashlib.sha256(attributes + named.__qualname__.encode())
    # Installed or not is asked first, and once: Spark alone has more than a thousand modules.
    loaded = list(sys.modules.items())
    named_files = [getattr(module, "__file__", None) for name, module in loaded if name.partition(".")[0] != _OURS]
    for path in sorted(one for one in named_files if _is_source(one) and not _installed(one)):
        if os.path.isfile(path):
            with open(path, "rb") as source:
                digest.update(path.encode() + b"\0" + source.read())
    return digest.hexdigest()


def _attributes(instance: object) -> Any:
    """What an object computes with besides its code."""
    if not isinstance(instance, FunctionType):
        return vars(instance)
    enclosed = [cell.cell_contents for cell in instance.__closure__ or ()]
    return [vars(instance), instance.__defaults__, instance.__kwdefaults__, enclosed]


def _is_source(file: Any) -> TypeGuard[str]:
    return isinstance(file, str) and file.endswith(".py")


_INSTALLED = tuple(
    os.path.realpath(folder)
    for folder in {*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
)


#: This package's name.
_OURS = __name__.partition(".")[0]


@cache
def _installed(path: str) -> bool:
    return os.path.realpath(path).startswith(_INSTALLED)
