"""The length of an epoch: a duration as Spark's, and no shorter than Spark allows."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.plans.real_time.interval import real_time_ms
from pyspark.sql import SparkSession
from session_options import session_options

LEAST = "spark.sql.streaming.realTimeMode.minBatchDuration"


@pytest.mark.parametrize(
    ("text", "ms"),
    [("60 seconds", 60_000), ("5 seconds", 5_000), ("1 minute 30 seconds", 90_000), (" 2 minutes ", 120_000)],
)
def test_a_duration_is_read_as_sparks(spark: SparkSession, text: str, ms: int) -> None:
    assert real_time_ms(spark, {"realTime": text}) == ms


def test_another_trigger_is_none(spark: SparkSession) -> None:
    assert real_time_ms(spark, {"processingTime": "5 seconds"}) is None


@pytest.mark.parametrize("text", ["60", "soon", "1 fortnight"])
def test_what_is_no_duration_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(PlanError, match=rf"trigger\(realTime='{text}'\) is not a duration .*'60 seconds'"):
        real_time_ms(spark, {"realTime": text})


@pytest.mark.parametrize("text", ["4 seconds", "0 seconds", "-60 seconds"])
def test_what_is_shorter_than_spark_allows_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(PlanError, match=rf"trigger\(realTime='{text}'\) is shorter than 5 s, .*{LEAST}.*'60 seconds'"):
        real_time_ms(spark, {"realTime": text})


def test_the_least_is_sparks_setting(spark: SparkSession) -> None:
    for text in ("2s", "2000ms", "2000"):
        with session_options(spark, {LEAST: text}):
            assert real_time_ms(spark, {"realTime": "3 seconds"}) == 3_000
            with pytest.raises(PlanError, match="shorter than 2 s"):
                real_time_ms(spark, {"realTime": "1 second"})


@pytest.mark.parametrize("value", [60, "", "  ", True])
def test_the_writer_takes_texts_only(both: MixedFrame, value: Any) -> None:
    writer = both.groupBy("k").count().writeStream
    with pytest.raises(PlanError, match=r"trigger\(realTime=.*is not allowed; give a duration such as '60 seconds'"):
        writer.trigger(realTime=value)
