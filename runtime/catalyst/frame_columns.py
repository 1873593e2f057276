"""Columns and the frames that they are of: which frame one was taken from, which column of another frame it is there.

Expressions and attributes are handles, as in :mod:`.spark_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession

from ..jvm.gateway import java_class, scala_object, scala_sequence, session_state
from .columns import column_fold
from .spark_expressions import as_column, attribute, attribute_id, class_name, is_attribute, items, replaced, tree
from .spark_plans import analyzed, output_of

#: Which frame of ours a column was taken from, on the expression of its name.
_FRAME_TAG = "mixedmode.frame"
#: How Spark marks a column that only its frame's name calls up, such as the other side's key behind a USING join.
_QUALIFIED_ONLY = "__qualified_access_only"


def column_of_frame(spark: SparkSession, name: str, frame: int, fields: Sequence[str] = ()) -> Column:
    """A column that remembers where it was taken from.

    Args:
        spark: the session.
        name: its name.
        frame: the number of the frame.
        fields: of the column, one in the other: the innermost is meant.
    """
    expression = _named(spark, [name, *fields])
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
        if not number.isDefined():
            return None
        name, *fields = map(str, items(node.nameParts()))
        found = find(int(number.get()), name)
        return found if found is None else _field(spark, found, fields)

    made, given = with_nodes(spark, column, other), _expression(spark, column)
    if made is column or class_name(given) != "UnresolvedAttribute" or given.nameParts().size() == 1:
        return made
    return made.alias(str(given.nameParts().last()))  # as Spark names a field that is selected


def with_own_columns(
    frame: DataFrame, column: Column, numbers: Collection[int], others: Collection[int], beside: DataFrame | None = None
) -> Column:
    """A column in which those that remember a frame are that frame's, where another frame's have the same name.

    Args:
        frame: what has become of the frames.
        column: the column.
        numbers: of the frames.
        others: ids of attributes that are not theirs.
        beside: a frame whose columns are there, too.
    """
    spark = frame.sparkSession
    fold, mine = column_fold(spark), list(output_of(frame))
    theirs = [] if beside is None else list(output_of(beside))
    foreign = {*others, *(attribute_id(one) for one in theirs)}

    def find(number: int, name: str) -> Any:
        if number not in numbers:
            return None
        alike = [one for one in [*mine, *theirs] if fold(str(one.name())) == fold(name)]
        own = [one for one in alike if attribute_id(one) not in foreign]
        return own[0] if len(alike) > 1 and len(own) == 1 else None

    return with_frames(spark, column, find)


def attribute_ids(frame: DataFrame) -> frozenset[int]:
    """The ids of a frame's columns, by which Spark tells them from those of others."""
    return frozenset(attribute_id(one) for one in output_of(frame))


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

    def found(parts: Sequence[str]) -> Any:
        option = plan.resolve(scala_sequence(spark, parts), resolver)
        return option.get() if option.isDefined() else None

    def other(node: Any) -> Any:
        kind = class_name(node)
        if kind == "AttributeReference":
            name = names.get(attribute_id(node))
            return None if name is None else attribute(spark, name)
        if kind != "UnresolvedAttribute":
            return None
        parts = list(map(str, items(node.nameParts())))
        whole = found(parts)
        if whole is None:
            return None
        ids = [attribute_id(one) for one in tree(whole) if is_attribute(one)]
        if len(ids) != 1 or ids[0] not in names:
            return None
        # What is behind the column's name are fields in it.
        length = next(n for n in range(1, len(parts) + 1) if _is_column(found(parts[:n]), ids[0]))
        return _named(spark, [names[ids[0]], *parts[length:]])

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
    project = scala_object(spark, "org.apache.spark.sql.catalyst.plans.logical.Project")
    analyzed(result).setTagValue(project.hiddenOutputTag(), scala_sequence(spark, hidden))
    return result


def with_nodes(spark: SparkSession, column: Column, other: Callable[[Any], Any]) -> Column:
    """A column with nodes of its expression replaced; the same one if there are none.

    Args:
        spark: the session.
        column: the column.
        other: as of :func:`~.spark_expressions.replaced`.
    """
    given = _expression(spark, column)
    made = replaced(spark, given, other)
    return column if made is given else as_column(spark, made)


# -- inside ------------------------------------------------------------------------------------------------------------


def _expression(spark: SparkSession, column: Column) -> Any:
    converter = scala_object(spark, "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter")
    return converter.apply(cast(Any, column)._jc.node())


def _named(spark: SparkSession, parts: Sequence[str]) -> Any:
    """What is called by a column's name and those of fields in it."""
    unresolved = java_class(spark, "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")
    return unresolved(scala_sequence(spark, parts))


def _field(spark: SparkSession, column: Any, fields: Sequence[str]) -> Any:
    """A field of a column, which may be resolved or not."""
    if class_name(column) == "UnresolvedAttribute":
        return _named(spark, [*map(str, items(column.nameParts())), *fields]) if fields else column
    extract = java_class(spark, "org.apache.spark.sql.catalyst.analysis.UnresolvedExtractValue")
    literal = scala_object(spark, "org.apache.spark.sql.catalyst.expressions.Literal")
    for field in fields:
        column = extract(column, literal.apply(field))
    return column


def _is_column(expression: Any, id: int) -> bool:
    return expression is not None and is_attribute(expression) and attribute_id(expression) == id


def _tag(spark: SparkSession) -> Any:
    return java_class(spark, "org.apache.spark.sql.catalyst.trees.TreeNodeTag")(_FRAME_TAG)
