"""Functions whose source is made for a schema."""

from __future__ import annotations

from typing import Any

#: Where a traceback says they are from: a file of ours, of which there are no lines to show.
_FILE = f"{__file__} (made)"


def made_function(name: str, source: str, scope: dict[str, Any]) -> Any:
    """The function of that name that ``source`` defines; ``scope``: the other names in it."""
    exec(compile(source, _FILE, "exec"), scope)
    return scope[name]
