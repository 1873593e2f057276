"""Runs inside a Spark task that lives as long as an epoch: one shard, its rows as they arrive, its output at once.

Invariants:
- It begins with the state that the driver has committed, whatever newer files there are: the order of the epoch comes
  behind the commit of the one before, and names all files.
- All that others may read it writes under names that no other attempt has.  It commits nothing: behind its last row it
  makes the rest of its change log durable, has the brokers confirm its messages, and reports.  Spark may have ended the
  rows early (a stopped query, a failed sibling), so what is reported counts only if the driver finds that nothing is
  missing.
- Messages are counted before the operator, or anything else, looks at a row.
- Nothing depends on the process: what it keeps from epoch to epoch it may be without.
"""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from ....state.keys.keygroups import ShardId
from ....state.store.packed_manifests import PackedManifests
from ...connectors.sinks.kafka.live_messages import LiveMessages, LiveSender
from ...jvm.worker.worker_input import WorkerInput
from ...jvm.worker.worker_tasks import task_begins, task_context
from ...operators.contract import ShardContext, ShardCounters
from ...operators.open_epoch import OpenEpoch
from ...scan.output_rows import OutputRows
from ...spark_io.message_positions import KEPT_COLUMN, OFFSET_COLUMN, PARTITION_COLUMN, TIME_COLUMN
from ...support.failpoints import failpoint
from ...support.ids import BatchId, RunId
from ..report import ShardReport
from ..shard.shard_task import checked_rows, operator_of
from ..shard.task_meter import TaskMeter
from ..shard_states import ShardStates
from .arrived_rows import ArrivedRows
from .change_segments import ChangeSegments, SegmentPolicy
from .computed_output import ComputedOutput
from .portion_rows import PortionRows
from .portion_runs import open_epoch
from .run_folder import EpochOrder, RealTimeReport, RunFolder, SeenMessages
from .shard_progress import ShardProgress

#: What Spark calls the number of a batch.
_BATCH = "streaming.sql.batchId"
#: So many collections of younger objects.
_NEVER = 1 << 30
#: The column of what goes back to Spark: nothing.
NOTHING_COLUMN = "nothing"


@dataclass(frozen=True)
class RealTimeTask:
    """The function handed to ``mapInArrow``.

    Args:
        run_id: of the run, for names of files.
        folder: what the driver and the shards tell each other.
        operator: the pickled operator: unpickled once per process.
        states: where state is; which state the order says.
        rows: how rows are prepared.
        output: how output is made of the operator's rows; None: they are it.
        messages: how output is sent.
        segments: when changes are written while rows flow.
    """

    run_id: RunId
    folder: RunFolder
    operator: bytes
    states: ShardStates
    rows: PortionRows
    output: OutputRows | None
    messages: LiveMessages
    segments: SegmentPolicy

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        task_begins()
        worker = WorkerInput.of_this_task()
        batch, shard = BatchId(int(str(context.getLocalProperty(_BATCH)))), ShardId(context.partitionId())
        order = self.folder.wait_for_order(batch)
        failpoint("realtime-task-begins")
        epoch = _ShardEpoch(self, batch, shard, order, context.taskAttemptId())
        failpoint("realtime-task-opened")

        def before_wait() -> None:
            worker.acknowledge()
            epoch.progress.before_wait(worker.wait)

        arrived = ArrivedRows(iter(batches), PARTITION_COLUMN, worker.has_more, before_wait)
        with _without_full_collections():
            while (rows := arrived.take()) is not None:
                epoch.take(rows)
        failpoint("realtime-task-end-of-rows")
        report = epoch.finish()
        failpoint("realtime-task-before-report")
        self.folder.write_report(batch, report)
        failpoint("realtime-task-reported")
        yield pa.record_batch({NOTHING_COLUMN: pa.array([], pa.bool_())})


@contextmanager
def _without_full_collections() -> Iterator[None]:
    """Python does not look at all of its objects for garbage meanwhile, which takes 80 ms and more; it does when the
    task has ended.  Young objects it looks at as ever."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


class _ShardEpoch:
    """One attempt of a shard in an epoch."""

    def __init__(self, task: RealTimeTask, batch: BatchId, shard: ShardId, order: EpochOrder, attempt: int) -> None:
        self._task, self._shard = task, shard
        states = replace(task.states, manifests=PackedManifests(order.manifests))
        operator, manifest = operator_of(task.operator), order.manifests[shard]
        self._key_groups, self._local_dir = manifest.key_groups, states.local_dir
        self._meter = TaskMeter()
        states.retire()
        base = states.acquire(shard)
        # pyarrow looks for pandas with the first array that it makes: not in the way of a row.
        pa.array([b""], pa.binary())
        spec = order.spec
        # Task attempt ids start again with each SparkContext; the run id and a random part make the name unique.
        self._name = f"e{spec.epoch:08d}-s{shard:04d}-{task.run_id}-{attempt}-{uuid.uuid4().hex[:8]}"
        self._changes = ChangeSegments(task.folder, batch, shard, states, self._name, spec.epoch, task.segments)
        self._sender = LiveSender(task.messages, spec.epoch, shard)
        self._seen, self._counters = SeenMessages(), ShardCounters()
        #: What is told of the epoch while it runs.
        self.progress = ShardProgress(task.folder, batch, shard)
        self._rows = task.rows.for_epoch(operator, spec)
        context = ShardContext(
            shard,
            manifest.key_groups,
            spec,
            base,
            self._changes.log,
            self._sender if task.output is None else ComputedOutput(task.output, self._sender),
            self._counters,
            local_dir=states.local_root,
        )
        self._epoch: OpenEpoch = open_epoch(operator, context, has_state=bool(manifest.files))

    def take(self, arrived: pa.RecordBatch) -> None:
        """Process a portion."""
        self._process(arrived)
        self.progress.add(arrived.column(TIME_COLUMN))
        self._sender.look()
        self._changes.look(self._epoch)
        self.progress.look()
        failpoint("realtime-task-portion")

    def _process(self, arrived: pa.RecordBatch) -> None:
        self._seen.add(*(arrived.column(name).to_pylist() for name in (PARTITION_COLUMN, OFFSET_COLUMN)))
        rows = arrived.drop_columns([PARTITION_COLUMN, OFFSET_COLUMN, TIME_COLUMN])
        if KEPT_COLUMN in rows.schema.names:
            rows = rows.filter(rows.column(KEPT_COLUMN)).drop_columns([KEPT_COLUMN])
            if not rows.num_rows:
                return
        with self._rows.of(rows, self._local_dir, self._meter) as ordered:
            self._epoch.take(checked_rows(ordered, self._shard, self._key_groups))

    def finish(self) -> RealTimeReport:
        """Make all of it durable; returns what the driver is to know."""
        self._epoch.finish()
        files = self._changes.finish()
        self._sender.flush()
        durations_ms, counts = self._meter.finish()
        report = ShardReport(self._shard, self._name, tuple(files), (), self._counters, durations_ms, 0, counts)
        return RealTimeReport(self._seen, report, self.progress.finish())
