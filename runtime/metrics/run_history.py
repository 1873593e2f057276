"""Remembers what a run did: progress records, checkpoints, and the events of its life in order."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Row

from ..checkpoints.identity import query_id
from ..jvm.spark_errors import cause_first
from .epoch_records import (
    checkpoint_entry,
    durations_ms,
    event_time,
    lag_ms,
    lost_entry,
    offsets_entry,
    rate_per_second,
    source_entries,
    state_operator,
    together,
    totals,
)
from .events.events import CheckpointCompleted, DataLost, PhaseBegan, RealTimeProgressed
from .events.facts import (
    EpochReport,
    Fact,
    OffsetsKnown,
    RowsDelivered,
    RunFailed,
    WholeResultObserved,
)
from .fact_descriptions import description_of
from .lifecycle import LifecycleEvent
from .progress import QueryProgress, timestamp

logger = logging.getLogger(__name__)

#: Progress records kept, as Spark's ``spark.sql.streaming.numRecentProgressUpdates``.
_RECENT = 100
#: Lifecycle events kept, besides checkpoints.
_MAX_EVENTS = 1_000


class RunHistory:
    """Thread-safe history of one run, which listens to it.

    Args:
        run_id: id of this run.
        name: name of the query.
        sink: the sink's description.
        now_s: the wall clock, in seconds since 1970.
        clock_s: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        run_id: str,
        name: str | None,
        sink: str,
        *,
        now_s: Callable[[], float] = time.time,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_s = now_s
        self._clock_s = clock_s
        #: Id of the run, as its records have it.
        self.run_id = run_id
        self._name = name
        self._sink = sink
        self._lock = threading.Lock()
        self._recent: deque[QueryProgress] = deque(maxlen=_RECENT)
        # Checkpoints come for months on end and must not push out the few events that tell the story.
        self._events: deque[tuple[int, LifecycleEvent]] = deque(maxlen=_MAX_EVENTS)
        self._checkpoint_events: deque[tuple[int, LifecycleEvent]] = deque(maxlen=_RECENT)
        self._numbers = itertools.count()
        self._checkpoint: dict[str, Any] | None = None
        self._checkpoints: deque[CheckpointCompleted] = deque(maxlen=_RECENT)
        self._phases: list[str] = []
        #: What epochs that have no record yet have not found.
        self._lost: list[DataLost] = []
        #: When the last epoch began, by the monotonic clock.
        self._epoch_started: float | None = None

    def on(self, fact: Fact) -> None:
        """Remember what has happened; how far an epoch is says nothing once it is further."""
        if isinstance(fact, RealTimeProgressed):
            return
        if isinstance(fact, EpochReport):
            self._epoch(fact)
        elif isinstance(fact, OffsetsKnown):
            entries = {name: offsets_entry(read) for name, read in fact.sources.items()}
            self._of_sources(fact.epoch, lambda one: entries.get(one["description"], {}))
        elif isinstance(fact, DataLost) and not fact.is_file:
            self._messages_lost(fact)
        elif isinstance(fact, WholeResultObserved):
            self._whole_result_observed(fact.observed)
        elif isinstance(fact, RowsDelivered):
            self._delivered(fact.elapsed_s)
        elif isinstance(fact, CheckpointCompleted):
            self._checkpoint_completed(fact)
        elif isinstance(fact, PhaseBegan):
            with self._lock:
                self._phases.append(fact.phase)
        words = description_of(fact)
        if isinstance(fact, RunFailed):
            self._log_failure(fact.error)
        elif words is not None:
            logger.info("%s: %s %s", self._name or self.run_id, words.event, words.detail)
        if words is not None:
            with self._lock:
                events = self._checkpoint_events if isinstance(fact, CheckpointCompleted) else self._events
                events.append((next(self._numbers), LifecycleEvent(self._now_ms, *words)))

    def _log_failure(self, error: BaseException) -> None:
        """One line; the trace, which whoever waits for the query has in the error, only for those who look closely."""
        with self._lock:
            phase = self._phases[-1] if self._phases else "recovery"
            behind = f", behind epoch {self._recent[-1]['batchId']}" if self._recent else ""
        trace = error if logger.isEnabledFor(logging.DEBUG) else None
        said = (cause_first(error) or type(error).__name__).splitlines()[0]
        query = self._name or self.run_id
        logger.error("query %s failed in phase %s%s: %s", query, phase, behind, said, exc_info=trace)

    @property
    def _now_ms(self) -> int:
        return round(self._now_s() * 1000)

    def _checkpoint_completed(self, completed: CheckpointCompleted) -> None:
        with self._lock:
            self._checkpoints.append(completed)
            self._checkpoint = checkpoint_entry(completed)
            self._replace_last(checkpoint=self._checkpoint)

    def _epoch(self, applied: EpochReport) -> None:
        reports = [report for stage in applied.stages for report in stage.reports]
        elapsed_s = applied.elapsed_s
        elapsed_ms, by_stage = round(elapsed_s * 1000), {stage.uid: totals(stage.reports) for stage in applied.stages}
        sums = together(by_stage.values())
        read = together(by_stage[stage.uid] for stage in applied.stages if stage.reads_sources)
        written = together(by_stage[stage.uid] for stage in applied.stages if stage.is_last)
        if sums["timersIgnored"]:
            self._tell_ignored_timers(sums["timersIgnored"])
        now, now_ms = self._clock_s(), self._now_ms
        since_last_s = now - elapsed_s - self._epoch_started if self._epoch_started is not None else 0.0
        self._epoch_started = now - elapsed_s
        progress = QueryProgress(
            id=query_id(applied.job_id),
            runId=self.run_id,
            name=self._name,
            timestamp=timestamp(now_ms),
            batchId=applied.epoch,
            batchDuration=elapsed_ms,
            durationMs=durations_ms(reports, elapsed_ms),
            eventTime=event_time(applied.watermark_ms, applied.max_event_time_ms),
            watermarkLagMs=lag_ms(applied.watermark_ms, now_ms),
            latencyMs=None if applied.latencies is None else applied.latencies.by_name(),
            mode="backlog" if applied.style == "sorted" else "streaming",
            phase=applied.phase,
            isBacklog=applied.is_backlog,
            numInputRows=read["inputRows"],
            inputRowsPerSecond=rate_per_second(read["inputRows"], since_last_s),
            processedRowsPerSecond=rate_per_second(read["inputRows"], elapsed_s),
            stateOperators=[
                state_operator(stage.uid, stage.reports, stage.manifests, by_stage[stage.uid])
                for stage in applied.stages
                if stage.keeps_state
            ],
            sources=source_entries(applied.sources, read["inputRows"], since_last_s, elapsed_s),
            sink={
                "description": self._sink,
                "numOutputRows": written["outputRows"],
                "metrics": {"outputBytes": written["outputBytes"], "outputFiles": written["outputFiles"]},
            },
            observedMetrics=dict(applied.observed),
            coordinator=None if applied.coordinator is None else dict(applied.coordinator),
            checkpoint=self._checkpoint,
        )
        with self._lock:
            self._recent.append(progress)
            lost, self._lost = self._lost, []
        for one in lost:
            self._messages_lost(one)  # those of a later epoch are kept again

    def _tell_ignored_timers(self, count: int) -> None:
        logger.warning(
            "query %s: %s timers that timers registered at the end of input are ignored: event time has ended"
            " (MAX_WATERMARK), and a timer that registers the next one would never end",
            self._name or self.run_id,
            count,
        )

    def _whole_result_observed(self, observed: Mapping[str, Row]) -> None:
        with self._lock:
            if self._recent:
                self._replace_last(observedMetrics={**self._recent[-1]["observedMetrics"], **observed})

    def _delivered(self, elapsed_s: float) -> None:
        with self._lock:
            if self._recent:
                durations, elapsed_ms = self._recent[-1]["durationMs"], round(elapsed_s * 1000)
                in_all = durations["addBatch"] + elapsed_ms
                self._replace_last(durationMs={**durations, "deliver": elapsed_ms, "triggerExecution": in_all})

    def _messages_lost(self, lost: DataLost) -> None:
        def added(one: Mapping[str, Any]) -> Mapping[str, Any]:
            known = one.get("dataLost", ())
            return {"dataLost": [*known, lost_entry(lost)]} if one["description"] == lost.source else {}

        if not self._of_sources(lost.epoch, added):
            with self._lock:
                self._lost.append(lost)  # its epoch is to come

    def _of_sources(self, epoch: int, more: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> bool:
        """More is known of what an epoch has read of the sources; False: there is no record of it."""
        with self._lock:
            for at in reversed(range(len(self._recent))):
                record = self._recent[at]
                if record["batchId"] == epoch:
                    sources = [{**one, **more(one)} for one in record["sources"]]
                    self._recent[at] = QueryProgress({**record, "sources": sources})
                    return True
        return False

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
    def phases(self) -> list[str]:
        """Kinds of the phases that have begun, in order."""
        with self._lock:
            return list(self._phases)

    @property
    def checkpoints(self) -> list[CheckpointCompleted]:
        """The last 100 checkpoints, oldest first."""
        with self._lock:
            return list(self._checkpoints)

    @property
    def events(self) -> list[LifecycleEvent]:
        """What happened, in order: of checkpoints the last 100, of everything else the last 1,000."""
        with self._lock:
            numbered = sorted([*self._events, *self._checkpoint_events], key=lambda entry: entry[0])
            return [event for _, event in numbered]
