"""A job of several stages in this process: real operators, state files, watermarks and epochs; only Spark is not there.

What Spark does to rows between two stages (partial aggregates, the first row of each key, the shuffle, the sort) is
done here in plain Python, and exchanges are tables in memory.
"""

from __future__ import annotations

import threading
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.connectors.sources.inputs import LiveInput, Reach
from mixedmode.runtime.connectors.staged_form import StagedForm
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.driver import event_times, graph_epochs, recovery, stages_together
from mixedmode.runtime.driver.epoch_runner import EpochRunner
from mixedmode.runtime.driver.epoch_specs import OBSERVED
from mixedmode.runtime.driver.event_channels import JobEvents
from mixedmode.runtime.driver.graph_epochs import GraphEpochs
from mixedmode.runtime.driver.job_state import Cut, JobState
from mixedmode.runtime.driver.source_rows import SourceRows
from mixedmode.runtime.driver.stage_epochs import fired_upstream
from mixedmode.runtime.driver.stage_state import StageState
from mixedmode.runtime.metrics.backlog import BacklogProgress
from mixedmode.runtime.operators.contract import EpochSpec, KeyedOperator, ShardContext, ShardCounters
from mixedmode.runtime.operators.emission import EMITTED_COLUMN
from mixedmode.runtime.operators.steps import Step
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from mixedmode.runtime.spec import JobSpec, LaneRead, Phase, Settings, StageEdge, StageSpec
from mixedmode.runtime.tasks.executor import Executed
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.runtime.tasks.stages_in_one_job import Part
from mixedmode.state.lineage import ShardLineage
from mixedmode.state.log import LogWriter
from mixedmode.state.replica import ReplicaCache
from mixedmode.state.sst import SstWriter
from pyarrow import fs

MAX_PARALLELISM = 16
TIME = pa.timestamp("us", "UTC")
ROW = pa.schema([pa.field("k", pa.string()), pa.field("ts", TIME), pa.field("v", pa.int64())])

#: (key, event time in microseconds, value); nulls are None.
Row = tuple[Any, "int | None", int]


