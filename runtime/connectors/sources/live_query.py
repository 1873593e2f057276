"""The live source's Structured Streaming query: it supplies micro-batches and positions, we do the rest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from ....errors import QueryError
from ...catalyst.prepared.batch_calls import handing_over
from ...catalyst.prepared.micro_batch import AlikeFrames, handed_over
from ...catalyst.spark_session import keep_to_df, to_df
from ...jvm.spark_errors import what_happened
from ...spark_io.query_log_writes import started
from ...spark_io.shown_query import LIVE_SOURCE, HiddenSession, stop_query
from ...spark_io.source_cleaners import FileCleaner, take_cleaners
from ...spark_io.spark_sources import PlannedSource, log_numbers, sources
from ...support.failpoints import failpoint
from ...support.ids import BatchId
from .live_sources import LiveSourceFacts, cleans_files

#: Options by which a source limits a micro-batch; with one of them AvailableNow takes several.
_RATE_LIMITS = frozenset(
    name.lower()
    for name in (
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxRecordsPerTrigger",
    )
)

#: How often a micro-batch that waits for its turn looks whether it is still wanted.
_LOOK_EVERY_S = 0.1

#: How the message of a query's status begins when it has looked at its sources, and has no micro-batch in hand.
_HAS_LOOKED = "Waiting for"

#: How Spark's log says that a source has given nothing yet.
_NO_OFFSET = "-"

OnBatch = Callable[["DataFrame", BatchId], None]


class Stopped(Exception):
    """Raised inside a phase when the user asked to stop; never reaches the user."""


class BatchNotTaken(Exception):
    """Tells Spark that a micro-batch was not processed; the reason is kept in :class:`LiveSource`."""


def _is_news(record: logging.LogRecord) -> bool:
    """False for what Py4J logs of it, with a trace that names no cause."""
    return record.exc_info is None or record.exc_info[0] is not BatchNotTaken


class LiveSource:
    """Runs the one Structured Streaming query of a job, now with AvailableNow, later with a processing-time trigger.

    Args:
        frame: the user's streaming DataFrame.
        narrowed: gives the same with nulls in columns that nobody looks at; asked once, when it is first needed.
        checkpoint: Spark's checkpoint folder for it, as a URI; the same for every trigger, so the hand-over between
            two triggers is at an exact offset.
        name: name of the job.
        turn: lock under which micro-batches are handed over.
        stopping: set when the job is to stop; a waiting micro-batch is then refused.
    """

    def __init__(
        self,
        frame: DataFrame,
        narrowed: Callable[[], DataFrame],
        checkpoint: str,
        name: str | None,
        turn: threading.RLock,
        stopping: threading.Event,
    ) -> None:
        self._frame = frame
        self._narrowed = narrowed
        #: Where Spark keeps the query's log; known for good when the run has claimed its location.
        self.checkpoint = checkpoint
        self._name = name
        self._turn = turn
        self._stopping = stopping
        self._error: BaseException | None = None
        self._refusing = False
        #: Whether the query has looked at the source since it was started.
        self._has_looked = False
        self._hidden: HiddenSession | None = None
        self.query: StreamingQuery | None = None
        #: What takes files away that its sources have read, by their numbers in Spark's log.
        self.cleaners: Mapping[int, FileCleaner] = {}
        #: Set when Spark does not clean up any more: no micro-batch is taken before.
        self._has_cleaners = threading.Event()
        self._has_cleaners.set()
        #: The thread that is handing over a micro-batch now; None: nobody is.
        self.thread_id: int | None = None

    @cached_property
    def cleans(self) -> bool:
        """True if files are to be taken away when they have been read."""
        return cleans_files(self._frame)

    @cached_property
    def _read(self) -> DataFrame:
        """What the query reads."""
        return self._narrowed()

    @property
    def failed(self) -> bool:
        """True if handing over a micro-batch raised."""
        return self._error is not None

    @property
    def is_drained(self) -> bool:
        """True if the query has found nothing more when it last looked at the source; before it has looked, False."""
        if self.query is None:
            return False
        status = self.query.status
        self._has_looked |= status["isDataAvailable"] or status["message"].startswith(_HAS_LOOKED)
        return self._has_looked and not status["isDataAvailable"] and self.query.isActive

    @property
    def is_looking(self) -> bool:
        """True if the query's trigger does not have it wait now."""
        return self.query is not None and self.query.isActive and bool(self.query.status["isTriggerActive"])

    def stated_entry(self, facts: Sequence[LiveSourceFacts]) -> str | None:
        """Spark's entry of a position at which the sources were told to begin; None: none was.

        Args:
            facts: about each of them, in the order of the frame.
        """
        if all(one.first_offset is None for one in facts):
            return None
        first_offsets = {number: one.first_offset for number, one in zip(log_numbers(self._frame), facts, strict=True)}
        offsets = [first_offsets[number] or _NO_OFFSET for number in sorted(first_offsets)]
        return "\n".join(["v1", '{"batchWatermarkMs":0,"batchTimestampMs":0}', *offsets])

    def take_settings(self) -> None:
        """Have the query run with the settings that its session has now, whenever it is started."""
        if self._hidden is None:
            self._hidden = HiddenSession(self._frame.sparkSession)

    def close(self) -> None:
        """The query is not started any more."""
        if self._hidden is not None:
            self._hidden.close()

    def start(
        self,
        on_batch: OnBatch,
        trigger: dict[str, Any],
        *,
        waits: Callable[[], bool] = lambda: False,
        whole: bool = False,
    ) -> StreamingQuery:
        """Start the query, or go on with it where it was.

        Args:
            on_batch: takes the micro-batches.
            trigger: Spark's.
            waits: asked before each of them whether it has to wait.
            whole: they have all columns.
        """
        self._error, self._refusing, self._has_looked = None, False, False
        logging.getLogger("py4j.clientserver").addFilter(_is_news)  # once: it is the same one
        self.take_settings()
        assert self._hidden is not None
        rows = self._hidden.adopt(self._frame if whole else self._read)
        writer = handing_over(rows.writeStream, self._hidden.session, self._guarded(on_batch, waits)).trigger(**trigger)
        writer = writer.option("checkpointLocation", self.checkpoint)
        # It is seen in descriptions of Spark jobs and in Spark's log, where nobody is to take it for the job.
        writer = writer.queryName(f"{self._name or 'mixedmode'} {LIVE_SOURCE}")
        sessions = [self._frame.sparkSession, self._hidden.session]
        self._has_cleaners.clear()
        try:
            self.query = started(writer, sessions, self.checkpoint)
            if self.cleans:
                self.cleaners = take_cleaners(self._hidden.session, self.query)
        except BaseException:
            self.refuse()
            raise
        finally:
            self._has_cleaners.set()
        if self._stopping.is_set():
            self.stop()
        return self.query

    def _guarded(self, on_batch: OnBatch, waits: Callable[[], bool]) -> OnBatch:
        context = copy_context()  # Spark calls on a thread of its own
        to_frames, alike = to_df(), AlikeFrames()

        def take(batch: DataFrame, batch_id: BatchId) -> None:
            assert self._hidden is not None
            with handed_over(batch, self._hidden.session):
                alike.add(batch)
                on_batch(batch, batch_id)

        def has_turn() -> bool:
            """Take the turn; not while micro-batches have to wait."""
            if not self._turn.acquire(timeout=_LOOK_EVERY_S):
                return False
            if self._refuses or not waits():
                return True
            self._turn.release()
            self._stopping.wait(_LOOK_EVERY_S)
            return False

        def run(batch: DataFrame, batch_id: BatchId) -> None:
            keep_to_df(to_frames)  # PySpark has just made a session for the batch
            self._has_cleaners.wait()
            try:
                # Never block for good: whoever stops the query may hold the lock and wait for this very call.
                while not has_turn():
                    if self._refuses:
                        return
                try:
                    if self._refuses:
                        return
                    self.thread_id = threading.get_ident()
                    context.copy().run(take, batch, batch_id)
                except BaseException as error:
                    # Before the turn ends: nobody may go on from, or checkpoint, what this has left half done.
                    self._error = error
                    raise
                finally:
                    self.thread_id = None
                    self._turn.release()
            except BaseException as error:
                # All that Spark must know is that the batch failed.  It matches the whole text of what it gets against
                # an expression that overflows its stack on long ones, such as those with a Java stack trace.
                raise BatchNotTaken(type(error).__name__) from None
            failpoint("batch-before-spark-commit")

        return run

    @property
    def _refuses(self) -> bool:
        """True if no micro-batch is taken any more.

        Spark may then log the batch as done although nobody has looked at it; that is harmless, since every start
        rewinds its log to our last checkpoint.  Raising instead would make Spark log the stop as a failure.
        """
        return self._refusing or self._stopping.is_set()

    def refuse(self) -> None:
        """Take no further micro-batch: the query is about to be stopped."""
        self._refusing = True

    @contextmanager
    def refusing_after_failure(self) -> Iterator[None]:
        """Within a turn: if the step fails, no micro-batch gets a turn on what it has left half done."""
        try:
            yield
        except BaseException:
            self.refuse()
            raise

    def drain(self, on_batch: OnBatch, *, at_once: bool = False, whole: bool = False) -> None:
        """Take everything that the source holds now; returns when all was handed over.

        Args:
            on_batch: takes the micro-batches: as many as the source's rate limit makes (``Trigger.AvailableNow``).
            at_once: one micro-batch, whatever the limit (``Trigger.Once``).
            whole: they have all columns.

        Raises:
            QueryError: Spark's query has failed.
            Stopped: the job is to stop.
        """
        query = self.start(on_batch, {"once": True} if at_once else {"availableNow": True}, whole=whole)
        try:
            query.awaitTermination()
        except Exception as error:
            if self._error is None and not self._stopping.is_set():
                raise self._failure(error) from error
        if self._stopping.is_set():
            raise Stopped
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what ended the query, if it did not end because it was told to."""
        if isinstance(self._error, Stopped):
            return
        if self._error is not None:
            raise self._error
        error = None if self.query is None or self._stopping.is_set() else self.query.exception()
        if error is not None:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> QueryError:
        """What Spark says of its own query, which does not name the folder that it writes to."""
        return QueryError(f"{what_happened(error)}\nin Spark's query of the live input, whose log is {self.checkpoint}")

    def stop(self) -> None:
        """Stop the query if it runs."""
        if self.query is not None and self.query.isActive:
            stop_query(self._frame.sparkSession, self.query)


def delivers_one_batch(live: DataFrame) -> bool:
    """True if ``Trigger.AvailableNow`` is known to take everything that waits in one micro-batch.

    That holds for Spark's file sources and for Kafka, without a rate limit.  Of other sources it is not known, so
    False: the final watermark then comes in a pass of its own after the last micro-batch.
    """
    found = sources(live)
    return bool(found) and all(map(_gives_all_at_once, found))


def has_file_limits(live: DataFrame) -> bool:
    """True if limits of a file source cut what waits into micro-batches, of which each has later files."""
    found = [source for source in sources(live) if source.name.startswith("FileSource")]
    return any(_RATE_LIMITS & source.options.keys() for source in found)


def _gives_all_at_once(source: PlannedSource) -> bool:
    is_known = (source.kind, source.name) == ("StreamingRelationV2", "kafka") or (
        source.kind == "StreamingRelation" and source.name.startswith("FileSource")
    )
    return is_known and not _RATE_LIMITS & source.options.keys()
