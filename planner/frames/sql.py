"""SQL over a job's rows: a query without state, as one more operation on them.

The query is put to each input's frame, and to a stage's rows when they are there, as ``spark.sql(query, rows=frame)``.
A view by name cannot do that: what reads it is one frame of Spark's, which stands for one input and for no stage.
"""

from __future__ import annotations

from collections.abc import Set
from string import Formatter
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ...errors import PlanError
from ...runtime.platform.columns import quoted
from ...runtime.platform.spark_errors import error_text
from ...runtime.platform.spark_plans import kinds_in_sql
from ...runtime.platform.spark_session import empty_frame
from ..inputs.row_wise import check_row_wise
from ..inputs.static import check_static
from .frame import MixedFrame

#: What Spark's parser makes of a query, as against a command.
_QUERY = {
    "Aggregate",
    "Distinct",
    "Except",
    "Filter",
    "Generate",
    "GlobalLimit",
    "Intersect",
    "Join",
    "LateralJoin",
    "LocalLimit",
    "Offset",
    "OneRowRelation",
    "Project",
    "Sample",
    "Sort",
    "SubqueryAlias",
    "UnresolvedHaving",
    "UnresolvedHint",
    "UnresolvedInlineTable",
    "UnresolvedRelation",
    "UnresolvedSubqueryColumnAliases",
    "UnresolvedTableValuedFunction",
    "UnresolvedWith",
    "Union",
    "WithWindowDefinition",
}


def sql(sqlQuery: str, args: dict[str, Any] | list[Any] | None = None, **kwargs: Any) -> MixedFrame:
    """Apply a query in SQL to a job's rows: ``mixedmode.sql("SELECT k FROM {rows} WHERE v > 1", rows=frame)``.

        large = mixedmode.sql("SELECT customer, amount FROM {rows} WHERE amount > 100", rows=orders)

    It selects, filters, computes, explodes, and joins with static tables; what needs several rows of the stream, such
    as GROUP BY, comes behind it: ``.groupBy(…).agg(F.expr("…"))``.

    Args:
        sqlQuery: the query; the frame's place has its name in braces.
        args: parameters, as of ``spark.sql``.
        kwargs: the frame by its name in the query, and static DataFrames, columns and values, as of ``spark.sql``.

    Raises:
        PlanError: there is no frame of a job or more than one, Spark does not take the query, it is a command, or it
            needs more than a row of the job's at a time.
    """
    names = [name for name, given in kwargs.items() if isinstance(given, MixedFrame)]
    if len(names) != 1:
        raise PlanError(
            f"sql() takes the rows of one job, got {' and '.join(names) or 'none'}; name them in the query, in braces:"
            " sql('SELECT * FROM {rows}', rows=frame); bring several together by frame.union before"
        )
    (name,) = names
    frame: MixedFrame = kwargs.pop(name)
    for given in kwargs.values():
        if isinstance(given, DataFrame):
            check_static("sql()", given)

    def answer(rows: DataFrame) -> DataFrame:
        return rows.sparkSession.sql(sqlQuery, args, **kwargs, **{name: rows})

    what = f"sql({sqlQuery!r})"
    template = empty_frame(frame.sparkSession, frame.schema)
    try:
        _check_is_select(what, frame.sparkSession, sqlQuery, {*kwargs, name})
        result = answer(template)
    except PySparkException as error:
        raise PlanError(f"{what}: {error_text(error)}") from error
    check_row_wise(what, result, template)
    return frame.transform(answer)


def _check_is_select(what: str, spark: SparkSession, text: str, given: Set[str]) -> None:
    """Raise PlanError if a text is not one query: Spark runs anything else at once, again for each input."""
    try:
        pieces = list(Formatter().parse(text))
    except (TypeError, ValueError) as error:
        raise PlanError(f"{what} is no text with names in braces: {error}; two braces stand for one") from error
    unknown = [field for _, field, _, _ in pieces if field is not None and field not in given]
    if unknown:
        raise PlanError(f"{what}: nothing is given for {{{unknown[0]}}}; two braces stand for one")
    named = "".join(before + ("" if field is None else quoted(field)) for before, field, _, _ in pieces)
    others = sorted(kinds_in_sql(spark, named) - _QUERY)
    if others:
        raise PlanError(f"{what} must be one SELECT, got {', '.join(others)}")
