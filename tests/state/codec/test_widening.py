"""Types of state values that become wider: stored values follow, nothing becomes narrower."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import StateSchemaError
from mixedmode.state.codec.codec import RowCodec
from mixedmode.state.keys.registry import StateDescriptor, StateRegistry

INT, LONG, FLOAT, DOUBLE, TEXT = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
DEC, S = pa.decimal128, pa.struct


def declared(*types: pa.DataType) -> StateRegistry:
    made = StateRegistry()
    made.declare("v", "value", pa.schema([(f"f{place}", data_type) for place, data_type in enumerate(types)]))
    return made


def follow(value: Any, *types: pa.DataType) -> Any:
    """A value of the first type, as it is read once the type has become each of the others in turn."""
    registry = declared(types[0])
    data = variable(registry).row_codec().encode((value,))
    for data_type in types[1:]:
        registry = declared(data_type).evolve(registry)
    (found,) = variable(registry).row_codec().decode(data)
    return found


def variable(registry: StateRegistry) -> StateDescriptor:
    return registry.get("v")


@pytest.mark.parametrize(
    ("value", "types", "found"),
    [
        (-128, (pa.int8(), pa.int16(), INT, LONG), -128),
        (2**31 - 1, (INT, LONG), 2**31 - 1),
        (7, (INT, DOUBLE), 7.0),
        (7, (pa.int16(), FLOAT), 7.0),
        (2**24 + 1, (INT, FLOAT), float(np.float32(2**24 + 1))),
        (2**53 + 1, (LONG, DOUBLE), float(2**53)),
        (0.1, (FLOAT, DOUBLE), float(np.float32(0.1))),
        (Decimal("123.45"), (DEC(5, 2), DEC(10, 2)), Decimal("123.45")),
        (Decimal("123.45"), (DEC(5, 2), DEC(7, 4), DEC(38, 10)), Decimal("123.4500000000")),
        (None, (INT, LONG, DOUBLE), None),
        ("ä", (TEXT, pa.binary()), "ä".encode()),
        ([1, None], (pa.list_(INT), pa.list_(LONG), pa.list_(DOUBLE)), [1.0, None]),
        ({1: 2, 3: None}, (pa.map_(INT, INT), pa.map_(LONG, DOUBLE)), {1: 2.0, 3: None}),
        ((1, "x"), (S([("a", INT), ("b", TEXT)]), S([("c", INT), ("a", DOUBLE)])), (None, 1.0)),
        ([(1,), None], (pa.list_(S([("a", INT)])), pa.list_(S([("b", INT), ("a", LONG)]))), [(None, 1), None]),
    ],
)
def test_stored_values_follow(value: Any, types: tuple[pa.DataType, ...], found: Any) -> None:
    """Numbers, what is in lists and maps, and fields of structs by name, however often the type changes."""
    read = follow(value, *types)
    assert read == found and type(read) is type(found)
    if isinstance(found, Decimal):
        assert str(read) == str(found)


def test_a_field_of_a_struct_that_comes_back_is_a_new_one() -> None:
    """What values of before its removal hold under its name is not its, inside a struct too."""
    one, two = S([("a", INT), ("b", INT)]), S([("a", INT)])
    assert follow((1, 2), one, two, one) == (1, None)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (LONG, INT, "changed from int64 to int32"),
        (DOUBLE, FLOAT, "changed from double to float"),
        (DOUBLE, LONG, "changed from double to int64"),
        (INT, TEXT, "changed from int32 to string"),
        (pa.bool_(), INT, "changed from bool to int32"),
        (INT, DEC(20, 0), "changed from int32"),
        (DEC(5, 2), DEC(5, 1), "fewer digits"),
        (DEC(5, 2), DEC(6, 4), "fewer digits"),
        (pa.date32(), pa.timestamp("us", "UTC"), "changed from date32"),
        (pa.list_(LONG), pa.list_(INT), "its elements changed from int64 to int32"),
        (pa.map_(INT, LONG), pa.map_(INT, INT), "its values changed from int64 to int32"),
        (S([("a", LONG)]), S([("a", INT)]), "its field 'a' changed from int64 to int32"),
        (S([("a", INT)]), S([pa.field("a", INT, nullable=False)]), "its field 'a' may no longer be None"),
        (S([("a", INT)]), S([("a", INT), pa.field("b", INT, nullable=False)]), "not nullable"),
    ],
)
def test_narrower_is_refused_in_words(old: pa.DataType, new: pa.DataType, words: str) -> None:
    """What could lose a digit, or has another kind of type, is refused with both types."""
    with pytest.raises(StateSchemaError, match=words):
        declared(new).evolve(declared(old))


def test_encodings_that_know_no_versions_widen_nothing() -> None:
    """An aggregate's buffers are not encoded by version: their types stay what they were."""
    with pytest.raises(StateSchemaError, match="changed from int32 to int64"):
        declared(LONG).evolve(declared(INT), widens=False)


def test_a_type_that_becomes_wider_is_told() -> None:
    """Whoever restarts a changed program reads which field it was; nothing is said to be lost."""
    assert declared(LONG, DOUBLE).changes_since(declared(INT, DOUBLE)) == [
        "state 'v': field 'f0' has become wider, int32 is int64 now; its values follow"
    ]


@given(st.lists(st.tuples(st.sampled_from(range(3)), st.integers(-(2**31), 2**31 - 1)), max_size=9))
def test_old_and_new_values_live_side_by_side(written: list[tuple[int, int]]) -> None:
    """Values of any version are read as the newest type, and equal numbers are equal whoever wrote them."""
    versions = [declared(INT)]
    for data_type in (LONG, DOUBLE):
        versions.append(declared(data_type).evolve(versions[-1]))
    codecs: list[RowCodec] = [variable(registry).row_codec() for registry in versions]
    for version, number in written:
        (found,) = codecs[-1].decode(codecs[version].encode((number,)))
        assert found == number and type(found) is float and not math.isnan(found)
