"""The handle of a running job; mirrors ``pyspark.sql.streaming.StreamingQuery``."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import uuid
from contextvars import copy_context
from functools import partial

from ..errors import CheckpointError, StopTimeoutError
from .catalyst.spark_session import activate
from .checkpoints.lease.driver_lease import LocationLost
from .checkpoints.savepoints.destination import savepoint_name
from .connectors.sources.live_query import Stopped
from .driver.requests.remote_requests import Request, RequestFolder, Requests
from .driver.run.preflight import check_places
from .driver.run.runner import JobRunner
from .driver.run.sigterm import SIGTERM
from .driver.run.start_settings import with_settings_of_now
from .handle.active_names import ACTIVE_NAMES
from .handle.rescale import RescalableQuery
from .jobs.worker_warmup import start_workers
from .jvm.job_cancellation import is_of_a_cancelled_job
from .jvm.jvm_loss import links
from .metrics.events.event_files import HistoryFolder
from .metrics.events.facts import FactListeners, RunFailed, RunStopped
from .metrics.run_events import RunEvents
from .metrics.run_history import RunHistory
from .metrics.shown_run import ShownRun
from .spec import JobSpec
from .support.clean_up import take_all
from .support.ids import RunId

logger = logging.getLogger(__name__)

#: Spark's local property of the thread that starts a query: which of the scheduler's pools its jobs are in.
POOL = "spark.scheduler.pool"


def start_query(job: JobSpec) -> MixedQuery:
    """Start a job; returns at once, unless a run elsewhere that may still live has to be waited for.

    Raises:
        OptionError: a folder that it was given cannot be used, or another active query has its name.
        CheckpointError: its checkpoint location, or the savepoint that it begins with, is not for this job, or another
            driver has the location.
    """
    if job.settings.start_workers:
        start_workers(job.spark)
    job = with_settings_of_now(job)
    check_places(job)
    query = MixedQuery(job)
    query._start()
    return query


class MixedQuery(RescalableQuery):
    """A running job: backlog first, then live.  Returned by ``start()``.

    For example:

        query = frame.writeStream.format("parquet").option("path", "out").start()
        query.wait_for("live", timeout=3600)
        query.stopWithSavepoint("savepoints/7")
    """

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        location = job.checkpoint_location
        if location is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mixedmode-", ignore_cleanup_errors=True)
            location = self._temporary.name
        self.runId = str(uuid.uuid4())
        self._history = RunHistory(self.runId, job.name, job.sink.describe())
        self._shown = ShownRun(
            job.spark,
            job.name,
            job.sink.describe(),
            has_watermark=any(stage.event_time is not None for stage in job.stages),
            readers={stage.uid for stage in job.readers},
            recent=lambda: self._history.recent,
            stopped=self._stopped_from_outside,
        )
        self._events = RunEvents(job, self.runId)
        self._facts = FactListeners(self._history, self._events, self._shown)
        self._location = location
        self._runner = JobRunner(job, location, RunId(self.runId[:8]), self._facts)
        self._ended = threading.Event()
        #: Whether the job has come to its own end: nobody has stopped it.
        self._is_done = False
        self._error: BaseException | None = None
        #: Held by whoever has begun to close the query.
        self._closing = threading.Lock()
        # Nobody can find a temporary location to ask there.
        self._requests = (
            Requests(
                RequestFolder(self._runner.context.store.filesystem, self._runner.context.store.root),
                self._runner.context.run_id,
                self._do,
            )
            if self._temporary is None and job.settings.remote_control == "on"
            else None
        )
        self._pool: str | None = None
        run = partial(copy_context().run, self._run)  # whoever starts it may have another clock
        self._thread = threading.Thread(target=run, name=f"mixedmode-{job.name or self.runId[:8]}", daemon=True)

    def _start(self) -> None:
        self._runner.claim()
        try:
            self._begin()
        except BaseException as error:  # Ctrl-C, for one: nobody is to see a query, or find its place taken
            failed, live = error, self._runner.context.live
            take_all(
                self._runner.context.lease.release,
                lambda: SIGTERM.forget(self._end_by_signal),
                lambda: self._shown.end(failed),
                lambda: self._events.end(failed, was_stopped=False),
                *([] if live is None else [live.close]),
                self._ended.set,
            )
            raise
        self._thread.start()
        if self._requests is not None:
            self._requests.watch(self._ended)
        elif self._temporary is None:
            store = self._runner.context.store
            RequestFolder(store.filesystem, store.root).turn_off(self._runner.context.lease.run_id)

    def _begin(self) -> None:
        """The location is claimed: all who see the run are told of it."""
        ACTIVE_NAMES.take(self, self._job.spark)
        self._pool = self._job.spark.sparkContext.getLocalProperty(POOL)
        if self._runner.context.live is not None:
            self._runner.context.live.take_settings()  # not those that the session will have when the backlog is over
        run_id = self._shown.begin(self.id)
        if run_id is not None:
            self.runId = self._history.run_id = self._events.run_id = run_id
        claim, store = self._runner.context.lease.claim, self._runner.context.store
        assert claim is not None, "the runner has claimed the location"
        location = None if self._temporary is not None else self._location
        self._events.begin(self.id, claim.generation, location, HistoryFolder(store.filesystem, store.root))
        if self._job.settings.stop_on_sigterm:
            SIGTERM.watch(self._end_by_signal, self._job.spark)

    def _do(self, request: Request) -> str | None:
        """Do what somebody asks from outside of this process; for a savepoint the end of a backlog is waited for.

        Returns:
            The path of the savepoint; None: it was not about one.
        """
        if request.action == "pause":
            self.pause()
        elif request.action == "resume":
            self.resume()
        elif request.action == "rescale":
            assert request.parallelism is not None, "the command line asks for a number"
            self.rescale(request.parallelism, request.stage, wait=True)
        elif request.path is None:
            self.stop()
            self._raise()
        elif request.action == "stop":
            return self.stopWithSavepoint(request.path, drain=request.drain, wait=True)
        else:
            return self.savepoint(request.path, wait=True)
        return None

    def _run(self) -> None:
        try:
            activate(self._job.spark)
            self._job.spark.sparkContext.setLocalProperty(POOL, self._pool)  # type: ignore[arg-type]
            self._runner.run()
            events = [event.event for event in self._history.events]
            self._is_done = not self._runner.stopping.is_stopping and "stopped" not in events
        except Stopped:
            self._facts.on(RunStopped())
        except BaseException as error:
            stopping = self._runner.stopping
            if stopping.is_given_up or (stopping.is_stopping and self._is_cancellation(error)):
                self._facts.on(RunStopped(inside_epoch=True))
            else:
                self._error = self._explained(error)
                self._facts.on(RunFailed(self._error))
        finally:
            self._close()

    def _close(self) -> None:
        """Tell all who see the run that it has ended; once, for a run that was given up may come back after all."""
        if not self._closing.acquire(blocking=False):
            return
        # The lease again, for a run that has not even begun; whoever sees that it has ended may start the next one.
        take_all(
            self._runner.context.lease.release,
            lambda: self._events.end(self._error, was_stopped=self._runner.stopping.is_stopping),
            *([] if self._temporary is None else [self._temporary.cleanup]),
            lambda: self._shown.end(self._error),
            lambda: SIGTERM.forget(self._end_by_signal),
        )
        self._ended.set()

    def _end_by_signal(self) -> None:
        """End as a process does that is told to: with a savepoint if there is a place and a state for it."""
        folder = self._job.settings.savepoint_on_sigterm
        logger.info("query %s ends: SIGTERM", self.name or self.runId)
        if folder is not None and self._job.keeps_state:
            try:
                path = self.stopWithSavepoint(f"{folder.rstrip('/')}/{savepoint_name(self.name or self.id)}")
                logger.info("query %s has ended with the savepoint %s", self.name or self.runId, path)
                return
            except Exception as error:  # whatever it is, a store that refuses for one: the query ends
                logger.warning("query %s ends without a savepoint: %s", self.name or self.runId, error)
        with contextlib.suppress(StopTimeoutError):  # it is logged
            self.stop()

    def _stopped_from_outside(self) -> None:
        """Somebody has stopped what Spark shows of the query, by ``spark.streams``."""
        try:
            self._runner.context.lease.find_out()
        except LocationLost:
            return  # it was the next run of the job, in this very process; ours ends by what it finds
        self._runner.stopping.stop()

    def _is_cancellation(self, error: BaseException) -> bool:
        """True for what Spark raises when the jobs of a query that is being stopped are cancelled.

        A checkpoint cancels its jobs when its time is up: that is a failure, also while the query is being stopped.
        """
        if any(isinstance(link, CheckpointError) for link in links(error)):
            return False
        return is_of_a_cancelled_job(error, self._job.spark)
