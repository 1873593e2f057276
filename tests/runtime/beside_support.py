"""A job in this process that takes real checkpoints, which are completed when a test says so, and that can die.

Everything but Spark is real: the coordinator of checkpoints, cuts, ``_metadata``, compaction, garbage collection and
the job's lifecycle.  The thread beside the epochs is a list of what is still to be done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pyarrow as pa
from graph_support import Job, Row, Stage, plain
from mixedmode.runtime.checkpoints.branch import Branch
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.staging import epoch_of
from mixedmode.runtime.driver.checkpoint import async_checkpoint, housekeeping, output_commit
from mixedmode.runtime.driver.checkpoint.async_checkpoint import CheckpointServices
from mixedmode.runtime.driver.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from mixedmode.runtime.driver.checkpoint.housekeeping import Housekeeping
from mixedmode.runtime.driver.checkpoint.output_commit import commit_transaction
from mixedmode.runtime.driver.coordinators.task_graph import lifecycle_of
from mixedmode.runtime.driver.recovery.initial_state import fresh_state, restored_state
from mixedmode.runtime.driver.state.job_state import JobState
from mixedmode.runtime.protocols.checkpoint_scheduler import CheckpointScheduler
from mixedmode.runtime.protocols.lifecycle.work import TaskWorker
from mixedmode.state.store.compaction import compact
from mixedmode.testing.local_job import MAX_PARALLELISM

#: Where a process may die while it completes a checkpoint.
POINTS = (
    "checkpoint-after-compaction",
    "events-stored",
    "checkpoint-after-metadata",
    "events-opened",
    "checkpoint-after-commit",
    "checkpoint-before-gc",
)


def at(*times_ms: int) -> list[Row]:
    """Rows of one key at these times."""
    return [("a", time_ms * 1000, 1) for time_ms in times_ms]


class Died(BaseException):
    """The process is gone."""


class Shown:
    """A sink that shows tables of staged rows; the same file again changes nothing."""

    shows_at_once = False
    merges_epochs = True
    partition_by = ()
    staging_path = None

    def __init__(self) -> None:
        self.staged: dict[str, pa.Table] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def guard(self) -> None:
        pass

    @property
    def staging(self) -> Any:
        """It is its own staging folder."""
        return self

    def commit(self, transaction: Any) -> None:
        for file in transaction.files:
            if file.name not in self.rows:
                self.rows[file.name] = plain(self.staged.pop(file.name)).to_pylist()

    def sweep(
        self, up_to_epoch: int | None = None, up_to_checkpoint: int | None = None, keep: Collection[str] = ()
    ) -> None:
        for name in [name for name in self.staged if up_to_epoch is None or epoch_of(name) <= up_to_epoch]:
            del self.staged[name]


class Store(CheckpointStore):
    """Checkpoints beside the pools of a job of a test."""

    def pool(self, uid: str) -> str:
        return f"{self.location}/pool-{uid}"


class Checkpointed(Job):
    """A job that takes checkpoints.

    Args:
        folder: for its state and its checkpoints.
        stages: in topological order.
    """

    def __init__(self, folder: Path | str, stages: Sequence[Stage]) -> None:
        self.sink = Shown()
        #: What is to be done beside the epochs.
        self.beside: list[Callable[[], None]] = []
        #: Whether that is done at once.
        self.at_once = False
        #: What has become of checkpoints, by their numbers.
        self.outcomes: list[str] = []
        super().__init__(folder, stages)

    def _begin(self, state: JobState) -> None:
        lane: Any = SimpleNamespace(history=None)
        self.spec = replace(self.spec, sink=cast(Any, self.sink), lanes=(lane,))
        super()._begin(state)
        self.store = Store(self.filesystem, self.folder, Branch())
        self.epochs.store = self.store
        self.beside.clear()
        self.tasks = TaskWorker(lifecycle_of(self.spec, state))
        services = CheckpointServices(self.spec, self.store, mock.Mock(), self.events, {}, cast(Any, Compactor(self)))
        self.scheduler = CheckpointScheduler(1 << 60, 0, 0, 0, frozenset(state.sources))
        self.coordinator = CheckpointCoordinator(
            services=services,
            scheduler=self.scheduler,
            state=state,
            tasks=self.tasks,
            stage_result=lambda: None,
            beside=self._do,
            housekeeping=Housekeeping(services, state, self._do),
            on_completed=lambda report: self.outcomes.append(f"{report.checkpoint_id} complete"),
            on_failed=lambda failed: self.outcomes.append(f"{failed.checkpoint_id} {failed.outcome}"),
        )

    def _do(self, work: Callable[[], None]) -> None:
        if self.at_once:
            work()
        else:
            self.beside.append(work)

    def pending(self) -> list[pa.Table]:
        staged = [file.name for file in self.state.pending if file.name in self.tables]
        self.sink.staged |= {name: self.tables.pop(name) for name in staged}
        return []  # it stays pending until a checkpoint shows it

    def cut(self) -> None:
        """Have a checkpoint begin, if none is in flight."""
        self.scheduler.request()
        self.coordinator.checkpoint_if_due()

    def complete(self, point: str = "") -> None:
        """Do what is to be done beside the epochs; the process dies at a point if one is given."""

        def reached(name: str) -> None:
            if name == point:
                raise Died(name)

        with ExitStack() as patched:
            for module in (async_checkpoint, housekeeping, output_commit):
                patched.enter_context(mock.patch.object(module, "failpoint", reached))
            while self.beside:
                self.beside.pop(0)()

    def die(self) -> int:
        """Go on in another process, from what is on disk; returns the checkpoint that it goes on from, or 0."""
        self.close()
        found = self.store.latest()
        if found is None:
            state = fresh_state(self.spec, "job", MAX_PARALLELISM, 2)
        else:
            commit_transaction(self.spec, self.store, found)
            state = restored_state(self.spec, found, None)
        self.sink.sweep()
        for uid, stage in state.stages.items():
            self.store.retention.collect_garbage(uid, stage.manifests)
        self._begin(state)
        return state.checkpoint_id

    def end(self) -> None:
        """Have everything shown."""
        self.complete()
        self.at_once = True
        assert self.coordinator.checkpoint_if_behind("end")
        self.coordinator.housekeeping.finish()

    def shown(self) -> list[Row]:
        """The rows that everybody sees."""
        last = self.kinds[self.spec.last_stage.uid]
        return sorted((last.handed_on(row) for rows in self.sink.rows.values() for row in rows), key=repr)

    def check_files(self, *, nothing_else: bool = False) -> None:
        """What the job and its checkpoints name is there.

        Args:
            nothing_else: and no file of their epochs besides, which holds when the run has ended in good order.
        """
        named = {stage.uid: {file.name for one in stage.manifests for file in one.files} for stage in self.stages}
        for uid, names in named.items():
            assert names <= set(os.listdir(self.store.pool(uid))), f"files of {uid} are gone that the job reads"
        if self.store.latest() is None:  # which looks for its files
            return
        kept = [self.store.read(number) for number in self.store.ids()]
        for held in (operator for one in kept for operator in one.operators):
            named[held.uid] |= {file.name for shard in held.shards for file in shard.load().files}
        for uid, names in named.items():
            if not nothing_else:
                continue
            left = {name for name in os.listdir(self.store.pool(uid)) if epoch_of(name) <= kept[-1].epoch}
            assert left <= names, "files that nobody names are removed"

    @property
    def stages(self) -> list[Any]:
        return list(self.state.stages.values())


class Compactor:
    """Stands for the Spark job that compacts."""

    def __init__(self, job: Checkpointed) -> None:
        self._job = job

    def compacted(self, operator: Any, manifests: Sequence[Any], epoch: int) -> dict[int, Any]:
        here, found = self._job.here, {}
        pool, local = here.places(operator.uid)
        os.makedirs(local, exist_ok=True)
        for shard, manifest in enumerate(manifests):
            if (kind := manifest.needs_compaction()) is not None:
                local_copy = here.local_copy(operator.uid, shard, manifest)
                assert local_copy is not None
                name = f"e{epoch:08d}-compacted-{os.urandom(4).hex()}-s{shard:04d}"
                found[shard] = compact(manifest, local_copy, here.filesystem, pool, local, name, kind=kind)
        return found
