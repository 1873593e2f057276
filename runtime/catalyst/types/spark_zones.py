"""Computes a time zone's offset from UTC as Spark's arithmetic of timestamps takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...jvm.gateway import java_class

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import SparkSession

_known: dict[str, tuple[int, int]] = {}


def offsets_us(spark: SparkSession, zone: str) -> tuple[int, int]:
    """The least and the greatest offset that the zone has ever had, or will have, in microseconds.

    Args:
        spark: the session.
        zone: the zone's name, as Spark takes it.
    """
    if zone not in _known:
        rules = java_class(spark, "org.apache.spark.sql.catalyst.util.DateTimeUtils").getZoneId(zone).getRules()
        changes: list[Any] = [*rules.getTransitions(), *rules.getTransitionRules()]
        epoch = java_class(spark, "java.time.Instant").EPOCH
        offsets = [rules.getOffset(epoch)]
        offsets += [offset for change in changes for offset in (change.getOffsetBefore(), change.getOffsetAfter())]
        seconds = [int(offset.getTotalSeconds()) for offset in offsets]
        _known[zone] = min(seconds) * 1_000_000, max(seconds) * 1_000_000
    return _known[zone]
