"""A job of several stages in this process: real operators, state files, watermarks and epochs; only Spark is not there.

What Spark does to rows between two stages (partial aggregates, the first row of each key, the shuffle, the sort) is
done here in plain Python, and handoffs are tables in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pyarrow as pa
from mixedmode.runtime.connectors.sources.live_inputs import LiveInput
from mixedmode.runtime.driver.epochs import handed_on_rows, stage_fusion
from mixedmode.runtime.driver.epochs.epoch_specs import OBSERVED
from mixedmode.runtime.driver.epochs.source_rows import SourceRows
from mixedmode.runtime.jobs.fused_stages import FusedStage
from mixedmode.runtime.jobs.stage_epoch import EpochRows, StageEpoch, StageResult
from mixedmode.runtime.operators.contract import EpochSpec, KeyedOperator
from mixedmode.runtime.operators.emission_watermark import EMITTED_COLUMN
from mixedmode.runtime.operators.frame_steps import FrameStep
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from mixedmode.runtime.spec import LaneRead, Settings, StageEdge, StageSpec
from mixedmode.testing.local_job import MAX_PARALLELISM, LocalHandoff, LocalJob
from mixedmode.testing.local_rows import LocalRows
from mixedmode.testing.local_shards import LocalShards

TIME = pa.timestamp("us", "UTC")
ROW = pa.schema([pa.field("k", pa.string()), pa.field("ts", TIME), pa.field("v", pa.int64())])

#: (key, event time in microseconds, value); nulls are None.
Row = tuple[Any, "int | None", int]


def dicts(frame: LocalRows) -> list[dict[str, Any]]:
    """The rows, times in microseconds."""
    rows: list[dict[str, Any]] = plain(frame.table).to_pylist()
    return rows


def plain(table: pa.Table) -> pa.Table:
    """Times, also of windows, as numbers."""
    return table.cast(pa.schema([pa.field(one.name, _plain(one.type)) for one in table.schema]))


def _plain(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.int64()
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in data_type])
    return data_type


def frame_of(rows: Sequence[Row]) -> LocalRows:
    """Rows of a source."""
    return LocalRows(pa.Table.from_pylist([dict(zip(ROW.names, row, strict=True)) for row in rows], ROW))


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


def _prepared(kind: Kind, operator: KeyedOperator) -> Callable[[LocalRows, EpochSpec], pa.Table]:
    """What Spark would make of a stage's rows."""

    def prepared(frame: LocalRows, epoch: EpochSpec) -> pa.Table:
        rows, schema = kind.prepared(dicts(frame), epoch)
        order = ["__kg", *operator.key_columns, *[c for c in operator.order_in(epoch) if c in schema.names]]
        rows.sort(key=lambda row: [_in_order(row[name]) for name in order])
        return pa.Table.from_pylist(rows, schema)

    return prepared


def key_group(*key: Any) -> int:
    return zlib.crc32(repr(key).encode()) % MAX_PARALLELISM


class Failed(Exception):
    """An epoch that was told to fail."""


@dataclass
class Executor(LocalShards):
    """Runs a stage's epochs here, and fails if it is told to."""

    job: Any = None
    #: Fail at the end of the next epoch.
    fails: bool = False
    #: The rows that it got, by epoch.
    got: dict[int, int] = field(default_factory=dict)

    def execute(self, epoch: StageEpoch, rows: EpochRows | None = None, **of_shards: Any) -> StageResult:
        self.got[epoch.spec.epoch] = 0 if rows is None else cast(LocalRows, rows.frame).table.num_rows
        done = super().execute(epoch, rows, **of_shards)
        if self.fails:
            self.fails = False
            for report in done.reports:
                for file in report.output:
                    del self.state.tables[file.name]
            raise Failed
        return done


class OneJob:
    """Two stages in one job: the second one takes rows as the first one hands them on; of none it visits all shards."""

    def __init__(self, first: Executor, second: Executor, over: Callable[[Any], Any]) -> None:
        self.first, self.second, self.over = first, second, over

    def execute(self, frame: LocalRows, first: FusedStage, second: FusedStage) -> tuple[StageResult, StageResult]:
        self.first.job.epochs_together += 1
        done = self.first.execute(first.epoch, EpochRows(cast(Any, frame))).reports
        handoff, files = (
            LocalHandoff(self.first.state.tables),
            [file for report in done for file in report.output],
        )
        rows = handoff.frame(files)
        try:
            followed = self.second.execute(second.epoch, None if rows is None else EpochRows(self.over(rows)))
        finally:
            handoff.discard(files)
        handed_on = [
            replace(report, output=(), handed_on_rows=sum(file.rows for file in report.output)) for report in done
        ]
        return StageResult(handed_on), followed


def _in_order(value: Any) -> Any:
    """A value as Spark orders it: nulls first, structs by their fields."""
    if isinstance(value, dict):
        return (True, [_in_order(one) for one in value.values()])
    return (value is not None, value.encode() if isinstance(value, str) else value or 0)


