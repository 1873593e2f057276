"""Aggregate functions whose values come in the order of other columns: ``max_by`` with a number, ``WITHIN GROUP``."""

from __future__ import annotations

from typing import Any

from ....errors import not_supported
from ....runtime.catalyst.spark_expressions import is_orderable, items
from ....runtime.operators.aggregate.buffers import ListBuffer, TopBuffer
from .partials import ORDER, Call, PartialColumns, PlannedResult

#: Types whose values are ordered outside Spark as Spark orders them.
_ORDERED = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean", "date", "timestamp")
#: Their names begin as those of others.
_NOT_ORDERED = ("interval year", "interval month")
#: The orders that Spark takes where nothing is said of nulls.
_USUAL = {("ASC", "NULLS FIRST"): False, ("DESC", "NULLS LAST"): True}


def top(call: Call, partials: PartialColumns) -> PlannedResult:
    """The values of so many rows with the least or greatest order; each epoch brings no more of them."""
    value, order = call.arguments[:2]
    _check_order(call, call.argument_type(1))
    name, count = str(call.function.prettyName()), int(call.function.k())
    sql = call.partial(name, f"named_struct('o', {order}, 'v', {value})", order, str(count))
    places = partials.add(lambda places: TopBuffer(places, name == "max_by", count), sql)
    return PlannedResult(call.name, "last_fields", places)


def joined_in_order(call: Call, partials: PartialColumns, separator: bytes) -> PlannedResult:
    """Text of all values in the order of other expressions; equal ones in order of arrival."""
    orders = list(items(call.function.orderExpressions()))
    for order in orders:
        _check_order(call, str(order.child().dataType().simpleString()))
    descending = tuple(_is_descending(call, order) for order in orders)
    fields = ", ".join(f"'o{place}', {partials.argument(order.child())}" for place, order in enumerate(orders))
    value = call.arguments[0]
    element = f"CASE WHEN ({value}) IS NOT NULL THEN named_struct({fields}, 'v', {value}) END"
    places = partials.add(ListBuffer, call.partial("collect_list", element), ordered=in_arrival(call, element))
    return PlannedResult(call.name, "joined", places, (separator, descending))


def in_arrival(call: Call, value: str, *, orderable: bool = False) -> str:
    """SQL of a list in order of arrival, whatever the order in which Spark reads the rows.

    Args:
        call: the function.
        value: what is collected; nulls are left out.
        orderable: whether Spark orders such values.
    """
    if orderable:
        # No two rows have arrived at one place, so the value is only taken along: one struct a row, not two.
        rows = f"sort_array({call.partial('collect_list', f'struct({ORDER}, {value} AS v)')})"
    else:
        rows = call.partial("collect_list", f"named_struct('o', struct({ORDER}), 'v', {value})")
        rows = f"array_sort({rows}, (l, r) -> CASE WHEN l.o < r.o THEN -1 WHEN l.o > r.o THEN 1 ELSE 0 END)"
    return f"filter(transform({rows}, row -> row.v), value -> value IS NOT NULL)"


def of_argument(call: Call, partials: PartialColumns) -> str:
    """:func:`in_arrival` of the first argument."""
    kind = call.function.children().apply(0).dataType()
    return in_arrival(call, call.arguments[0], orderable=is_orderable(partials.spark, kind))


def _is_descending(call: Call, order: Any) -> bool:
    said = (str(order.direction().sql()), str(order.nullOrdering().sql()))
    if said not in _USUAL:
        raise not_supported(
            f"agg: {call.name}: WITHIN GROUP (ORDER BY ... {' '.join(said)}) is not supported; leave {said[1]} out, or"
            " order by an expression without nulls"
        )
    return _USUAL[said]


def _check_order(call: Call, kind: str) -> None:
    is_ordered = kind in ("string", "binary") or kind.startswith(_ORDERED)
    if not is_ordered or kind.startswith(_NOT_ORDERED):
        raise not_supported(
            f"agg: {call.function.prettyName()} in the order of {kind} is not supported (column {call.name}); order by"
            " numbers, strings, dates or timestamps"
        )
