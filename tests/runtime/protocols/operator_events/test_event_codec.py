"""Plain data survives its encoding, and nothing else is taken."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import OperatorEventError
from mixedmode.runtime.protocols.operator_events.event_codec import MAX_DEPTH, decode, encode, types_by_name

LIMIT = 1 << 20


@dataclass(frozen=True)
class Rules:
    """An event of the tests."""

    version: int
    limits: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.version < 0:
            raise ValueError("version")


@dataclass
class Hot:
    key: str
    rules: Any = None


TYPES = types_by_name((Rules, Hot), "the tests")

offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes() | st.datetimes(timezones=offsets)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.binary(max_size=30),
    moments,
)
keys = scalars | st.tuples(scalars, scalars)
plain = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=4) | st.just("$bytes"), inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.builds(Rules, version=st.integers(0), limits=st.dictionaries(st.text(max_size=3), inner, max_size=2)),
        st.builds(Hot, key=st.text(max_size=3), rules=inner),
    ),
    max_leaves=15,
)


def same(left: Any, right: Any) -> bool:
    """Equal, with equal types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, (Rules, Hot)):
        return same(vars(left), vars(right))
    if isinstance(left, datetime):
        return left == right and left.utcoffset() == right.utcoffset()
    return bool(left == right)


@given(plain)
def test_round_trip(value: Any) -> None:
    """Every plain value comes back as it was, types included, through text that is ASCII."""
    text = encode(value, "event", LIMIT)
    assert text.isascii()
    assert same(decode(text, TYPES), value)


def test_dataclass_without_its_class_is_a_dict() -> None:
    """A reader that does not list the class gets the fields as a dict."""
    text = encode(Hot("a", Rules(1, {"x": 2.0})), "event", LIMIT)
    assert decode(text) == {"key": "a", "rules": {"version": 1, "limits": {"x": 2.0}}}


def test_reading_calls_no_init() -> None:
    """A stored dataclass is read without running its code: not even a check in __post_init__ runs."""
    text = encode(Rules(1), "event", LIMIT).replace('"version":1', '"version":-1')
    assert decode(text, TYPES).version == -1


def test_fields_come_and_go() -> None:
    """A field that the class has gained takes its default, one that it has lost is dropped."""
    old = make_dataclass("Rules", [("version", int), ("gone", str)])
    assert decode(encode(old(3, "x"), "event", LIMIT), TYPES) == Rules(3)
    with pytest.raises(OperatorEventError, match=r"stored event Hot has no field 'key'.*give it a default"):
        decode(encode(make_dataclass("Hot", [])(), "event", LIMIT), TYPES)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, "type builtins.set"),
        (Colour.RED, r"Colour.RED.*test_event_codec.Colour"),
        (np.int64(3), "numpy.int64"),
        ({"a": [1, {"b": object()}]}, r"at \[.a.\]\[1\]\[.b.\]"),
        (Hot("x", rules=lambda: None), "at rules; allowed are None"),
        (Rules, "type builtins.type"),
    ],
)
def test_refused(value: Any, message: str) -> None:
    """What is not plain is refused with its type and its place."""
    with pytest.raises(OperatorEventError, match=message):
        encode(value, "event of type X", LIMIT)


def test_cycles_and_depth() -> None:
    """A cycle, or nesting beyond the limit, is an error and no overflow; the limit itself is fine."""
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(OperatorEventError, match="nested deeper than 64"):
        encode(cycle, "event", LIMIT)
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert decode(encode(value, "event", LIMIT)) == value


def test_size_limit() -> None:
    """Too large an event names what it is, its size and the limit with its option."""
    with pytest.raises(
        OperatorEventError, match=r"event of type str takes 102 bytes, execution\.operator-event\.max-b"
    ):
        encode("x" * 100, "event of type str", 101)
    assert decode(encode("x" * 100, "event of type str", 102)) == "x" * 100


def test_listed_types() -> None:
    """eventTypes takes dataclasses with distinct names."""
    with pytest.raises(OperatorEventError, match="lists <class 'int'>, which is not a dataclass"):
        types_by_name((int,), "P")
    with pytest.raises(OperatorEventError, match="two dataclasses named Rules"):
        types_by_name((Rules, make_dataclass("Rules", ["x"])), "P")
    assert types_by_name((Rules, Rules), "P") == {"Rules": Rules}
