"""Which aggregate functions are supported, and the partial columns, buffers and results that they turn into.

Reads Spark's analyzed expressions through the gateway.  Each function becomes partial aggregates in SQL over the
input's columns, which Spark computes per epoch, and a buffer that merges them across epochs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from ..errors import PlanError
from ..runtime.operators.aggregate_buffers import (
    ArrivalBuffer,
    ArrivalNotNullBuffer,
    Buffer,
    CountBuffer,
    DecimalSumBuffer,
    ExtremeBuffer,
    ExtremeByBuffer,
    ListBuffer,
    MomentsBuffer,
    SetBuffer,
    SumBuffer,
)
from ..runtime.operators.aggregate_results import Result

SUPPORTED = (
    "count, count_if, count_distinct, sum, avg, mean, min, max, first, first_value, last, last_value, any_value,"
    " min_by, max_by, bool_and, bool_or, every, some, any, stddev, stddev_samp, stddev_pop, variance, var_samp,"
    " var_pop, collect_list, collect_set"
)
#: Functions that Spark itself replaces by another one.
_REPLACED = {"CountIf", "BoolAnd", "BoolOr", "AnyValue"}
#: Spread functions by class name.
_SPREADS = {
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
    "VarianceSamp": "var_samp",
    "VariancePop": "var_pop",
}
#: DISTINCT makes no difference to these.
_INDIFFERENT_TO_DISTINCT = {"Min", "Max", "CollectSet"}
_UDF = re.compile(r"UDF|UDAF")


@dataclass
class PartialColumns:
    """Collects partial columns and buffers; equal ones are shared."""

    ansi: bool
    #: SQL of the event time, never null; None: no watermark was declared.
    event_time: str | None
    sql: list[str] = field(default_factory=list)
    #: Buffer without its columns' places -> places.
    _buffers: dict[Any, Buffer] = field(default_factory=dict)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers.values())

    def add(self, make: Callable[[tuple[int, ...]], Buffer], *sql: str) -> tuple[int, ...]:
        """Places of a buffer's columns."""
        identity = (repr(make((-1,))), sql)
        if identity not in self._buffers:
            places = tuple(range(len(self.sql), len(self.sql) + len(sql)))
            self.sql += sql
            self._buffers[identity] = make(places)
        return self._buffers[identity].columns


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function, in SQL."""

    function: Any
    name: str
    arguments: tuple[str, ...]
    #: `` FILTER (WHERE ...)`` or nothing.
    filter: str
    filter_condition: str | None
    type: str

    def partial(self, function: str, *arguments: str) -> str:
        """SQL of a partial aggregate under the call's filter."""
        return f"{function}({', '.join(arguments)}){self.filter}"


@dataclass(frozen=True)
class PlannedResult:
    """A result whose type is not known in Arrow's terms yet."""

    name: str
    kind: str
    columns: tuple[int, ...]

    def typed(self, data_type: pa.DataType, ansi: bool) -> Result:
        return Result(self.name, self.kind, self.columns, data_type, ansi)


def plan_function(expression: Any, name: str, partials: PartialColumns) -> PlannedResult:
    """Plan one output column; ``expression`` is Spark's analyzed one.

    Raises:
        PlanError: it is not a plain call of a supported function.
    """
    while _class(expression) == "Alias":
        expression = expression.child()
    if _class(expression) != "AggregateExpression":
        inner = next((node for node in _tree(expression) if _class(node) == "AggregateExpression"), None)
        what = "is not an aggregate" if inner is None else "computes with the result of an aggregate"
        raise PlanError(
            f"agg: {expression.sql()} {what}; only plain aggregate functions are supported here: give each function its"
            " own column, such as F.sum('x').alias('total'), and compute with them in whatever reads the output"
        )
    for node in _tree(expression):
        if _UDF.search(_class(node)):
            raise PlanError(
                f"agg: {expression.sql()} calls a user-defined function; compute it with withColumn before groupBy and"
                " aggregate the column"
            )
    function = expression.aggregateFunction()
    shown = str(function.prettyName())
    while _class(function) in _REPLACED:
        function = function.replacement()
    kind = _class(function)
    distinct = bool(expression.isDistinct()) and kind not in _INDIFFERENT_TO_DISTINCT
    condition = str(expression.filter().get().sql()) if expression.filter().isDefined() else None
    call = Call(
        function=function,
        name=name,
        arguments=tuple(str(child.sql()) for child in _items(function.children())),
        filter="" if condition is None else f" FILTER (WHERE {condition})",
        filter_condition=condition,
        type=str(function.dataType().simpleString()),
    )
    key = f"{kind} DISTINCT" if distinct else kind
    plan = _PLANS.get(key)
    if plan is None:
        raise PlanError(
            f"agg: function {shown}{' with DISTINCT' if distinct else ''} is not supported (in {expression.sql()});"
            f" supported are {SUPPORTED}"
        )
    return plan(call, partials)


def _count(call: Call, partials: PartialColumns) -> PlannedResult:
    return PlannedResult(call.name, "count", partials.add(CountBuffer, call.partial("count", *call.arguments)))


