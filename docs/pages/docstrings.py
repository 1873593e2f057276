"""An extension of griffe, which reads docstrings for the pages of the API: it makes Markdown of our own notation.

Roles of reStructuredText (``:meth:`start```) become code, and code that is indented becomes a block of Python.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:meth|class|attr|func|mod):`[~.]*(?:[\w.]*\.)?(\w+)`")
_SECTION = re.compile(r"^(Args|Raises|Returns|Yields|Examples|Attributes):$")


class Docstrings(griffe.Extension):
    """Rewrites each docstring that it meets."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for each class, function, attribute and module."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """The docstring with fenced code, and without roles."""
    lines: list[str] = []
    section = code = False
    for line in _ROLE.sub(r"`\1`", docstring).splitlines():
        if code and line and not line.startswith("    "):
            while not lines[-1]:
                lines.pop()
            lines += ["```", ""]
            code = False
        elif not code and not section and line.startswith("    ") and lines and not lines[-1]:
            lines.append("```python")
            code = True
        if line and not line.startswith(" "):
            section = bool(_SECTION.match(line))
        lines.append(line.removeprefix("    ") if code else line[:-1] if line.endswith("::") else line)
    return "\n".join([*lines, "```"] if code else lines)
