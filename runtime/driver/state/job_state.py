"""Holds a running job's state between two epochs, and the frozen snapshot of it that a checkpoint is made of.

Invariant: the state changes only between epochs, in one step, after all of the epoch's jobs have succeeded.  A failed
epoch leaves no trace in it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ....state.keys.keygroups import ShardId
from ...checkpoints.metadata import CheckpointMetadata, DueSavepoint, SourceState, SparkPosition
from ...connectors.sink_calls import SinkCall, calls_of
from ...connectors.staged_form import StagedForm
from ...connectors.staging import StagedFile
from ...connectors.transaction import SinkTransaction, next_ordinal
from ...protocols.operator_events.snapshot import StoredEvents
from ...protocols.watermarks import WatermarkTracker
from ...support.ids import NO_BATCH, NO_CHECKPOINT, NO_EPOCH, BatchId, CheckpointId, EpochNumber, JobId
from ...tasks.report import ShardReport
from .stage_state import StageCut, StageState


@dataclass
class JobState:
    """The consistent cut between two epochs."""

    job_id: JobId
    #: By uid, in topological order.
    stages: dict[str, StageState]
    sources: dict[str, SourceState]
    #: Last epoch that is part of this state.
    epoch: EpochNumber = NO_EPOCH
    #: Last one that has changed state or output; 0: none since the run has begun.
    changed_epoch: EpochNumber = NO_EPOCH
    #: Last complete checkpoint.
    checkpoint_id: CheckpointId = NO_CHECKPOINT
    #: Ordinal of its transaction; None: there is none, or it has none.
    ordinal: int | None = None
    #: Id of the last call of the sink's function that a complete checkpoint names.
    call_id: int = 0
    spark: SparkPosition | None = None
    #: Kafka's ids of the topics that were read, by the number of the source in Spark's log.
    topic_ids: dict[int, dict[str, str]] = field(default_factory=dict)
    #: Batch of the live source's query that is part of this state; -1: none.
    batch_id: BatchId = NO_BATCH
    #: Output of the epochs since the last checkpoint, for exactly-once sinks.
    pending: list[StagedFile] = field(default_factory=list)
    #: The same for late rows.
    pending_late: list[StagedFile] = field(default_factory=list)
    rows_late_total: int = 0
    finished: bool = False

    @classmethod
    def fresh(cls, job_id: JobId, stages: Sequence[StageState], sources: Sequence[str]) -> JobState:
        """A job that has processed nothing: every source is in backlog."""
        return cls(
            job_id=job_id,
            stages={stage.uid: stage for stage in stages},
            sources={name: SourceState(is_backlog=True) for name in sources},
        )

    @classmethod
    def restored(cls, metadata: CheckpointMetadata, stages: Sequence[StageState]) -> JobState:
        """The state that a checkpoint holds; ``stages``: what it holds of each."""
        return cls(
            job_id=metadata.job_id,
            stages={stage.uid: stage for stage in stages},
            sources=dict(metadata.sources),
            epoch=metadata.epoch,
            checkpoint_id=metadata.checkpoint_id,
            ordinal=metadata.transaction.ordinal,
            call_id=metadata.last_call,
            spark=metadata.spark,
            topic_ids={number: dict(ids) for number, ids in metadata.topic_ids.items()},
            batch_id=metadata.spark.batch_id if metadata.spark else NO_BATCH,
            rows_late_total=metadata.rows_late_total,
            finished=metadata.kind == "completion",
        )

    @property
    def first_stage(self) -> StageState:
        """The first one that reads the sources: readers of checkpoints that know one watermark are given its."""
        return next(iter(self.stages.values()))

    @property
    def live_watermarks(self) -> dict[str, WatermarkTracker]:
        """By live input the watermark of the first stage that reads it."""
        watermarks = [stage.watermark for stage in self.stages.values()]
        found = {name: one for one in reversed(watermarks) for name in one.delays_ms or () if name in self.sources}
        return {name: found[name] for name in self.sources if name in found}

    @property
    def parallelism(self) -> dict[str, int]:
        """Number of shards by stage."""
        return {uid: len(stage.shards) for uid, stage in self.stages.items()}

    @property
    def is_backlog(self) -> bool:
        """Combined by OR over the sources."""
        return any(source.is_backlog for source in self.sources.values())

    def set_source(self, name: str, **changes: object) -> None:
        """Change what is known of a source."""
        self.sources[name] = self.sources[name].model_copy(update=changes)

    def apply(
        self,
        epoch: EpochNumber,
        reports: Mapping[str, Sequence[ShardReport]],
        late: Sequence[StagedFile],
        roots: Collection[str],
    ) -> None:
        """Take over a finished epoch: the winners' files, output and timers.

        Args:
            epoch: its number.
            reports: of the winning attempts, by stage.
            late: late rows that were staged.
            roots: the stages whose rows are the job's output.
        """
        changed = bool(late)
        for uid, its in reports.items():
            self.stages[uid].apply(its)
            for report in its:
                output = report.output if uid in roots else ()
                self.pending.extend(output)
                self.rows_late_total += report.counters.rows_late
                changed = changed or bool(report.files or output) or report.own_state is not None
        self.pending_late.extend(late)
        self.epoch = epoch
        if changed:
            self.changed_epoch = epoch

    def complete(self, cut: CheckpointSnapshot) -> None:
        """A checkpoint is complete: its output is pending no more; that of later epochs belongs to the next one."""
        self.checkpoint_id, self.ordinal, self.spark = cut.number, cut.ordinal, cut.spark
        self.call_id = cut.last_call_id
        del self.pending[: len(cut.pending)], self.pending_late[: len(cut.pending_late)]


@dataclass(frozen=True)
class CheckpointCause:
    """Why a checkpoint is taken."""

    trigger: str
    #: Whether it is the end of a drain.
    drained: bool = False
    #: What it is taken for; None: for itself.
    savepoint: DueSavepoint | None = None


@dataclass(frozen=True)
class CheckpointSnapshot:
    """All that a checkpoint holds, frozen between two epochs; nothing that happens later is seen in it."""

    number: CheckpointId
    #: The ordinal of its transaction.
    ordinal: int
    #: The calls in which the sink's function gets its output.
    calls: tuple[SinkCall, ...]
    #: Id of the last call so far, those of earlier checkpoints included.
    last_call_id: int
    cause: CheckpointCause
    job_id: JobId
    timestamp_ms: int
    epoch: EpochNumber
    stages: tuple[StageCut, ...]
    sources: Mapping[str, SourceState]
    max_event_time_ms: int | None
    #: Spark's position behind the live source's micro-batch that is in it; None: none is.
    spark: SparkPosition | None
    topic_ids: dict[int, dict[str, str]]
    pending: tuple[StagedFile, ...]
    pending_late: tuple[StagedFile, ...]
    #: What the pending output is.
    form: StagedForm
    rows_late_total: int
    #: The job has ended with it.
    finished: bool

    @classmethod
    def of(
        cls,
        state: JobState,
        number: CheckpointId,
        cause: CheckpointCause,
        *,
        finished_shards: Mapping[str, Collection[ShardId]],
        events: Mapping[str, StoredEvents],
        form: StagedForm,
        merges_epochs: bool = True,
        position: SparkPosition | None = None,
        branch: int = 0,
    ) -> CheckpointSnapshot:
        """A job as it stands now.

        Args:
            state: where it stands.
            number: the checkpoint's id.
            cause: why it is taken.
            finished_shards: by stage those that have finished for good.
            events: by stage what its coordinator's checkpoint holds; only stages that have one.
            form: what the pending output is.
            merges_epochs: whether one call of the sink's function gets the output of all epochs.
            position: Spark's behind the last micro-batch of the live source; None: there was none.
            branch: that of the location.
        """
        watermark = state.first_stage.watermark
        inputs = {name: one.inputs[name] for name, one in state.live_watermarks.items()}
        inputs = inputs if len(inputs) > 1 else {}
        now_ms = round(time.time() * 1000)
        calls = calls_of(state.pending, state.call_id, merged=merges_epochs)
        return cls(
            number=number,
            ordinal=next_ordinal(state.ordinal, branch, now_ms),
            calls=calls,
            last_call_id=calls[-1].id if calls else state.call_id,
            cause=cause,
            job_id=state.job_id,
            timestamp_ms=now_ms,
            epoch=state.epoch,
            stages=tuple(
                StageCut.of(stage, finished_shards.get(uid, ()), events.get(uid)) for uid, stage in state.stages.items()
            ),
            sources={
                name: source.model_copy(update={"max_event_time_ms": inputs[name].max_event_time_ms})
                if name in inputs
                else source
                for name, source in state.sources.items()
            },
            max_event_time_ms=watermark.max_event_time_ms,
            spark=position,
            topic_ids={number: dict(ids) for number, ids in state.topic_ids.items()},
            pending=tuple(state.pending),
            pending_late=tuple(state.pending_late),
            form=form,
            rows_late_total=state.rows_late_total,
            finished=state.finished,
        )

    def to_metadata(self, *, with_state: bool) -> CheckpointMetadata:
        """What ``_metadata`` says; without state it only completes the job's last transaction."""
        first = self.stages[0]
        return CheckpointMetadata(
            checkpoint_id=self.number,
            kind="completion" if self.finished else "checkpoint",
            trigger=self.cause.trigger,
            job_id=self.job_id,
            timestamp_ms=self.timestamp_ms,
            epoch=self.epoch,
            watermark_ms=first.watermark_ms,
            fired_watermark_ms=first.fired_watermark_ms,
            max_event_time_ms=self.max_event_time_ms,
            sources=dict(self.sources),
            spark=self.spark,
            topic_ids=self.topic_ids,
            operators=tuple(stage.to_metadata(with_state=with_state) for stage in self.stages),
            transaction=SinkTransaction(
                id=self.number,
                files=self.pending,
                form=self.form,
                token=uuid.uuid4().hex,
                ordinal=self.ordinal,
                calls=self.calls,
            ),
            last_call_id=self.last_call_id,
            late_rows=SinkTransaction(id=self.number, files=self.pending_late) if self.pending_late else None,
            rows_late_total=self.rows_late_total,
            drained=self.cause.drained,
            savepoint=self.cause.savepoint,
        )
