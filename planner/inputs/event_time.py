"""Finds the event-time columns of a frame, by the marks that Spark keeps in their metadata.

Spark marks the column of ``withWatermark`` and the windows it makes, and hands marks on with whatever is the same value
under another name or in another place: renamed, selected, a field of a struct, a window of it.  The mark here follows
the same way, since it is Spark's analyzer that carries it.  What is computed otherwise has no mark, as in Spark.

The watermark is of the rows' event time as it was when ``withWatermark`` was called.  If an operation leaves that
column out, or puts other values in its place, it goes on in a column of ours, ``CARRIER``, which users do not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from ...errors import PlanError, not_supported
from ...runtime.catalyst.columns import quoted, time_us_sql
from ...runtime.catalyst.spark_expressions import attribute_id
from ...runtime.catalyst.spark_joins import with_metadata
from ...runtime.catalyst.spark_plans import output_of
from ...runtime.catalyst.spark_session import is_on

#: Marks the watermark's column, and what is made of it.
EVENT_TIME_MARK = "mixedmode.eventTime"
#: Marks that Spark leaves on windows.
WINDOW_MARK, SESSION_MARK = "spark.timeWindow", "spark.sessionWindow"
#: Spark's setting, under which queries of before version 3.5 keep what they may and what they mean.
_ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
MARKS = (EVENT_TIME_MARK, WINDOW_MARK, SESSION_MARK)
#: The event time, where the user's rows have it no more.
CARRIER = "__event_time"


def marked(frame: DataFrame, column: str) -> DataFrame:
    """The frame with this column as its event time, beside others that are."""
    metadata = {**(frame.schema[column].metadata or {}), EVENT_TIME_MARK: True}
    if (same := with_metadata(frame, column, metadata)) is not None:
        return same
    return frame.withColumns({column: F.col(quoted(column)).alias(column, metadata=metadata)})


def unmarked(frame: DataFrame) -> DataFrame:
    """The frame without any column that is event time."""
    changed = {}
    for field in frame.schema.fields:
        metadata = dict(field.metadata or {})
        if metadata.pop(EVENT_TIME_MARK, None) is not None:
            changed[field.name] = F.col(quoted(field.name)).alias(field.name, metadata=metadata)
    return frame.withColumns(changed) if changed else frame


def carried(frame: DataFrame, column: str) -> Column:
    """The event time of a frame as the column that users do not see; of a window its last instant."""
    return F.expr(carried_sql(frame, column))


def carried_sql(frame: DataFrame, column: str) -> str:
    """The same as SQL."""
    is_window = isinstance(frame.schema[column].dataType, StructType)
    return f"{f'window_time({quoted(column)})' if is_window else quoted(column)} AS {CARRIER}"


def last_instant(field: StructField) -> Column | None:
    """The last instant of a window, whether or not it is marked as one; None: the column is no window."""
    if not isinstance(field.dataType, StructType) or field.dataType.fieldNames() != ["start", "end"]:
        return None
    end = field.dataType["end"].dataType
    if not isinstance(end, (TimestampType, TimestampNTZType)):
        return None
    return F.expr(f"timestamp_micros({time_us_sql(f'{quoted(field.name)}.end', end)} - 1)")


def keeps(frames: Sequence[DataFrame], column: str) -> bool:
    """True if the column is still the event time in all of these frames."""
    fields = [next((field for field in frame.schema.fields if field.name == column), None) for frame in frames]
    return all(field is not None and EVENT_TIME_MARK in (field.metadata or {}) for field in fields)


def without_carrier(schema: StructType) -> StructType:
    """The columns that users see."""
    return StructType([field for field in schema.fields if field.name != CARRIER])


def marks_of(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """What metadata says of event time and windows."""
    return {mark: value for mark, value in (metadata or {}).items() if mark in MARKS}


def with_marks(field: StructField) -> StructField:
    """A field with its marks, at any depth of structs, and no other metadata."""
    return StructField(field.name, _with_marks(field.dataType), field.nullable, marks_of(field.metadata))


def _with_marks(data_type: DataType) -> DataType:
    if not isinstance(data_type, StructType):
        return data_type
    return StructType([with_marks(field) for field in data_type.fields])


@dataclass(frozen=True)
class Watermark:
    """``withWatermark``: the event-time column and how much later rows may come."""

    #: The column that the inputs have.
    event_time: str
    delay_ms: int
    #: Delays of live inputs that were given their own before a union, by name.
    delays_ms: tuple[tuple[str, int], ...] = ()
    #: What users call the column, if it is none of theirs any more.
    called: str | None = None
    #: Names of inputs whose rows have no event time, and which say nothing of it.
    without: frozenset[str] = frozenset()
    #: It is of two sides: a history of one must not move that of the other's live inputs.
    of_sides: bool = False
    #: The column is the last instant of the window that users call ``label``.
    is_window_end: bool = False
    #: What ``withWatermark`` said of rows that have come through a stage since; None: that is ``delay_ms``.
    declared_ms: int | None = None
    #: How far the watermark is behind a row's time when the row comes out of a stage; None: that is ``delay_ms``.
    behind_ms: int | None = None

    @property
    def lag_ms(self) -> int:
        """How much further than its delay the watermark is behind the rows that come."""
        return 0 if self.behind_ms is None else self.behind_ms - self.delay_ms

    @property
    def remembered_ms(self) -> int:
        """How long after its event time a row is remembered within the watermark: behind a stage as before it."""
        return self.delay_ms if self.declared_ms is None else self.declared_ms

    @property
    def label(self) -> str:
        """The column under the name that users know."""
        return self.called or self.event_time

    def carried(self, frame: DataFrame) -> Watermark:
        """The same of the event time in a column that users do not see; ``frame``: the rows that still have it."""
        is_window_end = self.is_window_end or isinstance(frame.schema[self.event_time].dataType, StructType)
        return replace(self, event_time=CARRIER, called=self.label, is_window_end=is_window_end)

    def delay_of(self, live: str) -> int:
        """How much later rows of a live input may come."""
        return dict(self.delays_ms).get(live, self.delay_ms)


def check_event_time(column: str, data_type: DataType) -> None:
    """Raise unless the column can carry a watermark."""
    if not isinstance(data_type, (TimestampType, TimestampNTZType)):
        raise PlanError(
            f"event-time column {column} is of type {data_type.simpleString()}; it must be timestamp or timestamp_ntz"
            " (convert it, for example with F.to_timestamp)"
        )


def is_compatible(spark: SparkSession) -> bool:
    """True in Spark's compatibility mode, which lets a watermark be redefined and takes the first of several."""
    return not is_on(spark, _ALLOW_MULTIPLE, default=True)


