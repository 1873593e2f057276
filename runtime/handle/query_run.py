"""The run behind a query's handle: the thread that does it, who is told of it, and what has become of it."""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Callable
from contextvars import copy_context
from functools import partial

from ...errors import CheckpointError, QueryError, query_error
from ..catalyst.spark_session import activate
from ..checkpoints.corruption import explain_corruption
from ..checkpoints.lease.driver_lease import LocationLost
from ..connectors.sources.live_query import Stopped
from ..driver.requests.remote_requests import RequestFolder
from ..driver.run.runner import JobRunner
from ..driver.run.sigterm import SIGTERM
from ..jvm.job_cancellation import is_of_a_cancelled_job
from ..jvm.jvm_loss import links
from ..jvm.session_loss import explain_session_loss
from ..jvm.spark_errors import cause_first
from ..jvm.worker_errors import translate
from ..metrics.events.event_files import HistoryFolder
from ..metrics.events.event_reader import read_history
from ..metrics.events.events import RunEvent
from ..metrics.events.facts import FactListeners, RunFailed, RunStopped
from ..metrics.run_events import RunEvents
from ..metrics.run_history import RunHistory
from ..metrics.shown_run import ShownRun
from ..spec import JobSpec
from ..support.clean_up import take_all
from ..support.ids import RunId
from .active_names import ACTIVE_NAMES, Named

#: Spark's local property of the thread that starts a query: which of the scheduler's pools its jobs are in.
POOL = "spark.scheduler.pool"


