"""What a job costs its driver, without Spark: the real driver code, and tasks that do nothing.

Everything between Spark's call of ``foreachBatch`` and the end of the epoch, and all of a checkpoint, is what a running
job does: :class:`JobRunner` recovers, :class:`EpochRunner` runs epochs, :class:`CheckpointCoordinator` takes
checkpoints, history and events are told.  In place of Spark there is :class:`NoTasks`: it pickles the task as PySpark
does, reads back what a task would read (how long that takes a worker is measured apart), and gives the reports that
the tasks would give.  So what is missing is what Spark itself does (``scheduling.py``), and planning, which does not
know how many shards there are.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

from counted_store import CountedStore
from mixedmode.runtime.connectors.sinks import SinkSpec, folder_sink, make_sink
from mixedmode.runtime.connectors.sources.live_inputs import LiveInput
from mixedmode.runtime.connectors.sources.source_lanes import Lane
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.driver.checkpoint import state_compactor
from mixedmode.runtime.driver.epochs.source_rows import SourceRows
from mixedmode.runtime.driver.run import runner as driver_runner
from mixedmode.runtime.driver.run.runner import JobRunner
from mixedmode.runtime.driver.run.running_job import RunningJob
from mixedmode.runtime.metrics.events.event_files import HistoryFolder
from mixedmode.runtime.metrics.events.facts import FactListeners
from mixedmode.runtime.metrics.run_events import RunEvents
from mixedmode.runtime.metrics.run_history import RunHistory
from mixedmode.runtime.operators.contract import KeyedOperator, ShardCounters
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.spec import JobSpec, LaneRead, Phase, Settings, StageSpec
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.runtime.tasks.shard.shard_task import ShardTask
from mixedmode.runtime.tasks.shard.task_meter import TaskMeter
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.state_manifest import StateManifest
from mixedmode.testing.local_job import NoSpark
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

#: Key groups: more than the most shards.
MAX_PARALLELISM = 2048
_ROWS = StructType().add("key", StringType()).add("value", DoubleType())
_KEY = StructType().add("key", StringType())
_OUTPUT = StructType().add("key", StringType()).add("n", LongType())


class Idle(StatefulProcessor):
    """Never called."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        return iter(())


@dataclass
class Cost:
    """What epochs, or checkpoints, have cost."""

    cpu_s: list[float] = field(default_factory=list)
    #: Of that, pickling tasks.
    pickling_s: list[float] = field(default_factory=list)
    #: Bytes of a job's functions: what each of its tasks reads.
    task_bytes: list[int] = field(default_factory=list)
    #: What a worker needs to read them, for each task.
    task_cpu_s: list[float] = field(default_factory=list)
    report_bytes: list[int] = field(default_factory=list)
    metadata_bytes: list[int] = field(default_factory=list)


class _NoSpark(NoSpark):
    """The same for what a run of several epochs asks."""

    defaultParallelism = 2
    master = "local[2]"
    applicationId = "benchmark"
    uiWebUrl = None

    def range(self, *_: int) -> None:
        pass


class _Rows:
    """The rows of an epoch: nobody looks at them."""

    columns: tuple[str, ...] = ("key", "value")


