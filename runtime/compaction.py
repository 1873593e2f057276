"""Compacts shards whose change logs have outgrown their base, in one Spark job with one task per shard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs
from pyspark import TaskContext

from ..state.compaction import compact, dead_entries
from ..state.keys import KeyCodec
from ..state.lineage import ShardLineage
from ..state.registry import StateRegistry
from ..state.replica import process_cache
from .shard_task import REPORT_COLUMN, REPORT_SCHEMA, local_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class CompactionTask:
    """What a compaction task needs; like a shard task it only writes new, attempt-private files."""

    job_id: str
    epoch: int
    name: str
    lineages: tuple[ShardLineage, ...]
    shards: tuple[int, ...]
    registry: StateRegistry
    key_schema: pa.Schema
    filesystem: fs.FileSystem
    pool: str
    local_dir: str | None
    cache_bytes: int
    #: Processing time by which expired values are dropped.
    now_ms: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None, "compaction runs only inside a Spark task"
        shard = self.shards[context.partitionId()]
        lineage = self.lineages[shard]
        local_dir = local_root(self.local_dir)
        replica = process_cache().acquire(
            self.job_id, shard, lineage, self.filesystem, self.pool, local_dir, self.cache_bytes
        )
        name = f"{self.name}-s{shard:04d}-{context.taskAttemptId()}"
        is_dead = dead_entries(self.registry, KeyCodec(self.key_schema), self.now_ms)
        compacted = compact(lineage, replica, self.filesystem, self.pool, local_dir, name, is_dead=is_dead)
        body = json.dumps({"shard": shard, "lineage": compacted.to_json()}).encode()
        yield pa.RecordBatch.from_pydict({REPORT_COLUMN: pa.array([body], pa.binary())})


def compact_shards(spark: SparkSession, task: CompactionTask) -> dict[int, ShardLineage]:
    """Run the compaction; returns the new lineage of each shard."""
    count = len(task.shards)
    rows = spark.range(0, count, 1, count).mapInArrow(task, REPORT_SCHEMA).collect()
    bodies = [json.loads(bytes(row[0])) for row in rows]
    return {body["shard"]: ShardLineage.from_json(body["lineage"]) for body in bodies}
