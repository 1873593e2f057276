"""Shows a run to Spark's own observers as one query, from its start to its end."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyspark.sql import SparkSession

from ..jvm.spark_errors import cause_first
from ..spark_io.shown_query import GONE, ShownQuery
from .events.events import PhaseBegan, RunRestored
from .events.facts import BacklogMoved, EpochReport, Fact, OffsetsKnown, RunFailed, RunFinished, RunStopped
from .progress import QueryProgress, timestamp
from .spark_progress import backlog_progress, observed_values, spark_progress

logger = logging.getLogger(__name__)

#: How often a backlog is told of; Spark tells as often that a query waits.
REPORT_EVERY_S = 10.0
#: How long what is left may take to be told at the end.
_PATIENCE_S = 30.0
#: After these there is nothing more to be known of an epoch that is not told yet.
_CLOSING = (EpochReport, PhaseBegan, RunFinished, RunStopped, RunFailed)


class ShownRun:
    """Listens to a run, and has Spark tell of it.

    An epoch with rows is told when Spark has said where its micro-batch ended, or else when the next thing happens.

    Args:
        spark: the session in which the job is seen.
        name: name of the query; None: it has none.
        sink: the sink's description.
        has_watermark: whether the job has one.
        readers: uids of the stages that read the sources.
        recent: the newest progress records, oldest first.
        stopped: called if somebody stops Spark's query, which is to stop the job.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str | None,
        sink: str,
        *,
        has_watermark: bool,
        readers: Collection[str],
        recent: Callable[[], list[QueryProgress]],
        stopped: Callable[[], None],
    ) -> None:
        self._spark = spark
        self._name = name
        self._sink = sink
        self._has_watermark = has_watermark
        self._recent = recent
        self._readers = readers
        self._stopped = stopped
        self._query: ShownQuery | None = None
        self._query_id = ""
        self._ended = threading.Event()
        #: What is to be reported, in order: an epoch's number, or how far a pass is; None: the run has ended.
        self._to_report: queue.SimpleQueue[int | BacklogMoved | None] = queue.SimpleQueue()
        self._reporter = threading.Thread(target=self._report_all, name="mixedmode-shown", daemon=True)
        #: The epoch that is not reported yet.
        self._waiting: int | None = None
        # What follows is of that thread alone: the last epoch that it has reported, and when it has reported anything.
        self._epoch, self._reported_s = 0, time.monotonic()
        #: Rows of the epoch in hand that are reported, by the stage that has read them.
        self._reported_rows: dict[str, int] = {}

    def begin(self, query_id: str) -> str | None:
        """Show the run; returns the id that Spark has given it, None if Spark does not show it.

        Args:
            query_id: the query's id.
        """
        self._query_id = query_id
        try:
            self._query = ShownQuery(self._spark, self._name, query_id)
        except GONE as error:
            logger.warning(
                "query %s is not in spark.streams and Spark's UI: %s",
                self._name or query_id,
                str(error).splitlines()[0] if str(error) else type(error).__name__,
            )
            return None
        self._reporter.start()
        threading.Thread(target=self._watch, name="mixedmode-shown-end", daemon=True).start()
        return self._query.run_id

    def on(self, fact: Fact) -> None:
        """Have Spark told what it has words for; who tells us of it does not wait for that."""
        if self._query is None:
            return
        if isinstance(fact, _CLOSING):
            self._complete()
        if isinstance(fact, EpochReport):
            self._waiting = fact.epoch
            if not any(report.counters.rows_in for stage in fact.stages for report in stage.reports):
                self._complete()
        elif isinstance(fact, OffsetsKnown) and fact.epoch == self._waiting:
            self._complete()
        elif isinstance(fact, BacklogMoved):
            self._to_report.put(fact)
        elif isinstance(fact, RunRestored):
            self._epoch = fact.epoch  # before anything is told

    def end(self, error: BaseException | None) -> None:
        """The run has ended.

        Args:
            error: why it failed; None: it did not.
        """
        if self._query is None:
            return
        self._complete()
        self._to_report.put(None)
        if self._reporter.ident is not None:  # the start was not broken off before it
            self._reporter.join(_PATIENCE_S)
        self._ended.set()
        self._query.end(None if error is None else f"{type(error).__name__}: {cause_first(error)}")

    def _complete(self) -> None:
        """All is known of the epoch that waits."""
        if self._waiting is not None:
            self._to_report.put(self._waiting)
            self._waiting = None

    def _watch(self) -> None:
        assert self._query is not None
        self._query.wait()
        if not self._ended.is_set():
            self._stopped()

    def _report_all(self) -> None:
        while (what := self._to_report.get()) is not None:
            if isinstance(what, int):
                self._report_epoch(what)
            elif time.monotonic() - self._reported_s >= REPORT_EVERY_S:
                self._report_backlog(what)

    def _report_epoch(self, epoch: int) -> None:
        reported, self._reported_rows, self._epoch = sum(self._reported_rows.values()), {}, epoch
        record = next((one for one in reversed(self._recent()) if one["batchId"] == epoch), None)
        if record is not None:
            progress = spark_progress(record, reported, has_watermark=self._has_watermark)
            self._report(progress, observed_values(record) if record["observedMetrics"] else {})

    def _report_backlog(self, fact: BacklogMoved) -> None:
        """Tell how far a sorted pass has come since something was told."""
        assert self._query is not None
        rows = 0
        if fact.stage in self._readers:  # what others read is no row of the sources
            rows = max(fact.snapshot["rowsRead"] - self._reported_rows.get(fact.stage, 0), 0)
            self._reported_rows[fact.stage] = self._reported_rows.get(fact.stage, 0) + rows
        known = {"id": self._query_id, "runId": self._query.run_id, "name": self._name, "batchId": self._epoch + 1}
        elapsed_ms = round((time.monotonic() - self._reported_s) * 1000)
        said = {**known, "timestamp": timestamp(), "sink": self._sink}
        self._report(backlog_progress(said, rows, elapsed_ms, fact.snapshot, has_watermark=self._has_watermark), {})

    def _report(self, progress: Mapping[str, Any], observed: Mapping[str, Mapping[str, Any]]) -> None:
        assert self._query is not None
        self._reported_s = time.monotonic()
        try:
            self._query.report(progress, observed)
        except GONE as error:
            logger.debug("Spark was not told of an epoch: %s", error)