@dataclass
class NoTasks:
    """Stands for a stage's ``StageJobs``, and for what Spark does with its jobs.

    Args:
        pool: the stage's state files.
        staging: where the sink has its staged files.
        cost: where the costs of the epochs go.
    """

    pool: Path
    staging: Path
    cost: Cost = field(default_factory=Cost)
    #: CPU time of what is not the driver's.
    others_s: float = 0.0
    hands_on: None = None
    #: No task leaves its rows to Spark.
    note_not_prepared: None = None

    def of_epoch(self, frame: Any, task: ShardTask, *_: Any, **__: Any) -> Iterator[_Job]:
        yield _Job(self, task)

    def of_shards(self, places: Any, task: ShardTask) -> _Job:
        return _Job(self, task)

    def note_rows(self, rows: int) -> None:
        pass

    def note_unusable(self, error: Exception) -> None:
        pass

    def run(self, task: ShardTask) -> list[list[bytes]]:
        """The reports of all shards."""
        started = time.thread_time()
        pickled = CPickleSerializer().dumps((task, _OUTPUT))
        done = time.thread_time()
        cloudpickle.loads(pickled)
        self.cost.task_cpu_s.append(time.thread_time() - done)
        self.cost.pickling_s.append(done - started)
        self.cost.task_bytes.append(len(pickled))
        self.staging.mkdir(parents=True, exist_ok=True)
        reports = [self._report(task, shard).to_bytes() for shard in task.shards]
        self.cost.report_bytes.append(sum(map(len, reports)))
        self.others_s += time.thread_time() - done
        return [[report] for report in reports]

    def _report(self, task: ShardTask, shard: int) -> ShardReport:
        """What a shard with some changed keys and some rows of output says."""
        random = uuid.uuid4().hex
        name = f"e{task.epoch.epoch:08d}-s{shard:04d}-{task.run_id}-{shard}-{random[:8]}"
        durations_ms, measured = TaskMeter().finish()
        counters = replace(ShardCounters(), rows_in=100, keys=100)
        staged = StagedFile(f"{name}.parquet", 100, 0)
        (self.staging / staged.name).touch()
        return ShardReport(
            shard,
            name,
            (self.state_file(name, shard, task.epoch.epoch),),
            (staged,),
            counters,
            durations_ms,
            0,
            measured,
        )

    def state_file(self, name: str, shard: int, epoch: int) -> StateFile:
        """A change log of a shard, of which there is a file by this name, but nothing in it."""
        (self.pool / f"{name}.log").touch()
        group = (shard % MAX_PARALLELISM).to_bytes(2, "big")
        digest = hashlib.sha256(name.encode()).hexdigest()
        keys = group + b"\x01" + digest[:16].encode(), group + b"\xfe" + digest[16:32].encode()
        return StateFile(f"{name}.log", "log", 4096, digest, 100, 0, *keys, epoch, epoch)

    def compacted(self, _: Any, task: Any) -> dict[int, StateManifest]:
        """What a compaction gives: the shards' files as one."""
        started = time.thread_time()
        cloudpickle.loads(CPickleSerializer().dumps((task, _OUTPUT)))
        found = {
            shard: StateManifest(
                task.states.manifests[shard].key_groups,
                (self.state_file(f"{task.name}-s{shard:04d}-{shard}", shard, task.epoch),),
                tuple(file.name for file in task.states.manifests[shard].files),
                1,
            )
            for shard in task.kinds
        }
        self.others_s += time.thread_time() - started
        return found


@dataclass(frozen=True)
class _Job:
    """Stands for the DataFrame of an epoch's job."""

    tasks: NoTasks
    task: ShardTask

    def collect(self) -> list[list[bytes]]:
        return self.tasks.run(self.task)


