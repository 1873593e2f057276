"""Chooses, as SQL, the row of a key that stays: the least event time, and of those the first to arrive.

Where nobody knows in which order rows have arrived, or the rows of a key differ in nothing but the bits of floats, it
is the least row.

Rows are compared column by column in the order of the schema, nulls first, as Spark sorts them.  Where Spark's order
leaves a choice, or has none, it is refined: -0.0 comes before 0.0, a string with a collation is compared by its bytes,
a map by its sorted entries, a variant by its JSON, an interval of months, days and time by its text.  (NaNs of
different bits count as one.)  So which row stays does not depend on how the rows were cut into files or partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
)

from ...catalyst.columns import quoted

_BINARY_COLLATION = "UTF8_BINARY"
#: Types that have no order, and what is compared in their place.
_BY_TEXT: tuple[tuple[type[DataType], str], ...] = (
    (VariantType, "to_json({})"),
    (CalendarIntervalType, "CAST({} AS STRING)"),
)


@dataclass(frozen=True)
class Survivor:
    """How Spark finds the row that stays."""

    #: An aggregate over the rows of a key.
    aggregate: str
    #: The columns of the row, given the aggregate's result by its name; in the order in which they were asked for.
    columns: tuple[str, ...]
    #: Its event time; None: it was not asked for.
    time: str | None


def survivor(
    fields: Sequence[StructField], event_time: str | None, result: str, arrival: Sequence[str] = ()
) -> Survivor | None:
    """The first of the rows of a key; None: they are all alike.

    Args:
        fields: the columns in which rows of one key may differ.
        event_time: the column of their event time, which need not be among them; None: there is none, or it is a key.
        result: what the aggregate's result is called.
        arrival: the columns by which rows of one event time have arrived one after the other; empty: nobody knows.
    """
    if not fields and event_time is None:
        return None
    order = [] if event_time is None else [quoted(event_time)]
    time = None if event_time is None else f"{result}.o0"
    if arrival:
        order += arrival
        if not all(_has_order(field.dataType) for field in fields):
            return _least_by(fields, event_time, result, order)
        # No two rows have arrived at one place, so the columns behind it are only taken along: one buffer, not two.
        whole = [*order, *[quoted(field.name) for field in fields]]
        packed = ", ".join(f"{term} AS o{place}" for place, term in enumerate(whole))
        columns = tuple(f"{result}.o{len(order) + place}" for place in range(len(fields)))
        return Survivor(f"min(struct({packed}))", columns, time)
    places: dict[str, int] = {} if event_time is None else {event_time: 0}
    for field in fields:
        if field.name == event_time:
            continue
        terms = order_terms(quoted(field.name), field.dataType)
        if terms[0] == quoted(field.name):
            places[field.name] = len(order)
        order += terms
    packed = ", ".join(f"{term} AS o{place}" for place, term in enumerate(order))
    if all(field.name in places for field in fields):
        return Survivor(f"min(struct({packed}))", tuple(f"{result}.o{places[field.name]}" for field in fields), time)
    # What has no order cannot be in what is compared.
    return _least_by(fields, event_time, result, order)


def _least_by(fields: Sequence[StructField], event_time: str | None, result: str, order: Sequence[str]) -> Survivor:
    """The row that is the least by some terms, which begin with its event time if there is one."""
    packed = ", ".join(f"{term} AS o{place}" for place, term in enumerate(order))
    first = [] if event_time is None else [f"{quoted(event_time)} AS o0"]
    values = ", ".join([*first, *[f"{quoted(field.name)} AS v{place}" for place, field in enumerate(fields)]])
    columns = tuple(f"{result}.v{place}" for place in range(len(fields)))
    time = None if event_time is None else f"{result}.o0"
    return Survivor(f"min_by(struct({values}), struct({packed}))", columns, time)


def order_terms(value: str, data_type: DataType, depth: int = 0) -> list[str]:
    """What is compared of a value, as SQL, one after the other; the value itself first, if it can be.

    Args:
        value: the value, as SQL.
        data_type: its type.
        depth: how deep in lambdas it stands.
    """
    if _is_total(data_type):
        return [value]
    if isinstance(data_type, (FloatType, DoubleType)):
        # Spark takes the sign from a zero wherever it computes with it.
        return [value, f"({value} = 0 AND CAST({value} AS STRING) = '0.0')"]
    if isinstance(data_type, StringType):
        return [f"collate({value}, '{_BINARY_COLLATION}')"]
    if isinstance(data_type, StructType):
        terms = [f"({value} IS NOT NULL)"]
        for field in data_type.fields:
            terms += order_terms(f"{value}.{quoted(field.name)}", field.dataType, depth)
        return terms
    variable = f"x{depth}"
    if isinstance(data_type, ArrayType):
        return [f"transform({value}, {variable} -> {_packed(order_terms(variable, data_type.elementType, depth + 1))})"]
    if isinstance(data_type, MapType):
        terms = order_terms(f"{variable}.key", data_type.keyType, depth + 1)
        terms += order_terms(f"{variable}.value", data_type.valueType, depth + 1)
        return [f"array_sort(transform(map_entries({value}), {variable} -> {_packed(terms)}))"]
    return [next(text for kind, text in _BY_TEXT if isinstance(data_type, kind)).format(value)]


def _packed(terms: Sequence[str]) -> str:
    return f"struct({', '.join(f'{term} AS o{place}' for place, term in enumerate(terms))})"


def _has_order(data_type: DataType) -> bool:
    """True if Spark can compare values of the type."""
    if isinstance(data_type, ArrayType):
        return _has_order(data_type.elementType)
    if isinstance(data_type, StructType):
        return all(_has_order(field.dataType) for field in data_type.fields)
    return not isinstance(data_type, (MapType, UserDefinedType, *(kind for kind, _ in _BY_TEXT)))


def _is_total(data_type: DataType) -> bool:
    """True if Spark's order tells any two different values of the type apart."""
    if isinstance(data_type, ArrayType):
        return _is_total(data_type.elementType)
    if isinstance(data_type, StructType):
        return all(_is_total(field.dataType) for field in data_type.fields)
    if isinstance(data_type, StringType):
        return bool(data_type.collation == _BINARY_COLLATION)
    return not isinstance(data_type, (FloatType, DoubleType, MapType, *(kind for kind, _ in _BY_TEXT)))
