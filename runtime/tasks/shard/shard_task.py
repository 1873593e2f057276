"""Runs inside a Spark task: one shard, one epoch, one attempt.

Invariants:
- An attempt changes nothing that another attempt can see.  It reads the local copy of the shard's committed manifest
and
  writes new files whose names contain its run id and task attempt id; it returns their names in its report.
- Whoever collects the job's result sees exactly one report per shard, that of the successful attempt; the driver
  appends the files named there to the manifest.  Files of all other attempts are garbage.
- Nothing here depends on the process: a local copy found in the process is used if it embodies a prefix of the
manifest,
  and rebuilt from the files otherwise.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from ....errors import MisplacedRowsError
from ....sorter import ExternalSorter
from ....state.keys.keygroups import KeyGroupRange, ShardId, bit_reversed, is_power_of_two
from ....state.store.local_copy import LocalStateCopy, process_cache
from ....state.store.log import LogWriter
from ....state.store.sst import SstWriter
from ...connectors.output_place import AttemptOutput, OutputPlace
from ...connectors.staging import in_partition
from ...jvm.worker.worker_tasks import task_begins, task_context
from ...operators.columnar.few_partials import TooManyRowsError
from ...operators.columnar.few_rows import FewRows
from ...operators.columnar.unscaled_sums import UnscaledSums
from ...operators.contract import EpochSpec, KeyedOperator, OutputsUnsorted, ShardContext, ShardCounters
from ...operators.emission_watermark import emitted_schema
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...protocols.operator_events.task_events import ShardInbox, TaskEvents
from ...scan.parquet_scan import NotTakenError
from ...support.failpoints import failpoint
from ...support.ids import RunId, TaskAttemptId
from ..local_report import leave_report
from ..progress import TaskProgress
from ..report import NO_SHARD, PreparationRefusal, ShardReport, report_batch
from ..report_accumulator import ReportSender
from ..scan.partial_runs import PartialRuns
from ..scan.row_runs import RowRuns
from ..scan.worker_heap import keep_heap, release_heap
from ..shard_states import ShardStates
from .durable_files import Publications
from .input_times import InputTimes
from .pass_context import NO_PASS, PassContext
from .row_spool import RowSpool
from .shards_in_one import ShardSlices
from .small_file import FileNotTakenError, SmallFile
from .task_meter import TaskMeter
from .task_sorter import SortPlan, sorted_here


@dataclass(frozen=True)
class ShardTask:
    """The function handed to ``mapInArrow``; carries everything a task needs and nothing of the driver's process."""

    run_id: RunId
    epoch: EpochSpec
    #: The pickled KeyedOperator: unpickled once per process.
    operator: bytes
    #: Before this epoch.
    states: ShardStates
    #: Partition number -> shard, or ``NO_SHARD`` for a partition that is nobody's; those of one partition if all are
    #: ``in_one``.
    shards: tuple[ShardId, ...]
    output: OutputPlace
    sort: SortPlan | None = None
    sorted_pass: PassContext = NO_PASS
    #: Names that the columns get back in the task; None: they have them.
    columns: tuple[str, ...] | None = None
    #: What goes to shards besides the epoch, for those that there is something for.
    inboxes: tuple[tuple[ShardId, ShardInbox], ...] = ()
    #: Columns of the rows that are handed on to another function of the same Spark task, which stages them and reports;
    #: None: they are staged here.
    hands_on: StructType | None = None
    #: True if the output goes to another stage: each row with the watermark at which it is emitted.
    feeds_a_stage: bool = False
    #: Tells of what hands its rows on to the next stage; None: they stay in this Spark task.
    sender: ReportSender | None = None
    #: Column of the event times whose greatest is reported by input; None: nobody needs to know.
    input_times: str | None = None
    #: Partial aggregates that come from files, in order, besides the rows, or what is made of all rows; None: there are
    #: none.
    runs: PartialRuns | RowRuns | None = None
    #: The one partition has the rows of all shards, sorted, and they are worked on one after the other.
    in_one: bool = False
    #: Prepares the rows of all shards here, before they are sorted; None: Spark has prepared them.
    few_rows: FewRows | None = None
    #: Sums of decimals that Spark has computed as whole numbers; None: there are none.
    unscaled: UnscaledSums | None = None
    #: Reads the rows of all shards here, as ``few_rows`` takes them; None: Spark hands them over.
    file: SmallFile | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        if self.in_one:
            if self.sorted_pass.is_held:
                return
            task_begins()
            yield from self._all(self._named(batches), TaskAttemptId(context.taskAttemptId()))
            return
        shard = self.shards[context.partitionId()]
        if shard == NO_SHARD:
            return
        task_begins()
        stored = self.sorted_pass.report_of(shard)
        if stored is not None:
            for _ in batches:
                pass
            if self.hands_on is None:
                yield report_batch(stored)
            return
        if self.sorted_pass.is_held:
            return  # without a report: the shard is worked on after the pause
        attempt = _Attempt(self, shard, TaskAttemptId(context.taskAttemptId()), TaskMeter())
        attempt.begin()
        if self.runs is not None:
            keep_heap()
        try:
            with Publications(1) as publications:
                report = self._run_attempt(attempt, self._named(batches), attempt.meter, publications)()
        finally:
            release_heap()  # a scan may have kept it, and may have been in vain
        spool = attempt.spool
        if spool is None:
            yield report_batch(self.published(report).to_bytes())
        elif self.sender is not None:
            yield from spool.hand_on()
            self.sender.send(self.published(replace(report, handed_on_rows=spool.rows)).to_bytes())
        else:
            leave_report(self.states.local_dir, self.report_name(attempt.task_attempt_id), report.to_bytes())
            yield from spool.hand_on()

    def _named(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows under the names of their columns, with decimals where there are to be some."""
        if self.columns is not None:
            names = list(self.columns)
            batches = (batch.rename_columns(names) for batch in batches)
        return batches if self.unscaled is None else self.unscaled.restored(batches)

    def _all(self, batches: Iterator[pa.RecordBatch], task_attempt_id: TaskAttemptId) -> Iterator[pa.RecordBatch]:
        """What comes of all shards, or that Spark has to prepare their rows."""
        try:
            yield from self._all_shards(batches, task_attempt_id)
        except NotTakenError as error:  # rows are prepared before the first shard is worked on
            reads = isinstance(error, FileNotTakenError)
            lasts = not reads and not isinstance(error, TooManyRowsError)
            refusal = PreparationRefusal(str(error), lasts=lasts, reads=reads)
            yield report_batch(refusal.to_bytes())

    def _all_shards(
        self, batches: Iterator[pa.RecordBatch], task_attempt_id: TaskAttemptId
    ) -> Iterator[pa.RecordBatch]:
        """What comes of all shards, which are worked on one after the other; their rows are sorted together."""
        # There is nothing to see of a pass that is so short.
        unseen = replace(self.sorted_pass, progress_folder=None)
        meter, spilled, task = TaskMeter(), 0, replace(self, sort=None, sorted_pass=unseen, few_rows=None, file=None)
        rows_of_all = meter.reading(batches if self.file is None else self.file.instead_of(batches))
        if self.few_rows is not None:
            rows_of_all = self.few_rows.of(rows_of_all)
        attempts = [_Attempt(task, shard, task_attempt_id, meter) for shard in sorted(self.shards)]
        for attempt in attempts:
            attempt.begin()  # while Spark makes the rows
        reports: list[Callable[[], ShardReport]] = []
        with (
            Publications(len(attempts)) as publications,
            sorted_here(self.sort, self.states.local_dir, meter, rows_of_all) as (rows, sorter),
        ):
            slices = ShardSlices(rows)
            for place, attempt in enumerate(attempts):
                if place:
                    failpoint("task-between-shards")
                    failpoint(f"task-between-shards-{self.epoch.style}")
                rows_of_shard = slices.of(self.states.manifests[attempt.shard].key_groups)
                report = self._run_attempt(attempt, rows_of_shard, None, publications)
                reports.append(partial(_with_spilled, report, _spilled(sorter) - spilled))
                spilled = _spilled(sorter)
                if attempt.spool is not None:
                    yield from attempt.spool.hand_on()
            slices.check_end()
            for attempt, report in zip(attempts, reports, strict=True):
                if attempt.spool is None:
                    yield report_batch(self.published(report()).to_bytes())
                    continue
                assert self.sender is not None, "what is handed on in one task goes to the next stage"
                self.sender.send(self.published(replace(report(), handed_on_rows=attempt.spool.rows)).to_bytes())

    def _run_attempt(
        self,
        attempt: _Attempt,
        batches: Iterator[pa.RecordBatch],
        meter: TaskMeter | None,
        publications: Publications,
    ) -> Callable[[], ShardReport]:
        """Work on a shard; returns what waits until the attempt's files are durable, and gives its report.

        Args:
            attempt: it has begun.
            batches: the shard's rows.
            meter: measures how they come; None: that is done.
            publications: makes files durable.
        """
        if self.runs is not None:
            batches = self.runs.behind(batches, attempt.shard)
        batches = checked_rows(batches, attempt.shard, self.states.manifests[attempt.shard].key_groups)
        times = None if self.input_times is None else InputTimes(self.input_times)
        rows = batches if times is None else times.reading(batches)
        report = attempt.run(rows if meter is None else meter.reading(rows), publications)
        return report if times is None else lambda: replace(report(), seen=times.seen)

    def local_copy(self, shard: ShardId) -> LocalStateCopy | None:
        """A shard's committed state, in this process; None: there is none."""
        if not self.states.manifests[shard].files:
            return None
        self.states.retire()
        return self.states.acquire(shard)

    def report_name(self, task_attempt_id: TaskAttemptId) -> str:
        """Name of the report of an attempt that hands its rows on; the same whatever the epoch."""
        return f"{self.run_id}-{task_attempt_id}"

    def output_name(self, attempt: str, shard: ShardId) -> str:
        """Name of what an attempt stages, without the file's type; to other stages it says where its rows are."""
        shards = len(self.states.manifests)
        if not self.feeds_a_stage or not is_power_of_two(shards):
            return attempt
        return in_partition(attempt, bit_reversed(shard, shards))

    def published(self, report: ShardReport) -> ShardReport:
        """The last step of an attempt, when all of its files are there; returns the report."""
        failpoint("task-before-report")
        failpoint(f"task-before-report-{self.epoch.style}")
        self.sorted_pass.keep(report, self.states.filesystem)
        return report


def checked_rows(batches: Iterator[pa.RecordBatch], shard: ShardId, groups: KeyGroupRange) -> Iterator[pa.RecordBatch]:
    """The rows without those of pins; raises if one is in the wrong partition, as its key would be in two shards."""
    for batch in batches:
        if batch.column(KEY_GROUP_COLUMN).null_count:
            batch = batch.filter(pc.is_valid(batch.column(KEY_GROUP_COLUMN)))
        bounds = pc.min_max(batch.column(KEY_GROUP_COLUMN))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not (low in groups and high in groups):
            raise MisplacedRowsError(
                f"shard {shard} was given rows of the key groups {low} to {high}, but owns {groups.first} to "
                f"{groups.last}: Spark's partitioning is not what its plan says"
            )
        yield batch


@dataclass
class _Attempt:
    task: ShardTask
    shard: ShardId
    task_attempt_id: TaskAttemptId
    meter: TaskMeter
    #: The rows, if they are handed on.
    spool: RowSpool | None = None
    #: The committed state; None: there is none.
    base: LocalStateCopy | None = None

    def begin(self) -> None:
        """Bring the state here."""
        self._failpoint("start")
        if self.task.states.manifests[self.shard].files:
            with self.meter.restoring(process_cache()):
                self.base = self.task.local_copy(self.shard)
        self._failpoint("after-restore")

    def run(self, batches: Iterator[pa.RecordBatch], publications: Publications) -> Callable[[], ShardReport]:
        """Work on the rows; returns what gives the report."""
        task = self.task
        operator = operator_of(task.operator)
        manifest = task.states.manifests[self.shard]
        local_dir = task.states.local_root
        # Task attempt ids start again with each SparkContext; the run id and a random part make the name unique.
        name = f"e{task.epoch.epoch:08d}-s{self.shard:04d}-{task.run_id}-{self.task_attempt_id}-{uuid.uuid4().hex[:8]}"
        writer_class = SstWriter if task.epoch.style == "sorted" else LogWriter
        writer = writer_class(task.states.filesystem, task.states.pool, local_dir, name, task.epoch.epoch)
        output = self._output(operator, name, local_dir)
        counters = ShardCounters()
        events = TaskEvents(dict(task.inboxes).get(self.shard, ShardInbox()))
        shard_context = ShardContext(
            self.shard,
            manifest.key_groups,
            task.epoch,
            self.base,
            writer,
            output,
            counters,
            events,
            task.feeds_a_stage,
            local_dir,
        )
        try:
            with self.meter.processing():
                spilled = self._execute(operator, shard_context, batches)
            self._failpoint("before-publish")
            if self.spool is not None:
                self.spool.finish()
        except BaseException:
            writer.abort()
            output.abort()
            raise
        # What sorts writes files of RocksDB, which are of the thread that has begun them.
        here = task.epoch.style == "sorted"
        publication = publications.begin(writer, output if self.spool is None else None, here=here)
        if self.base is not None:
            self.meter.counts["memoryUsedBytes"] = process_cache().memory_of(self.base)
        durations_ms, counts = self.meter.finish()

        def report() -> ShardReport:
            files, staged, publish_ms = publication.done()
            return ShardReport(
                self.shard,
                name,
                files,
                staged,
                counters,
                {**durations_ms, "publish": publish_ms},
                spilled,
                {**counts, "endedAtMs": counts["endedAtMs"] + publish_ms},
                events=tuple(events.sent),
                own_state=events.own_state,
                dropped_rows=output.dropped_rows,
            )

        return report

    def _failpoint(self, name: str) -> None:
        failpoint(f"task-{name}")
        failpoint(f"task-{name}-{self.task.epoch.style}")

    def _output(self, operator: KeyedOperator, name: str, local_dir: str) -> AttemptOutput | RowSpool:
        if self.task.hands_on is not None:
            self.spool = RowSpool(local_dir, self.task.hands_on)
            return self.spool
        schema = operator.output_schema
        schema = emitted_schema(schema) if self.task.feeds_a_stage else schema
        return self.task.output.open(self.task.output_name(name, self.shard), schema)

    def _execute(self, operator: KeyedOperator, context: ShardContext, batches: Iterator[pa.RecordBatch]) -> int:
        """Run the operator over the rows, sorted here if Spark has not; returns the bytes that the sorter spilled."""
        task, folder = self.task, self.task.sorted_pass.progress_folder
        # Sorted rows are not worth another way, and rows of two origins may be of one key.
        unsorted = operator if isinstance(operator, OutputsUnsorted) and task.sort and task.runs is None else None
        if folder is None:
            if unsorted is not None:
                batches = unsorted.output_unsorted(context, batches, lambda _: None)
            with sorted_here(task.sort, task.states.local_dir, self.meter, batches) as (rows, sorter):
                operator.run(context, rows)
                return _spilled(sorter)
        attempt = str(self.task_attempt_id)
        progress = TaskProgress(task.states.filesystem, folder, attempt, operator.rows_column)
        batches = progress.reading(batches)
        if unsorted is not None:
            batches = unsorted.output_unsorted(context, batches, progress.processed)
        with sorted_here(task.sort, task.states.local_dir, self.meter, batches) as (rows, sorter):
            progress.spilled(_spilled(sorter))
            operator.run(context, progress.processing(rows))
            progress.write(done=True)
            return _spilled(sorter)


def _with_spilled(report: Callable[[], ShardReport], spilled_bytes: int) -> ShardReport:
    return replace(report(), spilled_bytes=spilled_bytes)


def _spilled(sorter: ExternalSorter | None) -> int:
    return 0 if sorter is None else sorter.stats.spilled_bytes


@lru_cache(maxsize=4)
def operator_of(pickled: bytes) -> KeyedOperator:
    """The operator; unpickled once per process."""
    operator: KeyedOperator = cloudpickle.loads(pickled)
    return operator
