"""Lays the facts of a plan out as text."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from ...runtime.checkpoints.identity import spoken

#: Text is wrapped here; Spark's own plans are printed as they come.
_WIDTH = 110


def trigger_text(name: str, value: Any) -> str:
    """A property of the trigger."""
    text = f"{name} = {value_text(value)}"
    if name == "processingTime" and value_text(value).split(" ")[0] == "0":
        text += ": a micro-batch as soon as the one before is done"
    if name == "realTime":
        text += ": epochs of Real-Time Mode; rows are processed and sent as they come"
    return text


def wrapped(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names padded to one width, values wrapped beside them."""
    rows = list(facts)
    width = max((len(name) for name, _ in rows), default=0)
    indent = " " * (2 + width + 2)
    for name, value in rows:
        yield from textwrap.wrap(
            value,
            _WIDTH,
            initial_indent=f"  {name:<{width}}  ",
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [f"  {name}"]


def value_text(value: Any) -> str:
    """A described value without the noise of JSON where it is plain."""
    return spoken(value) if isinstance(value, (str, list, tuple)) else json.dumps(value)
