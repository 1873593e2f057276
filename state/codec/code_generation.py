"""Functions whose source is made for a schema."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

#: Where a traceback says they are from: a file of ours, of which there are no lines to show.
_FILE = f"{__file__} (made)"


def made_function(name: str, source: str, scope: dict[str, Any]) -> Any:
    """The function of that name that ``source`` defines; ``scope``: the other names in it."""
    exec(_compiled(source), scope)
    return scope[name]


@lru_cache(maxsize=64)
def _compiled(source: str) -> Any:
    """Each epoch of the stream asks for the same again."""
    return compile(source, _FILE, "exec")