@dataclass(frozen=True)
class Frame:
    """Rows in memory, with as much of a DataFrame's surface as a graph needs."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return self.table.schema.names

    def drop(self, *names: str) -> Frame:
        return Frame(self.table.drop_columns([name for name in names if name in self.columns]))

    def unionByName(self, other: Frame) -> Frame:
        return Frame(pa.concat_tables([self.table, other.table.select(self.columns)]))

    def dicts(self) -> list[dict[str, Any]]:
        """The rows, times in microseconds."""
        return plain(self.table).to_pylist()


def plain(table: pa.Table) -> pa.Table:
    """Times, also of windows, as numbers."""
    return table.cast(pa.schema([pa.field(one.name, _plain(one.type)) for one in table.schema]))


def _plain(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.int64()
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in data_type])
    return data_type


def frame_of(rows: Sequence[Row]) -> Frame:
    """Rows of a source."""
    return Frame(pa.Table.from_pylist([dict(zip(ROW.names, row, strict=True)) for row in rows], ROW))


class Kind:
    """A kind of stage: its operator, and what Spark would do before and behind it."""

    #: Its rows carry an event time that it looks at.
    event_time = "ts"

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        raise NotImplementedError

    def prepared(self, rows: list[dict[str, Any]], spec: EpochSpec) -> tuple[list[dict[str, Any]], pa.Schema]:
        """What reaches the shards: rows with ``__kg``, and their schema."""
        raise NotImplementedError

    def handed_on(self, row: dict[str, Any]) -> Row:
        """What the next stage makes of an output row."""
        raise NotImplementedError


def key_group(*key: Any) -> int:
    return zlib.crc32(repr(key).encode()) % MAX_PARALLELISM


class Failed(Exception):
    """An epoch that was told to fail."""


@dataclass
class Executor:
    """Runs a stage's epochs here, shard after shard."""

    job: Job
    kind: Kind
    operator: KeyedOperator
    feeds_a_stage: bool
    #: Fail at the end of the next epoch.
    fails: bool = False
    observes: bool = False
    #: The frames that it got, by epoch.
    got: dict[int, int] = field(default_factory=dict)

    def is_first_pass(self, epoch: EpochSpec, lineages: Sequence[ShardLineage]) -> bool:
        return False

    def execute(
        self,
        frame: Frame | None,
        epoch: EpochSpec,
        lineages: Sequence[ShardLineage],
        *,
        shards: Sequence[int] | None = None,
        **_: Any,
    ) -> Executed:
        visited = range(len(lineages)) if frame is not None or shards is None else shards
        self.got[epoch.epoch] = 0 if frame is None else frame.table.num_rows
        table = None if frame is None else self._table(frame, epoch)
        reports = [self._shard(shard, lineages[shard], epoch, table) for shard in visited]
        if self.fails:
            self.fails = False
            for report in reports:
                for file in report.output:
                    del self.job.tables[file.name]
            raise Failed
        return Executed(reports)

    def _table(self, frame: Frame, epoch: EpochSpec) -> pa.Table:
        rows, schema = self.kind.prepared(frame.dicts(), epoch)
        order = ["__kg", *self.operator.key_columns, *[c for c in self.operator.order_in(epoch) if c in schema.names]]
        rows.sort(key=lambda row: [_in_order(row[name]) for name in order])
        return pa.Table.from_pylist(rows, schema)

    def _shard(self, shard: int, lineage: ShardLineage, epoch: EpochSpec, table: pa.Table | None) -> ShardReport:
        job, base = self.job, None
        pool, local = f"{job.folder}/pool-{self.operator.uid}", f"{job.folder}/local-{self.operator.uid}"
        if lineage.files:
            where = job.filesystem, pool, local, 1 << 20
            base = job.cache.acquire(f"{job.run}-{self.operator.uid}", shard, lineage, *where)
        name = f"e{epoch.epoch:08d}-s{shard:04d}-{uuid.uuid4().hex[:8]}"
        writer_class = SstWriter if epoch.style == "sorted" else LogWriter
        writer = writer_class(job.filesystem, pool, local, name, epoch.epoch)
        output, counters = Collected(), ShardCounters()
        context = ShardContext(
            shard, lineage.key_groups, epoch, base, writer, output, counters, feeds_a_stage=self.feeds_a_stage
        )
        self.operator.run(context, _batches(table, lineage))
        files = tuple(writer.finish())
        staged: tuple[StagedFile, ...] = ()
        if output.batches:
            job.tables[name] = pa.Table.from_batches(output.batches)
            staged = (StagedFile(name, job.tables[name].num_rows, 0),)
        return ShardReport(shard, name, files, staged, counters, {})


