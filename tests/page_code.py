"""Code that a page of the documentation shows, to be run by tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).resolve().parents[1] / "docs"


def code_with(page: str, name: str) -> Any:
    """What the one block of a page that has a name defines under it."""
    path = _DOCS / page
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL) if name in code]
    scope: dict[str, Any] = {}
    exec(compile(code, str(path), "exec"), scope)
    return scope[name]
