"""Options from a TOML file: tables become dotted names, so ``[execution] runtime-mode = "batch"`` is one option."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from ...errors import OptionError, SetupError
from .layers import Layer


def file_layer(path: str | os.PathLike[str]) -> Layer:
    """The options of a TOML file.

    Raises:
        OptionError: the file cannot be read, is not TOML, or holds a value that is no option's.
    """
    toml = _toml()
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            content = toml.load(file)
    except OSError as error:
        raise OptionError(f"options file {name!r} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # TOML and UTF-8 errors alike
        raise OptionError(f"options file {name!r} is not TOML: {error}") from error
    return Layer(name, dict(_flatten(name, "", content)))


def option_text(value: Any) -> str:
    """An option's value as text, as PySpark's writers turn it into text."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flatten(file: str, prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(file, f"{prefix}{key}.", value)
        elif isinstance(value, (str, bool, int, float)):
            yield f"{prefix}{key}", option_text(value)
        else:
            raise OptionError(
                f"{prefix}{key} = {value!r} in {file!r} is of type {type(value).__name__}; an option is a string, a"
                " number or a boolean"
            )


def _toml() -> ModuleType:
    """The standard library's reader, or before Python 3.11 the package it came from."""
    for module in ("tomllib", "tomli"):
        try:
            return importlib.import_module(module)
        except ImportError:
            continue
    raise SetupError("reading an options file needs Python 3.11, or the package tomli: pip install tomli")
