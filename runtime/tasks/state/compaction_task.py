"""Compacts shards whose change logs have outgrown their base, in one Spark job with one task per shard.

The tasks run where those of the shards' epochs do (``placement``): what is compacted is read from the shard's local
copy, and a local copy that has missed the last epoch before a compaction must be built anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from ....state.keys.keygroups import ShardId
from ....state.keys.keys import KeyCodec
from ....state.keys.registry import StateRegistry
from ....state.store.compaction import StateRewrite, compact, dead_entries, rewrite
from ....state.store.state_manifest import CompactionKind, StateManifest
from ...catalyst.types.arrow_functions import mapped_in_arrow
from ...jvm.worker.worker_tasks import task_begins, task_context
from ...jvm.worker_errors import raised_in_workers
from ...support.failpoints import failpoint
from ...support.ids import EpochNumber
from ..report import NO_SHARD, REPORT_SCHEMA, report_batch
from ..shard_states import ShardStates


@dataclass(frozen=True)
class CompactionTask:
    """What a compaction task needs; like a shard task it only writes new, attempt-private files."""

    epoch: EpochNumber
    name: str
    states: ShardStates
    #: What is due, by shard.  It was the driver that found out, so no task decides otherwise.
    kinds: Mapping[ShardId, CompactionKind]
    #: Partition number -> shard, or ``NO_SHARD`` for a partition that is nobody's.
    shards: tuple[ShardId, ...]
    registry: StateRegistry
    key_schema: pa.Schema
    #: Processing time by which expired values are dropped.
    now_ms: int
    #: What becomes of the values on the way; None: they stay.
    change: StateRewrite | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_begins()
        for _ in batches:
            pass
        context = task_context()
        shard = self.shards[context.partitionId()]
        if shard == NO_SHARD:
            return
        failpoint("compaction-start")
        states, local_copy = self.states, self.states.acquire(shard)
        failpoint("compaction-after-restore")
        name = f"{self.name}-s{shard:04d}-{context.taskAttemptId()}"
        where = (states.manifests[shard], local_copy, states.filesystem, states.pool, states.local_root, name)
        if self.change is None:
            is_dead = dead_entries(self.registry, KeyCodec(self.key_schema), self.now_ms)
            compacted = compact(*where, kind=self.kinds[shard], is_dead=is_dead)
        else:
            compacted = rewrite(*where, self.change)
        failpoint("compaction-before-report")
        body = json.dumps({"shard": shard, "lineage": compacted.to_json()}).encode()
        yield report_batch(body)


def compact_shards(rows: DataFrame, task: CompactionTask) -> dict[ShardId, StateManifest]:
    """Run the compaction in the partitions of ``rows``; returns the new manifest of each shard.

    Raises:
        CorruptStateError: a file of a shard is not as it was written.
    """
    with raised_in_workers():
        reports = mapped_in_arrow(rows, task, REPORT_SCHEMA).collect()
    bodies = [json.loads(bytes(report[0])) for report in reports]
    return {body["shard"]: StateManifest.from_json(body["lineage"]) for body in bodies}
