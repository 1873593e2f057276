"""Which code an object is made of, as a digest: the same digest computes the same."""

from __future__ import annotations

import hashlib
import os
import pickle
import site
import sys
import sysconfig
from types import FunctionType
from typing import Any


def code_fingerprint(instance: object) -> str | None:
    """Digest of a user's object, or function: its attributes and the source of all loaded code that is not installed.

    Sources, not pickles: a pickle of a class holds a random id, or only its name.  A change in any of the user's
    modules changes the digest, needed or not.
    """
    named: Any = instance if isinstance(instance, FunctionType) else type(instance)
    if _source_file(sys.modules.get(named.__module__)) is None:
        return None
    try:
        attributes = pickle.dumps(_attributes(instance), protocol=4)
    except Exception:  # whatever an attribute's own __reduce__ raises
        return None
    digest = hashlib.sha256(attributes + named.__qualname__.encode())
    for path in sorted(filter(None, map(_source_file, list(sys.modules.values())))):
        if not _installed(path):
            with open(path, "rb") as file:
                digest.update(path.encode() + b"\0" + file.read())
    return digest.hexdigest()


def _attributes(instance: object) -> Any:
    """What an object computes with besides its code."""
    if not isinstance(instance, FunctionType):
        return vars(instance)
    enclosed = [cell.cell_contents for cell in instance.__closure__ or ()]
    return [vars(instance), instance.__defaults__, instance.__kwdefaults__, enclosed]


def _source_file(module: Any) -> str | None:
    path = getattr(module, "__file__", None)
    return path if isinstance(path, str) and path.endswith(".py") and os.path.isfile(path) else None


_INSTALLED = tuple(
    os.path.realpath(folder)
    for folder in {*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
)


def _installed(path: str) -> bool:
    return os.path.realpath(path).startswith(_INSTALLED)
