"""Where a running job stands between two epochs: everything a checkpoint captures, as one mutable object.

Invariant: it changes only between epochs, in one step, after the epoch's job has succeeded.  A failed epoch leaves no
trace in it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ...errors import CheckpointMismatchError
from ...state.keygroups import shard_ranges
from ...state.lineage import ShardLineage, redeal
from ..checkpoints.layout import layout_of
from ..checkpoints.metadata import (
    CheckpointMetadata,
    OperatorState,
    ShardState,
    SourceState,
    SparkPosition,
    WantedSavepoint,
)
from ..connectors.staged_form import StagedForm
from ..connectors.staging import StagedFile
from ..connectors.transaction import SinkTransaction
from ..operators.contract import KeyedOperator
from ..protocols.operator_events.snapshot import StoredEvents
from ..protocols.watermarks import WatermarkTracker
from ..tasks.report import ShardReport


@dataclass
class Shard:
    """One shard of the keyed stage."""

    lineage: ShardLineage
    next_event_timer_ms: int | None = None
    next_processing_timer_ms: int | None = None
    #: What its processor keeps for the shard; several after the shards were dealt anew.
    own_state: tuple[str, ...] = ()


@dataclass
class JobState:
    """The consistent cut between two epochs."""

    job_id: str
    max_parallelism: int
    shards: list[Shard]
    watermark: WatermarkTracker
    sources: dict[str, SourceState]
    #: Last epoch that is part of this state.
    epoch: int = 0
    #: Last complete checkpoint.
    checkpoint_id: int = 0
    spark: SparkPosition | None = None
    #: Batch of the live source's query that is part of this state; -1: none.
    batch_id: int = -1
    #: Output of the epochs since the last checkpoint, for exactly-once sinks.
    pending: list[StagedFile] = field(default_factory=list)
    #: The same for late rows.
    pending_late: list[StagedFile] = field(default_factory=list)
    rows_late_total: int = 0
    finished: bool = False
    #: What the checkpoint that the job goes on from holds of its coordinator; None: there was none.
    restored_events: StoredEvents | None = None

    @classmethod
    def fresh(
        cls, job_id: str, max_parallelism: int, parallelism: int, watermark: WatermarkTracker, sources: Sequence[str]
    ) -> JobState:
        """A job that has processed nothing: every source is in backlog."""
        return cls(
            job_id=job_id,
            max_parallelism=max_parallelism,
            shards=[Shard(ShardLineage(groups, ())) for groups in shard_ranges(parallelism, max_parallelism)],
            watermark=watermark,
            sources={name: SourceState(is_backlog=True) for name in sources},
        )

    @classmethod
    def restored(
        cls, metadata: CheckpointMetadata, uid: str, parallelism: int | None, watermark: WatermarkTracker
    ) -> JobState:
        """The state that a checkpoint holds, dealt to ``parallelism`` shards (None: as many as it has)."""
        stored = next((operator for operator in metadata.operators if operator.uid == uid), None)
        if stored is None:
            held = ", ".join(operator.uid for operator in metadata.operators)
            raise CheckpointMismatchError(
                f"checkpoint {metadata.checkpoint_id} holds state of the operators {held}, but the job's is {uid!r}"
            )
        shards = [
            Shard(shard.load(), shard.next_event_timer_ms, shard.next_processing_timer_ms, shard.own_state)
            for shard in stored.shards
        ]
        events = None
        if stored.coordinator is not None:
            events = StoredEvents.from_json(stored.coordinator, stored.buffered_events, len(shards))
        if shards and parallelism is not None and parallelism != len(shards):
            before = [shard.lineage.key_groups for shard in shards]
            shards = _redealt(shards, parallelism, stored.max_parallelism)
            if events is not None:
                events = events.redealt(before, [shard.lineage.key_groups for shard in shards])
        watermark.current_ms = metadata.watermark_ms
        # A version that did not record it took the watermark itself for the bound of late rows.
        fired_ms = metadata.fired_watermark_ms
        watermark.fired_ms = metadata.watermark_ms if fired_ms is None else fired_ms
        several = len(watermark.inputs) > 1
        for name, one in watermark.inputs.items():
            known = metadata.sources.get(name) if several else metadata
            one.see(None if known is None else known.max_event_time_ms)
        return cls(
            job_id=metadata.job_id,
            max_parallelism=stored.max_parallelism,
            shards=shards,
            watermark=watermark,
            sources=dict(metadata.sources),
            epoch=metadata.epoch,
            checkpoint_id=metadata.checkpoint_id,
            spark=metadata.spark,
            batch_id=metadata.spark.batch_id if metadata.spark else -1,
            rows_late_total=metadata.rows_late_total,
            finished=metadata.kind == "completion",
            restored_events=events,
        )

    @property
    def lineages(self) -> list[ShardLineage]:
        return [shard.lineage for shard in self.shards]

    @property
    def is_backlog(self) -> bool:
        """Combined by OR over the sources."""
        return any(source.is_backlog for source in self.sources.values())

    def set_source(self, name: str, **changes: object) -> None:
        """Change what is known of a source."""
        self.sources[name] = self.sources[name].model_copy(update=changes)

    def apply(self, epoch: int, reports: Sequence[ShardReport]) -> None:
        """Take over a finished epoch: the winners' files, output and timers."""
        for report in reports:
            shard = self.shards[report.shard]
            shard.lineage = shard.lineage.append(report.files)
            shard.next_event_timer_ms = report.counters.next_event_timer_ms
            shard.next_processing_timer_ms = report.counters.next_processing_timer_ms
            if report.own_state is not None:
                shard.own_state = (report.own_state,)
            self.pending.extend(report.output)
            self.rows_late_total += report.counters.rows_late
        self.epoch = epoch

    def shards_due(self, watermark_ms: int, processing_time_ms: int) -> list[int]:
        """Shards with a timer that may fire now."""
        return [
            index
            for index, shard in enumerate(self.shards)
            if _due(shard.next_event_timer_ms, watermark_ms) or _due(shard.next_processing_timer_ms, processing_time_ms)
        ]

    def next_processing_timer_ms(self) -> int | None:
        """The earliest processing-time timer of all shards."""
        pending = [s.next_processing_timer_ms for s in self.shards if s.next_processing_timer_ms is not None]
        return min(pending, default=None)

    def to_metadata(
        self,
        checkpoint_id: int,
        operator: KeyedOperator,
        *,
        with_state: bool,
        trigger: str | None = None,
        finished_shards: Collection[int] = (),
        events: StoredEvents | None = None,
        drained: bool = False,
        savepoint: WantedSavepoint | None = None,
        form: StagedForm | None = None,
    ) -> CheckpointMetadata:
        """The checkpoint that captures this state; without state it only completes the job's last transaction.

        Args:
            checkpoint_id: its id.
            operator: the keyed stage.
            with_state: False: the state of the shards is left out.
            trigger: why it is taken.
            finished_shards: shards whose operators have finished for good: they are not run again after recovery.
            events: the coordinator's part; None: the job has no coordinator.
            drained: whether it is the end of a drain.
            savepoint: what it is taken for; None: for itself.
            form: what the pending output is.
        """
        shards = tuple(
            ShardState(
                lineage=shard.lineage.to_json(),
                finished=index in finished_shards,
                next_event_timer_ms=shard.next_event_timer_ms,
                next_processing_timer_ms=shard.next_processing_timer_ms,
                own_state=shard.own_state,
            )
            for index, shard in enumerate(self.shards)
        )
        coordinator, buffered = (None, ()) if events is None else events.to_json()
        inputs = self.watermark.inputs if len(self.watermark.inputs) > 1 else {}
        return CheckpointMetadata(
            checkpoint_id=checkpoint_id,
            kind="completion" if self.finished else "checkpoint",
            trigger=trigger,
            job_id=self.job_id,
            timestamp_ms=round(time.time() * 1000),
            epoch=self.epoch,
            watermark_ms=self.watermark.current_ms,
            fired_watermark_ms=self.watermark.fired_ms,
            max_event_time_ms=self.watermark.max_event_time_ms,
            sources={
                name: source.model_copy(update={"max_event_time_ms": inputs[name].max_event_time_ms})
                if name in inputs
                else source
                for name, source in self.sources.items()
            },
            spark=self.spark,
            operators=(
                OperatorState(
                    uid=operator.uid,
                    layout=layout_of(operator),
                    finished=len(finished_shards) == len(self.shards),
                    max_parallelism=self.max_parallelism,
                    registry=operator.registry.to_json(),
                    record=operator.state_record,
                    shards=shards if with_state else (),
                    coordinator=coordinator,
                    buffered_events=buffered if with_state else (),
                ),
            ),
            transaction=_transaction(checkpoint_id, self.pending, form),
            late_rows=_transaction(checkpoint_id, self.pending_late) if self.pending_late else None,
            rows_late_total=self.rows_late_total,
            drained=drained,
            savepoint=savepoint,
        )


def _transaction(number: int, staged: Sequence[StagedFile], form: StagedForm | None = None) -> SinkTransaction:
    return SinkTransaction(id=number, files=tuple(staged), form=form)


def _due(timer_ms: int | None, time_ms: int) -> bool:
    return timer_ms is not None and timer_ms <= time_ms


def _redealt(shards: list[Shard], parallelism: int, max_parallelism: int) -> list[Shard]:
    ranges = shard_ranges(parallelism, max_parallelism)
    lineages = redeal([shard.lineage for shard in shards], ranges)
    event = min((s.next_event_timer_ms for s in shards if s.next_event_timer_ms is not None), default=None)
    processing = min(
        (s.next_processing_timer_ms for s in shards if s.next_processing_timer_ms is not None), default=None
    )
    # Which new shard holds which timer is not known without reading: ask every shard at the earliest time of all.
    return [Shard(lineage, event, processing, _own_states(shards, lineage)) for lineage in lineages]


def _own_states(shards: list[Shard], lineage: ShardLineage) -> tuple[str, ...]:
    """What all shards keep that owned a key group of the new one, in their order."""
    return tuple(
        kept for shard in shards if shard.lineage.key_groups.overlaps(lineage.key_groups) for kept in shard.own_state
    )
