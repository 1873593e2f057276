"""The end of each epoch: what driver, Spark and shards did from its last row to the first one of the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latencies import Run

#: What an event tells beside its name.
_SHOWN = ("durations", "how", "ms", "keys", "build_ms", "write_ms", "all_ms", "rows", "files", "bytes", "cpu_s")


def lines(run: Run) -> Iterator[str]:
    """All of it in words."""
    own = [(event["t"], str(event.get("epoch", "")), _words(event)) for event in run.events if event["e"] != "waiting"]
    all_lines = sorted([(at, "", text) for at, text in _spark_events(run.folder)] + own)
    last, first = run.times("shard last row"), run.times("shard first row")
    for epoch in sorted(last):
        zero = max(last[epoch])
        until = max(first.get(epoch + 1, [zero + 1]))
        yield f"\nthe end of epoch {epoch} ({zero - run.begin:.2f} s; times in ms from the last row)"
        for at, of, text in all_lines:
            if zero - 0.3 <= at <= until + 0.2:
                yield f"  {1e3 * (at - zero):7.0f}  {of:3} {text}"


def _words(event: dict[str, Any]) -> str:
    told = " ".join(f"{name}={event[name]}" for name in _SHOWN if name in event)
    return f"{event['who'].replace('shard ', 'S')}: {event['e']} {told}".rstrip()


def _spark_events(folder: Path) -> Iterator[tuple[float, str]]:
    """From Spark's log of events."""
    for path in (folder / "spark-events").glob("*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            found = _spark_event(event["Event"].rpartition(".")[2].removeprefix("SparkListener"), event)
            if found and found[0]:
                yield found[0] / 1e3, f"spark {found[1]}"


def _spark_event(kind: str, event: dict[str, Any]) -> tuple[int | None, str] | None:
    """When it happened in ms, and what."""
    stage, task = event.get("Stage Info", {}), event.get("Task Info", {})
    of_stage = f"stage {stage.get('Stage ID')}"
    of_task = f"task {event.get('Stage ID')}.{task.get('Index')}"
    return {
        "JobStart": (event.get("Submission Time"), f"job {event.get('Job ID')} submitted"),
        "JobEnd": (event.get("Completion Time"), f"job {event.get('Job ID')} ended"),
        "StageSubmitted": (stage.get("Submission Time"), f"{of_stage} submitted"),
        "StageCompleted": (stage.get("Completion Time"), f"{of_stage} completed"),
        "TaskStart": (task.get("Launch Time"), f"{of_task} started"),
        "TaskEnd": (task.get("Finish Time"), f"{of_task} ended"),
        "SQLExecutionStart": (event.get("time"), "SQL execution begins"),
        "SQLExecutionEnd": (event.get("time"), "SQL execution ends"),
    }.get(kind)
