"""The part of a query's handle that reports on the query: identity, status, progress, events, errors."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from ...errors import QueryError
from ..jvm.spark_errors import what_happened
from ..metrics.epoch_records import checkpoint_entry
from ..metrics.events.events import RunEvent
from ..metrics.lifecycle import Lifecycle
from ..metrics.progress import QueryProgress
from ..support.frozen_collections import FrozenDict
from ..support.notebook_html import bar_html, facts_html
from ..support.terminal import print_plan
from .query_run import QueryRun


class QueryStatus(dict[str, Any]):
    """A dictionary of what a query is doing; in a notebook a table, with a bar for the progress of a backlog."""

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = []
        for name, value in self.items():
            if name == "backlog" and value.get("fraction") is not None:
                facts.append((name, bar_html(value["fraction"])))
            if not isinstance(value, dict):
                facts.append((name, value))
            else:
                facts.append((name, ", ".join(f"{key}: {entry}" for key, entry in value.items())))
        return facts_html("status", facts)


class MonitoredQuery:
    """A query that describes itself."""

    _run: QueryRun

    @property
    def id(self) -> str:
        """The id of the query, a UUID: the same for all runs on one checkpointLocation: ``query.id``."""
        return self._run.query_id

    @property
    def runId(self) -> str:
        """The id of this run, a UUID: another one after each start: ``query.runId``."""
        return self._run.id

    @property
    def name(self) -> str | None:
        """The name set with ``queryName``: ``query.name``."""
        return self._run.job.name

    @property
    def isActive(self) -> bool:
        """True while the query runs: ``query.isActive``."""
        return self._run.is_active

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing now, as a dictionary; during a backlog with its progress and ETA.

            query.status["phase"]

        ``phase`` is ``done`` when the job has come to its own end; ``mode`` is that of the phase: ``backlog`` (sorted
        by key) or ``streaming``; ``shards`` has the number of shards of each stage; ``realTime`` says in Real-Time Mode
        how far the epoch is that runs, and how fast its rows are.
        """
        now = self._run.runner.context.published.now
        phase, active = now.phase, self.isActive
        kind = phase.kind if phase is not None else "recovery"
        stands = active and self._run.runner.context.pause.stands
        running_in = f"{kind} (paused)" if stands else f"{kind}"
        status = QueryStatus(
            {
                "message": running_in if active else ("Failed" if self._run.error else "Stopped"),
                "isDataAvailable": active and kind in ("backlog", "history", "catch-up"),
                "isTriggerActive": active and kind != "live" and not stands,
                "isPaused": stands,
                "phase": "done" if self._run.is_done else kind,
                "mode": phase.mode if phase is not None else None,
                "isBacklog": now.is_backlog,
                "epoch": now.epoch,
                "checkpoint": now.checkpoint_id,
                "shards": dict(now.parallelism),
            }
        )
        if active and phase is not None and phase.style == "sorted":
            status["backlog"] = self._run.runner.context.backlog.snapshot()
        real_time = self._run.runner.context.published.real_time
        if active and real_time is not None and real_time.epoch > now.epoch:
            status["realTime"] = real_time.by_name()
        running = self._run.runner.running
        events = None if running is None else running.events.counts
        if events is not None:
            status["coordinator"] = events
        return status

    @property
    def lastProgress(self) -> QueryProgress | None:
        """The last finished epoch; None before the first: ``query.lastProgress.numInputRows``."""
        recent = self._run.history.recent
        return recent[-1] if recent else None

    @property
    def recentProgress(self) -> list[QueryProgress]:
        """The last 100 finished epochs, oldest first: ``[epoch.batchDuration for epoch in query.recentProgress]``."""
        return self._run.history.recent

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """The last 100 checkpoints that this run has completed, oldest first: ``query.checkpoints[-1]``."""
        return [FrozenDict(checkpoint_entry(one)) for one in self._run.history.checkpoints]

    @property
    def lateRows(self) -> DataFrame:
        """The late rows up to the last complete checkpoint, each with the watermark that it was behind.

            query.lateRows.show()

        Raises:
            QueryError: ``pipeline.late-data.path`` is not set, so late rows are dropped; or the query has several
                stages,
                each with its own columns (:meth:`lateRowsOf`).
        """
        uids = [stage.uid for stage in self._run.job.stages]
        if self._run.job.late_rows is not None and len(uids) > 1:
            raise QueryError(
                f"late rows are kept by stage, as stages take rows of other columns: use lateRowsOf({uids[0]!r}), or"
                f" of {' or '.join(map(repr, uids[1:]))}"
            )
        return self.lateRowsOf(uids[0])

    def lateRowsOf(self, uid: str) -> DataFrame:
        """The late rows of one of several stages, with the columns of its input.

            query.lateRowsOf("hourly").show()

        Args:
            uid: the id of the stage, as ``explain()`` shows it.

        Raises:
            QueryError: the query drops late rows, or it has no such stage.
        """
        uids = [stage.uid for stage in self._run.job.stages]
        if self._run.job.late_rows is None:
            raise QueryError("late rows of this query are dropped; set pipeline.late-data.path to keep them")
        if uid not in uids:
            raise QueryError(f"the query has no stage {uid!r}; its stages are {', '.join(uids)}")
        try:
            return self._run.job.late_rows.committed(self._run.job.spark, uid)
        except Exception as error:
            raise QueryError(f"late rows cannot be read: {what_happened(self._run.explained(error))}") from error

    @property
    def lifecycle(self) -> Lifecycle:
        """The events of this run, in order: phases, switch, checkpoints, end.

            print(query.lifecycle)

        ``.tasks`` has the history of each task: sources, shards of the keyed stages, sink.
        """
        running = self._run.runner.running
        return Lifecycle(self._run.history.events, [] if running is None else running.tasks.lifecycle.events)

    def history(self, run: str | None = None, since_ms: int | None = None) -> list[RunEvent]:
        """Returns the events of all runs on the query's ``checkpointLocation``, oldest first; also of other processes.

            query.history()

        They come from the event log below the location (``mixedmode history`` prints the same).  Frequent events are
        kept at most once a second, and less often for older times.

        Args:
            run: the id of one run, or its beginning; None: all runs.
            since_ms: leave out events before this moment (ms since 1970); None: all events.

        Raises:
            CheckpointError: the event log cannot be read.
        """
        return self._run.recorded(run, since_ms)

    def explain(self, extended: bool = False) -> None:
        """Prints the plan that this query executes, with the reason for each decision.

            query.explain()

        Args:
            extended: also print how each phase works, all settings, and Spark's plans of the inputs.
        """
        print_plan(self._run.job.explain(extended))

    def exception(self) -> QueryError | None:
        """Returns the error of a failed query; None if the query runs or ended well: ``query.exception()``."""
        return self._run.exception()

    def __repr__(self) -> str:
        return f"<MixedQuery {self._run.label} {self.status['message']}>"

    def _repr_html_(self) -> str:
        status, last = self.status, self.lastProgress
        facts: list[tuple[str, object]] = [
            ("id", self.id),
            ("run", self.runId),
            ("is", status["message"] if self.isActive or not self._run.is_done else "done"),
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
        if self._run.error is not None:
            facts.append(("error", f"{type(self._run.error).__name__}: {self._run.error}"))
        return facts_html(f"MixedQuery {self.name or ''}".rstrip(), facts)
