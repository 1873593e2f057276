"""A progress record as Spark's ``StreamingQueryProgress`` has it, which listeners and the UI of Spark are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .progress import QueryProgress

#: Spark's record of a keyed stage, as far as ours has the names.
_STATE_OPERATOR = (
    "operatorName",
    "numRowsTotal",
    "numRowsUpdated",
    "allUpdatesTimeMs",
    "numRowsRemoved",
    "allRemovalsTimeMs",
    "commitTimeMs",
    "memoryUsedBytes",
    "numRowsDroppedByWatermark",
    "numShufflePartitions",
    "numStateStoreInstances",
    "customMetrics",
)
_IDENTITY = ("id", "runId", "name")
#: What Spark says of a watermark that has not come.
_NO_WATERMARK = "1970-01-01T00:00:00.000Z"


def spark_progress(record: QueryProgress, reported_rows: int = 0, *, has_watermark: bool = True) -> dict[str, Any]:
    """The record as Spark's JSON says it, without what ``observe()`` has computed.

    Rows are counted for all inputs together, and Spark has them by source: the first one that an epoch can have read
    has them all.

    Args:
        record: of an epoch.
        reported_rows: how many of its rows have been told while it ran.
        has_watermark: whether the job has one.
    """
    rows = max(record["numInputRows"] - reported_rows, 0)
    reading = _reading(record)
    return {
        **{name: record[name] for name in _IDENTITY},
        "timestamp": record["timestamp"],
        "batchId": record["batchId"],
        "batchDuration": record["batchDuration"],
        "durationMs": dict(record["durationMs"]),
        "eventTime": _event_time(record["eventTime"]) if has_watermark else {},
        "stateOperators": [_state_operator(one) for one in record["stateOperators"]],
        "sources": [
            _source(record, one, rows if place == reading else 0) for place, one in enumerate(record["sources"])
        ],
        "sink": {
            "description": record["sink"]["description"],
            "numOutputRows": record["sink"]["numOutputRows"],
            "metrics": _texts(record["sink"]["metrics"]),
        },
    }


def backlog_progress(
    last: Mapping[str, Any], rows: int, elapsed_ms: int, backlog: Mapping[str, Any], *, has_watermark: bool = True
) -> dict[str, Any]:
    """How far a sorted pass has come, as Spark's JSON says a micro-batch.

    Args:
        last: ``id``, ``runId``, ``name``, ``timestamp``, ``batchId`` and the description of the ``sink``.
        rows: that it has read since this was told before.
        elapsed_ms: time since then.
        backlog: what ``query.status["backlog"]`` says.
        has_watermark: whether the job has a watermark.
    """
    per_second = rows * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0
    known = {name: value for name, value in backlog.items() if value is not None}
    return {
        **{name: last[name] for name in (*_IDENTITY, "timestamp", "batchId")},
        "batchDuration": elapsed_ms,
        "durationMs": {"triggerExecution": elapsed_ms},
        "eventTime": _event_time({}) if has_watermark else {},
        "stateOperators": [],
        "sources": [
            {
                "description": "backlog",
                "startOffset": None,
                "endOffset": None,
                "latestOffset": None,
                "numInputRows": rows,
                "inputRowsPerSecond": per_second,
                "processedRowsPerSecond": per_second,
                "metrics": _texts({"phase": "backlog", "isBacklog": True, **known}),
            }
        ],
        "sink": {"description": last["sink"], "numOutputRows": 0, "metrics": {}},
    }


def observed_values(record: QueryProgress) -> dict[str, dict[str, Any]]:
    """What ``observe()`` has computed, as plain values."""
    plain = json.loads(record.json)["observedMetrics"]
    return {str(name): dict(values) for name, values in plain.items()}


def _event_time(times: Mapping[str, str]) -> dict[str, str]:
    """Event times as Spark's UI can read them: a job with a watermark has one in each record, and it is a moment.

    At the end of time it is told as the greatest event time that there was.
    """
    watermark, greatest = times.get("watermark", _NO_WATERMARK), times.get("max")
    if watermark == "MAX_WATERMARK":
        watermark = greatest or _NO_WATERMARK
    return {"watermark": watermark, **({} if greatest is None else {"max": greatest})}


def _reading(record: QueryProgress) -> int:
    """The first source that is not finished; in a backlog the history, which is finished behind it."""
    sources = record["sources"]
    if record["mode"] == "backlog" and record["isBacklog"]:
        return 0
    return next((place for place, one in enumerate(sources) if not one["finished"]), 0)


def _source(record: QueryProgress, source: Mapping[str, Any], rows: int) -> dict[str, Any]:
    share = rows / record["numInputRows"] if record["numInputRows"] else 0.0
    metrics = {"phase": record["phase"], "isBacklog": source["isBacklog"], **source.get("metrics", {})}
    return {
        "description": source["description"],
        **{name: _offset(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset")},
        "numInputRows": rows,
        "inputRowsPerSecond": record["inputRowsPerSecond"] * share,
        "processedRowsPerSecond": record["processedRowsPerSecond"] * share,
        "metrics": _texts(metrics),
    }


def _state_operator(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: stage[name] for name in _STATE_OPERATOR}, "customMetrics": dict(stage["customMetrics"])}


def _offset(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _texts(metrics: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in metrics.items()}
