"""Runs a stage's epochs in this process, shard after shard: real operators, state files and local copies."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyarrow import fs

from ..runtime.connectors.staging import StagedFile
from ..runtime.jobs.stage_epoch import EpochRows, StageEpoch, StageResult
from ..runtime.operators.contract import EpochSpec, KeyedOperator, ShardContext, ShardCounters
from ..runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..runtime.protocols.operator_events.task_events import ShardInbox, TaskEvents
from ..runtime.tasks.report import ShardReport
from ..state.keys.keygroups import ShardId, all_shards
from ..state.store.local_copy import LocalStateCache, LocalStateCopy
from ..state.store.log import LogWriter
from ..state.store.sst import SstWriter
from ..state.store.state_manifest import StateManifest
from .local_rows import LocalRows

#: Makes of an epoch's rows those of the shards: with ``__kg``, in the order of a shard's task.
Prepared = Callable[[LocalRows, EpochSpec], pa.Table]
#: So many rows reach an operator at a time: few, so that keys span several batches in tests, too.
_BATCH_ROWS = 4


@dataclass
class LocalShardState:
    """Where the state of one run is, and the output that its tasks have staged."""

    folder: str
    run: str
    filesystem: fs.FileSystem
    cache: LocalStateCache
    #: Staged output by name.
    tables: dict[str, pa.Table]

    def local_copy(self, uid: str, shard: ShardId, manifest: StateManifest) -> LocalStateCopy | None:
        """A shard's state; None: there is none.

        Args:
            uid: of the stage.
            shard: its number.
            manifest: its files.
        """
        if not manifest.files:
            return None
        pool, local = self.places(uid)
        return self.cache.acquire(f"{self.run}-{uid}", shard, manifest, self.filesystem, pool, local, 1 << 20)

    def places(self, uid: str) -> tuple[str, str]:
        """The folders of a stage's state files and local copies."""
        return f"{self.folder}/pool-{uid}", f"{self.folder}/local-{uid}"


@dataclass
class LocalShards:
    """Stands for a stage's ``EpochExecutor``.

    Args:
        state: where state and output are.
        operator: the stage's.
        prepared: what Spark would do to its rows.
        feeds_a_stage: its rows go to another stage.
    """

    state: LocalShardState
    operator: KeyedOperator
    prepared: Prepared
    feeds_a_stage: bool
    observes: bool = False

    def is_first_pass(self, epoch: StageEpoch) -> bool:
        """No stage has Spark do its first pass here."""
        return False

    def forget_shards(self) -> None:
        """Nothing is kept for shards here but their local copies, which know what they hold."""

    def execute(
        self, epoch: StageEpoch, rows: EpochRows | None = None, *, shards: Sequence[ShardId] | None = None, **_: Any
    ) -> StageResult:
        """As of ``EpochExecutor``.

        Args:
            epoch: the epoch.
            rows: its rows; None: there are none.
            shards: those that take part, if there are no rows; None: all.
        """
        visited = all_shards(len(epoch.manifests)) if rows is not None or shards is None else shards
        table = None if rows is None else self.prepared(cast(LocalRows, rows.frame), epoch.spec)
        return StageResult([self._shard(shard, epoch, table) for shard in visited])

    def _shard(self, shard: ShardId, stage: StageEpoch, table: pa.Table | None) -> ShardReport:
        state, uid, epoch, manifest = self.state, self.operator.uid, stage.spec, stage.manifests[shard]
        pool, local = state.places(uid)
        name = f"e{epoch.epoch:08d}-s{shard:04d}-{uuid.uuid4().hex[:8]}"
        writer_class = SstWriter if epoch.style == "sorted" else LogWriter
        writer = writer_class(state.filesystem, pool, local, name, epoch.epoch)
        output, counters, events = CollectedRows(), ShardCounters(), TaskEvents(stage.inboxes.get(shard, ShardInbox()))
        context = ShardContext(
            shard,
            manifest.key_groups,
            epoch,
            state.local_copy(uid, shard, manifest),
            writer,
            output,
            counters,
            events,
            self.feeds_a_stage,
        )
        try:
            self.operator.run(context, _batches(table, manifest))
        except BaseException:
            writer.abort()
            raise
        files = tuple(writer.finish())
        staged: tuple[StagedFile, ...] = ()
        if output.batches:
            state.tables[name] = pa.Table.from_batches(output.batches)
            staged = (StagedFile(name, state.tables[name].num_rows, 0),)
        return ShardReport(
            shard, name, files, staged, counters, {}, events=tuple(events.sent), own_state=events.own_state
        )


class CollectedRows:
    """An output writer that keeps the rows."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)


def _batches(table: pa.Table | None, manifest: StateManifest) -> Iterator[pa.RecordBatch]:
    if table is not None:
        groups = table.column(KEY_GROUP_COLUMN).to_pylist()
        mine = pa.array([group in manifest.key_groups for group in groups], pa.bool_())
        yield from table.filter(mine).combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
