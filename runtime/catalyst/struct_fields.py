"""Structs in which several fields have one name, which Spark takes and Arrow and Parquet do not.

Where such a column leaves the JVM its fields get names of their own; where users see it, it has Spark's names again.
Both are casts, which go by the places of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

Fold = Callable[[str], str]


def repeated_field(data_type: DataType, fold: Fold = str) -> str | None:
    """A name that two fields of a struct, somewhere in the type, share.

    Args:
        data_type: the type.
        fold: makes names equal that count as one.
    """
    if isinstance(data_type, StructType):
        names = [fold(name) for name in data_type.names]
        repeated = next((name for name, key in zip(data_type.names, names, strict=True) if names.count(key) > 1), None)
        if repeated is not None:
            return repeated
    return next(filter(None, (repeated_field(part, fold) for part in _parts(data_type))), None)


def with_own_fields(schema: StructType, fold: Fold) -> StructType:
    """The columns with a name of its own for each field of a struct; the same object if all have one.

    Args:
        schema: the columns.
        fold: makes names equal that count as one.
    """
    fields = [_renamed(field, fold) for field in schema.fields]
    return schema if all(new is old for new, old in zip(fields, schema.fields, strict=True)) else StructType(fields)


def own_fields(data_type: DataType, fold: Fold) -> DataType:
    """The type with a name of its own for each field of a struct; the same object if all have one."""
    return data_type if repeated_field(data_type, fold) is None else _own(data_type, fold)


def known_again(schema: StructType, own: Sequence[StructField]) -> StructType:
    """What columns with own names for everything are cast to, so that they are those of a schema.

    Args:
        schema: the columns as users know them.
        own: the same with other names.
    """
    fields = []
    for field, its in zip(schema.fields, own, strict=True):
        # What has become nullable inside stays so: no cast undoes it.
        kind = field.dataType if its.dataType == field.dataType else _own(field.dataType, None)
        fields.append(StructField(field.name, kind, True, field.metadata))
    return StructType(fields)


def recast(frame: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """The frame with its first columns as others of the same places, whose fields of structs have other names.

    Args:
        frame: the frame.
        fields: what these columns are to be called, and their types.
    """
    given, names = frame.schema.fields[: len(fields)], [field.name for field in fields]
    changed = [_own(had.dataType, None) != _own(field.dataType, None) for had, field in zip(given, fields, strict=True)]
    rest = frame.columns[len(fields) :]
    if not any(changed):
        return frame.toDF(*names, *rest)
    # By places: several columns may have one name.
    placed = frame.toDF(*[f"c{place}" for place in range(len(frame.columns))])
    columns = []
    for place, (had, field) in enumerate(zip(given, fields, strict=True)):
        column = F.col(f"c{place}")
        columns.append(
            column.cast(field.dataType).alias(field.name, metadata=had.metadata or {})
            if changed[place]
            else column.alias(field.name)
        )
    return placed.select(*columns, *[F.col(f"c{len(fields) + place}").alias(name) for place, name in enumerate(rest)])


def _renamed(field: StructField, fold: Fold) -> StructField:
    data_type = own_fields(field.dataType, fold)
    if data_type is field.dataType:
        return field
    return StructField(field.name, data_type, field.nullable, field.metadata)


def _parts(data_type: DataType) -> list[DataType]:
    if isinstance(data_type, ArrayType):
        return [data_type.elementType]
    if isinstance(data_type, MapType):
        return [data_type.keyType, data_type.valueType]
    return [field.dataType for field in data_type.fields] if isinstance(data_type, StructType) else []


def _own(data_type: DataType, fold: Fold | None) -> DataType:
    """The type with everything inside nullable, and with own names unless there is no ``fold``."""
    if isinstance(data_type, ArrayType):
        return ArrayType(_own(data_type.elementType, fold), True)
    if isinstance(data_type, MapType):
        return MapType(_own(data_type.keyType, fold), _own(data_type.valueType, fold), True)
    if not isinstance(data_type, StructType):
        return data_type
    names = data_type.names if fold is None else _distinct(data_type.names, fold)
    kinds = [_own(field.dataType, fold) for field in data_type.fields]
    return StructType([StructField(name, kind, True) for name, kind in zip(names, kinds, strict=True)])


def _distinct(names: Sequence[str], fold: Fold) -> list[str]:
    """The names, with a number behind each that was there before."""
    taken, found = set(map(fold, names)), []
    seen: set[str] = set()
    for name in names:
        own, number = name, 1
        while fold(own) in (seen if number == 1 else taken | seen):
            number += 1
            own = f"{name}_{number}"
        seen.add(fold(own))
        found.append(own)
    return found
