"""``dropDuplicates``, ``dropDuplicatesWithinWatermark`` and ``distinct`` planned as a keyed stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pyspark.errors import AnalysisException

from ...errors import PlanError, not_supported
from ...runtime.catalyst.columns import holds_floats
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.catalyst.struct_fields import known_again
from ...runtime.jvm.spark_errors import error_text
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.dedup.definition import Lateness, Retention
from ...runtime.operators.dedup.operator import DedupOperator, DedupWithinWatermarkOperator
from ...runtime.spec import Settings
from ..inputs.event_time import EVENT_TIME_MARK, WINDOW_MARK, check_one_event_time
from ..inputs.schemas import (
    check_distinct_columns,
    check_key_type,
    column_type,
    find_column,
    missing_column,
)
from .stage import ANY_EPOCH, STAGE_UID, KeyedStage, StageInput, presented_as, with_fields_of_their_own

Method = Literal["dropDuplicates", "distinct", "dropDuplicatesWithinWatermark"]

#: What would become of the state if MAX_WATERMARK came at the switch.
WHY_OBSERVED = (
    "at MAX_WATERMARK every key would be forgotten, and its next duplicate in the stream would be put out once more"
)
_FOR_EVER = (
    "{method} by {keys} remembers every key for ever, as no watermark says when its last duplicate has come, so the"
    " state grows without end: {advice}"
)


def plan_dedup(rows: StageInput, subset: Any, method: Method) -> KeyedStage:
    """The keyed stage of a deduplication.

    Args:
        rows: its input.
        subset: names of the columns that make rows equal, as PySpark takes them; None: all.
        method: which of Spark's methods it is.

    Raises:
        PlanError: a column is missing, has no type that can be compared, or there is no watermark where one is needed.
    """
    check_distinct_columns(f"what {method} is called on", rows.schema, case_sensitive=rows.inputs.case_sensitive)
    shown, rows = rows.schema, with_fields_of_their_own(rows, method)
    schema, watermark, inputs = rows.schema, rows.watermark, rows.inputs
    keys = _keys(rows, subset, method)
    if inputs.is_streaming:
        check_one_event_time(inputs.template, method, keys)
    known = None if schema is shown else known_again(shown, schema.fields)
    for name in keys:
        check_key_type(name, schema[name].dataType)
    for field in schema.fields:
        column_type(field, f"the input of {method}")
    if method == "dropDuplicatesWithinWatermark" and watermark is None:
        raise not_supported(
            "dropDuplicatesWithinWatermark is not supported without a watermark, as in Spark: its delay is how long a"
            " key is remembered; call withWatermark('<event time>', '<delay>') before, or use dropDuplicates"
        )
    retention = _retention(rows, keys, method)
    operator_class = DedupWithinWatermarkOperator if method == "dropDuplicatesWithinWatermark" else DedupOperator
    payload = tuple(field.name for field in schema.fields if field.name not in keys or holds_floats(field.dataType))

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        return operator_class(
            uid=uid,
            keys=keys,
            payload=payload,
            schema=schema,
            retention=retention,
            event_time=None if watermark is None else watermark.event_time,
            lateness=_lateness(rows, method),
            may_repeat=settings.timers == "in-order",
            follows_a_stage=bool(inputs.outputs),
        )

    _check_order(rows, build(STAGE_UID, "append", Settings()), method)
    return KeyedStage(
        inputs=inputs,
        watermark=watermark,
        input_schema=schema,
        output_schema=schema,
        output_mode=None,
        build=build,
        key_inputs=keys,
        why_observed=WHY_OBSERVED if retention.kind != "for-ever" else None,
        refuses_complete=f"after {method}, as in Spark: only an aggregation has a complete result",
        output_event_time=output_event_time(rows),
        hands_on_at_once=True,
        warning=_warning(rows, keys, method) if retention.kind == "for-ever" else None,
        known=known,
        presented=None if known is None else presented_as(known.fields),
    )


def _keys(rows: StageInput, subset: Any, method: Method) -> tuple[str, ...]:
    """The columns that make rows equal, each once."""
    if subset is None:
        return tuple(rows.schema.fieldNames())
    if isinstance(subset, str) or not isinstance(subset, Iterable):
        raise PlanError(
            f"subset of {method} must be a list or tuple of column names, got {subset!r} ({type(subset).__name__});"
            f" use for example {method}([{subset if isinstance(subset, str) else 'id'!r}])"
        )
    names: list[str] = []
    for name in subset:
        if not isinstance(name, str):
            raise PlanError(
                f"subset of {method} takes names of columns, got {name!r} ({type(name).__name__}); compute the column"
                " with withColumn first"
            )
        found = find_column(name, rows.schema, case_sensitive=rows.inputs.case_sensitive)
        if found is None:
            raise missing_column(f"column of {method}", name, rows.schema)
        names.append(found)
    return tuple(dict.fromkeys(names))


def output_event_time(rows: StageInput) -> str | None:
    """The column of the rows by which a watermark of what comes out is told."""
    if rows.watermark is None:
        return None
    if rows.watermark.event_time in rows.schema.fieldNames():
        return rows.watermark.event_time
    return next(iter(_windows(rows)), None)


def _windows(rows: StageInput) -> list[str]:
    """Columns that are windows of the watermark's event time."""
    marked = [(field.name, field.metadata or {}) for field in rows.schema.fields]
    return [name for name, metadata in marked if WINDOW_MARK in metadata and EVENT_TIME_MARK in metadata]


def _retention(rows: StageInput, keys: tuple[str, ...], method: Method) -> Retention:
    watermark = rows.watermark
    if watermark is None:
        return Retention("for-ever")
    key = keys.index(watermark.event_time) if watermark.event_time in keys else None
    if method == "dropDuplicatesWithinWatermark":
        return Retention("delay", watermark.label, key, delay_ms=watermark.remembered_ms, lag_ms=watermark.lag_ms)
    if key is not None:
        return Retention("key-time", watermark.label, key)
    window = next((name for name in _windows(rows) if name in keys), None)
    if window is not None:
        return Retention("key-time", f"the end of {window}", keys.index(window), is_window=True)
    return Retention("for-ever")


def _lateness(rows: StageInput, method: Method) -> Lateness | None:
    """As in Spark by the event time that the rows still have, in a column of its own or as a window."""
    watermark = rows.watermark
    if watermark is None:
        return None
    if watermark.event_time in rows.schema.fieldNames() or method == "dropDuplicatesWithinWatermark":
        return Lateness(watermark.event_time)
    window = next(iter(_windows(rows)), None)
    return None if window is None else Lateness(window, is_window=True)


def _check_order(rows: StageInput, operator: KeyedOperator, method: Method) -> None:
    """Have Spark look at what it will be asked for."""
    template = empty_frame(rows.inputs.spark, rows.inputs.schema)
    try:
        operator.prepare(template, ANY_EPOCH)
    except AnalysisException as error:
        raise PlanError(f"{method}: {error_text(error)}") from error


def _warning(rows: StageInput, keys: tuple[str, ...], method: Method) -> str:
    watermark = rows.watermark
    within = "use dropDuplicatesWithinWatermark if duplicates come within the watermark's delay"
    if watermark is None:
        advice = f"call withWatermark first, and have its column among these, or {within}"
    elif watermark.label in rows.schema.fieldNames():
        advice = f"have the watermark's column {watermark.label} among these, or {within}"
    else:
        advice = within
    return _FOR_EVER.format(method=method, keys=", ".join(keys) or "no column", advice=advice)
