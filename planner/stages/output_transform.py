"""Plans what follows the last keyed stage: inside the stage's own Spark job if possible, so that it runs once.

Between the function that hands the stage's rows on and the one that stages them there must be no exchange: both are
parts of one task's attempt.  So Spark is asked how it would do the steps to a table of two rows, which it would rather
move than any other.  If it would, for a join with a static frame, they are a job of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from ...errors import OptionError, PlanError
from ...runtime.catalyst.spark_expressions import (
    attribute_id,
    called,
    class_name,
    is_attribute,
    items,
    tree,
    with_attributes,
)
from ...runtime.catalyst.spark_plans import analyzed, nodes_above, output_of, whole_plans
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.catalyst.types.arrow_functions import mapped_in_arrow
from ...runtime.operators.frame_steps import stepped
from ...runtime.operators.output_transform import OutputBranch, OutputTransform, TransformedColumn
from ..inputs.analysis import over_template
from ..inputs.event_time import WINDOW_MARK
from ..inputs.inputs import InputPart, Inputs
from ..inputs.schemas import check_distinct_columns, check_distinct_fields, column_type
from .stage import PRESENTED, WRITTEN, KeyedStage

if TYPE_CHECKING:
    import pyarrow as pa

#: Marks a key column, or a field of one, in the metadata of a template, with its place among the key columns.
_KEY_MARK = "mixedmode.key"
#: Parts of the names of Spark's plan nodes that run Python, and of classes of expressions that do what nobody can tell.
_PYTHON_NODES = ("Python", "Pandas", "InArrow")
_OPAQUE = ("UDF", "UDAF", "Subquery")
#: Parts of the names of plan nodes that give rows to other tasks than those that had them, and of those that
#: do so to some end.
_MOVING_NODES = ("Exchange", "CartesianProduct", "Union", "Coalesce")
_NEEDED_NODES = ("Join", "CartesianProduct", "Union")
#: The name of a plan node in its text, behind the mark of those that are compiled together.
_NODE_NAME = re.compile(r"(?:\*(?:\(\d+\))? )?(\w+)")


def plan_output_transform(stage: KeyedStage, part: InputPart) -> OutputTransform | None:
    """What is to be done to a stage's rows before they are staged; None: nothing.

    Raises:
        PlanError: it moves rows for nothing, or its rows cannot be staged.
    """
    if not part.steps:
        return None
    spark, schema = stage.inputs.spark, part.frame.schema
    check_output(schema, case_sensitive=stage.inputs.case_sensitive)
    row_schema = stage.template.schema
    stand_in = mapped_in_arrow(spark.range(0, 2, 1, 2), rows_of_the_stage, row_schema)
    behind = stepped(stand_in, part.steps)
    above = nodes_above(behind, rows_of_the_stage.__name__) or []  # none: nothing can get through, and Spark knows it
    kinds = [found[1] for node in above if (found := _NODE_NAME.match(node)) is not None]
    moves_rows = any(mark in kind for kind in kinds for mark in _MOVING_NODES)
    sorts = any("Exchange rangepartitioning" in node for node in above)
    if sorts or (moves_rows and not any(mark in kind for kind in kinds for mark in _NEEDED_NODES)):
        raise PlanError(
            f"{', '.join(_names(part))} behind the keyed stage {stage.uid}: Spark would move the stage's rows for it"
            " without need, as their order and their partitions are not those of the output; leave out sorting and"
            " repartitioning, or do it in foreachBatch"
        )
    return OutputTransform(
        steps=part.steps,
        row_schema=row_schema,
        schema=schema,
        columns=_columns(spark, stage.template, part.frame),
        template=part.frame,
        runs_python=any(mark in node for node in above for mark in _PYTHON_NODES),
        names=_names(part),
        moves_rows=moves_rows,
    )


def plan_union(output: Inputs, uids: Mapping[KeyedStage, str]) -> OutputTransform:
    """What is to be done to the rows of several stages that together are the output: a Spark job behind them.

    Args:
        output: what comes out of each.
        uids: ids of the stages.

    Raises:
        PlanError: as :func:`plan_output_transform`, of any of them.
    """
    stages = [cast(KeyedStage, part.origin) for part in output.parts]
    transforms = [plan_output_transform(stage, part) for stage, part in zip(stages, output.parts, strict=True)]
    check_distinct_fields("the output", output.schema, case_sensitive=output.case_sensitive)
    for field in output.schema.fields:
        column_type(field, "the output")
    last = max(stages, key=list(uids).index)
    said = [
        f"[{uids[stage]}]" + (f" ({', '.join(names)})" if (names := _names(part)) else "")
        for stage, part in zip(stages, output.parts, strict=True)
    ]
    return OutputTransform(
        steps=(),
        row_schema=last.template.schema,
        schema=output.schema,
        columns=None,
        template=reduce(DataFrame.unionByName, [part.frame for part in output.parts]),
        runs_python=any(each is not None and each.runs_python for each in transforms),
        names=(f"union of {' and '.join(said)}",),
        moves_rows=True,
        branches=tuple(
            OutputBranch(uids[stage], part.steps, part.frame) for stage, part in zip(stages, output.parts, strict=True)
        ),
    )


def output_key(stage: KeyedStage, part: InputPart) -> tuple[str, ...] | None:
    """The output columns that are the stage's key, under the names that they have behind all steps.

    Returns:
        None if the stage's rows have no key, or the output does not have all of it any more.
    """
    if stage.output_key is None or not part.steps:
        return stage.output_key
    places = {name: place for place, name in enumerate(stage.output_key)}
    fields = [
        _marked(field, places[field.name]) if field.name in places else field for field in stage.template.schema.fields
    ]
    template = empty_frame(stage.inputs.spark, StructType(fields))
    found: dict[str, str] = {}
    for field in stepped(template, part.steps).schema.fields:
        mark = (field.metadata or {}).get(_KEY_MARK)
        if mark is not None:
            found.setdefault(mark, field.name)
    key: list[str] = []
    for name, place in places.items():
        whole = found.get(str(place))
        if whole is not None:
            key.append(whole)
            continue
        field = stage.template.schema[name]
        names = field.dataType.names if isinstance(field.dataType, StructType) else []
        parts = [column for one in names if (column := found.get(f"{place}.{one}")) is not None]
        # The start of a window says where it ends, unlike that of a session.
        if not parts or (len(parts) < len(names) and WINDOW_MARK not in (field.metadata or {})):
            return None
        key += parts
    return tuple(key)


def check_order_column(column: str | None, stage: KeyedStage, transform: OutputTransform | None) -> None:
    """Raise OptionError if a column is to tell the order of rows that are moved before it could be seen.

    Args:
        column: ``execution.sink.order-column``; None: it is not set.
        stage: the last one; an aggregate's rows of one key are of different epochs, whose order is not lost.
        transform: what follows it; None: nothing.
    """
    if column is not None and transform is not None and transform.moves_rows and stage.output_key is None:
        raise OptionError(
            f"execution.sink.order-column = {column!r} does not go with {', '.join(transform.names)} behind the"
            f" keyed stage {stage.uid}, for which Spark moves rows between tasks: their order is lost there; give"
            " the static side a broadcast hint, F.broadcast(…), or have the processor yield a column that orders them",
            code="MIXEDMODE_OPTION_CONFLICT",
        )


def rows_of_the_stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stands for the stage's task in plans that nobody runs."""
    return batches


