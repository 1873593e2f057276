"""A whole job run by a test, in Spark: history and micro-batches are the test's, so is the clock; all of it ends."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from ..errors import PlanError, SetupError
from ..planner.frames.dry_run import failing_by_its_cause
from ..planner.frames.frame import MixedFrame
from ..planner.frames.readers.reading import read
from ..planner.frames.writer import OptionValue
from ..planner.plans.other_sources import OtherSources
from ..planner.stages.declared_schema import declared_schema
from ..runtime.driver.clocks import processing_time
from ..runtime.metrics.lifecycle import Lifecycle
from ..runtime.metrics.progress import QueryProgress
from ..runtime.query import MixedQuery
from ..runtime.state_reader import StateReader, state_reader
from .row_tables import GivenRows, moment_ms, plain_rows
from .written_sources import WrittenSources

#: Fewer shards are faster, and with two not all keys are in one.
_DEFAULTS: dict[str, OptionValue] = {"pipeline.parallelism": 2}


@dataclass
class JobRun:
    """The result of a run.  Its files are removed with :meth:`close`, or by garbage collection."""

    #: The rows that the backlog gave, visible at the switch; of a job without live source all rows.
    history: list[Row]
    #: For each live batch the rows that were visible when it was processed, and nothing was due any more.
    live: list[list[Row]]
    #: The rows of the end of the input, if it was asked for.
    end: list[Row]
    #: Rows that came too late, by the uid of their stage.
    late_rows: dict[str, list[Row]]
    #: One for each epoch.
    progress: list[QueryProgress]
    #: The story of the run.
    lifecycle: Lifecycle
    #: The checkpoint location.
    location: str
    _folder: tempfile.TemporaryDirectory[str] = field(repr=False)
    _spark: SparkSession = field(repr=False)

    @property
    def rows(self) -> list[Row]:
        """All output rows, in the order in which they became visible."""
        return [*self.history, *(row for batch in self.live for row in batch), *self.end]

    @property
    def state(self) -> StateReader:
        """A reader of the state at the end of the run."""
        return state_reader(self.location, self._spark)

    def close(self) -> None:
        """Removes the files of the run."""
        self._folder.cleanup()


def run_job(
    frame: MixedFrame | Callable[..., MixedFrame],
    *,
    history: GivenRows | Mapping[int, GivenRows] = (),
    live: Sequence[GivenRows | Mapping[int, GivenRows]] = (),
    schema: StructType | str | Sequence[StructType | str] | None = None,
    clock: int | datetime | Sequence[int | datetime] | None = None,
    end: bool = False,
    output_mode: str | None = None,
    options: Mapping[str, OptionValue] | None = None,
    spark: SparkSession | None = None,
) -> JobRun:
    """Runs a job from its backlog through some micro-batches, in a temporary folder, and stops it.

        def totals(orders):
            return orders.withWatermark("ts", "1 hour").groupBy("customer").agg(F.sum("amount").alias("total"))

        run = run_job(totals, schema="customer string, ts timestamp, amount long", output_mode="update",
                      history=[("a", datetime(2024, 1, 1), 5)], live=[[("a", datetime(2024, 1, 2), 1)], []])
        assert run.history == [Row(customer="a", total=5)] and run.live == [[Row(customer="a", total=6)], []]

    Args:
        frame: the job up to ``writeStream``: a function of its inputs, with one argument for each schema; or the frame
            itself, whose sources are then replaced by those of the test.
        history: the rows of the backlog.  For several sources a dict by their numbers: the order of the function's
            arguments, or that in which a frame names its histories.
        live: micro-batches, each like ``history``; one without rows lets time pass.  Several live sources get their
            rows
            at about the same time.
        schema: the columns of the function's inputs.
        clock: the processing time: one moment for all, or one for the backlog and one for each batch; None: now.
        end: then fire all waiting timers and windows and finish the operators, as at the end of input.
        output_mode: append, update or complete; None: as the job has it.
        options: options of the job, as ``.option()`` takes them.
        spark: the session; None: the active one.

    Raises:
        PlanError: an argument does not fit, or the job cannot be planned.
        OptionError: an option is unknown, or its value is not allowed.
        SetupError: there is no session.
        UserCodeError: user code raised an exception; the message begins with its line.
        QueryError: the query failed in another way.
    """
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise SetupError("run_job needs Spark: make a SparkSession first; a processor alone runs without, in Harness")
    folder = tempfile.TemporaryDirectory(prefix="mixedmode-run-job-", ignore_cleanup_errors=True)
    rows = history if isinstance(history, Mapping) else plain_rows(history, "history")
    try:
        with _by_value(frame), failing_by_its_cause():
            sources = WrittenSources(spark, folder.name, rows)
            job = _described(frame, schema, sources)
            sources.check()
            if live and not sources.lives:
                raise PlanError("live: the job reads no live source")
            batches = [sources.batch(batch, number) for number, batch in enumerate(live)]
            moments = _moments(clock, len(batches))
            writer = _Writer(job, output_mode, {**_DEFAULTS, **(options or {})}, folder.name)
            return _Run(sources, writer, folder, moments).through(batches, end=end)
    except BaseException:
        folder.cleanup()
        raise


@contextmanager
def _by_value(frame: Any) -> Iterator[None]:
    """Have what the function's own module defines travel to Spark's workers, which cannot import a test's module."""
    module = sys.modules.get(getattr(frame, "__module__", None) or "")
    if (
        module is None
        or module.__name__ == "__main__"
        or module.__name__ in cloudpickle.list_registry_pickle_by_value()
    ):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _described(frame: Any, schema: Any, sources: WrittenSources) -> MixedFrame:
    """The job over the test's sources."""
    if isinstance(frame, MixedFrame):
        if schema is not None:
            raise PlanError("schema is for a function that makes the job; a frame knows its columns")
        return MixedFrame(OtherSources(sources.instead_of).of(frame._inputs), frame._watermark)
    if not callable(frame):
        raise PlanError(f"run_job takes a frame of mixedmode.read, or a function that makes one, got {frame!r:.80}")
    if schema is None:
        raise PlanError("run_job of a function needs schema: the columns of what it reads, as 'k string, ts timestamp'")
    schemas = [schema] if isinstance(schema, (str, StructType)) else list(schema)
    made = frame(*(read(*sources.read(declared_schema("schema", one))) for one in schemas))
    if not isinstance(made, MixedFrame):
        raise PlanError(f"the function must return the job up to writeStream, a MixedFrame; it returned {made!r:.80}")
    return made


