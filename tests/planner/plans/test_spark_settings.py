"""Settings of Spark's own streams that a job obeys, or is refused for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode import OptionError, read
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, SparkSession
from session_options import session_options


def compiled(frame: Any) -> JobSpec:
    job: JobSpec = frame.writeStream.outputMode("update").format("noop").described()
    return job


@pytest.fixture
def policy_max(spark: SparkSession) -> Iterator[None]:
    with session_options(spark, {"spark.sql.streaming.multipleWatermarkPolicy": "max"}):
        yield


@pytest.mark.usefixtures("policy_max")
def test_the_greatest_of_several_watermarks_is_refused(live: DataFrame) -> None:
    """By a sentence that names the setting, its value and what is allowed; of one watermark there is no choice."""
    one = read(live=live).withWatermark("ts", "1 hour")
    assert compiled(one.groupBy("k").count())
    other = read(live=live).withWatermark("ts", "1 minute").selectExpr("k AS other", "ts AS paid")
    writer = one.join(other, one["k"] == other["other"]).select("k", "other").writeStream.format("noop")
    with pytest.raises(OptionError, match=r"multipleWatermarkPolicy is 'max'.*only min is supported"):
        writer.described()
    with pytest.raises(OptionError, match="multipleWatermarkPolicy"):
        compiled(read(live={"a": live, "b": live}).withWatermark("ts", "1 hour").groupBy("k").count())


@pytest.mark.usefixtures("policy_max")
def test_a_job_that_goes_on_keeps_its_policy(live: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Spark, whatever the session says by then."""
    monkeypatch.setattr("mixedmode.planner.plans.spark_settings.has_checkpoint", lambda location: True)
    assert compiled(read(live={"a": live, "b": live}).withWatermark("ts", "1 hour").groupBy("k").count())


def test_micro_batches_without_data_are_a_setting_of_the_job(spark: SparkSession, live: DataFrame) -> None:
    rows = read(live=live).withWatermark("ts", "1 hour").groupBy("k").count()
    assert compiled(rows).fires_without_rows
    with session_options(spark, {"spark.sql.streaming.noDataMicroBatches.enabled": "False"}):
        assert not compiled(rows).fires_without_rows
