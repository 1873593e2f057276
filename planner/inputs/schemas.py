"""Schemas of the inputs: are they the same, is a column there, may a column be a key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from ...errors import PlanError
from ...runtime.catalyst.columns import RESERVED, quoted
from ...runtime.catalyst.struct_fields import repeated_field
from ...runtime.catalyst.types.arrow_types import arrow_type

#: Types (besides strings, arrays and structs) whose values have the one order of Spark's sort and of stored keys.
_ORDERED_TYPES = (
    IntegralType,
    FloatType,
    DoubleType,
    DecimalType,
    BooleanType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType,
)
_BINARY_COLLATION = "UTF8_BINARY"
#: Parts of a type's JSON that do not make it another type.
_NOT_THE_TYPE = ("nullable", "containsNull", "valueContainsNull", "metadata")


def column_type(field: StructField, owner: str, remedy: str = "cast it before") -> pa.DataType:
    """The type in Arrow that a column has in Python.

    Args:
        field: the column.
        owner: what it is a column of.
        remedy: what to do if there is none.

    Raises:
        PlanError: its values cannot cross into Python.
    """
    try:
        return arrow_type(field.dataType)
    except PySparkException as error:
        raise PlanError(
            f"column {field.name} of {owner} is of type {field.dataType.simpleString()}, which cannot cross into"
            f" Python; {remedy}"
        ) from error


def check_same_columns(one: StructType, other: StructType, names: tuple[str, str], fold: Callable[[str], str]) -> None:
    """Raise unless both schemas have the same column names and types; order and nullability do not matter.

    Args:
        one: a schema.
        other: another one.
        names: of the inputs that have them, for the error.
        fold: makes names equal that the session takes for one.

    Raises:
        PlanError: they differ.
    """
    problems = []
    for name, there, opposite in ((names[0], one, other), (names[1], other, one)):
        known = set(map(fold, opposite.fieldNames()))
        missing = [field.name for field in there.fields if fold(field.name) not in known]
        if missing:
            problems.append(f"only {name} has {', '.join(missing)}")
    others = {fold(field.name): field.dataType for field in other.fields}
    for field in one.fields:
        its = others.get(fold(field.name))
        if its is not None and not same_type(field.dataType, its):
            types = f"{field.dataType.simpleString()} in {names[0]} and {its.simpleString()} in {names[1]}"
            problems.append(f"{field.name} is {types}")
    if problems:
        raise PlanError(
            f"{names[0]} and {names[1]} have different columns: {'; '.join(problems)}; select the same"
            " columns on both, and cast them to the same types",
            code="MIXEDMODE_SCHEMAS_DIFFER",
        )


def check_distinct_columns(name: str, schema: StructType, *, case_sensitive: bool = True) -> None:
    """Raise if two columns have one name."""
    alike = [field if case_sensitive else field.lower() for field in schema.fieldNames()]
    repeated = sorted({field for field, like in zip(schema.fieldNames(), alike, strict=True) if alike.count(like) > 1})
    if repeated:
        raise PlanError(
            f"{name} has several columns named {', '.join(repeated)}; rename or drop them",
            code="MIXEDMODE_COLUMN_AMBIGUOUS",
        )


def check_named_once(name: str, schema: StructType, *, case_sensitive: bool) -> None:
    """Raise if several columns have a name; that of a column that there is."""
    fold: Callable[[str], str] = str if case_sensitive else str.lower
    alike = [field for field in schema.fieldNames() if fold(field) == fold(name)]
    if len(alike) > 1:
        raise PlanError(
            f"column {name} is ambiguous: {len(alike)} columns are called so; take it from the frame that was joined,"
            f" as in a['{name}'], or give the frame a name before the join, as in a.alias('a'), and use 'a.{name}'",
            code="MIXEDMODE_COLUMN_AMBIGUOUS",
        )


def check_distinct_fields(name: str, schema: StructType, *, case_sensitive: bool) -> None:
    """Raise if a column holds structs with two fields of one name."""
    for field in schema.fields:
        repeated = repeated_field(field.dataType, str if case_sensitive else str.lower)
        if repeated is not None:
            raise PlanError(f"{name} has structs with two fields named {repeated} in column {field.name}; rename one")


def check_reserved_columns(schema: StructType, what: str = "groupBy") -> None:
    """Raise if a column has a name that the runtime gives to a column of its own."""
    for name in schema.fieldNames():
        if RESERVED.fullmatch(name):
            raise PlanError(f"column {name} has a name that mixedmode uses itself; rename it before {what}")


def same_type(one: DataType, other: DataType) -> bool:
    """True if the types differ at most in nullability and metadata, at any depth."""
    return bool(_bare(one.jsonValue()) == _bare(other.jsonValue()))


def _bare(json_value: Any) -> Any:
    if isinstance(json_value, dict):
        return {key: _bare(value) for key, value in json_value.items() if key not in _NOT_THE_TYPE}
    if isinstance(json_value, list):
        return [_bare(value) for value in json_value]
    return json_value


def merge_nullability(one: StructType, other: StructType) -> StructType:
    """The first schema, with everything nullable, at any depth, that is so in either, and the metadata of both."""
    fields = []
    # By place where that is the same: several columns may have one name.
    theirs = other.fields if one.names == other.names else [other[field.name] for field in one.fields]
    for field, its in zip(one.fields, theirs, strict=True):
        data_type = _merged(field.dataType, its.dataType)
        fields.append(StructField(field.name, data_type, field.nullable or its.nullable, _common(field, its)))
    return StructType(fields)


def _common(one: StructField, other: StructField) -> dict[str, Any]:
    theirs = other.metadata or {}
    return {name: value for name, value in (one.metadata or {}).items() if theirs.get(name) == value}


def _merged(one: DataType, other: DataType) -> DataType:
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_merged(one.elementType, other.elementType), one.containsNull or other.containsNull)
    if isinstance(one, MapType) and isinstance(other, MapType):
        values = _merged(one.valueType, other.valueType)
        return MapType(_merged(one.keyType, other.keyType), values, one.valueContainsNull or other.valueContainsNull)
    if isinstance(one, StructType) and isinstance(other, StructType):
        return merge_nullability(one, other)
    return one


def bare_name(name: str) -> str:
    """A column's name as the user writes it, without the backticks around it."""
    return name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == name[-1] == "`" else name


