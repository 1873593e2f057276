"""The error of a name that is not there, which says the name that was perhaps meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def no_attribute(of: object, name: str, columns: Sequence[str] = ()) -> AttributeError:
    """The error to be raised.

    Args:
        of: what was asked for the name.
        name: the name.
        columns: what it can be asked for besides its methods.
    """
    known = [*(one for one in dir(type(of)) if not one.startswith("_")), *columns]
    near = {one.lower(): one for one in reversed(known)}
    found = get_close_matches(name.lower(), list(near), 1)
    hint = f"; did you mean {near[found[0]]}?" if found and not name.startswith("_") else ""
    return AttributeError(f"{type(of).__name__} has no attribute {name!r}{hint}")
