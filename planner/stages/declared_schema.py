"""A schema that a keyed stage is given, as a type or as text."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.catalyst.types.ddl import parse_ddl
from ..inputs.schemas import column_type


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
        column_type(field, name, "use another type, such as string for char, or a number for an interval")
    return schema
