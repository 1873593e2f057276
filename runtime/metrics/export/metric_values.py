"""The values of the metrics, as a listener learns them; exporters ask for them whenever they want."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ..events import events
from ..events.events import RunEvent
from ..events.run_listener import RunListener
from .metric_table import BY_NAME, METRICS, Metric

#: What there is only in Real-Time Mode.
_OF_REAL_TIME = ("realtime_rows", "realtime_rows_per_second", "realtime_latency_seconds")
#: Values by those of the labels, in their order.
Values = dict[tuple[str, ...], float]


@dataclass
class _Run:
    """What is needed to tell, at any moment, how long ago something was."""

    began_ms: int
    checkpoint_ms: int | None = None
    watermark_ms: int | None = None
    sources_ms: dict[str, int] = field(default_factory=dict)


class MetricValues(RunListener):
    """Keeps the value of each metric of each query.

    Args:
        now_s: the wall clock.
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._values: dict[str, Values] = defaultdict(dict)
        #: By query, of those that run.
        self._runs: dict[str, _Run] = {}

    def values(self) -> Iterator[tuple[Metric, Mapping[tuple[str, ...], float]]]:
        """Every metric with its values now."""
        now_s = self._now_s()
        with self._lock:
            found = {name: dict(values) for name, values in self._values.items()}
            runs = {query: _ages(run, now_s) for query, run in self._runs.items()}
        for query, ages in runs.items():
            for name, labels, value in ages:
                of_all = (query, *labels)
                found.setdefault(name, {})[of_all] = value
        for metric in METRICS:
            yield metric, found.get(metric.short, {})

    # -- what happens ------------------------------------------------------------------------------------------------

    def onEvent(self, event: RunEvent) -> None:
        """Take an event over, whole: nobody sees half of it."""
        with self._lock:
            query = _query_of(event)
            if query not in self._runs and not isinstance(event, events.RunEnded):
                self._runs[query] = _Run(event.at_ms)
                self._set("up", query, value=1)
                self._set("run_start_time_seconds", query, value=event.at_ms / 1000)
                for outcome in ("failed", "declined", "aborted"):
                    self._add("checkpoints_failed_total", query, outcome, by=0)
                self._add("checkpoints_total", query, by=0)
                for how in ("finished", "stopped", "failed"):
                    self._add("runs_ended_total", query, how, by=0)
            super().onEvent(event)

    def onRunBegan(self, event: events.RunBegan) -> None:
        query = _query_of(event)
        self._runs[query] = _Run(event.at_ms)
        self._set("run_start_time_seconds", query, value=event.at_ms / 1000)
        self._set("restarts_total", query, value=event.generation - 1)

    def onPhaseBegan(self, event: events.PhaseBegan) -> None:
        query = _query_of(event)
        for name in ("phase", *_OF_REAL_TIME):
            self._forget(name, query)
        self._set("phase", query, event.phase, value=1)

    def onBacklogProgressed(self, event: events.BacklogProgressed) -> None:
        query, stage = _query_of(event), event.stage
        for name, value in (
            ("backlog_progress_ratio", event.fraction),
            ("backlog_shards", event.shards),
            ("backlog_shards_done", event.shards_done),
            ("backlog_rows", event.rows),
            ("backlog_remaining_seconds", event.eta_s),
        ):
            self._set(name, query, stage, value=value)

    def onRealTimeProgressed(self, event: events.RealTimeProgressed) -> None:
        query, found = _query_of(event), event.latencies
        values = (None, None, None) if found is None else (found.p50_ms, found.p99_ms, found.max_ms)
        self._set("realtime_rows", query, value=event.rows)
        self._set("realtime_rows_per_second", query, value=event.rows_per_second)
        for quantile, ms in zip(("0.5", "0.99", "1"), values, strict=True):
            self._set("realtime_latency_seconds", query, quantile, value=None if ms is None else ms / 1000)

    def onEpochApplied(self, event: events.EpochApplied) -> None:
        query = _query_of(event)
        self._add("epochs_total", query, event.mode, by=event.epochs)
        self._add("epoch_duration_seconds_total", query, event.mode, by=event.duration_ms / 1000)
        self._set("last_epoch_duration_seconds", query, value=event.duration_ms / 1000)
        self._add("input_rows_total", query, by=event.input_rows)
        self._add("output_rows_total", query, by=event.output_rows)
        for stage in event.stages:
            self._add("stage_input_rows_total", query, stage.uid, by=stage.input_rows)
            self._add("stage_output_rows_total", query, stage.uid, by=stage.output_rows)
            self._add("late_rows_total", query, stage.uid, by=stage.late_rows)
            self._add("timers_fired_total", query, stage.uid, by=stage.timers_fired)
            self._add("restored_shards_total", query, stage.uid, by=stage.restored_shards)
            self._add("spilled_bytes_total", query, stage.uid, by=stage.spilled_bytes)
            self._set("state_bytes", query, stage.uid, value=stage.state_bytes)
            self._set("state_entries", query, stage.uid, value=stage.state_entries)
            self._set("state_files", query, stage.uid, value=stage.state_files)
        for source in event.sources:
            self._set("source_is_backlog", query, source.name, value=source.is_backlog)
            self._set("source_is_idle", query, source.name, value=source.is_idle)
            # What first appears as more than 0 has not increased, as Prometheus sees it.
            self._add("lost_messages_total", query, source.name, by=0)
        run = self._runs[query]
        run.watermark_ms = event.watermark_ms
        run.sources_ms = {one.name: one.watermark_ms for one in event.sources if one.watermark_ms is not None}
        moment = None if event.watermark_ms is None else event.watermark_ms / 1000
        self._set("watermark_timestamp_seconds", query, value=moment)

    def onPositionsKnown(self, event: events.PositionsKnown) -> None:
        for position in event.positions:
            self._set("source_lag_messages", _query_of(event), position.name, value=position.lag_messages)

    def onSourceChanged(self, event: events.SourceChanged) -> None:
        self._set("source_is_backlog", _query_of(event), event.source, value=event.is_backlog)

    def onDataLost(self, event: events.DataLost) -> None:
        messages = max(0, event.last_offset - event.first_offset + 1)
        self._add("lost_messages_total", _query_of(event), event.source, by=messages)

    def onCheckpointCompleted(self, event: events.CheckpointCompleted) -> None:
        query = _query_of(event)
        self._add("checkpoints_total", query, by=event.checkpoints)
        self._add("checkpoint_duration_seconds_total", query, by=event.duration_ms / 1000)
        self._add("checkpoint_new_bytes_total", query, by=event.new_bytes)
        self._set("last_checkpoint_duration_seconds", query, value=event.duration_ms / 1000)
        self._set("last_checkpoint_timestamp_seconds", query, value=event.at_ms / 1000)
        self._runs[query].checkpoint_ms = event.at_ms

    def onCheckpointFailed(self, event: events.CheckpointFailed) -> None:
        self._add("checkpoints_failed_total", _query_of(event), event.outcome, by=1)

    def onSavepointWritten(self, event: events.SavepointWritten) -> None:
        self._add("savepoints_total", _query_of(event), by=1)

    def onRunEnded(self, event: events.RunEnded) -> None:
        query = _query_of(event)
        self._runs.pop(query, None)
        for metric in METRICS:
            if metric.while_running:
                self._forget(metric.short, query)
        self._set("up", query, value=0)
        self._add("runs_ended_total", query, event.how, by=1)

    # -- values ------------------------------------------------------------------------------------------------------

    def _set(self, name: str, *labels: str, value: float | None) -> None:
        """A value; None: it has none now."""
        assert name in BY_NAME, name
        if value is None:
            self._values[name].pop(labels, None)
        else:
            self._values[name][labels] = float(value)

    def _add(self, name: str, *labels: str, by: float) -> None:
        assert name in BY_NAME, name
        values = self._values[name]
        values[labels] = values.get(labels, 0.0) + by

    def _forget(self, name: str, query: str) -> None:
        values = self._values[name]
        for labels in [labels for labels in values if labels[0] == query]:
            del values[labels]


def _query_of(event: RunEvent) -> str:
    return event.name or event.query_id


def _ages(run: _Run, now_s: float) -> list[tuple[str, tuple[str, ...], float]]:
    """What grows while nothing happens."""
    since_ms = run.began_ms if run.checkpoint_ms is None else run.checkpoint_ms
    found: list[tuple[str, tuple[str, ...], float]] = [("last_checkpoint_age_seconds", (), now_s - since_ms / 1000)]
    if run.watermark_ms is not None:
        found.append(("watermark_lag_seconds", (), now_s - run.watermark_ms / 1000))
    found += [("source_watermark_lag_seconds", (name,), now_s - ms / 1000) for name, ms in run.sources_ms.items()]
    return found
