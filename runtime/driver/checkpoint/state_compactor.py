"""Compacts and rewrites the state files of a stage's shards, in one Spark job."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId, by_shard
from ....state.store.compaction import StateRewrite
from ....state.store.packed_manifests import PackedManifests
from ....state.store.state_manifest import CompactionKind, StateManifest
from ...checkpoints.store import CheckpointStore
from ...jobs.executor import EpochExecutor
from ...operators.contract import KeyedOperator
from ...spec import JobSpec
from ...support.failpoints import failpoint
from ...support.ids import EpochNumber, JobId, RunId
from ...tasks.shard_states import ShardStates
from ...tasks.state.compaction_task import CompactionTask, compact_shards
from ..clocks import now_ms

_T = TypeVar("_T")


@dataclass(frozen=True)
class StateCompactor:
    """Makes fewer files of the same state, or the same files of changed values.

    Args:
        job: whose state it is.
        job_id: its id.
        run_id: of this run; it is part of the files' names.
        store: where the files are.
        executors: by stage; they know where tasks of its shards run.
    """

    job: JobSpec
    job_id: JobId
    run_id: RunId
    store: CheckpointStore
    executors: Mapping[str, EpochExecutor]

    def compacted(
        self, operator: KeyedOperator, manifests: Sequence[StateManifest], epoch: EpochNumber
    ) -> dict[ShardId, StateManifest]:
        """Compact the shards whose change logs have outgrown their base.

        Args:
            operator: the stage's.
            manifests: of all its shards.
            epoch: the last one that is in them.

        Returns:
            The new manifests of those that were compacted, by shard.

        Raises:
            CheckpointError: it took longer than a checkpoint may.
        """
        kinds = {shard: kind for shard, manifest in by_shard(manifests) if (kind := manifest.needs_compaction())}
        if not kinds:
            return {}
        return self._within_timeout(lambda: self._run(operator, manifests, epoch, kinds))

    def rewritten(
        self, operator: KeyedOperator, manifests: Sequence[StateManifest], epoch: EpochNumber, change: StateRewrite
    ) -> dict[ShardId, StateManifest]:
        """Change all values of the state, however long it takes: there is nothing to go on with without it.

        Args:
            operator: the stage's.
            manifests: of all its shards.
            epoch: the last one that is in them.
            change: what is done to each value.

        Returns:
            The new manifests of those that have state, by shard.
        """
        kinds: dict[ShardId, CompactionKind] = {
            shard: "full" for shard, manifest in by_shard(manifests) if manifest.files
        }
        return self._run(operator, manifests, epoch, kinds, change) if kinds else {}

    def give_up(self) -> None:
        """Cancel what runs on behalf of a checkpoint."""
        self.job.spark.sparkContext.cancelJobsWithTag(self._tag)

    @property
    def _tag(self) -> str:
        return f"mixedmode-{self.run_id}-checkpoint"

    def _run(
        self,
        operator: KeyedOperator,
        manifests: Sequence[StateManifest],
        epoch: EpochNumber,
        kinds: dict[ShardId, CompactionKind],
        change: StateRewrite | None = None,
    ) -> dict[ShardId, StateManifest]:
        what = "compacted" if change is None else "rewritten"
        rows, partitions = self.executors[operator.uid].places(tuple(kinds), manifests)
        task = CompactionTask(
            epoch=epoch,
            name=f"e{epoch:08d}-{what}-{self.run_id}-{uuid.uuid4().hex[:8]}",
            states=ShardStates(
                job_id=self.job_id,
                manifests=PackedManifests(manifests),
                filesystem=self.store.filesystem,
                pool=self.store.pool(operator.uid),
                local_dir=self.job.settings.state_local_dir,
                cache_bytes=self.job.settings.state_cache_bytes,
            ),
            kinds=kinds,
            shards=partitions,
            registry=operator.registry,
            key_schema=operator.key_schema,
            now_ms=now_ms(),
            change=change,
        )
        compacted = compact_shards(rows, task)
        failpoint("checkpoint-compacted")
        return compacted

    def _within_timeout(self, run: Callable[[], _T]) -> _T:
        """Run Spark jobs on behalf of a checkpoint; they are cancelled when the checkpoint's time is up."""
        context = self.job.spark.sparkContext
        timeout_ms = self.job.settings.checkpoint_timeout_ms
        tag = self._tag
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            context.cancelJobsWithTag(tag)

        timer = threading.Timer(timeout_ms / 1000, give_up)
        timer.daemon = True  # a process that ends meanwhile does not stay for it
        timer.start()
        context.addJobTag(tag)
        try:
            return run()
        except Exception as error:
            if expired.is_set():
                raise CheckpointError(
                    f"it took longer than execution.checkpointing.timeout ({timeout_ms} ms)"
                ) from error
            raise
        finally:
            context.removeJobTag(tag)
            timer.cancel()