def _emitted_when_due(rows: LocalRows, event_time: str) -> LocalRows:
    times = [None if row[event_time] is None else row[event_time] // 1000 for row in dicts(rows)]
    return LocalRows(rows.table.append_column(EMITTED_COLUMN, pa.array(times, pa.int64())))


@dataclass(frozen=True)
class Stage:
    """One stage of a job to be made: what it takes rows of ("": the source), and by which condition."""

    uid: str
    kind: Kind
    origins: tuple[str, ...] = ("",)
    delay_ms: int = 0
    condition: Callable[[Row], bool] = lambda row: True
    #: It has keys of its own.
    rekeyed: bool = False

    def taken(self, rows: Sequence[Row]) -> list[Row]:
        """What it takes of rows."""
        return [("ab"[v % 2] if self.rekeyed else k, time, v) for k, time, v in rows if self.condition((k, time, v))]


def _step(kind: Kind | None, stage: Stage) -> FrameStep:
    """The operations between a stage (or a source) and the next."""

    def function(frame: Any) -> Any:
        rows = [
            {**dict(zip(ROW.names, out, strict=True)), EMITTED_COLUMN: row.get(EMITTED_COLUMN)}
            for row in dicts(frame)
            for out in stage.taken([(row["k"], row["ts"], row["v"]) if kind is None else kind.handed_on(row)])
        ]
        made = LocalRows(pa.Table.from_pylist(rows, ROW.append(pa.field(EMITTED_COLUMN, pa.int64()))))
        return made if EMITTED_COLUMN in frame.columns else made.drop(EMITTED_COLUMN)

    return FrameStep("select", function)


class Job(LocalJob):
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
        self.kinds = {stage.uid: stage.kind for stage in stages}
        #: Epochs in which two stages were one job.
        self.epochs_together = 0
        self._inputs = (LiveInput("live"),) if is_live else ()
        #: Late rows by stage.
        self.late: dict[str, int] = dict.fromkeys(self.kinds, 0)
        specs = tuple(self._spec(stage, timers == "in-order") for stage in stages)
        super().__init__(
            folder,
            specs,
            {spec.uid: _prepared(self.kinds[spec.uid], spec.operator) for spec in specs},
            Settings(timers=timers, max_parallelism=MAX_PARALLELISM),  # type: ignore[arg-type]
            shards=shards,
            inputs=self._inputs,
            told=self._count_late,
        )

    def executor(self, stage: StageSpec, *, feeds: bool) -> Executor:
        return Executor(self.here, stage.operator, self.prepared[stage.uid], feeds, job=self)

    def _spec(self, stage: Stage, in_order: bool) -> StageSpec:
        reads = "" in stage.origins
        edges = tuple(
            StageEdge(origin, (_step(self.kinds[origin], stage),), stage.delay_ms) for origin in stage.origins if origin
        )
        return StageSpec(
            operator=stage.kind.operator(stage.uid, follows=bool(edges), in_order=in_order),
            event_time=stage.kind.event_time,
            watermark_delay_ms=stage.delay_ms,
            edges=edges,
            reads=(LaneRead(0, (_step(None, stage),)),) if reads else (),
            delays_ms={one.name: stage.delay_ms for one in self._inputs if reads},
        )

    def _count_late(self, fact: Any) -> None:
        for stage in fact.stages:
            self.late[stage.uid] += sum(report.counters.rows_late for report in stage.reports)

    def take(self, what: str, rows: Sequence[Row] = ()) -> list[Row]:
        """One epoch, or a look at the clock; returns what comes out.

        Args:
            what: ``live`` (a micro-batch), ``clock``, ``backlog`` (one sorted pass), ``more`` (a pass that others
                follow), ``lag`` (the pass of a stream that fell back), ``whole`` (a pass with which all input ends),
                ``end`` (the end of input, stage by stage).
            rows: of the source.
        """
        source: Any = SourceRows(lives=({0: frame_of(rows)},))  # type: ignore[dict-item]
        with (
            mock.patch.object(handed_on_rows, "emitted_when_due", _emitted_when_due),
            mock.patch.object(stage_fusion, "FusedStages", OneJob),
        ):
            if what == "live":
                self.epochs.streaming_epoch(self.phase, source)
            elif what == "clock":
                # As a run: it asks whether the source is drained, which it is, only if that would move anything.
                self.epochs.tick(self.phase, idle=self.epochs.moves_if_idle())
            elif what == "end":
                for stage in self.spec.stages:
                    self.epochs.fire_all(self.phase, stage.uid)
            elif what == "whole":
                self.epochs.sorted_pass(self.phase, source, MAX_WATERMARK, at_end=True)
            else:
                final = None if what == "more" else OBSERVED
                self.epochs.sorted_pass(self.phase, source, final, drop_late=what == "lag")
        last = self.kinds[self.spec.last_stage.uid]
        found = [row for table in self.pending() for row in plain(table).to_pylist()]
        assert not self.tables, "a handoff is gone with its epoch"
        return sorted((last.handed_on(row) for row in found), key=repr)

    def fired_ms(self) -> Mapping[str, int]:
        """By stage what it has fired up to."""
        return {uid: stage.watermark.fired_ms for uid, stage in self.state.stages.items()}