def check_not_redefined(watermark: Watermark | None, column: str, spark: SparkSession) -> None:
    """Raise PlanError if the rows of a source, which have this watermark, are to have one of another column."""
    if watermark is not None and watermark.label != column and not is_compatible(spark):
        raise not_supported(
            f"withWatermark({column!r}): the rows have a watermark of column {watermark.label} already, and redefining"
            " it is disallowed, as in Spark; call withWatermark once, with the column that windows and timers go by"
        )


def check_one_event_time(template: DataFrame, what: str, among: Sequence[str] | None = None) -> None:
    """Raise PlanError if several columns are event time, of which Spark would not know which one counts.

    Args:
        template: a frame with the columns that a keyed stage takes.
        what: the method that takes them.
        among: the columns that count; None: all.  Spark does not see others that nobody reads behind the stage.
    """
    found = {
        attribute_id(one): str(one.name())
        for one in output_of(template)
        if str(one.name()) in (template.columns if among is None else among)
        and str(one.name()) != CARRIER
        and one.metadata().contains(EVENT_TIME_MARK)
    }
    if len(found) > 1 and not is_compatible(template.sparkSession):
        raise not_supported(
            f"{what}: more than one event time column is available, {' and '.join(found.values())}, as in Spark; select"
            f" one of them, or set {_ALLOW_MULTIPLE} to false, where the first one counts"
        )
