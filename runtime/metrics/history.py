"""Remembers what a run did: progress records, checkpoints, and the events of its life in order."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from typing import Any

from ..checkpoints.identity import query_id
from ..driver.job_state import JobState
from ..operators.contract import EpochSpec
from ..protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..protocols.watermarks import WatermarkTracker
from ..spec import JobSpec, Phase
from ..tasks.report import ShardReport
from .checkpoint import CheckpointReport
from .epoch import durations_ms, state_operator, totals
from .lifecycle import LifecycleEvent
from .progress import QueryProgress, timestamp

logger = logging.getLogger(__name__)

#: Progress records kept, as Spark's ``spark.sql.streaming.numRecentProgressUpdates``.
_RECENT = 100
#: Lifecycle events kept, besides checkpoints.
_MAX_EVENTS = 1_000


class Recorder:
    """Thread-safe history of one run.

    Args:
        run_id: id of this run.
        name: name of the query.
        sink: the sink's description.
    """

    def __init__(self, run_id: str, name: str | None, sink: str) -> None:
        self._run_id = run_id
        self._name = name
        self._sink = sink
        self._lock = threading.Lock()
        self._recent: deque[QueryProgress] = deque(maxlen=_RECENT)
        # Checkpoints come for months on end and must not push out the few events that tell the story.
        self._events: deque[tuple[int, LifecycleEvent]] = deque(maxlen=_MAX_EVENTS)
        self._checkpoint_events: deque[tuple[int, LifecycleEvent]] = deque(maxlen=_RECENT)
        self._numbers = itertools.count()
        self._checkpoint: dict[str, Any] | None = None
        self._checkpoints: deque[CheckpointReport] = deque(maxlen=_RECENT)
        #: When the last epoch began, by the monotonic clock.
        self._epoch_started: float | None = None

    def event(self, event: str, detail: str = "") -> None:
        """Note something that happened."""
        logger.info("%s: %s %s", self._name or self._run_id, event, detail)
        with self._lock:
            events = self._checkpoint_events if event == "checkpoint" else self._events
            events.append((next(self._numbers), LifecycleEvent(round(time.time() * 1000), event, detail)))

    def checkpoint(self, report: CheckpointReport) -> None:
        """A checkpoint is complete and committed."""
        with self._lock:
            self._checkpoints.append(report)
            self._checkpoint = report.to_json()
            self._replace_last(checkpoint=self._checkpoint)
        self.event("checkpoint", f"{report.checkpoint_id} ({report.trigger}, {report.duration_ms} ms)")

    def epoch(
        self,
        job: JobSpec,
        state: JobState,
        phase: Phase,
        spec: EpochSpec,
        reports: list[ShardReport],
        elapsed_s: float,
        coordinator: dict[str, int] | None = None,
    ) -> None:
        """An epoch has been applied."""
        sums, elapsed_ms = totals(reports), round(elapsed_s * 1000)
        if sums["timersIgnored"]:
            self._tell_ignored_timers(sums["timersIgnored"])
        now = time.monotonic()
        since_last_s = now - elapsed_s - self._epoch_started if self._epoch_started is not None else 0.0
        self._epoch_started = now - elapsed_s
        progress = QueryProgress(
            id=query_id(state.job_id),
            runId=self._run_id,
            name=self._name,
            timestamp=timestamp(),
            batchId=spec.epoch,
            batchDuration=elapsed_ms,
            durationMs=durations_ms(reports, elapsed_ms),
            eventTime=_event_time(state.watermark.current_ms, state.watermark.max_event_time_ms),
            watermarkLagMs=_lag_ms(state.watermark.current_ms),
            mode="backlog" if spec.style == "sorted" else "streaming",
            phase=phase.kind,
            isBacklog=state.is_backlog,
            numInputRows=sums["inputRows"],
            inputRowsPerSecond=sums["inputRows"] / since_last_s if since_last_s > 0 else 0.0,
            processedRowsPerSecond=sums["inputRows"] / elapsed_s if elapsed_s > 0 else 0.0,
            stateOperators=[state_operator(job.operator.uid, reports, state.lineages, sums)],
            sources=[
                {
                    "description": name,
                    "isBacklog": source.is_backlog,
                    "finished": source.finished,
                    **_of_input(state.watermark, name),
                }
                for name, source in state.sources.items()
            ],
            sink={
                "description": self._sink,
                "numOutputRows": sums["outputRows"],
                "metrics": {"outputBytes": sums["outputBytes"], "outputFiles": sums["outputFiles"]},
            },
            observedMetrics={},
            coordinator=coordinator,
            checkpoint=self._checkpoint,
        )
        with self._lock:
            self._recent.append(progress)

    def _tell_ignored_timers(self, count: int) -> None:
        logger.warning(
            "query %s: %s timers that timers have registered at the end of input are ignored: MAX_WATERMARK, the end of"
            " event time, has come, and a timer that registers the next one would go on for ever",
            self._name or self._run_id,
            count,
        )

    def delivered(self, elapsed_s: float) -> None:
        """The last epoch's rows have been shown by a sink that shows them at once."""
        with self._lock:
            if self._recent:
                durations, elapsed_ms = self._recent[-1]["durationMs"], round(elapsed_s * 1000)
                in_all = durations["addBatch"] + elapsed_ms
                self._replace_last(durationMs={**durations, "deliver": elapsed_ms, "triggerExecution": in_all})

    def _replace_last(self, **entries: Any) -> None:
        """The last epoch's record with more that is known of it; the old one may be in somebody's hands."""
        if self._recent:
            self._recent[-1] = QueryProgress({**self._recent[-1], **entries})

    @property
    def recent(self) -> list[QueryProgress]:
        """The last records, oldest first."""
        with self._lock:
            return list(self._recent)

    @property
    def checkpoints(self) -> list[CheckpointReport]:
        """The last 100 checkpoints, oldest first."""
        with self._lock:
            return list(self._checkpoints)

    @property
    def events(self) -> list[LifecycleEvent]:
        """What happened, in order: of checkpoints the last 100, of everything else the last 1,000."""
        with self._lock:
            numbered = sorted([*self._events, *self._checkpoint_events], key=lambda entry: entry[0])
            return [event for _, event in numbered]


def _lag_ms(watermark_ms: int) -> int | None:
    """How far the watermark is behind the clock; None: there is none, or it is at the end of time."""
    return round(time.time() * 1000) - watermark_ms if MIN_WATERMARK < watermark_ms < MAX_WATERMARK else None


def _of_input(watermark: WatermarkTracker, name: str) -> dict[str, Any]:
    """How far a live input has come: which one it is that holds the watermark back."""
    one = watermark.inputs.get(name)
    if one is None:
        return {}
    is_idle = watermark.is_idle(name, round(time.time() * 1000))
    return {"eventTime": _event_time(one.reached_ms(), one.max_event_time_ms), "isIdle": is_idle}


def _event_time(watermark_ms: int, max_ms: int | None) -> dict[str, str]:
    times = {}
    if MIN_WATERMARK < watermark_ms < MAX_WATERMARK:
        times["watermark"] = timestamp(watermark_ms)
    elif watermark_ms == MAX_WATERMARK:
        times["watermark"] = "MAX_WATERMARK"
    if max_ms is not None:
        times["max"] = timestamp(max_ms)
    return times