def _moments(clock: Any, batches: int) -> list[int] | None:
    """The clock's readings, of the backlog and of each batch; None: it is the real one."""
    if clock is None:
        return None
    if not isinstance(clock, Sequence):
        return [moment_ms(clock, "clock")] * (batches + 1)
    if len(clock) != batches + 1:
        raise PlanError(
            f"clock has {len(clock)} moments; give one for the backlog and one for each of {batches} batches"
        )
    return [moment_ms(one, "clock") for one in clock]


class _Writer:
    """Starts the job, and keeps what becomes visible."""

    def __init__(
        self, job: MixedFrame, output_mode: str | None, options: Mapping[str, OptionValue], folder: str
    ) -> None:
        self.location, self.late = f"{folder}/checkpoints", f"{folder}/late"
        writer = job.writeStream.foreachBatch(lambda rows, _: self._visible.extend(rows.collect()))
        self._writer = writer.option("checkpointLocation", self.location).option("pipeline.late-data.path", self.late)
        for name, value in options.items():
            self._writer.option(name, value)
        if output_mode is not None:
            self._writer.outputMode(output_mode)
        self._visible: list[Row] = []

    def start(self) -> MixedQuery:
        return self._writer.start()

    def new_rows(self) -> list[Row]:
        """The rows that have become visible since somebody asked."""
        rows, self._visible[:] = list(self._visible), []
        return rows


@dataclass
class _Run:
    sources: WrittenSources
    writer: _Writer
    folder: tempfile.TemporaryDirectory[str]
    #: Of the clock; None: the real one.
    moments: list[int] | None
    _now_ms: int = 0

    def through(self, batches: Sequence[list[tuple[int, Any]]], *, end: bool) -> JobRun:
        """Run the job through its backlog and the batches."""
        clock = nullcontext() if self.moments is None else processing_time(lambda: self._now_ms)
        with clock:
            self._set_clock(0)
            query = self.writer.start()
            try:
                return self._through(query, batches, end=end)
            finally:
                query.stop()

    def _set_clock(self, number: int) -> None:
        if self.moments is not None:
            self._now_ms = self.moments[number]

    def _through(self, query: MixedQuery, batches: Sequence[list[tuple[int, Any]]], *, end: bool) -> JobRun:
        writer, live, last = self.writer, [], []
        if self.sources.lives:
            query.processAllAvailable()
        else:
            query.awaitTermination()
        history = writer.new_rows()
        for number, batch in enumerate(batches):
            self._set_clock(number + 1)
            self.sources.land(batch)
            query.processAllAvailable()
            live.append(writer.new_rows())
        if end and query.isActive:
            query.stopWithSavepoint(f"{self.folder.name}/end", drain=True)
            last = writer.new_rows()
        query.stop()
        return JobRun(
            history=history,
            live=live,
            end=last,
            late_rows=self._late_rows(query),
            progress=query.recentProgress,
            lifecycle=query.lifecycle,
            location=writer.location,
            _folder=self.folder,
            _spark=self.sources.spark,
        )

    def _late_rows(self, query: MixedQuery) -> dict[str, list[Row]]:
        if not os.path.isdir(self.writer.late):
            return {}
        uids = [stage.uid for stage in query._job.stages]
        found = {uid: query.lateRowsOf(uid).collect() for uid in uids}
        return {uid: rows for uid, rows in found.items() if rows}
