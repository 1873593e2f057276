"""Lists the supported aggregate functions, with their partial columns, buffers and results.

Reads Spark's analyzed expressions through the gateway.  Each function becomes partial aggregates in SQL over the
input's columns, which Spark computes per epoch, and a buffer that merges them across epochs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ....errors import PlanError, not_supported
from ....runtime.catalyst.spark_expressions import NO_SUCH_MEMBER, class_name, items, tree
from ....runtime.operators.aggregate.buffers import (
    ArrivalBuffer,
    ArrivalNotNullBuffer,
    BitsBuffer,
    CountBuffer,
    DecimalSumBuffer,
    ExtremeBuffer,
    ExtremeByBuffer,
    ListBuffer,
    ProductBuffer,
    SetBuffer,
    SumBuffer,
    TextBuffer,
    TrySumBuffer,
)
from .ordered import joined_in_order, of_argument, top
from .partials import ORDER, Call, PartialColumns, Plan, PlannedResult
from .statistics import STATISTICS

SUPPORTED = (
    "count, count_if, count_distinct, approx_count_distinct, sum, sum_distinct, avg, mean, try_sum, try_avg, product,"
    " min, max, first,"
    " first_value, last, last_value, any_value, min_by, max_by, bool_and, bool_or, every, some, any, bit_and, bit_or,"
    " bit_xor, stddev, stddev_samp, stddev_pop, variance, var_samp, var_pop, skewness, kurtosis, covar_pop, covar_samp,"
    " corr, median, percentile, percentile_cont, percentile_disc, percentile_approx, approx_percentile, mode,"
    " collect_list, array_agg, collect_set, listagg, string_agg, regr_count, regr_avgx, regr_avgy, regr_slope,"
    " regr_intercept, regr_r2, regr_sxx, regr_sxy, regr_syy"
)
#: DISTINCT makes no difference to these.
_INDIFFERENT_TO_DISTINCT = {"Min", "Max", "CollectSet", "BitAndAgg", "BitOrAgg", "HyperLogLogPlusPlus"}
_SUBQUERIES = {"Exists", "InSubquery", "ListQuery", "ScalarSubquery"}
_UDF = re.compile(r"UDF|UDAF")
#: By a part of the class of functions that are not supported, what comes nearest.
_NEAREST = {
    "HistogramNumeric": "count by F.width_bucket(...), or percentile_approx",
    "KllSketch": "percentile_approx",
    "CountMinSketch": "count by the value",
    "ApproxTopK": "count by the value, and take the greatest of the output",
    "Sketch": "approx_count_distinct, or collect_set",
    "Bitmap": "count_distinct",
}
_ID = re.compile(r"#\d+L?")


def text_of_call(expression: Any) -> str:
    """A call of a user-defined function as SQL; Spark writes the columns of a pandas function with their ids."""
    return _ID.sub("", str(expression.sql()))


class CallsFunctionError(PlanError):
    """An argument calls a user-defined function."""


def plan_function(expression: Any, name: str, partials: PartialColumns) -> PlannedResult:
    """Plan one call; ``expression`` is Spark's analyzed AggregateExpression.

    Raises:
        CallsFunctionError: an argument calls a user-defined function.
        PlanError: the function is not supported.
    """
    if class_name(expression.aggregateFunction()) == "PythonUDAF":
        raise PlanError(
            f"agg: {text_of_call(expression)} is a pandas function over all rows of a group, and what it gives for some"
            " of them cannot be merged with what it gives for others; use transformWithStateInPandas and keep what can,"
            " or functions of Spark's"
        )
    for kind in map(class_name, tree(expression)):
        instead = "compute it with withColumn before groupBy and aggregate the column"
        if _UDF.search(kind):
            raise CallsFunctionError(f"agg: {expression.sql()} calls a user-defined function; {instead}")
        if kind in _SUBQUERIES:  # its text does not say what is looked up, and each epoch would look it up again
            raise PlanError(f"agg: {expression.sql()} contains a subquery; {instead}")
    function = expression.aggregateFunction()
    shown = str(function.prettyName())
    while (replacement := _replacement(function)) is not None:
        function = replacement
    kind = class_name(function)
    distinct = bool(expression.isDistinct()) and kind not in _INDIFFERENT_TO_DISTINCT
    condition = partials.argument(expression.filter().get()) if expression.filter().isDefined() else None
    call = Call(
        function=function,
        name=name,
        arguments=tuple(partials.argument(child) for child in items(function.children())),
        filter="" if condition is None else f" FILTER (WHERE {condition})",
        type=str(function.dataType().simpleString()),
    )
    # Such as try_sum, which is Sum in another mode of evaluation.
    tried = "Try" if str(function.prettyName()).startswith("try_") else ""
    plan = _PLANS.get(f"{tried}{kind} DISTINCT" if distinct else f"{tried}{kind}")
    if plan is None:
        raise not_supported(
            f"agg: function {shown}{' with DISTINCT' if distinct else ''} is not supported (in {expression.sql()});"
            f"{_instead(kind)} supported are {SUPPORTED}"
        )
    return replace(plan(call, partials), text=str(expression.sql()))


def _instead(kind: str) -> str:
    """What comes nearest to a function of a class, for errors."""
    nearest = next((text for part, text in _NEAREST.items() if part in kind), None)
    return "" if nearest is None else f" only Spark can merge what it keeps; use {nearest};"


def _replacement(function: Any) -> Any:
    """The function that Spark itself replaces this one by; None: it stands for itself."""
    try:
        return function.replacement()
    except NO_SUCH_MEMBER:
        return None


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
    shown = partials.shown(sql)
    if call.argument_type().startswith("decimal"):
        return partials.add(
            lambda places: DecimalSumBuffer(places, partials.ansi, shown), sql, call.partial("count", argument)
        )
    return partials.add(lambda places: SumBuffer(places, partials.ansi, shown), sql)


def _try_sum(call: Call, partials: PartialColumns) -> PlannedResult:
    """Null where the sum leaves its type; a sum of floats never does."""
    argument, kind = call.arguments[0], call.argument_type()
    sql, count = call.partial("try_sum", argument), call.partial("count", argument)
    if kind.startswith("decimal"):
        places = partials.add(lambda places: DecimalSumBuffer(places, False, partials.shown(sql)), sql, count)
    elif call.type == "double":
        places = partials.add(lambda places: SumBuffer(places, False, partials.shown(sql)), sql)
    elif call.type == "bigint":
        places = partials.add(TrySumBuffer, sql, count)
    else:
        raise not_supported(
            f"agg: try_sum of {kind} is not supported (column {call.name}); cast its argument to a number"
        )
    return PlannedResult(call.name, "value", places[:1])


def _try_average(call: Call, partials: PartialColumns) -> PlannedResult:
    if call.type == "double":
        return _average(call, partials)  # a sum of doubles never leaves its type
    if not call.type.startswith("decimal"):
        raise not_supported(f"agg: try_avg of {call.type} is not supported (column {call.name}); use avg")
    total, count = (call.partial(function, call.arguments[0]) for function in ("try_sum", "count"))
    places = partials.add(lambda places: DecimalSumBuffer(places, False, partials.shown(total)), total, count)
    return PlannedResult(call.name, "decimal_mean", places, tries=True)


def _product(call: Call, partials: PartialColumns) -> PlannedResult:
    """SQL has no such function, so Spark multiplies the values of an epoch that it has collected."""
    value = f"CAST({call.arguments[0]} AS DOUBLE)"
    values = call.partial("collect_list", value)
    sql = f"CASE WHEN {call.partial('count', value)} > 0 THEN aggregate({values}, 1D, (a, b) -> a * b) END"
    return PlannedResult(call.name, "value", partials.add(ProductBuffer, sql))


def _average(call: Call, partials: PartialColumns) -> PlannedResult:
    argument = call.arguments[0]
    if call.type.startswith("decimal"):
        return PlannedResult(call.name, "decimal_mean", _sum_columns(call, partials, argument))
    if call.type == "interval day to second":
        total = _sum_columns(call, partials, argument)
        count = partials.add(CountBuffer, call.partial("count", argument))
        return PlannedResult(call.name, "interval_mean", (*total, *count))
    if call.type != "double":
        raise not_supported(
            f"agg: avg of {call.type} is not supported (column {call.name}); cast its argument to a number"
        )
    total = _sum_columns(call, partials, f"CAST({argument} AS DOUBLE)")
    return PlannedResult(call.name, "mean", (*total, *partials.add(CountBuffer, call.partial("count", argument))))


def _extreme(which: Any) -> Plan:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        sql = call.partial(which, call.arguments[0])
        return PlannedResult(call.name, "value", partials.add(lambda places: ExtremeBuffer(places, which), sql))

    return plan


def _extreme_by(which: Any) -> Plan:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        value, order = call.arguments
        return _by(call, partials, which, value, order, ties=True)  # as Spark merges its own buffers

    return plan


def _by(
    call: Call, partials: PartialColumns, which: Any, value: str, order: str, *, ties: bool, ordered: str = ""
) -> PlannedResult:
    places = partials.add(
        lambda places: ExtremeByBuffer(places, which, ties),
        call.partial(f"{which}_by", value, order),
        call.partial(which, order),
        ordered=ordered,
    )
    return PlannedResult(call.name, "value", places[:1])


def _by_position(which: Any) -> Plan:
    """first and last: by event time if there is one (then the cut into epochs makes no difference), else by arrival."""

    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        value, extreme = call.arguments[0], "min" if which == "first" else "max"
        counts = f"({value}) IS NOT NULL" if bool(call.function.ignoreNulls()) else ""
        place = f"struct({ORDER})"
        ordered = call.partial(f"{extreme}_by", value, f"CASE WHEN {counts} THEN {place} END" if counts else place)
        if partials.event_time is not None:
            order = f"CASE WHEN {counts} THEN {partials.event_time} END" if counts else partials.event_time
            return _by(call, partials, extreme, value, order, ties=which == "last", ordered=ordered)
        if counts:
            sql = call.partial(which, value, "true")
            places = partials.add(lambda places: ArrivalNotNullBuffer(places, which), sql, ordered=ordered)
        else:
            places = partials.add(
                lambda places: ArrivalBuffer(places, which),
                call.partial(which, value),
                call.partial("count", "1"),
                ordered=ordered,
            )
        return PlannedResult(call.name, "value", places[:1])

    return plan


def _sum_distinct(call: Call, partials: PartialColumns) -> PlannedResult:
    return PlannedResult(call.name, "sum_distinct", _set(call, partials))


def _average_distinct(call: Call, partials: PartialColumns) -> PlannedResult:
    if call.type != "double" and not call.type.startswith("decimal"):
        raise not_supported(
            f"agg: avg of {call.type} is not supported (column {call.name}); cast its argument to a number"
        )
    return PlannedResult(call.name, "mean_distinct", _set(call, partials))


def _set(call: Call, partials: PartialColumns) -> tuple[int, ...]:
    return partials.add(SetBuffer, call.partial("collect_set", call.arguments[0]))


def _bits(which: Any) -> Plan:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        sql = call.partial(f"bit_{which}", call.arguments[0])
        return PlannedResult(call.name, "value", partials.add(lambda places: BitsBuffer(places, which), sql))

    return plan


def _listagg(call: Call, partials: PartialColumns) -> PlannedResult:
    """In order of arrival, as collect_list, or in the order that is asked for."""
    value, delimiter = call.arguments[:2]
    separator = call.function.delimiter().eval(None)
    raw = b"" if separator is None else bytes(separator) if isinstance(separator, bytes) else str(separator).encode()
    if call.function.orderExpressions().size():
        return joined_in_order(call, partials, raw)
    sql = call.partial("listagg", value, delimiter)
    ordered = f"listagg({value}, {delimiter}) WITHIN GROUP (ORDER BY {ORDER}){call.filter}"
    places = partials.add(lambda places: TextBuffer(places, raw), sql, ordered=ordered)
    return PlannedResult(call.name, "value", places)


def _collect_list(call: Call, partials: PartialColumns) -> PlannedResult:
    """In order of arrival."""
    _check_ignores_nulls("collect_list", call)
    sql = call.partial("collect_list", call.arguments[0])
    places = partials.add(ListBuffer, sql, ordered=of_argument(call, partials))
    return PlannedResult(call.name, "list", places)


def _collect_set(call: Call, partials: PartialColumns) -> PlannedResult:
    _check_ignores_nulls("collect_set", call)
    return PlannedResult(call.name, "list", _set(call, partials))


def _check_ignores_nulls(function: str, call: Call) -> None:
    if not _ignores_nulls(call.function):
        raise not_supported(f"agg: {function} with RESPECT NULLS is not supported (column {call.name})")


def _ignores_nulls(function: Any) -> bool:
    try:
        return bool(function.ignoreNulls())
    except NO_SUCH_MEMBER:  # before Spark 4.2 collect_list knows no RESPECT NULLS
        return True


_PLANS: dict[str, Plan] = {
    "Count": _count,
    "Count DISTINCT": _count_distinct,
    "Sum": _sum,
    "Sum DISTINCT": _sum_distinct,
    "TrySum": _try_sum,
    "TryAverage": _try_average,
    "Product": _product,
    "Average": _average,
    "Average DISTINCT": _average_distinct,
    "Min": _extreme("min"),
    "Max": _extreme("max"),
    "MinBy": _extreme_by("min"),
    "MaxBy": _extreme_by("max"),
    "MaxMinByK": top,
    "First": _by_position("first"),
    "Last": _by_position("last"),
    "BitAndAgg": _bits("and"),
    "BitOrAgg": _bits("or"),
    "BitXorAgg": _bits("xor"),
    "CollectList": _collect_list,
    "CollectSet": _collect_set,
    "ListAgg": _listagg,
    **STATISTICS,
}
