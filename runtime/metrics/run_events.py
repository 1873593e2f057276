"""Sends the events of one run from the driver to everybody who listens.

The driver puts a fact into a mailbox and goes on.  A thread of the run makes events of it, which go to the mailboxes of
the listeners and of the event log; each of those has a thread of its own, so nobody waits for anybody.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
import socket
import time
from collections.abc import Callable
from typing import Any

import pyspark

from ..jvm.spark_errors import what_happened
from ..spec import JobSpec, StageSpec
from .event_translation import EventTranslator
from .events import facts
from .events.event_files import HistoryFolder
from .events.event_log import EventLog, LogLimits
from .events.events import (
    CheckpointCompleted,
    InputNode,
    PlannedPhase,
    RealTimeProgressed,
    RunBegan,
    RunEnded,
    RunEvent,
    StageNode,
)
from .events.facts import Fact
from .events.mailbox import Mailbox
from .events.run_listener import LISTENERS, Listeners, is_routine

logger = logging.getLogger(__name__)

#: How long the end of a run waits for those who listen.
DRAIN_S = 5.0
_ROUTINE_FACTS = (
    facts.BacklogMoved,
    RealTimeProgressed,
    facts.EpochReport,
    facts.OffsetsKnown,
    CheckpointCompleted,
    facts.RowsDelivered,
)


class RunEvents:
    """Tells the events of one run; a listener of the driver.

    Args:
        job: what runs.
        run_id: the run's id.
        listeners: the listeners of this process.
        now_ms: the wall clock.
        drain_s: how long the end of the run waits for those who listen.
    """

    def __init__(
        self,
        job: JobSpec,
        run_id: str,
        *,
        listeners: Listeners = LISTENERS,
        now_ms: Callable[[], int] = lambda: round(time.time() * 1000),
        drain_s: float = DRAIN_S,
    ) -> None:
        self._drain_s = drain_s
        self._job, self.run_id, self._listeners, self._now_ms = job, run_id, listeners, now_ms
        self._translator: EventTranslator | None = None
        self._facts: Mailbox[tuple[int, Fact]] = Mailbox(
            f"events-{run_id[:8]}", self._translate, lambda item: isinstance(item[1], _ROUTINE_FACTS)
        )
        self._log: EventLog | None = None
        self._log_mailbox: Mailbox[RunEvent | Callable[[], None]] | None = None
        self._dropped_before = listeners.dropped

    # -- the driver's side -------------------------------------------------------------------------------------------

    def on(self, fact: Fact) -> None:
        """Something has happened; takes some microseconds, whoever listens."""
        self._facts.put((self._now_ms(), fact))

    def begin(self, query_id: str, generation: int, location: str | None, log: HistoryFolder | None) -> None:
        """The run has claimed its location.

        Args:
            query_id: id of the query.
            generation: how often the location was claimed.
            location: the location as the user gave it; None: it is a temporary one.
            log: where events are to be written, unless the job's options say not to; None: nowhere.
        """
        self._translator = EventTranslator(query_id, self.run_id, self._job.name)
        began = self._began(self._translator.common(self._now_ms()), generation, location)
        settings = self._job.settings
        if log is not None and settings.event_log_enabled:
            limits = LogLimits(total_bytes=settings.event_log_max_bytes)
            self._log = EventLog(log, log.run(self.run_id, began.at_ms), limits, now_ms=self._now_ms)
            self._log_mailbox = Mailbox(
                f"history-{self.run_id[:8]}", self._write, is_routine, size=10_000, idle=self._log.idle
            )
        self._publish(began)

    def end(self, error: BaseException | None, *, was_stopped: bool) -> None:
        """The run has ended; returns when everybody has heard of it, or after some seconds.

        Args:
            error: why it failed; None: it has not.
            was_stopped: whether somebody has asked for its end.
        """
        deadline = time.monotonic() + self._drain_s
        self._facts.wait(self._drain_s)
        translator = self._translator
        if translator is not None:
            how: Any = "failed" if error else translator.how or ("stopped" if was_stopped else "finished")
            self._publish(
                RunEnded(
                    **translator.common(self._now_ms()),
                    how=how,
                    error_class=None if error is None else type(error).__name__,
                    error=None if error is None else what_happened(error),
                    savepoint=translator.was_stopped_with,
                    drained=translator.drained,
                    dropped_events=self._dropped,
                )
            )
        self._facts.close(forget=False)
        late = [mailbox for mailbox in self._mailboxes if not mailbox.wait(max(deadline - time.monotonic(), 0.01))]
        if late:
            logger.warning(
                "query %s has ended, and %s of its listeners did not take all events within %s s",
                self._job.name or self.run_id,
                len(late),
                self._drain_s,
            )
        if self._log_mailbox is not None and self._log is not None:
            self._log_mailbox.put(self._log.close)
            self._log_mailbox.wait(max(deadline - time.monotonic(), 0.5))
            self._log_mailbox.close(forget=False)

    def flush(self, timeout_s: float = DRAIN_S) -> None:
        """Return when what has been told so far is in the event log, or after some time."""
        deadline = time.monotonic() + timeout_s
        self._facts.wait(timeout_s)
        if self._log_mailbox is not None and self._log is not None:
            self._log_mailbox.put(self._log.flush)
            self._log_mailbox.wait(max(deadline - time.monotonic(), 0.01))

    # -- on the thread of the run's events ---------------------------------------------------------------------------

    def _translate(self, item: tuple[int, Fact]) -> None:
        assert self._translator is not None, "begin() comes first"
        at_ms, fact = item
        for event in self._translator.of(fact, at_ms):
            self._publish(event)

    def _publish(self, event: RunEvent) -> None:
        for mailbox in self._mailboxes:
            mailbox.put(event)

    @property
    def _mailboxes(self) -> list[Mailbox[Any]]:
        mailboxes: list[Mailbox[Any]] = list(self._listeners.mailboxes)
        return mailboxes if self._log_mailbox is None else [self._log_mailbox, *mailboxes]

    @property
    def _dropped(self) -> int:
        own = 0 if self._log_mailbox is None else self._log_mailbox.dropped
        return own + self._facts.dropped + max(0, self._listeners.dropped - self._dropped_before)

    def _write(self, item: RunEvent | Callable[[], None]) -> None:
        assert self._log is not None
        if isinstance(item, RunEvent):
            self._log.take(item)
        else:
            item()

    # -- what the job is ---------------------------------------------------------------------------------------------

    def _began(self, common: dict[str, Any], generation: int, location: str | None) -> RunBegan:
        job = self._job
        context = job.spark.sparkContext
        inputs = [InputNode(name="history", kind="history")] if job.has_history else []
        inputs += [
            InputNode(name=one.name, kind="live", seam=None if one.seam is None else one.seam.text)
            for one in job.live_inputs
        ]
        return RunBegan(
            **common,
            pid=os.getpid(),
            host=socket.gethostname(),
            generation=generation,
            versions={
                "mixedmode": _own_version(),
                "spark": pyspark.__version__,
                "python": platform.python_version(),
            },
            location=location,
            inputs=tuple(inputs),
            stages=tuple(_stage_node(job, stage) for stage in job.stages),
            sink=job.sink_description,
            phases=tuple(PlannedPhase(kind=one.kind, style=one.style, reason=one.reason) for one in job.phases),
            application_id=context.applicationId,
            spark_ui=context.uiWebUrl,
        )


def _own_version() -> str:
    try:
        return importlib.metadata.version("mixedmode")
    except importlib.metadata.PackageNotFoundError:  # the bare package, as spark-submit --py-files brings it
        return "unknown"


def _stage_node(job: JobSpec, stage: StageSpec) -> StageNode:
    described = stage.operator.describe()
    return StageNode(
        uid=stage.uid,
        operator=str(described.get("processor") or described.get("operator") or stage.uid),
        key=tuple(stage.operator.key_labels),
        event_time=stage.event_time,
        watermark_delay_ms=stage.watermark_delay_ms,
        inputs=job.sources_of(stage),
        stages=tuple(edge.origin for edge in stage.edges),
        is_output=stage.uid in job.outputs,
    )
