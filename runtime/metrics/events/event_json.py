"""Events as lines of JSON, and back; also those that another version of mixedmode has written.

::

    {"v":1,"event":"PhaseBegan","query_id":"…","run_id":"…","name":null,"at_ms":1767225600000,"phase":"backlog"}

``v`` counts changes that an older reader could not make sense of.  Fields that are added do not: they have defaults,
and readers skip what they do not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from .events import EVENTS, RunEvent, UnknownEvent

#: Version of the lines that this code writes.
VERSION = 1
_COMMON = frozenset(one.name for one in fields(RunEvent))


def to_json(event: RunEvent) -> dict[str, Any]:
    """An event as plain data: what ``json.dumps`` takes."""
    body: dict[str, Any] = json.loads(to_line(event))
    return body


def to_line(event: RunEvent) -> bytes:
    """An event as one line, with its end; numbers that JSON does not have (NaN) become null."""
    if isinstance(event, UnknownEvent):
        return msgspec.json.encode(event.body) + b"\n"
    # Not asdict(): it copies all that is below.
    body = {name: getattr(event, name) for name in _NAMES[type(event)]}
    return msgspec.json.encode({"v": VERSION, "event": type(event).__name__, **body}, enc_hook=str) + b"\n"


def of_line(line: bytes | str) -> RunEvent | None:
    """The event of a line; None: it is none, as the last line may be that a killed driver has written."""
    try:
        body = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return of_json(body) if isinstance(body, dict) else None


def of_json(body: Mapping[str, Any]) -> RunEvent | None:
    """The event of what :func:`to_json` made; None: it is none."""
    known = EVENTS.get(body.get("event", ""))
    if known is not None and body.get("v") == VERSION and body.keys() >= _COMMON:
        try:
            return msgspec.convert(body, known)
        except msgspec.ValidationError:
            pass  # a field has become another one
    try:
        common = {name: body[name] for name in _COMMON}
        kind = body["event"]
        return msgspec.convert({**common, "kind": kind, "body": dict(body)}, UnknownEvent)
    except (KeyError, msgspec.ValidationError):
        return None


_NAMES = {kind: tuple(one.name for one in fields(kind)) for kind in (*EVENTS.values(), UnknownEvent)}
