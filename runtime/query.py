"""The handle of a running job; mirrors ``pyspark.sql.streaming.StreamingQuery``."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
import uuid
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from ..errors import CheckpointError, MixedModeError, QueryError
from .checkpoints.damage import explain_corruption
from .checkpoints.lease.driver_lease import LocationLost
from .checkpoints.savepoints.destination import savepoint_name
from .checkpoints.savepoints.queue import SavepointRequest
from .connectors.sources.live_query import Stopped
from .driver.preflight import check_places
from .driver.remote_requests import Request, RequestFolder, Requests
from .driver.runner import JobRunner
from .driver.sigterm import SIGTERM
from .handle.rescale import RescaledQuery
from .metrics.event_files import HistoryFolder
from .metrics.event_reader import read_history
from .metrics.events import RunEvent
from .metrics.history import RunHistory
from .metrics.lifecycle import Lifecycle
from .metrics.listeners import RunFailed, RunStopped, ToldTogether
from .metrics.progress import QueryProgress
from .metrics.run_events import RunEvents
from .metrics.shown_run import ShownRun
from .platform.cells import bar_html, facts_html
from .platform.clean_up import take_all
from .platform.filesystem import path_text
from .platform.frozen import FrozenDict
from .platform.job_cancellation import is_of_a_cancelled_job
from .platform.jvm_loss import explain_jvm_loss, links
from .platform.spark_session import activate
from .platform.terminal import print_plan
from .platform.worker_errors import translate
from .protocols.lifecycle.events import Stop
from .spec import JobSpec, PhaseKind
from .tasks.first_workers import start_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import Console

logger = logging.getLogger(__name__)

#: Spark's local property of the thread that starts a query: which of the scheduler's pools its jobs are in.
POOL = "spark.scheduler.pool"

#: How long ``awaitTermination`` waits at a time.
_LONGEST_WAIT_S = 1.0


def start_query(job: JobSpec) -> MixedQuery:
    """Start a job; returns at once, unless a run elsewhere that may still live has to be waited for.

    Raises:
        OptionError: a folder that it was given cannot be used.
        CheckpointError: its checkpoint location, or the savepoint that it begins with, is not for this job, or another
            driver has the location.
    """
    if job.settings.start_workers:
        start_workers(job.spark)
    check_places(job)
    query = MixedQuery(job)
    query._start()
    return query


class MixedQuery(RescaledQuery):
    """A job that runs: backlog first, then live.

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
        self._told = ToldTogether(self._history, self._events, self._shown)
        self._location = location
        self._runner = JobRunner(job, location, self.runId[:8], self._told)
        self._ended = threading.Event()
        #: Whether the job has come to its own end: nobody has stopped it.
        self._is_done = False
        self._error: BaseException | None = None
        # Nobody can find a temporary location to ask there.
        self._requests = (
            Requests(RequestFolder(self._runner.store.filesystem, self._runner.store.root), self.runId[:8], self._do)
            if self._temporary is None
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
            failed = error
            take_all(
                self._runner.lease.release,
                lambda: SIGTERM.forget(self._end_by_signal),
                lambda: self._shown.end(failed),
                lambda: self._events.end(failed, was_stopped=False),
                self._ended.set,
            )
            raise
        self._thread.start()
        if self._requests is not None:
            self._requests.watch(self._ended)

    def _begin(self) -> None:
        """The location is claimed: all who see the run are told of it."""
        self._pool = self._job.spark.sparkContext.getLocalProperty(POOL)
        run_id = self._shown.begin(self.id)
        if run_id is not None:
            self.runId = self._history.run_id = self._events.run_id = run_id
        claim, store = self._runner.lease.claim, self._runner.store
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
            told = [event.event for event in self._history.events]
            self._is_done = not self._runner.is_stopping and "stopped" not in told
        except Stopped:
            self._told.on(RunStopped())
        except BaseException as error:
            if self._runner.is_stopping and self._is_cancellation(error):
                self._told.on(RunStopped(inside_epoch=True))
            else:
                self._error = self._explained(error)
                self._told.on(RunFailed(self._error))
        finally:
            # Again, for a run that has not even begun; whoever sees that it has ended may start the next one.
            take_all(
                self._runner.lease.release,
                lambda: self._events.end(self._error, was_stopped=self._runner.is_stopping),
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
        self.stop()

    def _stopped_from_outside(self) -> None:
        """Somebody has stopped what Spark shows of the query, by ``spark.streams``."""
        try:
            self._runner.lease.find_out()
        except LocationLost:
            return  # it was the next run of the job, in this very process; ours ends by what it finds
        self._runner.stop()

    def _is_cancellation(self, error: BaseException) -> bool:
        """True for what Spark raises when the jobs of a query that is being stopped are cancelled.

        A checkpoint cancels its jobs when its time is up: that is a failure, also while the query is being stopped.
        """
        if any(isinstance(link, CheckpointError) for link in links(error)):
            return False
        return is_of_a_cancelled_job(error, self._job.spark)

    def _explained(self, error: BaseException) -> BaseException:
        """The error as its reader needs it."""
        return explain_corruption(explain_jvm_loss(translate(error), self._job.spark), self._runner.store)

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Id of the query, a UUID: the same over restarts from one checkpointLocation."""
        assert self._runner.identity is not None, "start() has claimed the location"
        return self._runner.identity.query_id

    @property
    def name(self) -> str | None:
        """The name given with ``queryName``."""
        return self._job.name

    @property
    def isActive(self) -> bool:
        """True while the query runs."""
        return not self._ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing now; in a backlog with rows so far, rows/s, ETA and shards done.

        ``phase`` is ``done`` when the job has come to its own end; ``mode`` is the phase's, as in progress records:
        ``backlog`` or ``streaming``; ``shards`` the number of shards of each stage.
        """
        now = self._runner.now
        phase, active = now.phase, self.isActive
        kind = phase.kind if phase is not None else "recovery"
        stands = active and self._runner.pause.stands
        running_in = f"{kind} (paused)" if stands else f"{kind}"
        status: dict[str, Any] = {
            "message": running_in if active else ("Failed" if self._error else "Stopped"),
            "isDataAvailable": active and kind in ("backlog", "history", "catch-up"),
            "isTriggerActive": active and kind != "live" and not stands,
            "isPaused": stands,
            "phase": "done" if self._is_done else kind,
            "mode": phase.mode if phase is not None else None,
            "isBacklog": now.is_backlog,
            "epoch": now.epoch,
            "checkpoint": now.checkpoint_id,
            "shards": dict(now.parallelism),
        }
        if active and phase is not None and phase.style == "sorted":
            status["backlog"] = self._runner.backlog.snapshot()
        running = self._runner.running
        events = None if running is None else running.events.counts
        if events is not None:
            status["coordinator"] = events
        return status

    @property
    def lastProgress(self) -> QueryProgress | None:
        """The last finished epoch; None before the first."""
        recent = self._history.recent
        return recent[-1] if recent else None

    @property
    def recentProgress(self) -> list[QueryProgress]:
        """The last 100 finished epochs, oldest first."""
        return self._history.recent

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """The last 100 checkpoints that this run has completed, oldest first."""
        return [FrozenDict(report.to_json()) for report in self._history.checkpoints]

    @property
    def lateRows(self) -> DataFrame:
        """Rows that came too late, with the watermark they were behind, up to the last complete checkpoint.

        Raises:
            QueryError: the query drops late rows, since ``pipeline.late-data.path`` is unset; or it has several stages,
                whose rows have columns of their own (:meth:`lateRowsOf`).
        """
        uids = [stage.uid for stage in self._job.stages]
        if self._job.late_rows is not None and len(uids) > 1:
            raise QueryError(
                f"late rows are kept by stage, as stages take rows of other columns: use lateRowsOf({uids[0]!r}), or"
                f" of {' or '.join(map(repr, uids[1:]))}"
            )
        return self.lateRowsOf(uids[0])

    def lateRowsOf(self, uid: str) -> DataFrame:
        """As :attr:`lateRows`, of one of several stages: the rows that were late there, as they came to it.

        Args:
            uid: the stage's id, as ``explain()`` shows it.

        Raises:
            QueryError: the query drops late rows, or it has no such stage.
        """
        uids = [stage.uid for stage in self._job.stages]
        if self._job.late_rows is None:
            raise QueryError("late rows of this query are dropped; set pipeline.late-data.path to keep them")
        if uid not in uids:
            raise QueryError(f"the query has no stage {uid!r}; its stages are {', '.join(uids)}")
        try:
            return self._job.late_rows.committed(self._job.spark, uid)
        except Exception as error:
            raise QueryError(f"late rows cannot be read: {self._explained(error)}") from error

    @property
    def lifecycle(self) -> Lifecycle:
        """What happened in this run, in order: phases, switch, checkpoints, end.

        Prints as a table of the event history of each task: sources, shards of the keyed stage, sink.
        """
        running = self._runner.running
        return Lifecycle(self._history.events, [] if running is None else running.tasks.lifecycle.events)

    def history(self, run: str | None = None, since_ms: int | None = None) -> list[RunEvent]:
        """What all runs on the query's ``checkpointLocation`` have told, oldest first; also what other processes have.

        It is read from the event log below the location (``mixedmode history`` prints the same).  Of what came often
        there is a line a second, and less of what is long ago.

        Args:
            run: id of one run, or how it begins; None: all runs.
            since_ms: events before this moment (ms since 1970) are left out; None: none is.

        Raises:
            CheckpointError: it cannot be read.
        """
        self._events.flush()
        return list(read_history(self._location, run=run, since_ms=since_ms))

    def explain(self, extended: bool = False) -> None:
        """Print the plan that this query executes, with the reason for each decision.

        Args:
            extended: with how each phase works, all settings, and Spark's plans of the inputs.
        """
        print_plan(self._job.explain(extended))

    def exception(self) -> QueryError | None:
        """Why the query failed; None if it runs or ended well."""
        if self._error is None:
            return None
        code = self._error.code if isinstance(self._error, MixedModeError) else None
        error = QueryError(f"query {self.name or self.runId} failed: {self._error}", code=code)
        error.__cause__ = self._error
        return error

    # -- waiting and ending ------------------------------------------------------------------------------------------

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends.

        Args:
            timeout: seconds to wait; None: for ever.

        Returns:
            With a timeout, whether the query has ended; without, None (as in PySpark).

        Raises:
            QueryError: the query failed.
        """
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be greater than 0 seconds, got {timeout}")
        deadline = None if timeout is None else time.monotonic() + timeout
        ended = self._ended.is_set()
        while not ended and (deadline is None or time.monotonic() < deadline):
            # Python handles signals in the main thread, which one that another thread has got does not wake.
            nap_s = _LONGEST_WAIT_S if deadline is None else min(_LONGEST_WAIT_S, deadline - time.monotonic())
            ended = self._ended.wait(max(nap_s, 0))
        if ended:
            self._raise()
        return None if timeout is None else ended

    def watch(
        self, until: PhaseKind | None = None, timeout: float | None = None, console: Console | None = None
    ) -> bool:
        """Show what the query does until it ends: a bar of its backlog, then a table of its stream.

        In a terminal and in a notebook the same place is drawn anew, elsewhere a line is written every few seconds, and
        for what happens.  ``mixedmode watch LOCATION`` shows the same from another process.  Ctrl-C ends the watching
        (``KeyboardInterrupt``), and leaves the query alone in a notebook; in a script PySpark's own handler of it has
        cancelled the Spark jobs in hand before, and so ended the query if it had any.

        Args:
            until: a phase ("live", …) at whose beginning to return; None: watch until the query has ended.
            timeout: seconds to watch; None: for ever.
            console: where to show it; None: standard output.

        Returns:
            Whether the query has ended, or reached that phase.

        Raises:
            QueryError: the query failed.
            ValueError: no query has such a phase.
        """
        if until is not None:
            _check_phase("watch", until)
        from rich.console import Console

        from .metrics.watch.faces import face_for
        from .metrics.watch.feed import Feed
        from .metrics.watch.watcher import Watcher, watch

        feed = Feed(self.runId, lambda: self.history(self.runId))
        try:
            watcher = Watcher(feed, face_for(console or Console(highlight=False)))
            done = watch(watcher, lambda: self.isActive, until=until, timeout_s=timeout, nap=self._ended.wait)
        finally:
            feed.close()
        if not self.isActive:
            self._raise()
        return done

    def processAllAvailable(self) -> None:
        """Wait until everything that the sources hold now is processed and visible in the sink (for tests).

        Raises:
            QueryError: the query failed, or is paused.
        """
        if self._runner.is_inside:
            raise QueryError(
                "processAllAvailable() in the query's own foreachBatch function would wait for itself",
                code="MIXEDMODE_WAITS_FOR_ITSELF",
            )
        while self.isActive:
            if self._runner.pause.is_wanted:
                raise QueryError("processAllAvailable() would wait for resume(): the query is paused")
            phase, live = self._runner.now.phase, self._runner.live
            source = live.query if live is not None and phase is not None and phase.finishes_its_epoch else None
            try:
                if source is not None and source.isActive:
                    source.processAllAvailable()
                    if not self._runner.ask_commit().result():
                        self._ended.wait()  # it has failed, or somebody stops it, which takes a checkpoint
                    break
            except Exception:
                self._ended.wait()  # the query is failing: its own error says more
                break
            self._ended.wait(0.05)
        if not self.isActive:
            self._raise()

    def stop(self) -> None:
        """Stop the query and wait for its end.

        In the live phase the epoch in hand is finished and a checkpoint is taken: all processed rows are visible.
        A backlog that is stopped leaves nothing and starts again from its beginning.  Called from the query's own
        ``foreachBatch`` function it returns at once, and the query ends after that function.
        """
        if not self._ended.is_set():
            self._runner.stop()
            if not self._runner.is_inside:
                self._thread.join()

    def pause(self) -> None:
        """Begin no further epoch; returns when the query stands still.

        The epoch in hand is finished and a checkpoint is taken: all processed rows are visible, nothing is pending.
        The query keeps its state, its place in the sources, and its checkpointLocation; :meth:`resume` has it go on.
        Meanwhile :meth:`savepoint`, :meth:`stopWithSavepoint` and :meth:`stop` work.  In a backlog at batch speed the
        shards in hand are finished and kept; there is no checkpoint before its end.

        Processing time goes on: its timers that become due in a pause, and state whose time to live ends in it, wait
        for its end.  For ``pipeline.watermark.idle-timeout`` it does not.  A query that is started again is not paused.

        Raises:
            QueryError: the query has ended, or is resumed or ends before it stands still.
        """
        if self._runner.is_inside:
            raise QueryError("pause() in the query's own foreachBatch function would wait for itself")
        self._runner.ask_pause().result()

    def resume(self) -> None:
        """Go on after :meth:`pause`; nothing happens if the query is not paused.

        Raises:
            QueryError: the query has ended.
        """
        self._runner.resume()

    def savepoint(self, path: str | os.PathLike[str], wait: bool = False) -> str:
        """Take a savepoint, and go on; returns its path when it is complete.

        It holds what was processed before it was taken up; the query goes on while the files are copied, and does not
        end before they are.

        Args:
            path: a folder that is empty or does not exist, local or a URI.
            wait: in a backlog without checkpoints (``execution.interval-during-backlog`` is 0) wait for the switch;
                False: that is an error.

        Raises:
            OptionError: it is no path.
            CheckpointError: there is something at the path.
            QueryError: it cannot be taken now, or failed; the query goes on.
        """
        return self._savepoint(SavepointRequest(path_text("path of savepoint()", path), wait=wait))

    def stopWithSavepoint(self, path: str | os.PathLike[str], drain: bool = False, wait: bool = False) -> str:
        """End the query with a savepoint; returns its path when it is complete and the query has ended.

        Args:
            path: a folder that is empty or does not exist, local or a URI.
            drain: first fire all event-time timers and open windows, as at the end of input, and finish the operators:
                for a job that is to end for good.  Without it nothing fires, and a job that goes on from the savepoint
                gives what an undisturbed one would.
            wait: as for :meth:`savepoint`.

        Raises:
            OptionError: it is no path.
            CheckpointError: there is something at the path, or it cannot be written to; the query goes on.
            QueryError: it cannot be taken now (the query goes on), or it failed (and the query with it: nothing of it
                is visible, and the next start goes on from the last checkpoint as if it had not been asked for; unless
                its checkpoint is complete, which the message says: then the next start writes the savepoint first).
        """
        place = path_text("path of stopWithSavepoint()", path)
        found = self._savepoint(SavepointRequest(place, Stop.DRAIN if drain else Stop.SUSPEND, wait))
        self._thread.join()
        self._raise()
        return found

    def _savepoint(self, request: SavepointRequest) -> str:
        if self._runner.is_inside:
            raise QueryError(
                f"a {request} from the query's own foreachBatch function would wait for itself",
                code="MIXEDMODE_WAITS_FOR_ITSELF",
            )
        self._runner.ask_savepoint(request)
        return request.answer.result()

    def _raise(self) -> None:
        error = self.exception()
        if error is not None:
            raise error

    def __repr__(self) -> str:
        return f"<MixedQuery {self.name or self.runId} {self.status['message']}>"

    def _repr_html_(self) -> str:
        status, last = self.status, self.lastProgress
        facts: list[tuple[str, object]] = [
            ("id", self.id),
            ("run", self.runId),
            ("is", status["message"] if self.isActive or not self._is_done else "done"),
            ("epoch", status["epoch"]),
            ("checkpoint", status["checkpoint"] or "none yet"),
        ]
        backlog = status.get("backlog")
        if backlog is not None and backlog["fraction"] is not None:
            facts.append(("backlog", bar_html(backlog["fraction"])))
        if last is not None:
            rows, per_second = last["numInputRows"], last["processedRowsPerSecond"]
            facts.append(("last epoch", f"{rows:,} rows in {last['batchDuration']:,} ms ({per_second:,.0f} rows/s)"))
            if "watermark" in last["eventTime"]:
                facts.append(("watermark", last["eventTime"]["watermark"]))
        if self._error is not None:
            facts.append(("error", f"{type(self._error).__name__}: {self._error}"))
        return facts_html(f"MixedQuery {self.name or ''}".rstrip(), facts)

    def wait_for(self, phase: str, timeout: float) -> bool:
        """Wait until the query has reached a phase or has ended; True if it was reached.

        Args:
            phase: its name, as :meth:`explain` prints it ("backlog", "switch", "live", …).
            timeout: seconds to wait.

        Raises:
            ValueError: no query has such a phase.
        """
        if phase == "recovery":
            return True  # each run begins in it
        _check_phase("wait_for", phase)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if phase in self._history.phases:
                return True
            if self._ended.wait(0.02):
                return phase in self._history.phases
        return False


def _check_phase(method: str, phase: str) -> None:
    if phase not in get_args(PhaseKind):
        names = ", ".join(("recovery", *get_args(PhaseKind)))
        raise ValueError(f"phase of {method}() is {phase!r}; the phases are {names}")
