"""Types in which several fields of a struct have one name, with own names for each."""

from __future__ import annotations

from mixedmode.runtime.catalyst.struct_fields import known_again, own_fields, repeated_field, with_own_fields
from pyspark.sql.types import ArrayType, DataType, IntegerType, MapType, StructField, StructType

INT = IntegerType()


def struct(*fields: str | tuple[str, DataType]) -> StructType:
    """Fields of ints, or of other types; a name that ends with ``!`` is not nullable."""
    pairs = [(field, INT) if isinstance(field, str) else field for field in fields]
    return StructType([StructField(name.rstrip("!"), kind, not name.endswith("!")) for name, kind in pairs])


def test_a_repeated_name_is_found_at_any_depth() -> None:
    """In structs, arrays and maps; whether cases count is the session's choice."""
    nested = struct(("x", MapType(INT, ArrayType(struct("b", "b")))))
    assert repeated_field(nested) == "b"
    cased = struct("b", "B")
    assert repeated_field(cased) is None
    assert repeated_field(cased, str.lower) == "b"


def test_each_field_gets_a_name_of_its_own_in_its_place() -> None:
    """A name that another field has already is none of its own."""
    [found] = with_own_fields(struct(("s", struct("a", "A", "a_2", ("a", struct("b", "b"))))), str.lower).fields
    assert found.dataType.names == ["a", "A_3", "a_2", "a_4"]  # type: ignore[attr-defined]
    assert found.dataType.fields[3].dataType.names == ["b", "b_2"]  # type: ignore[attr-defined]
    assert repeated_field(found.dataType, str.lower) is None


def test_types_without_repeated_names_stay_what_they_are() -> None:
    """The very same object, with what is not nullable."""
    schema = struct("k!", ("s", struct("a!")))
    assert with_own_fields(schema, str) is schema
    assert own_fields(schema["s"].dataType, str) is schema["s"].dataType


def test_the_names_come_back_and_what_became_nullable_stays_so() -> None:
    """Spark casts nothing to what is less nullable."""
    schema = struct("k!", ("s", struct("a!", "a")), ("t", struct("c!")))
    known = known_again(schema, with_own_fields(schema, str).fields)
    assert known.simpleString() == schema.simpleString()
    assert known["s"].dataType.fields[0].nullable  # type: ignore[attr-defined]
    assert known["t"].dataType == schema["t"].dataType