def find_column(name: str, schema: StructType, *, case_sensitive: bool) -> str | None:
    """The column's name as the schema writes it; None: there is no such column."""
    bare = bare_name(name)
    for field in schema.fieldNames():
        if field == bare or (not case_sensitive and field.lower() == bare.lower()):
            return field
    return None


def is_path(name: str, schema: StructType, *, case_sensitive: bool) -> bool:
    """True if Spark reads the name as a value inside a column, even if another column is called ``a.b`` as a whole."""
    head, dot, _ = name.partition(".")
    column = find_column(head, schema, case_sensitive=case_sensitive) if dot else None
    return column is not None and isinstance(schema[column].dataType, (ArrayType, MapType, StructType))


def missing_column(what: str, name: str, schema: StructType) -> PlanError:
    """The error for a column that is not there, with what may be meant."""
    near = difflib.get_close_matches(name, schema.fieldNames(), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return PlanError(
        f"{what} {name} does not exist; {hint}the columns are {', '.join(schema.fieldNames())}",
        code="MIXEDMODE_COLUMN_NOT_FOUND",
    )


def check_key_type(label: str, data_type: DataType) -> None:
    """Raise unless values of the type have the one order that sorted passes and stored state share."""
    problem = _unordered(data_type)
    if problem is not None:
        raise PlanError(
            f"key column {label} is of type {data_type.simpleString()}, which cannot be a key: {problem}; use a number,"
            " string, binary, boolean, date, timestamp, decimal, or an array or struct of these"
        )


def _unordered(data_type: DataType) -> str | None:
    if isinstance(data_type, StringType):
        collation = data_type.collation
        if collation == _BINARY_COLLATION:
            return None
        return f"collation {collation} makes different strings equal (F.collate(…, 'UTF8_BINARY') does not)"
    if isinstance(data_type, ArrayType):
        return _unordered(data_type.elementType)
    if isinstance(data_type, StructType):
        return next((found for field in data_type.fields if (found := _unordered(field.dataType))), None)
    if isinstance(data_type, _ORDERED_TYPES):
        return None
    if isinstance(data_type, YearMonthIntervalType):
        return f"{data_type.simpleString()} cannot cross into Python"  # PySpark has no values of it
    return f"{data_type.simpleString()} has no order"


def quoted_columns(names: Iterable[str]) -> list[Column]:
    """Columns by their exact names, whatever characters are in them."""
    return [F.col(quoted(name)) for name in names]