class Collected:
    """An output writer that keeps the rows."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)


class OneJob:
    """Two stages in one job: the second one takes rows as the first one hands them on; of none it visits all shards."""

    def __init__(self, first: Executor, second: Executor, over: Callable[[Any], Any]) -> None:
        self.first, self.second, self.over = first, second, over

    def execute(self, frame: Frame, first: Part, second: Part) -> tuple[Executed, Executed]:
        job = self.first.job
        job.epochs_together += 1
        done = self.first.execute(frame, first.spec, first.lineages).reports
        exchange, files = MemoryExchange(job.tables), [file for report in done for file in report.output]
        rows = exchange.frame(files)
        try:
            followed = self.second.execute(None if rows is None else self.over(rows), second.spec, second.lineages)
        finally:
            exchange.discard(files)
        handed_on = [
            replace(report, output=(), handed_on_rows=sum(file.rows for file in report.output)) for report in done
        ]
        return Executed(handed_on), followed


def _batches(table: pa.Table | None, lineage: ShardLineage) -> Iterator[pa.RecordBatch]:
    if table is not None:
        mine = pa.array([group in lineage.key_groups for group in table.column("__kg").to_pylist()], pa.bool_())
        yield from table.filter(mine).combine_chunks().to_batches(max_chunksize=4)


def _in_order(value: Any) -> Any:
    """A value as Spark orders it: nulls first, structs by their fields."""
    if isinstance(value, dict):
        return (True, [_in_order(one) for one in value.values()])
    return (value is not None, value.encode() if isinstance(value, str) else value or 0)


@dataclass(frozen=True)
class MemoryExchange:
    """What one stage hands on, from :attr:`Job.tables`."""

    tables: dict[str, pa.Table]

    def frame(self, files: Sequence[StagedFile]) -> Frame | None:
        return Frame(pa.concat_tables([self.tables[file.name] for file in files])) if files else None

    def discard(self, files: Any) -> None:
        for file in files:
            del self.tables[file.name]


def look_at(frame: Frame, event_time: str, inputs: Sequence[LiveInput]) -> Reach:
    """As :func:`mixedmode.runtime.connectors.sources.inputs.look_at`, of rows in memory."""
    times = [row[event_time] // 1000 for row in frame.dicts() if row[event_time] is not None]
    seen = {one.name: max(times, default=None) for one in inputs}
    return Reach(frame.table.num_rows, seen if frame.table.num_rows else {})


def _emitted_when_due(rows: Frame, event_time: str) -> Frame:
    times = [None if row[event_time] is None else row[event_time] // 1000 for row in rows.dicts()]
    return Frame(rows.table.append_column(EMITTED_COLUMN, pa.array(times, pa.int64())))


@dataclass(frozen=True)
class Stage:
    """One stage of a job to be made: what it takes rows of ("": the source), and by which condition."""

    uid: str
    kind: Kind
    origins: tuple[str, ...] = ("",)
    delay_ms: int = 0
    condition: Callable[[Row], bool] = lambda row: True


def _step(kind: Kind | None, condition: Callable[[Row], bool]) -> Step:
    """The operations between a stage (or a source) and the next."""

    def function(frame: Any) -> Any:
        rows = [
            {**dict(zip(ROW.names, out, strict=True)), EMITTED_COLUMN: row.get(EMITTED_COLUMN)}
            for row in frame.dicts()
            if condition(out := (row["k"], row["ts"], row["v"]) if kind is None else kind.handed_on(row))
        ]
        made = Frame(pa.Table.from_pylist(rows, ROW.append(pa.field(EMITTED_COLUMN, pa.int64()))))
        return made if EMITTED_COLUMN in frame.columns else made.drop(EMITTED_COLUMN)

    return Step("select", function)


class Job:
    """A job that takes its epochs from a test.

    Args:
        folder: for its state.
        stages: in topological order.
        timers: ``in-order`` or ``after-rows``.
        shards: of each stage.
        is_live: whether there is a live source; False: only a history.
    """

    def __init__(
        self,
        folder: Path | str,
        stages: Sequence[Stage],
        timers: str = "in-order",
        shards: int = 2,
        *,
        is_live: bool = True,
    ) -> None:
        self.folder, self.filesystem = str(folder), fs.LocalFileSystem()
        self.kinds = {stage.uid: stage.kind for stage in stages}
        self._inputs = (LiveInput("live"),) if is_live else ()
        self.tables: dict[str, pa.Table] = {}
        #: Epochs in which two stages were one job.
        self.epochs_together = 0
        self.phase = Phase(kind="live", reason="a test")
        specs = tuple(self._spec(stage, timers == "in-order") for stage in stages)
        for stage in stages:
            Path(self.folder, f"pool-{stage.uid}").mkdir()
        spark = SimpleNamespace(sparkContext=mock.MagicMock())
        self.spec = JobSpec(
            spark=spark,  # type: ignore[arg-type]
            name=None,
            lanes=(),
            live=None,
            stages=specs,
            sink=SimpleNamespace(shows_at_once=False),  # type: ignore[arg-type]
            settings=Settings(timers=timers, max_parallelism=MAX_PARALLELISM),  # type: ignore[arg-type]
            phases=(self.phase,),
            checkpoint_location=None,
            trigger={},
            explain=lambda _: "",
            live_inputs=self._inputs,
        )
        fresh = [
            StageState.fresh(spec.operator, MAX_PARALLELISM, shards, recovery._watermark(self.spec, spec))
            for spec in specs
        ]
        self._go_on(JobState.fresh("job", fresh, ("live",)))

    def _spec(self, stage: Stage, in_order: bool) -> StageSpec:
        reads = "" in stage.origins
        edges = tuple(
            StageEdge(origin, (_step(self.kinds[origin], stage.condition),), stage.delay_ms)
            for origin in stage.origins
            if origin
        )
        return StageSpec(
            operator=stage.kind.operator(stage.uid, follows=bool(edges), in_order=in_order),
            event_time=stage.kind.event_time,
            watermark_delay_ms=stage.delay_ms,
            edges=edges,
            reads=(LaneRead(0, (_step(None, stage.condition),)),) if reads else (),
            delays_ms={one.name: stage.delay_ms for one in self._inputs if reads},
        )

    def _go_on(self, state: JobState) -> None:
        self.state, self.run, self.cache = state, uuid.uuid4().hex, ReplicaCache()
        last = self.spec.last_stage.uid
        self.executors = {
            stage.uid: Executor(self, self.kinds[stage.uid], stage.operator, stage.uid != last)
            for stage in self.spec.stages
        }
        exchanges = {uid: MemoryExchange(self.tables) for uid in self.executors if uid != last}
        #: Late rows by stage.
        self.late: dict[str, int] = dict.fromkeys(self.executors, 0)
        events = JobEvents()
        self.graph = GraphEpochs(
            job=self.spec,
            state=state,
            executors=self.executors,  # type: ignore[arg-type]
            exchanges=exchanges,  # type: ignore[arg-type]
            listener=SimpleNamespace(on=self._told),  # type: ignore[arg-type]
            backlog=BacklogProgress(self.filesystem, f"{self.folder}/progress"),
            tag="test",
            events=events,
            applied=lambda: None,
        )
        self.epochs = EpochRunner(
            job=self.spec,
            state=state,
            store=SimpleNamespace(guard=lambda: None),  # type: ignore[arg-type]
            graph=self.graph,
            listener=self.graph.listener,
            turn=threading.RLock(),
            stopping=threading.Event(),
            events=events,
        )

    def _told(self, fact: Any) -> None:
        for stage in fact.stages:
            self.late[stage.uid] += sum(report.counters.rows_late for report in stage.reports)

    def restart(self, shards: int) -> None:
        """Go on from a checkpoint of the state as it stands, in another process, as :func:`recovery.recover` does."""
        cut = Cut.of(self.state, 1, "test", finished_shards={}, events={}, form=StagedForm(columns=()))
        metadata = CheckpointMetadata.model_validate_json(cut.to_metadata(with_state=True).model_dump_json())
        late = self.late
        restored = [
            StageState.restored(metadata, stage.operator, shards, recovery._watermark(self.spec, stage))
            for stage in self.spec.stages
        ]
        state = JobState.restored(metadata, restored)
        for stage, held in zip(self.spec.stages, restored, strict=True):
            if stage.reads_sources:
                held.restore_inputs(metadata)
            if stage.edges:
                held.follow(fired_upstream(stage, {}, state.stages), metadata)
        self.close()
        self._go_on(state)
        self.late = late

    def take(self, what: str, rows: Sequence[Row] = ()) -> list[Row]:
        """One epoch, or a look at the clock; returns what comes out.

        Args:
            what: ``live`` (a micro-batch), ``clock``, ``backlog`` (one sorted pass), ``more`` (a pass that others
                follow), ``lag`` (the pass of a stream that fell back), ``whole`` (a pass with which all input ends),
                ``end`` (the end of input, stage by stage).
            rows: of the source.
        """
        source: Any = SourceRows(lives=({0: frame_of(rows)},))  # type: ignore[dict-item]
        in_memory = {"DataFrame": Frame, "emitted_when_due": _emitted_when_due}
        with (
            mock.patch.multiple(graph_epochs, **in_memory),  # type: ignore[arg-type]
            mock.patch.object(event_times, "look_at", look_at),
            mock.patch.object(stages_together, "StagesInOneJob", OneJob),
        ):
            if what == "live":
                self.epochs.streaming_epoch(self.phase, source)
            elif what == "clock":
                self.epochs.tick(self.phase, idle=True)
            elif what == "end":
                for stage in self.spec.stages:
                    self.epochs.fire_all(self.phase, stage.uid)
            elif what == "whole":
                self.epochs.sorted_pass(self.phase, source, MAX_WATERMARK, at_end=True)
            else:
                final = None if what == "more" else OBSERVED
                self.epochs.sorted_pass(self.phase, source, final, drop_late=what == "lag")
        files, self.state.pending = self.state.pending, []
        last = self.kinds[self.spec.last_stage.uid]
        found = [row for file in files for row in plain(self.tables.pop(file.name)).to_pylist()]
        assert not self.tables, "an exchange is gone with its epoch"
        return sorted((last.handed_on(row) for row in found), key=repr)

    def fired_ms(self) -> Mapping[str, int]:
        """By stage what it has fired up to."""
        return {uid: stage.watermark.fired_ms for uid, stage in self.state.stages.items()}

    def close(self) -> None:
        self.cache.close()
