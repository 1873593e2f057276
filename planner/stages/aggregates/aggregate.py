"""Plans ``groupBy(...).agg(...)``: from what Spark's analyzer says to an :class:`AggregateOperator`.

Spark resolves names, types, coercions and defaults; the output's schema is Spark's own.  Only then are the functions
taken apart into partial aggregates (:mod:`.functions`).  Everything that cannot be done is refused here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from ....errors import MixedModeError, PlanError, not_supported
from ....runtime.catalyst.columns import column_fold, quoted
from ....runtime.catalyst.spark_expressions import attribute_id, class_name, items, with_attributes, without_alias
from ....runtime.catalyst.spark_plans import analyzed, as_written
from ....runtime.catalyst.spark_session import empty_frame, is_on
from ....runtime.catalyst.struct_fields import known_again, with_own_fields
from ....runtime.jvm.spark_errors import error_text
from ....runtime.operators.aggregate.buffers import Buffer, DecimalSumBuffer, SumBuffer
from ....runtime.operators.aggregate.definition import (
    GROUPING_ID,
    AggregateMode,
    GroupBy,
    GroupColumns,
    GroupKey,
    KeyKind,
    OutputColumn,
    Partials,
)
from ....runtime.operators.aggregate.grouping import GroupingSets
from ....runtime.operators.aggregate.operator import AggregateOperator
from ....runtime.operators.aggregate.results import Result
from ....runtime.operators.columnar.record_codec import RecordCodec
from ....state.keys.keys import KeyCodec
from ...inputs.event_time import EVENT_TIME_MARK, SESSION_MARK, WINDOW_MARK, marks_of, with_marks
from ...inputs.schemas import column_type
from .arguments import ArgumentPlanner
from .grouped import grouped_as
from .partials import PartialColumns
from .pivot import Pivot
from .results import plan_results
from .sliding import is_call, sliding_window

_KINDS: dict[str, KeyKind] = {WINDOW_MARK: "window", SESSION_MARK: "session"}
_BINARY_COLLATION = "UTF8_BINARY"


@dataclass(frozen=True)
class InputTraits:
    """What a template frame does not show of the rows that are aggregated."""

    #: The whole input is there before anything is emitted (``execution.runtime-mode=batch``, or a job without live
    #: input), so that an append without watermark has an end to wait for.
    bounded: bool = False
    #: The columns of all inputs, if some inputs have nulls where the template has none.
    schema: StructType | None = None
    #: The rows come from another stage, so no column says in which order they have arrived.
    follows_a_stage: bool = False


def plan_aggregate(
    frame: DataFrame,
    group_cols: Sequence[str | Column],
    exprs: Sequence[Column] | dict[str, str],
    *,
    event_time: str | None,
    output_mode: str | None,
    uid: str,
    traits: InputTraits = InputTraits(),
    grouping: GroupingSets | None = None,
    pivot: Pivot | None = None,
) -> AggregateOperator:
    """Plan an aggregation.

    Args:
        frame: any frame with the input's columns; its rows are not looked at.
        group_cols: what ``groupBy`` was given.
        exprs: what ``agg`` was given.
        event_time: the column of ``withWatermark``; None: no watermark was declared.
        output_mode: ``append``, ``update`` or ``complete``; None: not known yet, everything else is checked.
        uid: id under which the state is stored.
        traits: what ``frame`` does not show.
        grouping: the grouping sets; None: one, of all ``group_cols``.
        pivot: the values of a column that each of ``exprs`` is computed of; None: all rows.

    Raises:
        PlanError: Spark cannot resolve it, or a function, key, window or output mode is not supported.
    """
    if not exprs:
        raise PlanError("agg needs at least one aggregate, such as F.count('*')")
    template = _template(frame, traits.schema or frame.schema, event_time)
    columns = tuple(F.col(item) if isinstance(item, str) else item for item in group_cols)
    if pivot is not None:
        exprs = pivot.over(template, columns, exprs)
    aggregation, outputs, logical, output_schema = _analyze(template, columns, exprs, grouping)
    leading = len(outputs) - len(exprs)
    if leading == 0 and columns:
        raise not_supported(
            "spark.sql.retainGroupColumns=false is not supported: rows without their key are of no use to a stream that"
            " goes on; set it to true"
        )
    plain, hidden_keys = aggregation, []
    if grouping is not None:
        plain, _, logical, _ = _analyze(template, columns, [F.count(F.lit(1))], None)
        hidden_keys = list(items(aggregation.groupingExpressions()))[leading:]
    keys, windows = _keys(plain, logical, columns, output_schema.fields[:leading], event_time)
    if grouping is not None:
        keys = (*_keys_of_sets(keys, grouping), GROUPING_ID)
    ansi = is_on(frame.sparkSession, "spark.sql.ansi.enabled", default=True)

    spark = frame.sparkSession
    row_order = None if event_time is None else _row_order(template, event_time)
    collected = PartialColumns(ansi, row_order, spark, frozenset(template.columns))
    planned = plan_results(spark, outputs, output_schema, leading, collected, hidden_keys)
    names = [f"__b{i}" for i in range(len(collected.sql))]
    written = ArgumentPlanner(template, columns, names, collected, aggregation).planned()
    fold = column_fold(spark)
    result_fields = with_own_fields(_named([item.name for item in planned.results], planned.types), fold)
    results = [
        item.typed(_arrow(field), ansi) for item, field in zip(planned.results, result_fields.fields, strict=True)
    ]
    key_fields = with_own_fields(StructType(list(written.key_fields)), fold)
    partial_fields = with_own_fields(StructType(list(written.fields)), fold)
    partials = Partials(
        columns=dict(zip(names, written.labels, strict=True)),
        places=tuple(names),
        types=tuple(_arrow(field) for field in partial_fields.fields),
        buffers=tuple(_named_buffer(one, planned.outputs, results) for one in collected.buffers),
        results=tuple(results),
        outputs=planned.outputs,
    )
    _check_types(partial_fields.fields, partials)
    own_schema = with_own_fields(output_schema, fold)
    for field in own_schema.fields:
        _arrow(field)
    key_types = _key_types(keys[:leading], key_fields.fields) + (() if grouping is None else (pa.int64(),))
    mode = checked_output_mode(output_mode, keys, event_time, bounded=traits.bounded)
    group_columns = GroupColumns(
        columns,
        sliding_window(template, logical, windows),
        written.columns,
        written.ordered if collected.ordered else (),
        written.unscaled,
        own_types=_own_types(written.key_fields, key_fields, "__k") | _own_types(written.fields, partial_fields, "__b"),
        known=None if own_schema is output_schema else known_again(output_schema, own_schema.fields),
    )
    return AggregateOperator(
        uid=uid,
        by=GroupBy(keys, key_types, group_columns, grouping),
        partials=partials,
        output_schema=own_schema,
        output_mode=mode,
        event_time=event_time,
        projection=None if planned.projection is None else planned.projection.with_own_fields(fold),
        follows_a_stage=traits.follows_a_stage,
    )


def _named_buffer(buffer: Buffer, outputs: Sequence[OutputColumn], results: Sequence[Result]) -> Buffer:
    """The buffer, whose errors name the output columns that it is for; without an alias that is what it computes."""
    if not isinstance(buffer, SumBuffer | DecimalSumBuffer):
        return buffer
    mine = set(buffer.columns)
    names = [one.name for one in outputs if any(mine & set(results[place].columns) for place in one.results)]
    if not names or buffer.sql in names:
        return buffer
    return replace(buffer, sql=f"column {' and '.join(names)}: {buffer.sql}")


# -- what Spark says ---------------------------------------------------------------------------------------------------


def _template(frame: DataFrame, schema: StructType, event_time: str | None) -> DataFrame:
    """An empty frame with the columns, without qualifiers; event time and what was made of it are marked."""
    fields = [with_marks(field) for field in schema.fields]
    if event_time is not None:
        place = schema.fieldNames().index(event_time)
        fields[place] = StructField(event_time, fields[place].dataType, True, {EVENT_TIME_MARK: True})
    return empty_frame(frame.sparkSession, StructType(fields))


def _analyze(
    template: DataFrame,
    columns: Sequence[Column],
    exprs: Sequence[Column] | dict[str, str],
    grouping: GroupingSets | None,
) -> tuple[Any, list[Any], Any, StructType]:
    """The analyzed Aggregate node, the output's expressions, the unresolved node, and the output's schema."""
    grouped = grouped_as(template, columns, grouping)
    try:
        result = grouped.agg(exprs) if isinstance(exprs, dict) else grouped.agg(*exprs)
        schema = result.schema
    except (AnalysisException, ParseException) as error:
        raise PlanError(f"agg: {error_text(error)}") from error
    node, projects = analyzed(result), []
    while class_name(node) == "Project":  # of expressions that use others by their alias
        projects.append(node)
        node = node.child()
    if class_name(node) != "Aggregate":
        raise not_supported(
            f"agg: Spark plans this as {class_name(node)}, not as one aggregation; window functions, generators and"
            " subqueries are not supported here"
        )
    named = list(items(node.aggregateExpressions()))
    outputs = [without_alias(item) for item in named]
    for project in reversed(projects):
        known = {attribute_id(item): output for item, output in zip(named, outputs, strict=True)}
        named = list(items(project.projectList()))
        outputs = [with_attributes(template.sparkSession, without_alias(item), known) for item in named]
    return node, outputs, as_written(result), schema


def _keys(
    aggregation: Any, logical: Any, columns: Sequence[Column], outputs: Sequence[StructField], event_time: str | None
) -> tuple[tuple[GroupKey, ...], tuple[int, ...]]:
    """The grouping expressions, and which of them are windows."""
    keys: list[GroupKey] = []
    expressions = list(items(aggregation.groupingExpressions()))
    if len(expressions) != len(columns):  # the SQL functions rollup, cube and grouping_sets
        raise not_supported(
            "groupBy of grouping sets is not supported; use rollup(…), cube(…) or groupingSets(…) of the frame"
        )
    for place, expression in enumerate(expressions):
        # Spark marks columns and fields of structs; what is computed of them has no mark.
        has_marks = class_name(expression) in ("AttributeReference", "GetStructField")
        marks = marks_of(json.loads(str(expression.metadata().json()))) if has_marks else {}
        kind: KeyKind = next((kind for mark, kind in _KINDS.items() if mark in marks), "plain")
        name = outputs[place].name
        column = name if name.isidentifier() and not name.startswith("__") else f"__key{place}"
        if any(key.column == column for key in keys):
            column = f"__key{place}"
        # Spark pulls such expressions out into a column of this name.
        if not bool(expression.deterministic()) or "_nondeterministic" in str(expression.sql()):
            raise PlanError(f"groupBy: key {name} is not deterministic and cannot be a key of stored state")
        is_event_time = event_time is not None and EVENT_TIME_MARK in marks
        keys.append(GroupKey(name, column, kind, is_event_time, is_call(logical.groupingExpressions().apply(place))))
    if sum(key.event_time for key in keys) > 1:
        raise PlanError(
            f"groupBy: {' and '.join(key.name for key in keys if key.event_time)} are all made of the watermark's"
            f" column {event_time}; keep one of them"
        )
    if keys and all(key.kind == "session" for key in keys):
        raise PlanError("groupBy with a session window needs another column to group by; add a key, or F.lit(0)")
    return tuple(keys), tuple(place for place, key in enumerate(keys) if key.kind == "window")


def _keys_of_sets(keys: Sequence[GroupKey], grouping: GroupingSets) -> tuple[GroupKey, ...]:
    """The keys as grouping sets have them; event time that no set groups by completes nothing."""
    session = next((key for key in keys if key.kind == "session"), None)
    if session is not None:
        raise not_supported(
            f"{grouping.method} with the session window {session.name} is not supported: which rows are one session"
            " depends on the other keys; use groupBy, and one stage for each grouping"
        )
    used = {place for places in grouping.sets for place in places}
    return tuple(key if place in used else replace(key, event_time=False) for place, key in enumerate(keys))


def _row_order(template: DataFrame, event_time: str) -> str:
    """SQL of what rows are ordered by; a row without event time comes before all others."""
    wall = isinstance(template.schema[event_time].dataType, TimestampNTZType)
    return f"coalesce({quoted(event_time)}, TIMESTAMP_{'NTZ' if wall else 'LTZ'} '0001-01-01 00:00:00')"


# -- checks ------------------------------------------------------------------------------------------------------------


def _key_types(keys: Sequence[GroupKey], fields: Sequence[StructField]) -> tuple[pa.DataType, ...]:
    types = []
    for key, field in zip(keys, fields, strict=True):
        collation = _collation(field.dataType)
        if collation is not None:
            raise PlanError(
                f"key column {key.name} has collation {collation}, which makes different strings equal; group by a"
                " normalised string instead, for example F.lower(...)"
            )
        data_type = _arrow(StructField(key.name, field.dataType))
        try:
            KeyCodec(pa.schema([pa.field(key.name, data_type)]))
        except MixedModeError as error:
            raise PlanError(str(error)) from error
        types.append(data_type)
    return tuple(types)


def _check_types(fields: Sequence[StructField], partials: Partials) -> None:
    for field, sql, data_type in zip(fields, partials.labels, partials.types, strict=True):
        collation = _collation(field.dataType)
        if collation is not None:
            raise PlanError(f"agg: {sql} gives strings with collation {collation}; cast its argument to string")
        try:
            RecordCodec([pa.field("value", data_type)])
        except TypeError as error:
            raise PlanError(f"agg: {sql} cannot be kept as state: {error}; cast its argument") from error


def checked_output_mode(
    output_mode: str | None, keys: Sequence[GroupKey], event_time: str | None, *, bounded: bool
) -> AggregateMode:
    """The output mode of an aggregation with these keys; arguments and errors as of :func:`plan_aggregate`."""
    session = any(key.kind == "session" for key in keys)
    if output_mode is None:
        return "append" if session else "update"
    mode = output_mode.lower()
    if session and mode == "update":
        raise not_supported(
            "outputMode update is not supported with a session window, as in Spark: sessions that merge would take back"
            " rows already written; use append"
        )
    if mode == "append" and not bounded and not any(key.event_time for key in keys):
        add = (
            "add .withWatermark('<event time>', '<delay>') before groupBy (in SQL: to the frame, before"
            " createOrReplaceTempView): no watermark is declared"
            if event_time is None
            else f"group by F.window({event_time!r}, …) too: no key is made of the watermark's column {event_time}"
        )
        raise PlanError(
            f"{add}, so no key is ever complete, which is when outputMode append writes it; or use outputMode update"
            " or complete, or set execution.runtime-mode=batch (allowed here without that: update, complete)"
        )
    return cast(AggregateMode, mode)


def _arrow(field: StructField) -> pa.DataType:
    return column_type(field, "agg", "cast it before groupBy")


def _collation(data_type: DataType) -> str | None:
    """The collation of a string somewhere in the type, unless it is the plain binary one."""
    if isinstance(data_type, StringType):
        collation = str(data_type.collation)
        return None if collation == _BINARY_COLLATION else collation
    if isinstance(data_type, ArrayType):
        return _collation(data_type.elementType)
    if isinstance(data_type, MapType):
        return _collation(data_type.keyType) or _collation(data_type.valueType)
    if isinstance(data_type, StructType):
        return next((found for field in data_type.fields if (found := _collation(field.dataType))), None)
    return None


def _named(names: Sequence[str], types: Sequence[DataType]) -> StructType:
    return StructType(list(map(StructField, names, types)))


def _own_types(given: Sequence[StructField], own: StructType, prefix: str) -> dict[str, DataType]:
    pairs = enumerate(zip(given, own.fields, strict=True))
    return {f"{prefix}{place}": new.dataType for place, (old, new) in pairs if new is not old}
