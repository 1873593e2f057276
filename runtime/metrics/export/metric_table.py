"""The metrics of runs: their names, kinds and labels.  What exporters offer, and the page on operating, is this table.

Names follow Prometheus' conventions: base units, ``_total`` for what only grows.  OpenTelemetry gets the same ones
without the endings that say unit and kind, which it says by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The beginning of all names.
PREFIX = "mixedmode_"


@dataclass(frozen=True)
class Metric:
    """One metric."""

    #: Without :data:`PREFIX`.
    short: str
    kind: Literal["gauge", "counter"]
    doc: str
    #: Besides ``query``: the name of the query, or its id if it has none.
    labels: tuple[str, ...] = ()
    #: As OpenTelemetry writes units.
    unit: str = "1"
    #: Whether it is told only while the query runs.
    while_running: bool = False

    @property
    def name(self) -> str:
        """Its name for Prometheus."""
        return PREFIX + self.short

    @property
    def all_labels(self) -> tuple[str, ...]:
        return ("query", *self.labels)

    @property
    def otel_name(self) -> str:
        """Its name for OpenTelemetry."""
        short = self.short.removesuffix("_total").removesuffix("_seconds").removesuffix("_bytes").removesuffix("_ratio")
        return f"mixedmode.{short}"


def _gauge(short: str, doc: str, *labels: str, unit: str = "1", while_running: bool = True) -> Metric:
    return Metric(short, "gauge", doc, labels, unit, while_running)


def _counter(short: str, doc: str, *labels: str, unit: str = "1") -> Metric:
    return Metric(f"{short}_total", "counter", doc, labels, unit)


#: All of them, by what they are about.
METRICS: tuple[Metric, ...] = (
    _gauge("up", "1 while the query runs, 0 after its end", while_running=False),
    _gauge("run_start_time_seconds", "when the run began (seconds since 1970)", unit="s"),
    _counter("restarts", "how often the query was started again on its checkpoint location"),
    _counter("runs_ended", "runs that have ended in this process", "how"),
    _gauge("phase", "1 for the phase that the query is in", "phase"),
    _gauge("source_is_backlog", "1 while the source is in backlog", "source"),
    _gauge("backlog_progress_ratio", "how much of a sorted pass is done, from 0 to 1", "stage"),
    _gauge("backlog_shards", "shards of the sorted pass", "stage"),
    _gauge("backlog_shards_done", "shards of it that are finished", "stage"),
    _gauge("backlog_rows", "rows that the pass has processed", "stage", unit="{row}"),
    _gauge("backlog_remaining_seconds", "how long the pass will take, where the estimate is narrow", "stage", unit="s"),
    _gauge("realtime_rows", "messages that the epoch that runs in Real-Time Mode has processed", unit="{row}"),
    _gauge("realtime_rows_per_second", "messages per second in its last seconds", unit="{row}/s"),
    _gauge(
        "realtime_latency_seconds",
        "from the time of a message in Kafka to its output, in the last seconds; quantile 0.5, 0.99, or 1 (max)",
        "quantile",
        unit="s",
    ),
    _counter("epochs", "epochs that have succeeded", "mode"),
    _counter("epoch_duration_seconds", "time that they took", "mode", unit="s"),
    _gauge("last_epoch_duration_seconds", "time that the last one took", unit="s"),
    _counter("input_rows", "rows of the sources", unit="{row}"),
    _counter("output_rows", "rows of the output", unit="{row}"),
    _counter("stage_input_rows", "rows that a keyed stage has taken", "stage", unit="{row}"),
    _counter("stage_output_rows", "rows that it has given", "stage", unit="{row}"),
    _counter("late_rows", "rows that came too late for it", "stage", unit="{row}"),
    _counter("timers_fired", "timers that have fired in it", "stage"),
    _counter(
        "restored_shards", "shards that were restored because their state was not on their task's executor", "stage"
    ),
    _counter("spilled_bytes", "what its sorters wrote to disk", "stage", unit="By"),
    _gauge("state_bytes", "size of its state", "stage", unit="By"),
    _gauge("state_entries", "entries of its state, values and timers (about)", "stage"),
    _gauge("state_files", "files of its state", "stage"),
    _gauge("watermark_timestamp_seconds", "the query's watermark (seconds since 1970)", unit="s"),
    _gauge("watermark_lag_seconds", "how far the watermark is behind the clock", unit="s"),
    _gauge("source_watermark_lag_seconds", "the same of a live input", "source", unit="s"),
    _gauge("source_is_idle", "1 while the input has no rows and does not hold the watermark back", "source"),
    _gauge("source_lag_messages", "messages that wait at the source, if it says so", "source", unit="{message}"),
    _counter("lost_messages", "messages that the source has deleted unread", "source", unit="{message}"),
    _counter("checkpoints", "checkpoints that are complete"),
    _counter("checkpoints_failed", "checkpoints that did not complete: failed, declined, aborted", "outcome"),
    _counter("checkpoint_duration_seconds", "time that the complete ones took", unit="s"),
    _counter("checkpoint_new_bytes", "state that they have added", unit="By"),
    _gauge("last_checkpoint_duration_seconds", "time that the last complete one took", unit="s"),
    _gauge("last_checkpoint_timestamp_seconds", "when that was (seconds since 1970)", unit="s"),
    _gauge("last_checkpoint_age_seconds", "how long ago that was; since the run began if it has taken none", unit="s"),
    _counter("savepoints", "savepoints that are complete"),
)

BY_NAME = {metric.short: metric for metric in METRICS}


def as_markdown() -> str:
    """The table for people."""
    lines = ["| metric | kind | labels besides `query` | what |", "|---|---|---|---|"]
    for one in METRICS:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{one.name}` | {one.kind} | {labels} | {one.doc} |")
    return "\n".join(lines)
