"""Progress records as Spark's listeners get them."""

from __future__ import annotations

import json
from typing import Any

from mixedmode.runtime.metrics.progress import QueryProgress
from mixedmode.runtime.metrics.spark_progress import backlog_progress, observed_values, spark_progress
from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress


def record(**more: Any) -> QueryProgress:
    fields: dict[str, Any] = {
        "id": "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f",
        "runId": "1f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f",
        "name": "orders",
        "timestamp": "2024-01-01T00:00:00.000Z",
        "batchId": 4,
        "batchDuration": 20,
        "durationMs": {"triggerExecution": 20},
        "eventTime": {"watermark": "MAX_WATERMARK", "max": "2024-01-01T00:00:00.000Z"},
        "mode": "streaming",
        "phase": "live",
        "isBacklog": False,
        "numInputRows": 10,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 500.0,
        "stateOperators": [],
        "sources": [
            {"description": "history", "isBacklog": False, "finished": True},
            {"description": "live", "isBacklog": False, "finished": False, "endOffset": {"t": {"0": 3}}},
        ],
        "sink": {"description": "files", "numOutputRows": 2, "metrics": {"outputFiles": 1}},
        "observedMetrics": {"read": Row(rows=10)},
    }
    return QueryProgress({**fields, **more})


def as_spark_has_it(known: dict[str, Any]) -> StreamingQueryProgress:
    return StreamingQueryProgress.fromJson(json.loads(json.dumps({**known, "observedMetrics": {}})))


def test_rows_belong_to_the_source_that_is_read() -> None:
    """Rows of an epoch are those of its first source that can have been read; sums over events are right."""
    live = as_spark_has_it(spark_progress(record()))
    assert [one.numInputRows for one in live.sources] == [0, 10]
    assert (live.numInputRows, live.sources[1].endOffset) == (10, '{"t": {"0": 3}}')
    backlog = as_spark_has_it(spark_progress(record(mode="backlog", isBacklog=True), reported_rows=7))
    assert [one.numInputRows for one in backlog.sources] == [3, 0], "seven were told while it ran"
    assert as_spark_has_it(spark_progress(record(), reported_rows=99)).numInputRows == 0


def test_what_spark_would_parse_is_a_time() -> None:
    """Spark's UI parses a watermark in each record of a job that has one: the end of time is told as the greatest event
    time, one that has not come as Spark tells it."""
    times = {"watermark": "2024-01-01T00:00:00.000Z", "max": "2024-01-01T00:00:00.000Z"}
    assert as_spark_has_it(spark_progress(record())).eventTime == times
    none = {"watermark": "1970-01-01T00:00:00.000Z"}
    assert as_spark_has_it(spark_progress(record(eventTime={}))).eventTime == none
    assert as_spark_has_it(spark_progress(record(eventTime={}), has_watermark=False)).eventTime == {}


def test_a_backlog_is_told_as_a_micro_batch() -> None:
    """A pass that runs is told with the rows since the last time, and how far it is."""
    known = {name: record()[name] for name in ("id", "runId", "name", "timestamp", "batchId")}
    known = backlog_progress({**known, "sink": "files"}, 500, 1000, {"fraction": 0.25, "etaSeconds": None, "shards": 8})
    seen = as_spark_has_it(known)
    assert (seen.numInputRows, seen.inputRowsPerSecond, seen.batchId) == (500, 500.0, 4)
    assert seen.sources[0].metrics == {"phase": "backlog", "isBacklog": "true", "fraction": "0.25", "shards": "8"}


def test_observed_metrics_are_plain_values() -> None:
    """Rows of observed metrics are told by the names of their columns."""
    assert observed_values(record()) == {"read": {"rows": 10}}


def test_a_record_prints_as_sparks_does() -> None:
    """Printed, and in a cell, a progress record is indented JSON."""
    assert str(record()) == repr(record()) == record().prettyJson
    assert '\n  "batchId": 4,\n' in str(record())
