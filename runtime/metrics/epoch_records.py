"""Computes the fields of a progress record from an epoch's reports, without Spark and without a clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ...state.store.state_manifest import StateManifest
from ..protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..tasks.report import ShardReport
from .events.events import CheckpointCompleted, DataLost
from .events.facts import OffsetsRead, SourceSeen
from .progress import timestamp

#: Of ``sources``: Spark's names of how many rows there were.
_ROWS = ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")


def totals(reports: Sequence[ShardReport]) -> Counter[str]:
    """Everything that can be summed up over the shards, by name."""
    counters = [report.counters for report in reports]
    output = [file for report in reports for file in report.output]
    files = [file for report in reports for file in report.files]
    measured: defaultdict[str, int] = defaultdict(int)
    for report in reports:
        for name, value in report.measured.items():
            measured[name] += value
        for name, value in report.durations_ms.items():
            measured[f"{name}Ms"] += value
    sums = Counter(measured)
    sums.update(
        inputRows=sum(one.rows_in for one in counters),
        lateRows=sum(one.rows_late for one in counters),
        keys=sum(one.keys for one in counters),
        timers=sum(one.timers_fired for one in counters),
        timersIgnored=sum(one.timers_ignored for one in counters),
        outputRows=sum(one.dropped_rows + one.handed_on_rows for one in reports) + sum(file.rows for file in output),
        outputBytes=sum(file.size_bytes for file in output),
        outputFiles=len(output),
        stateEntries=sum(file.entries for file in files),
        tombstones=sum(file.tombstones for file in files),
        stateBytes=sum(file.size_bytes for file in files),
        stateFiles=len(files),
        spilledBytes=sum(one.spilled_bytes for one in reports),
    )
    sided = [one for one in counters if one.rows_late_right is not None]
    if sided:
        right = sum(one.rows_late_right or 0 for one in sided)
        sums.update(lateRowsLeft=sum(one.rows_late for one in sided) - right, lateRowsRight=right)
    return sums


def together(sums: Iterable[Counter[str]]) -> Counter[str]:
    """The totals of several stages as one."""
    found: Counter[str] = Counter()
    for one in sums:
        found.update(one)
    return found


def durations_ms(reports: Sequence[ShardReport], elapsed_ms: int) -> dict[str, int]:
    """Where an epoch's time went: Spark's own names, the slowest shard of each phase, and what was outside of tasks."""
    durations = {"triggerExecution": elapsed_ms, "addBatch": elapsed_ms}
    for report in reports:
        for name, value in report.durations_ms.items():
            durations[name] = max(durations.get(name, 0), value)
    times = [report.measured for report in reports if "endedAtMs" in report.measured]
    if times:
        keyed_ms = max(one["endedAtMs"] for one in times) - min(one["startedAtMs"] for one in times)
        # Clocks of two machines may disagree, and reports that were taken over are of another run.
        durations["keyedStage"] = min(max(keyed_ms, 0), elapsed_ms)
        durations["outsideTasks"] = elapsed_ms - durations["keyedStage"]
    return durations


def state_operator(
    name: str, reports: Sequence[ShardReport], manifests: Sequence[StateManifest], sums: Counter[str]
) -> dict[str, Any]:
    """One entry of ``stateOperators``, with Spark's names where Spark has the thing."""
    return {
        "operatorName": name,
        "numRowsTotal": max(
            0, sum(file.entries - file.tombstones for manifest in manifests for file in manifest.files)
        ),
        "numRowsUpdated": sums["keys"],
        "numRowsRemoved": sums["tombstones"],
        "allUpdatesTimeMs": sums["processMs"],
        "allRemovalsTimeMs": 0,  # an operator removes while it processes
        "commitTimeMs": sums["publishMs"],
        "memoryUsedBytes": sums["memoryUsedBytes"],
        "numRowsDroppedByWatermark": sums["lateRows"],
        "numShufflePartitions": len(manifests),
        "numStateStoreInstances": len(reports),
        "customMetrics": {
            "numExpiredTimers": sums["timers"],
            "numIgnoredTimers": sums["timersIgnored"],
            "replicaCacheHits": sums["replicaHits"],
            "replicaCacheMisses": sums["replicaMisses"],
            "stateFilesRead": sums["stateFilesRead"],
            "stateBytesRead": sums["stateBytesRead"],
            "stateEntriesWritten": sums["stateEntries"],
            "stateFilesWritten": sums["stateFiles"],
            "stateBytesWritten": sums["stateBytes"],
            "inputBytes": sums["inputBytes"],
            "spilledBytes": sums["spilledBytes"],
            # Of a stage with two sides.
            **{f"numRowsLate{side}": sums[key] for side in ("Left", "Right") if (key := f"lateRows{side}") in sums},
        },
    }


