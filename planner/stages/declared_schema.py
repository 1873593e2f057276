"""A schema that a keyed stage is given, as a type or as text."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.catalyst.types.arrow_types import arrow_type
from ...runtime.catalyst.types.ddl import parse_ddl


def declared_schema(name: str, given: Any) -> StructType:
    """The schema that an argument gives.

    Args:
        name: of the argument.
        given: its value.

    Raises:
        PlanError: it is none, or has a column that Python cannot give.
    """
    schema = given
    if isinstance(given, str):
        try:
            schema = parse_ddl(given)
        except (PySparkException, ValueError) as error:
            first = str(error).strip().split("\n", 1)[0]
            raise PlanError(f"{name} {given!r} is not a DDL schema: {first}") from error
    if not isinstance(schema, StructType):
        raise PlanError(f"{name} must be a StructType or a DDL string such as 'key string, total long', got {given!r}")
    if not schema.fields:
        raise PlanError(f"{name} has no columns; name at least one")
    for field in schema.fields:
        try:
            arrow_type(field.dataType)
        except PySparkException as error:
            raise PlanError(
                f"column {field.name} of {name} is of type {field.dataType.simpleString()}, which cannot come"
                " out of Python; use another type, such as string for char, or a number for an interval"
            ) from error
    return schema
