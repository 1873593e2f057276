"""Plain data as JSON text: how events, and what a shard keeps between epochs, travel and are stored.

Plain are None, bool, int, float, str, bytes, datetime (aware or naive), lists, tuples and dicts of plain data, and
dataclasses whose fields are plain.  Types are exact: a subclass (an Enum, a NumPy number) is refused, since it would
come back as something else.

- Reading back runs no code of the data's choice and imports nothing.  A dataclass comes back as the class of its name
  among those that the reader lists (``eventTypes``), its fields set without calling ``__init__``; a field that the
  class has gained takes its default, one that it has lost is dropped.  Without such a class it comes back as a dict of
  its fields.
- An aware datetime comes back at the same moment with the same offset, not with the name of its time zone.
- The text is ASCII, so that any string, even one with lone surrogates, survives UTF-8 files.

Invariant: ``decode(encode(value)) == value`` for plain values, types included, with the exceptions named above (and
NaN, which equals nothing).
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ....errors import OperatorEventError

#: Deeper nesting is refused: it is a cycle, or near what Python can recurse into.
MAX_DEPTH = 64
#: First character of the only key of an object that stands for something else than a dict with str keys.
_TAG = "$"
_ALLOWED = "None, bool, int, float, str, bytes, datetime, list, tuple, dict, and dataclasses of these"


def encode(value: Any, what: str, max_bytes: int) -> str:
    """A plain value as text.

    Args:
        value: plain data.
        what: what it is, for errors ("event of type Rules").
        max_bytes: the most that the text may have.

    Raises:
        OperatorEventError: it is not plain, or too large.
    """
    text = json.dumps(_pack(value, what, "", 0), separators=(",", ":"), allow_nan=False)
    if len(text) > max_bytes:  # ASCII: as many bytes as characters
        raise OperatorEventError(
            f"{what} takes {len(text)} bytes, execution.operator-event.max-bytes allows {max_bytes}; send less, or"
            " raise the option: events go through the driver and into checkpoints"
        )
    return text


def decode(text: str, types: Mapping[str, type] | None = None) -> Any:
    """Inverse of :func:`encode`.

    Args:
        text: what encode gave.
        types: dataclasses by name, as :func:`types_by_name` gives them.
    """
    return _unpack(json.loads(text), types or {})


def types_by_name(types: Iterable[Any], owner: str) -> dict[str, type]:
    """The dataclasses that somebody lists as ``eventTypes``, by the names under which they travel.

    Raises:
        OperatorEventError: one is not a dataclass, or two have one name.
    """
    found: dict[str, type] = {}
    for one in types:
        if not (isinstance(one, type) and dataclasses.is_dataclass(one)):
            raise OperatorEventError(f"eventTypes of {owner} lists {one!r}, which is not a dataclass; list classes")
        if found.setdefault(one.__name__, one) is not one:
            raise OperatorEventError(f"eventTypes of {owner} lists two dataclasses named {one.__name__}; rename one")
    return found


def _pack(value: Any, what: str, path: str, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    if kind is datetime:
        return {"$datetime": [value.isoformat(), value.fold]}
    if depth == MAX_DEPTH:
        raise OperatorEventError(f"{what} is nested deeper than {MAX_DEPTH} levels at {path[:80]}…; send flatter data")
    if kind in (list, tuple):
        items = [_pack(item, what, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
        return items if kind is list else {"$tuple": items}
    if kind is dict:
        return _pack_dict(value, what, path, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _pack(getattr(value, field.name), what, f"{path}.{field.name}", depth + 1)
            for field in dataclasses.fields(value)
        }
        return {"$dataclass": [kind.__name__, fields]}
    where = f" at {path.lstrip('.')}" if path else ""
    raise OperatorEventError(
        f"{what} is not plain data: it has {value!r:.80} of type {kind.__module__}.{kind.__qualname__}{where}; allowed"
        f" are {_ALLOWED}"
    )


def _pack_dict(value: dict[Any, Any], what: str, path: str, depth: int) -> Any:
    if all(type(key) is str for key in value) and not (len(value) == 1 and next(iter(value)).startswith(_TAG)):
        return {key: _pack(item, what, f"{path}[{key!r}]", depth) for key, item in value.items()}
    pairs = [
        [_pack(key, what, f"{path} key", depth), _pack(item, what, f"{path}[{key!r:.40}]", depth)]
        for key, item in value.items()
    ]
    return {"$dict": pairs}


def _unpack(packed: Any, types: Mapping[str, type]) -> Any:
    if isinstance(packed, list):
        return [_unpack(item, types) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if len(packed) == 1:
        tag, content = next(iter(packed.items()))
        if tag.startswith(_TAG):
            return _untag(tag, content, types)
    return {key: _unpack(item, types) for key, item in packed.items()}


def _untag(tag: str, content: Any, types: Mapping[str, type]) -> Any:
    if tag == "$float":
        return float(content)
    if tag == "$bytes":
        return base64.b64decode(content)
    if tag == "$datetime":
        moment = datetime.fromisoformat(content[0]).replace(fold=content[1])
        return moment.replace(tzinfo=timezone.utc) if moment.tzinfo and not moment.utcoffset() else moment
    if tag == "$tuple":
        return tuple(_unpack(item, types) for item in content)
    if tag == "$dict":
        return {_unpack(key, types): _unpack(item, types) for key, item in content}
    if tag == "$dataclass":
        name, fields = content
        return _instance(types.get(name), name, {field: _unpack(item, types) for field, item in fields.items()})
    raise OperatorEventError(f"stored event data has the unknown kind {tag!r}; a newer version has written it")


def _instance(cls: Any, name: str, values: dict[str, Any]) -> Any:
    """A dataclass with these values; ``__init__`` is not called, so that stored data runs no code."""
    if cls is None:
        return values
    made = object.__new__(cls)
    for field in dataclasses.fields(cls):
        if field.name in values:
            value = values[field.name]
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            raise OperatorEventError(
                f"stored event {name} has no field {field.name!r}, which its class has gained; give it a default"
            )
        object.__setattr__(made, field.name, value)
    return made