def _count_distinct(call: Call, partials: PartialColumns) -> PlannedResult:
    value = call.arguments[0]
    if len(call.arguments) > 1:
        known = " AND ".join(f"({argument}) IS NOT NULL" for argument in call.arguments)
        named = ", ".join(f"'{i}', {argument}" for i, argument in enumerate(call.arguments))
        value = f"CASE WHEN {known} THEN named_struct({named}) END"
    return PlannedResult(call.name, "size", partials.add(SetBuffer, call.partial("collect_set", value)))


def _sum(call: Call, partials: PartialColumns) -> PlannedResult:
    return PlannedResult(call.name, "value", _sum_columns(call, partials, call.arguments[0])[:1])


def _sum_columns(call: Call, partials: PartialColumns, argument: str) -> tuple[int, ...]:
    sql = call.partial("sum", argument)
    if str(call.function.children().apply(0).dataType().simpleString()).startswith("decimal"):
        return partials.add(
            lambda places: DecimalSumBuffer(places, partials.ansi, sql), sql, call.partial("count", argument)
        )
    return partials.add(lambda places: SumBuffer(places, partials.ansi, sql), sql)


def _average(call: Call, partials: PartialColumns) -> PlannedResult:
    argument = call.arguments[0]
    if call.type.startswith("decimal"):
        return PlannedResult(call.name, "decimal_mean", _sum_columns(call, partials, argument))
    if call.type != "double":
        raise PlanError(f"agg: avg of {call.type} is not supported (column {call.name}); cast its argument to a number")
    total = _sum_columns(call, partials, f"CAST({argument} AS DOUBLE)")
    return PlannedResult(call.name, "mean", (*total, *partials.add(CountBuffer, call.partial("count", argument))))


def _extreme(which: Any) -> Callable[[Call, PartialColumns], PlannedResult]:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        sql = call.partial(which, call.arguments[0])
        return PlannedResult(call.name, "value", partials.add(lambda places: ExtremeBuffer(places, which), sql))

    return plan


def _extreme_by(which: Any) -> Callable[[Call, PartialColumns], PlannedResult]:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        value, order = call.arguments
        return _by(call, partials, which, value, order, ties=False)

    return plan


def _by(call: Call, partials: PartialColumns, which: Any, value: str, order: str, *, ties: bool) -> PlannedResult:
    places = partials.add(
        lambda places: ExtremeByBuffer(places, which, ties),
        call.partial(f"{which}_by", value, order),
        call.partial(which, order),
    )
    return PlannedResult(call.name, "value", places[:1])


def _by_position(which: Any) -> Callable[[Call, PartialColumns], PlannedResult]:
    """first and last: by event time if there is one (then the cut into epochs makes no difference), else by arrival."""

    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        value = call.arguments[0]
        ignore_nulls = bool(call.function.ignoreNulls())
        if partials.event_time is not None:
            order = partials.event_time
            if ignore_nulls:
                order = f"CASE WHEN ({value}) IS NOT NULL THEN {order} END"
            return _by(call, partials, "min" if which == "first" else "max", value, order, ties=which == "last")
        if ignore_nulls:
            sql = call.partial(which, value, "true")
            places = partials.add(lambda places: ArrivalNotNullBuffer(places, which), sql)
        else:
            places = partials.add(
                lambda places: ArrivalBuffer(places, which), call.partial(which, value), call.partial("count", "1")
            )
        return PlannedResult(call.name, "value", places[:1])

    return plan


def _spread(kind: str) -> Callable[[Call, PartialColumns], PlannedResult]:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        value = call.arguments[0]
        squares = f"{call.partial('var_pop', value)} * {call.partial('count', value)}"
        places = partials.add(
            MomentsBuffer, call.partial("count", value), call.partial("avg", f"CAST({value} AS DOUBLE)"), squares
        )
        return PlannedResult(call.name, kind, places)

    return plan


def _collect(
    function: str, buffer: Callable[[tuple[int, ...]], Buffer]
) -> Callable[[Call, PartialColumns], PlannedResult]:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        if not _ignores_nulls(call.function):
            raise PlanError(f"agg: {function} with RESPECT NULLS is not supported (column {call.name})")
        sql = call.partial(function, call.arguments[0])
        return PlannedResult(call.name, "list", partials.add(buffer, sql))

    return plan


def _ignores_nulls(function: Any) -> bool:
    try:
        return bool(function.ignoreNulls())
    except Py4JError:  # before Spark 4.2 collect_list knows no RESPECT NULLS
        return True


_PLANS: dict[str, Callable[[Call, PartialColumns], PlannedResult]] = {
    "Count": _count,
    "Count DISTINCT": _count_distinct,
    "Sum": _sum,
    "Average": _average,
    "Min": _extreme("min"),
    "Max": _extreme("max"),
    "MinBy": _extreme_by("min"),
    "MaxBy": _extreme_by("max"),
    "First": _by_position("first"),
    "Last": _by_position("last"),
    "CollectList": _collect("collect_list", ListBuffer),
    "CollectSet": _collect("collect_set", SetBuffer),
    **{name: _spread(kind) for name, kind in _SPREADS.items()},
}


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _tree(node: Any) -> Iterator[Any]:
    yield node
    for child in _items(node.children()):
        yield from _tree(child)
