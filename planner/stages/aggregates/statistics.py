"""Statistical aggregate functions: spread, shape, correlation, percentiles, and the approximate count of values."""

from __future__ import annotations

import math
from typing import Any

from ....errors import PlanError, not_supported
from ....runtime.catalyst.spark_hyperloglog import hyperloglog_tables
from ....runtime.operators.aggregate.buffers import ListBuffer
from ....runtime.operators.aggregate.hyperloglog import Estimator, RegisterBuffer
from ....runtime.operators.aggregate.moments import CoMomentsBuffer, MomentsBuffer, ShapeBuffer
from .partials import Call, PartialColumns, Plan, PlannedResult

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
#: Bits of a register's number.  Spark has tables up to here, and hardly gets by with more registers itself.
_MAX_PRECISION = 18


def _spread(kind: str) -> Plan:
    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        return PlannedResult(call.name, kind, partials.add(MomentsBuffer, *_moments(call, call.arguments[0])))

    return plan


def _moments(call: Call, value: str) -> tuple[str, str, str]:
    """Count, mean, and sum of squared differences from it."""
    squares = f"{call.partial('var_pop', value)} * {call.partial('count', value)}"
    return call.partial("count", value), call.partial("avg", f"CAST({value} AS DOUBLE)"), squares


def _shape(kind: str) -> Plan:
    """Skewness and kurtosis; Spark shows the sums of third and fourth powers only through its results."""

    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        value = call.arguments[0]
        count, mean, squares = _moments(call, value)
        cubes = f"coalesce({call.partial('skewness', value)}, 0D) * sqrt(pow({squares}, 3) / nullif({count}, 0))"
        fourths = f"(coalesce({call.partial('kurtosis', value)}, 0D) + 3D) * pow({squares}, 2) / nullif({count}, 0)"
        return PlannedResult(call.name, kind, partials.add(ShapeBuffer, count, mean, squares, cubes, fourths))

    return plan


def _together(kind: str) -> Plan:
    """Functions of pairs; a pair with a null does not count."""

    def plan(call: Call, partials: PartialColumns) -> PlannedResult:
        x, y = (f"CAST({argument} AS DOUBLE)" for argument in call.arguments)
        left, right = f"CASE WHEN ({y}) IS NOT NULL THEN {x} END", f"CASE WHEN ({x}) IS NOT NULL THEN {y} END"
        (count, mean_x, squares_x), (_, mean_y, squares_y) = _moments(call, left), _moments(call, right)
        products = f"{call.partial('covar_pop', left, right)} * {count}"
        columns = (count, mean_x, mean_y, products, squares_x, squares_y)
        return PlannedResult(call.name, kind, partials.add(CoMomentsBuffer, *columns))

    return plan


def _percentile(call: Call, partials: PartialColumns) -> PlannedResult:
    """Exact percentiles, from all values."""
    function, value, frequency = call.function, call.arguments[0], call.argument_text(2)
    _check_numbers(call)
    if frequency not in ("1", "1L"):
        value_text = call.argument_text()
        raise not_supported(
            f"agg: percentile with the frequency {frequency} is not supported (column {call.name})\nRepeat the values"
            f" in front of groupBy, as in select(…, explode(array_repeat({value_text}, CAST({frequency} AS INT))))"
        )
    shares = _percentages(call)
    if bool(function.reverse()):
        shares = tuple(1.0 - share for share in shares)
    places = partials.add(ListBuffer, call.partial("collect_list", f"CAST({value} AS DOUBLE)"))
    return PlannedResult(call.name, "percentile", places, shares)


def _discrete_percentile(call: Call, partials: PartialColumns) -> PlannedResult:
    """The first value that so many are not greater than; with DESC, not less than."""
    _check_numbers(call)
    shares = _percentages(call)
    places = partials.add(ListBuffer, call.partial("collect_list", f"CAST({call.arguments[0]} AS DOUBLE)"))
    result = "ranked_down" if bool(call.function.reverse()) else "ranked"
    return PlannedResult(call.name, result, places, (shares, 0.0))


def _approximate_percentile(call: Call, partials: PartialColumns) -> PlannedResult:
    """The value that Spark's sketch looks for, found exactly: no sketch that SQL shows can be merged outside Spark."""
    if call.argument_type().startswith("interval"):
        raise _not_of_this_type(call)
    given, accuracy = call.function.percentageExpression().eval(None), call.function.accuracyExpression().eval(None)
    if given is None or accuracy is None:
        raise PlanError(
            f"agg: percentage or accuracy of {call.name} is null; give the first from 0 to 1, the other > 0"
        )
    places = partials.add(ListBuffer, call.partial("collect_list", call.arguments[0]))
    return PlannedResult(call.name, "ranked", places, (_shares(given), 1.0 / float(accuracy)))


