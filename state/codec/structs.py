"""Structs inside state values and map keys: what is taken for one, and what they come back as.

They come back as plain tuples here, and as ``Row`` for a PySpark processor, which hands in the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .conversions import MisfitError

#: Makes the class of the structs that have the given fields; their instances are made by ``tuple.__new__``.
StructClass = Callable[[Sequence[str]], type[tuple[Any, ...]]]


def plain_tuple(names: Sequence[str]) -> type[tuple[Any, ...]]:
    """The :data:`StructClass` for whom a struct is just a tuple."""
    return tuple


def struct_values(value: Any, names: Sequence[str]) -> Sequence[Any]:
    """One value per field: of a tuple, list or ``Row`` by place, of a dict or an object with attributes by name."""
    if isinstance(value, (tuple, list)):
        if len(value) == len(names):
            return value
    else:
        found = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        # A dict may leave fields out; an object that has none of them is something else altogether.
        if isinstance(value, dict) or any(name in found for name in names):
            return [found.get(name) for name in names]
    raise MisfitError(f"a tuple of {len(names)} values ({', '.join(names)}), or a dict")
