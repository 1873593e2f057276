"""Columns and the frames that they are of: which frame one was taken from, which column of another frame it is there.

Expressions and attributes are handles, as in :mod:`.spark_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column, DataFrame

from .gateway import java_class, scala_sequence, session_state
from .spark_expressions import as_column, attribute, class_name, items, replaced, tree
from .spark_plans import analyzed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Which frame of ours a column was taken from, on the expression of its name.
_FRAME_TAG = "mixedmode.frame"
#: How Spark marks a column that only its frame's name calls up, such as the other side's key behind a USING join.
_QUALIFIED_ONLY = "__qualified_access_only"


def column_of_frame(spark: SparkSession, name: str, frame: int) -> Column:
    """A column that remembers where it was taken from.

    Args:
        spark: the session.
        name: its name.
        frame: the number of the frame.
    """
    expression = attribute(spark, name)
    expression.setTagValue(_tag(spark), str(frame))
    return as_column(spark, expression)


def with_frames(spark: SparkSession, column: Column, find: Callable[[int, str], Any]) -> Column:
    """A column in which those that remember their frames are replaced.

    Args:
        spark: the session.
        column: the column.
        find: given the number of a frame and a name the attribute that takes its place; None: it stays.
    """
    tag = _tag(spark)

    def other(node: Any) -> Any:
        if class_name(node) != "UnresolvedAttribute":
            return None
        number = node.getTagValue(tag)
        return find(int(number.get()), str(node.nameParts().apply(0))) if number.isDefined() else None

    return with_nodes(spark, column, other)


def with_names(frame: DataFrame, column: Column, names: Mapping[int, str]) -> Column:
    """A column with the frame's columns called by other names, however it calls them.

    Args:
        frame: the frame that the column is of.
        column: the column.
        names: by the id of each of the frame's attributes.

    Raises:
        AnalysisException: Spark's own, if the frame has several columns of a name.
    """
    spark, plan = frame.sparkSession, analyzed(frame)
    resolver = session_state(spark).conf().resolver()
    unresolved = java_class(spark, "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")

    def found(parts: Sequence[str]) -> Any:
        option = plan.resolve(scala_sequence(spark, parts), resolver)
        return option.get() if option.isDefined() else None

    def other(node: Any) -> Any:
        kind = class_name(node)
        if kind == "AttributeReference":
            name = names.get(node.exprId().id())
            return None if name is None else attribute(spark, name)
        if kind != "UnresolvedAttribute":
            return None
        parts = list(map(str, items(node.nameParts())))
        whole = found(parts)
        if whole is None:
            return None
        ids = [one.exprId().id() for one in tree(whole) if class_name(one) == "AttributeReference"]
        if len(ids) != 1 or ids[0] not in names:
            return None
        # What is behind the column's name are fields in it.
        length = next(n for n in range(1, len(parts) + 1) if _is_attribute(found(parts[:n]), ids[0]))
        return unresolved(scala_sequence(spark, [names[ids[0]], *parts[length:]]))

    return with_nodes(spark, column, other)


def hidden_columns(plan: Any) -> list[Any]:
    """The attributes of a resolved plan that only the names of their frames call up."""
    return [one for one in items(plan.metadataOutput()) if one.metadata().contains(_QUALIFIED_ONLY)]


def hiding(frame: DataFrame, shown: Sequence[Any], hidden: Sequence[Any], more: Sequence[str]) -> DataFrame:
    """Some columns of a frame, beside others that only the names of their frames call up, as behind a USING join.

    Args:
        frame: has all of these.
        shown: attributes.
        hidden: attributes, marked as :func:`hidden_columns` finds them.
        more: names of columns that come behind those that are shown.
    """
    spark = frame.sparkSession
    result = frame.select(*[as_column(spark, one) for one in [*shown, *(attribute(spark, name) for name in more)]])
    project = getattr(java_class(spark, "org.apache.spark.sql.catalyst.plans.logical.Project$"), "MODULE$")
    analyzed(result).setTagValue(project.hiddenOutputTag(), scala_sequence(spark, hidden))
    return result


def with_nodes(spark: SparkSession, column: Column, other: Callable[[Any], Any]) -> Column:
    """A column with nodes of its expression replaced; the same one if there are none.

    Args:
        spark: the session.
        column: the column.
        other: as of :func:`~.spark_expressions.replaced`.
    """
    converter = getattr(java_class(spark, "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$"), "MODULE$")
    given = converter.apply(cast(Any, column)._jc.node())
    made = replaced(spark, given, other)
    return column if made is given else as_column(spark, made)


# -- inside ------------------------------------------------------------------------------------------------------------


def _is_attribute(expression: Any, id: int) -> bool:
    return expression is not None and class_name(expression) == "AttributeReference" and expression.exprId().id() == id


def _tag(spark: SparkSession) -> Any:
    return java_class(spark, "org.apache.spark.sql.catalyst.trees.TreeNodeTag")(_FRAME_TAG)