def _check_numbers(call: Call) -> None:
    kind = call.argument_type()
    if kind.startswith("interval") or not kind.startswith(_NUMBERS):
        raise _not_of_this_type(call)


def _not_of_this_type(call: Call) -> PlanError:
    """The error for percentiles of what is no number."""
    kind, number = call.argument_type(), f"{call.argument_text()} AS DOUBLE"
    if kind.startswith(("interval year", "interval month")):
        number = f"CAST({call.argument_text()} AS INTERVAL MONTH) AS INT"
    elif kind.startswith("interval"):
        number = f"CAST({call.argument_text()} AS INTERVAL SECOND) AS DECIMAL(18,6)"
    return not_supported(
        f"agg: percentiles of {kind} are not supported (column {call.name}); cast its argument to a number, as in"
        f" CAST({number})"
    )


def _percentages(call: Call) -> tuple[float, ...]:
    given = call.function.percentageExpression().eval(None)
    if given is None:
        raise PlanError(f"agg: the percentage of {call.name} is null; it must be from 0 to 1")
    return _shares(given)


def _shares(given: Any) -> tuple[float, ...]:
    """One percentage, or those of an array, as Spark evaluates them."""
    if hasattr(given, "toDoubleArray"):
        return tuple(float(share) for share in given.toDoubleArray())
    return (float(str(given)),)


def _mode(call: Call, partials: PartialColumns) -> PlannedResult:
    """The most frequent value; of several the least, where Spark takes any, or the one that is asked for."""
    value, kind, reverse = call.arguments[0], call.argument_type(), call.function.reverseOpt()
    if kind.startswith(("array", "struct", "map", "variant", "interval")):
        raise not_supported(f"agg: mode of {kind} is not supported (column {call.name}); cast its argument")
    # The first one in the order of WITHIN GROUP, which Spark keeps as its reverse.
    greatest = True if reverse.isDefined() and not bool(reverse.get()) else None
    return PlannedResult(call.name, "mode", partials.add(ListBuffer, call.partial("collect_list", value)), greatest)


def _approximate_count(call: Call, partials: PartialColumns) -> PlannedResult:
    """HyperLogLog++ with Spark's hash and registers; a register's index and value are one number."""
    if "collate" in call.argument_type():
        raise not_supported(
            f"agg: approx_count_distinct of {call.argument_type()} is not supported (column {call.name}); cast its"
            " argument to string"
        )
    deviation = float(call.function.relativeSD())
    precision = math.ceil(2.0 * math.log(1.106 / deviation) / math.log(2.0))
    if precision > _MAX_PRECISION:
        raise not_supported(
            f"agg: approx_count_distinct with rsd {deviation} is not supported (column {call.name}): it needs"
            f" 2^{precision} registers for each key; 2^{_MAX_PRECISION} are allowed, that is rsd 0.0022 or more"
        )
    value, width = call.arguments[0], "SMALLINT" if precision <= 9 else "INT"
    hashed = f"xxhash64({value})"
    index = f"shiftrightunsigned({hashed}, {64 - precision})"
    # bin() leaves leading zeros out.
    rank = f"65 - length(bin(shiftleft({hashed}, {precision}) | {1 << (precision - 1)}L))"
    code = f"CASE WHEN ({value}) IS NOT NULL THEN CAST(shiftleft({index}, 6) | ({rank}) AS {width}) END"
    places = partials.add(RegisterBuffer, call.partial("collect_set", code))
    return PlannedResult(
        call.name, "registers", places, Estimator(precision, *hyperloglog_tables(partials.spark, precision))
    )


#: By the class of Spark's function.
STATISTICS: dict[str, Plan] = {
    "StddevSamp": _spread("stddev_samp"),
    "StddevPop": _spread("stddev_pop"),
    "VarianceSamp": _spread("var_samp"),
    "VariancePop": _spread("var_pop"),
    "Skewness": _shape("skewness"),
    "Kurtosis": _shape("kurtosis"),
    "CovPopulation": _together("covar_pop"),
    "CovSample": _together("covar_samp"),
    "Corr": _together("corr"),
    "RegrReplacement": _spread("squares"),  # regr_sxx and regr_syy
    "RegrSXY": _together("products"),
    "RegrSlope": _together("slope"),
    "RegrIntercept": _together("intercept"),
    "RegrR2": _together("r2"),
    "Percentile": _percentile,
    "PercentileDisc": _discrete_percentile,
    "ApproximatePercentile": _approximate_percentile,
    "Mode": _mode,
    "HyperLogLogPlusPlus": _approximate_count,
}