class QueryRun:
    """A run of a job in a thread of its own; it begins once, and is closed once.

    Args:
        job: what runs.
        end_by_signal: ends it when the process is told to end.
    """

    def __init__(self, job: JobSpec, end_by_signal: Callable[[], None]) -> None:
        self.job = job
        self._end_by_signal = end_by_signal
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        location = job.checkpoint_location
        if location is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mixedmode-", ignore_cleanup_errors=True)
            location = self._temporary.name
        self.location = location
        #: What users know it by; Spark's, once Spark shows it.
        self.id = str(uuid.uuid4())
        self.history = RunHistory(self.id, job.name, job.sink_description)
        self._shown = ShownRun(
            job.spark,
            job.name,
            job.sink_description,
            has_watermark=any(stage.event_time is not None for stage in job.stages),
            readers={stage.uid for stage in job.readers},
            recent=lambda: self.history.recent,
            stopped=self._stopped_from_outside,
        )
        self.events = RunEvents(job, self.id)
        self._facts = FactListeners(self.history, self.events, self._shown)
        self.runner = JobRunner(job, location, RunId(self.id[:8]), self._facts)
        self.ended = threading.Event()
        #: Whether the job has come to its own end: nobody has stopped it.
        self.is_done = False
        self.error: BaseException | None = None
        #: Held by whoever has begun to close it.
        self._closing = threading.Lock()
        self._pool: str | None = None
        run = partial(copy_context().run, self._run)  # whoever starts it may have another clock
        self.thread = threading.Thread(target=run, name=f"mixedmode-{job.name or self.id[:8]}", daemon=True)

    @property
    def query_id(self) -> str:
        """The id of the query, a UUID: the same for all runs on one location."""
        assert self.runner.identity is not None, "start() has claimed the location"
        return self.runner.identity.query_id

    @property
    def label(self) -> str:
        """The query's name, or the id of the run."""
        return self.job.name or self.id

    @property
    def is_active(self) -> bool:
        """True until it is closed."""
        return not self.ended.is_set()

    @property
    def requests(self) -> RequestFolder | None:
        """Where other processes can ask for something; None: nobody can find a temporary location."""
        if self._temporary is not None:
            return None
        store = self.runner.context.store
        return RequestFolder(store.filesystem, store.root)

    def start(self, query: Named) -> None:
        """Claim the location and begin; ``query``: the handle.

        Raises:
            OptionError: another active query has its name.
            CheckpointError: another driver has the location.
        """
        self.runner.claim()
        try:
            self._begin(query)
        except BaseException as error:  # Ctrl-C, for one: nobody is to see a query, or find its place taken
            failed, live = error, self.runner.context.live
            take_all(
                self.runner.context.lease.release,
                lambda: SIGTERM.forget(self._end_by_signal),
                lambda: self._shown.end(failed),
                lambda: self.events.end(failed, was_stopped=False),
                *([] if live is None else [live.close]),
                self.ended.set,
            )
            raise
        self.thread.start()

    def _begin(self, query: Named) -> None:
        """The location is claimed: all who see the run are told of it."""
        ACTIVE_NAMES.take(query, self.job.spark)
        self._pool = self.job.spark.sparkContext.getLocalProperty(POOL)
        if self.runner.context.live is not None:
            self.runner.context.live.take_settings()  # not those that the session will have when the backlog is over
        run_id = self._shown.begin(self.query_id)
        if run_id is not None:
            self.id = self.history.run_id = self.events.run_id = run_id
        claim, store = self.runner.context.lease.claim, self.runner.context.store
        assert claim is not None, "the runner has claimed the location"
        location = None if self._temporary is not None else self.location
        self.events.begin(self.query_id, claim.generation, location, HistoryFolder(store.filesystem, store.root))
        if self.job.settings.stop_on_sigterm:
            SIGTERM.watch(self._end_by_signal, self.job.spark)

    def _run(self) -> None:
        try:
            activate(self.job.spark)
            self.job.spark.sparkContext.setLocalProperty(POOL, self._pool)  # type: ignore[arg-type]
            self.runner.run()
            events = [event.event for event in self.history.events]
            self.is_done = not self.runner.stopping.is_stopping and "stopped" not in events
        except Stopped:
            self._facts.on(RunStopped())
        except BaseException as error:
            stopping = self.runner.stopping
            if stopping.is_given_up or (stopping.is_stopping and self._is_cancellation(error)):
                self._facts.on(RunStopped(inside_epoch=True))
            else:
                self.error = self.explained(error)
                self._facts.on(RunFailed(self.error))
        finally:
            self._close()

    def abandon(self) -> None:
        """Nobody waits for its thread any more: the location is free, and all who see the run are told."""
        self.runner.stopping.leave()
        self._facts.on(RunStopped(inside_epoch=True))
        self._close()

    def _close(self) -> None:
        """Tell all who see the run that it has ended; once, for a run that was given up may come back after all."""
        if not self._closing.acquire(blocking=False):
            return
        # The lease again, for a run that has not even begun; whoever sees that it has ended may start the next one.
        take_all(
            self.runner.context.lease.release,
            lambda: self.events.end(self.error, was_stopped=self.runner.stopping.is_stopping),
            *([] if self._temporary is None else [self._temporary.cleanup]),
            lambda: self._shown.end(self.error),
            lambda: SIGTERM.forget(self._end_by_signal),
        )
        self.ended.set()

    def exception(self) -> QueryError | None:
        """What it has failed with; None: it has not."""
        if self.error is None:
            return None
        return query_error(f"query {self.label} failed: {cause_first(self.error)}", self.error)

    def check(self) -> None:
        """Raise what it has failed with, if it has."""
        error = self.exception()
        if error is not None:
            raise error

    def check_outside(self, asked: str) -> None:
        """Raise QueryError if a step of the job itself asks for what comes behind that step; ``asked`` in words."""
        if self.runner.stopping.is_inside:
            raise QueryError(
                f"{asked} in the query's own foreachBatch function would wait for itself",
                code="MIXEDMODE_WAITS_FOR_ITSELF",
            )

    def recorded(self, run: str | None = None, since_ms: int | None = None) -> list[RunEvent]:
        """The events of all runs on its location.

        Args:
            run: the id of one of them, or its beginning; None: all.
            since_ms: leave out events before this moment; None: all events.

        Raises:
            CheckpointError: the event log cannot be read.
        """
        self.events.flush()
        return list(read_history(self.location, run=run, since_ms=since_ms))

    def explained(self, error: BaseException) -> BaseException:
        """The error as its reader needs it."""
        return explain_corruption(explain_session_loss(translate(error), self.job.spark), self.runner.context.store)

    def _stopped_from_outside(self) -> None:
        """Somebody has stopped what Spark shows of the query, by ``spark.streams``."""
        try:
            self.runner.context.lease.find_out()
        except LocationLost:
            return  # it was the next run of the job, in this very process; ours ends by what it finds
        self.runner.stopping.stop()

    def _is_cancellation(self, error: BaseException) -> bool:
        """True for what Spark raises when the jobs of a query that is being stopped are cancelled.

        A checkpoint cancels its jobs when its time is up: that is a failure, also while the query is being stopped.
        """
        if any(isinstance(link, CheckpointError) for link in links(error)):
            return False
        return is_of_a_cancelled_job(error, self.job.spark)