class Driver:
    """A running job on its driver.

    Args:
        folder: for its checkpoints and its output.
        shards: of its one stage.
        store: what all of that is in; None: a disk.
    """

    def __init__(self, folder: Path, shards: int, store: CountedStore | None = None) -> None:
        self._store = store
        operator = ProcessorOperator(
            Idle(), uid="stage", rows=KeyedInput(_ROWS, ("key",), _KEY, None), output_schema=_OUTPUT, time_mode="none"
        )
        job = _job(folder, operator, shards)
        self.checkpoints_cost, self._events = Cost(), RunEvents(job, "benchmark")
        told = FactListeners(RunHistory("benchmark", job.name, job.sink.describe()), self._events)
        runner = JobRunner(job, str(folder / "checkpoints"), "benchmark", told)
        runner.claim()
        assert runner.identity is not None and runner.context.lease.claim is not None
        self._runner, checkpoints = runner, runner.context.store
        log = HistoryFolder(checkpoints.filesystem, checkpoints.root)
        self._events.begin("benchmark", runner.context.lease.claim.generation, None, log)
        self._run = RunningJob.of(runner._recovered(runner.identity), runner.context)
        pool, staging = Path(checkpoints.pool(operator.uid)), Path(job.sink.staging.path)
        pool.mkdir(parents=True)
        self.tasks = NoTasks(pool, staging)
        executor = self._run.executors[operator.uid]
        executor.jobs = cast(Any, self.tasks)
        self._phase = job.phases[0]
        self._run.context.published.enters(self._phase)
        self._run.events.open()

    @property
    def epochs_cost(self) -> Cost:
        return self.tasks.cost

    def epoch(self) -> None:
        """One epoch with rows for all shards."""
        rows = SourceRows(lives=({0: cast(Any, _Rows())},))
        self.epochs_cost.cpu_s.append(self._cpu_s(lambda: self._run.epochs.streaming_epoch(self._phase, rows)))

    def checkpoint(self) -> None:
        """One checkpoint."""
        checkpoints = self._run.checkpoints
        self.checkpoints_cost.cpu_s.append(self._cpu_s(lambda: checkpoints.checkpoint("interval")))
        folder = self._runner.context.store.folder(self._run.state.checkpoint_id)
        self.checkpoints_cost.metadata_bytes.append(Path(folder, "_metadata").stat().st_size)

    def tidy(self) -> None:
        """Wait for what is done behind the last checkpoint, and take it over."""
        self._run.checkpoints.housekeeping.wait()

    def finish(self) -> None:
        """Remove what nothing names any more, as at the end of a run."""
        self._run.checkpoints.housekeeping.finish()

    def forget(self) -> None:
        """What has been measured so far."""
        self.tasks.cost, self.checkpoints_cost = Cost(), Cost()

    def requests(self) -> Counter[str]:
        """What the store was asked for since somebody asked."""
        assert self._store is not None
        found, self._store.counts = self._store.counts, Counter()
        return found

    def _cpu_s(self, step: Callable[[], object]) -> float:
        """CPU time of all threads of the driver."""
        self._settle()
        began, others_s = time.process_time(), self.tasks.others_s
        step()
        self._settle()
        return time.process_time() - began - (self.tasks.others_s - others_s)

    def _settle(self) -> None:
        """Wait for those who are told."""
        self._events._facts.wait(5)

    def close(self) -> None:
        """End the run."""
        self._run.events.close()
        self._events.end(None, was_stopped=True)
        self._runner.context.lease.release()


@contextmanager
def driver(folder: Path, shards: int, *, counted: bool = False) -> Iterator[Driver]:
    """A running job without state, whose compactions do nothing.

    Args:
        folder: for its checkpoints and its output.
        shards: of its one stage.
        counted: that folder is an object store that counts what it is asked for.
    """
    store = CountedStore() if counted else None
    with ExitStack() as patched:
        if store is not None:
            filesystem = fs.PyFileSystem(store)
            for module in (driver_runner, folder_sink):
                patched.enter_context(mock.patch.object(module, "resolve", lambda path: (filesystem, path)))
        running = Driver(folder, shards, store)
        patched.enter_context(mock.patch.object(state_compactor, "compact_shards", running.tasks.compacted))
        try:
            yield running
        finally:
            running.close()


def _job(folder: Path, operator: KeyedOperator, shards: int) -> JobSpec:
    stage = StageSpec(operator=operator, event_time=None, watermark_delay_ms=0, reads=(LaneRead(0, ()),))
    return JobSpec(
        spark=cast(Any, _NoSpark()),
        name="benchmark",
        lanes=(Lane(None, cast(Any, _Rows())),),
        live=None,
        stages=(stage,),
        sink=make_sink(SinkSpec(_OUTPUT, "parquet", str(folder / "out"))),
        settings=Settings(parallelism=shards, max_parallelism=MAX_PARALLELISM),
        phases=(Phase(kind="live", reason="a benchmark"),),
        checkpoint_location=str(folder / "checkpoints"),
        trigger={},
        explain=lambda _: "",
        live_inputs=(LiveInput("live"),),
    )
