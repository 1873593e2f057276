"""A job in this process: real operators, state files, watermarks, epochs and recovery; only Spark is not there."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyarrow import fs

from ..runtime.checkpoints.metadata import CheckpointMetadata
from ..runtime.connectors.sources.live_inputs import LiveInput
from ..runtime.connectors.staged_form import StagedForm
from ..runtime.connectors.staging import StagedFile
from ..runtime.driver.coordinators.event_channels import JobEvents
from ..runtime.driver.epochs.epoch_runner import EpochRunner
from ..runtime.driver.epochs.graph_epochs import GraphEpochs
from ..runtime.driver.recovery.initial_state import fresh_state, restored_state
from ..runtime.driver.run.rescaling import reassign_shards
from ..runtime.driver.state.job_state import CheckpointCause, CheckpointSnapshot, JobState
from ..runtime.metrics.backlog_progress import BacklogProgress
from ..runtime.spec import JobSpec, Phase, Settings, StageSpec
from ..runtime.support.ids import CheckpointId, JobId
from ..state.store.local_copy import LocalStateCache
from .local_rows import LocalRows, look_at
from .local_shards import LocalShards, LocalShardState, Prepared

#: A job of a test has few key groups: each costs a look at its timers.
MAX_PARALLELISM = 16


class NoSpark:
    """Takes the names that Spark's UI would show."""

    @property
    def sparkContext(self) -> NoSpark:
        return self

    def addJobTag(self, tag: str) -> None:
        pass

    def removeJobTag(self, tag: str) -> None:
        pass

    def setJobDescription(self, text: str | None) -> None:
        pass


class _Kept:
    """A sink whose rows wait for whoever looks, and a store that is always ours."""

    shows_at_once = False

    def guard(self) -> None:
        pass


@dataclass(frozen=True)
class LocalHandoff:
    """What one stage hands on, from the tables of a job."""

    tables: dict[str, pa.Table]

    def frame(self, files: Sequence[StagedFile]) -> LocalRows | None:
        """The rows of some files."""
        return LocalRows(pa.concat_tables([self.tables[file.name] for file in files])) if files else None

    def discard(self, files: Any) -> None:
        """Forget some files."""
        for file in files:
            del self.tables[file.name]


class LocalJob:
    """A job whose epochs are run one by one.

    Args:
        folder: for its state.
        stages: in topological order.
        prepared: by stage, what Spark would do to its rows.
        settings: its options.
        shards: of each stage.
        inputs: its live inputs.
        told: is called with each fact that a run tells of.
    """

    def __init__(
        self,
        folder: Path | str,
        stages: Sequence[StageSpec],
        prepared: Mapping[str, Prepared],
        settings: Settings,
        *,
        shards: int,
        inputs: Sequence[LiveInput],
        told: Callable[[Any], None] = lambda fact: None,
    ) -> None:
        self.folder, self.filesystem = str(folder), fs.LocalFileSystem()
        self.prepared, self.told = prepared, told
        for stage in stages:
            Path(self.folder, f"pool-{stage.uid}").mkdir()
        self.phase = Phase(kind="live", reason="a test")
        self.spec = JobSpec(
            spark=cast(Any, NoSpark()),
            name=None,
            lanes=(),
            live=None,
            stages=tuple(stages),
            sink=cast(Any, _Kept()),
            settings=settings,
            phases=(self.phase,),
            checkpoint_location=None,
            trigger={},
            explain=lambda _: "",
            live_inputs=tuple(inputs),
        )
        self.tables: dict[str, pa.Table] = {}
        #: Checkpoints that :meth:`restart` has taken.
        self.checkpoints = 0
        self._begin(fresh_state(self.spec, JobId("job"), settings.max_parallelism, shards))

    def _begin(self, state: JobState) -> None:
        self.state = state
        self.here = LocalShardState(self.folder, uuid.uuid4().hex, self.filesystem, LocalStateCache(), self.tables)
        last = self.spec.last_stage.uid
        self.executors = {stage.uid: self.executor(stage, feeds=stage.uid != last) for stage in self.spec.stages}
        handoffs = {uid: LocalHandoff(self.tables) for uid in self.executors if uid != last}
        self.events = JobEvents.of(self.spec, state, lambda: None)
        listener: Any = _Listener(self.told)
        self.graph = GraphEpochs(
            job=self.spec,
            state=state,
            executors=cast(Any, self.executors),
            handoffs=cast(Any, handoffs),
            listener=listener,
            backlog=BacklogProgress(self.filesystem, f"{self.folder}/progress"),
            tag="test",
            events=self.events,
            applied=lambda: None,
            look=look_at,
        )
        self.epochs = EpochRunner(
            job=self.spec,
            state=state,
            store=cast(Any, _Kept()),
            graph=self.graph,
            listener=listener,
            turn=threading.RLock(),
            stopping=threading.Event(),
            events=self.events,
        )
        self.events.open()

    def executor(self, stage: StageSpec, *, feeds: bool) -> LocalShards:
        """What runs a stage's epochs; ``feeds``: its rows go to another stage."""
        return LocalShards(self.here, stage.operator, self.prepared[stage.uid], feeds)

    def restart(self, shards: int) -> None:
        """Go on from a checkpoint of the job as it stands, as another process would."""
        self.checkpoints += 1
        number = CheckpointId(self.checkpoints)
        events = self.events.begin(number)
        cut = CheckpointSnapshot.of(
            self.state, number, CheckpointCause("test"), finished_shards={}, events=events, form=StagedForm(columns=())
        )
        metadata = CheckpointMetadata.model_validate_json(cut.to_metadata(with_state=True).model_dump_json())
        self.close()
        self._begin(restored_state(self.spec, metadata, shards))

    def rescale(self, shards: Mapping[str, int]) -> None:
        """Deal stages to other numbers of shards, between two epochs; ``shards``: by stage."""
        reassign_shards(self.state, self.events, self.graph, shards)

    def pending(self) -> list[pa.Table]:
        """The output that was staged since somebody asked, in the order of its shards."""
        files, self.state.pending = self.state.pending, []
        return [self.tables.pop(file.name) for file in files]

    def close(self) -> None:
        """End the run."""
        self.events.close()
        self.here.cache.close()


class _Listener:
    def __init__(self, told: Callable[[Any], None]) -> None:
        self.on = told
