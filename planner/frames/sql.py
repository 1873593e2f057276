"""SQL over a job's rows: a query without state as one more operation on them, one with GROUP BY as a keyed stage.

The query is put to each input's frame, and to a stage's rows when they are there, as ``spark.sql(query, rows=frame)``.
A view by name cannot do that: what reads it is one frame of Spark's, which stands for one input and for no stage.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ...errors import PlanError
from ...runtime.platform.spark_errors import error_text
from ...runtime.platform.spark_plans import has_node
from ...runtime.platform.spark_session import empty_frame
from ..inputs.analysis import check_stateless
from ..inputs.static import check_static
from .frame import MixedFrame
from .sql_groups import grouped


def sql(sqlQuery: str, args: dict[str, Any] | list[Any] | None = None, **kwargs: Any) -> MixedFrame:
    """Apply a query in SQL to a job's rows: ``mixedmode.sql("SELECT k FROM {rows} WHERE v > 1", rows=frame)``.

    It selects, filters, computes, explodes, joins with static tables, and may have one GROUP BY, which is a keyed
    stage; behind that ORDER BY and LIMIT need outputMode complete, as everywhere.

    Args:
        sqlQuery: the query; the frame's place has its name in braces.
        args: parameters, as of ``spark.sql``.
        kwargs: the frame by its name in the query, and static DataFrames, columns and values, as of ``spark.sql``.

    Raises:
        PlanError: there is no frame of a job or more than one, Spark does not take the query, or it needs state.
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

    template = empty_frame(frame.sparkSession, frame.schema)
    try:
        result = answer(template)
    except (PySparkException, KeyError) as error:
        why = error_text(error) if isinstance(error, PySparkException) else f"nothing is given for {{{error.args[0]}}}"
        raise PlanError(f"sql(): {why}") from error
    groups = grouped(frame, answer, result)
    if groups is not None:
        return groups
    check_stateless("what sql() was given", result, template)
    if has_node(result, "Sort"):
        raise PlanError(
            "sql() with ORDER BY and without GROUP BY needs all rows at once, which a stream never has; order where the"
            " output is read"
        )
    return frame.transform(answer)