def _names(part: InputPart) -> tuple[str, ...]:
    """What was called; a column of ours that goes before the output is nobody's call."""
    return tuple(step.what for step in part.steps if step.what not in (WRITTEN, PRESENTED))


def check_output(schema: StructType, *, case_sensitive: bool) -> None:
    """Raise PlanError if rows with these columns cannot be staged."""
    for check in (check_distinct_columns, check_distinct_fields):
        check("the output", schema, case_sensitive=case_sensitive)
    for field in schema.fields:
        column_type(field, "the output")


def _marked(field: StructField, place: int) -> StructField:
    kind = field.dataType
    if isinstance(kind, StructType):
        kind = StructType([_with_mark(one, one.dataType, f"{place}.{one.name}") for one in kind.fields])
    return _with_mark(field, kind, str(place))


def _with_mark(field: StructField, data_type: DataType, mark: str) -> StructField:
    return StructField(field.name, data_type, field.nullable, {**(field.metadata or {}), _KEY_MARK: mark})


# -- what columns are made of ------------------------------------------------------------------------------------------


def _columns(spark: SparkSession, template: DataFrame, output: DataFrame) -> tuple[TransformedColumn, ...] | None:
    """What each output column is made of; None: it cannot be told of all of them."""
    plan, below = analyzed(output), [attribute_id(attribute) for attribute in output_of(template)]
    known = over_template(spark, plan, below)
    expressions = [known.get(attribute_id(column)) for column in items(plan.output())]
    columns = []
    for expression in expressions:
        if expression is None or not _is_clear(expression):
            return None
        columns.append(_column(spark, expression, below))
    return tuple(columns)


def _is_clear(expression: Any) -> bool:
    return not any(mark in class_name(node) for node in tree(expression) for mark in _OPAQUE)


def _column(spark: SparkSession, expression: Any, below: Sequence[int]) -> TransformedColumn:
    if is_attribute(expression):
        return TransformedColumn("", (below.index(attribute_id(expression)),))
    attributes = {attribute_id(one): one for one in tree(expression) if is_attribute(one)}
    reads = [id for id in attributes if id in below]
    with whole_plans(spark):
        # With their types: without, a field that is known by its place, as behind "window.*", has no name.
        places = {id: called(spark, attributes[id], f"{{{at}}}") for at, id in enumerate(reads)}
        text = with_attributes(spark, expression, places)
        return TransformedColumn(str(text.sql()), tuple(below.index(id) for id in reads))