def source_entries(
    sources: Sequence[SourceSeen], rows: int, since_last_s: float, elapsed_s: float
) -> list[dict[str, Any]]:
    """The entries of ``sources``.

    Rows are counted for all sources together: the only one that is read has them all, and of several it is not known.

    Args:
        sources: after the epoch.
        rows: that they have brought.
        since_last_s: how long ago the epoch before began; 0: there was none.
        elapsed_s: how long the epoch has taken.
    """
    is_alone = sum(one.is_read for one in sources) == 1
    entries = []
    for source in sources:
        count = 0 if not source.is_read or not rows else rows if is_alone else None
        rates = (None if count is None else rate_per_second(count, seconds) for seconds in (since_last_s, elapsed_s))
        entries.append({**_source_entry(source), **dict(zip(_ROWS, (count, *rates), strict=True))})
    return entries


def rate_per_second(rows: int, seconds: float) -> float:
    """A rate; 0 where no time has passed."""
    return rows / seconds if seconds > 0 else 0.0


def _source_entry(source: SourceSeen) -> dict[str, Any]:
    """A source without its rows; of several live inputs it tells which one holds the watermark back."""
    entry = {"description": source.name, "isBacklog": source.is_backlog, "finished": source.finished}
    if source.times is None:
        return entry
    times = event_time(source.times.watermark_ms, source.times.max_event_time_ms)
    return {**entry, "eventTime": times, "isIdle": source.times.is_idle}


def offsets_entry(read: OffsetsRead) -> dict[str, Any]:
    """What is added to an entry of ``sources`` when the offsets of its micro-batch are known."""
    entry = {
        "startOffset": read.start,
        "endOffset": read.end,
        "latestOffset": read.latest,
        "metrics": dict(read.metrics),
    }
    behind = lag_by_partition(read.end, read.latest)
    return entry if behind is None else {**entry, "lag": behind}


def lag_by_partition(end: Any, latest: Any) -> dict[str, dict[str, int]] | None:
    """How many messages of each partition of each topic are not read yet; None: the source has no such offsets."""
    try:
        return {
            topic: {number: offset - end[topic][number] for number, offset in partitions.items()}
            for topic, partitions in latest.items()
        }
    except (AttributeError, KeyError, TypeError):
        return None


def lost_entry(lost: DataLost) -> dict[str, Any]:
    """One entry of ``dataLost`` in an entry of ``sources``."""
    return {
        "topic": lost.topic,
        "partition": lost.partition,
        "firstOffset": lost.first_offset,
        "lastOffset": lost.last_offset,
        "fate": lost.fate,
    }


def checkpoint_entry(completed: CheckpointCompleted) -> dict[str, Any]:
    """A checkpoint as ``query.checkpoints`` and the records after it have it."""
    return {
        "id": completed.checkpoint_id,
        "trigger": completed.trigger,
        "kind": completed.kind,
        "drained": completed.drained,
        "durationMs": completed.duration_ms,
        "durationsMs": completed.durations_ms,
        "stateBytes": completed.state_bytes,
        "stateEntries": completed.state_entries,
        "stateFiles": completed.state_files,
        "newFiles": completed.new_files,
        "newBytes": completed.new_bytes,
        "numOutputRows": completed.output_rows,
        "outputBytes": completed.output_bytes,
    }


def event_time(watermark_ms: int, max_ms: int | None) -> dict[str, str]:
    """Watermark and greatest event time, as far as there are any."""
    times = {}
    if MIN_WATERMARK < watermark_ms < MAX_WATERMARK:
        times["watermark"] = timestamp(watermark_ms)
    elif watermark_ms == MAX_WATERMARK:
        times["watermark"] = "MAX_WATERMARK"
    if max_ms is not None:
        times["max"] = timestamp(max_ms)
    return times


def lag_ms(watermark_ms: int, now_ms: int) -> int | None:
    """How far the watermark is behind the clock; None: there is none, or it is at the end of time."""
    return now_ms - watermark_ms if MIN_WATERMARK < watermark_ms < MAX_WATERMARK else None
