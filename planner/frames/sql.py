"""``mixedmode.sql``: a statement over a job's rows, by the names of their views or by names in braces.

A query without state over one frame in braces is one more operation on it: it is put to each input's frame, and to a
stage's rows when they are there, as ``spark.sql(query, rows=frame)``.  All others become calls (:mod:`..sql`).
"""

from __future__ import annotations

from collections.abc import Set
from string import Formatter
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ...errors import PlanError
from ...runtime.catalyst.columns import quoted
from ...runtime.catalyst.spark_plans import kinds_in_sql
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.jvm.replaced_methods import stock_method
from ...runtime.jvm.spark_errors import error_text
from ..inputs.row_wise import check_row_wise
from ..inputs.static_frames import check_static
from ..sql.session import answer
from ..sql.stand_in import STAND_INS
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
    "PipeOperator",
    "Project",
    "RepartitionByExpression",
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
    "Unpivot",
    "WithWindowDefinition",
}


def sql(sqlQuery: str, args: dict[str, Any] | list[Any] | None = None, **kwargs: Any) -> MixedFrame:
    """Returns the rows of a job that an SQL query describes: over views, or over frames by names in braces.

        orders.withWatermark("ts", "1 hour").createOrReplaceTempView("orders")
        counts = mixedmode.sql("SELECT window(ts, '5 minutes') AS span, count(*) AS n FROM orders GROUP BY 1")
        large = mixedmode.sql("SELECT customer, amount FROM {rows} WHERE amount > 100", rows=orders)

    After ``createOrReplaceTempView`` of a job's frame, ``spark.sql`` returns the same.

    Args:
        sqlQuery: the query, with names of frames in braces.
        args: parameters, as of ``spark.sql``.
        kwargs: frames by their names in the query, and static DataFrames, columns and values, as of ``spark.sql``.

    Raises:
        PlanError: the query reads no rows of a job, Spark does not accept it, it is a command, or a part of it cannot
            be
            expressed as calls of frames; the message names that part.
    """
    frames: dict[str, MixedFrame] = {name: given for name, given in kwargs.items() if isinstance(given, MixedFrame)}
    others = {name: given for name, given in kwargs.items() if name not in frames}
    spark = next(iter(frames.values())).sparkSession if frames else SparkSession.getActiveSession()
    if spark is None:
        raise PlanError("sql() found no session; make one first, SparkSession.builder.getOrCreate()")
    for given in others.values():
        if isinstance(given, DataFrame):
            check_static("sql()", given)
    what = f"sql({sqlQuery!r})"
    try:
        _check_is_select(what, spark, sqlQuery, set(kwargs))
        if len(frames) == 1:
            ((name, frame),) = frames.items()
            one = _row_wise(what, frame, name, sqlQuery, args, others)
            if one is not None:
                return one
        stand_ins = {name: STAND_INS.make(frame, name) for name, frame in frames.items()}
        try:
            rows: Any = answer(stock_method(SparkSession, "sql")(spark, sqlQuery, args, **others, **stand_ins))
        finally:
            STAND_INS.forget(stand_ins.values())
    except PySparkException as error:
        raise PlanError(f"{what}: {error_text(error)}") from error
    if not isinstance(rows, MixedFrame):
        raise PlanError(
            f"{what} does not read the rows of a job: name a view of frame.createOrReplaceTempView, or a frame in"
            " braces, sql('SELECT * FROM {rows}', rows=frame)"
        )
    return rows


def _row_wise(
    what: str, frame: MixedFrame, name: str, text: str, args: dict[str, Any] | list[Any] | None, others: dict[str, Any]
) -> MixedFrame | None:
    """The frame through a query that goes row by row; None: it does not.

    Args:
        what: names the query.
        frame: the rows.
        name: what the query calls them.
        text: the query.
        args: its parameters.
        others: what else it names.
    """
    stock = stock_method(SparkSession, "sql")

    def queried(rows: DataFrame) -> DataFrame:
        return stock(rows.sparkSession, text, args, **others, **{name: rows})

    template = empty_frame(frame.sparkSession, frame.schema)
    result = queried(template)
    if STAND_INS.are_in(result):
        return None
    try:
        check_row_wise(what, result, template)
    except PlanError:
        return None  # it may be good as calls, and if it is not, these say why
    return frame.transform(queried)


def _check_is_select(what: str, spark: SparkSession, text: str, given: Set[str]) -> None:
    """Raise PlanError if a text is not one query: Spark runs anything else at once, again for each input."""
    if not given and isinstance(text, str):  # without names Spark takes braces as they are
        _check_kinds(what, spark, text)
        return
    try:
        pieces = list(Formatter().parse(text))
    except (TypeError, ValueError) as error:
        raise PlanError(f"{what} is no text with names in braces: {error}; two braces stand for one") from error
    unknown = [field for _, field, _, _ in pieces if field is not None and field not in given]
    if unknown:
        raise PlanError(f"{what}: nothing is given for {{{unknown[0]}}}; two braces stand for one")
    named = "".join(before + ("" if field is None else quoted(field)) for before, field, _, _ in pieces)
    _check_kinds(what, spark, named)


def _check_kinds(what: str, spark: SparkSession, text: str) -> None:
    others = sorted(kinds_in_sql(spark, text) - _QUERY)
    if others:
        raise PlanError(f"{what} must be one SELECT, got {', '.join(others)}")
