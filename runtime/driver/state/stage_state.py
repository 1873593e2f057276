"""Holds one keyed stage's state between two epochs: its shards, its watermark, its coordinator's snapshot.

Invariant: it changes only between epochs, in one step, after all of the epoch's jobs have succeeded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....errors import CheckpointMismatchError
from ....state.keys.keygroups import KeyGroupRange, ShardId, by_shard, shard_ranges
from ....state.store.state_manifest import StateManifest, redeal
from ...checkpoints.metadata import CheckpointMetadata, OperatorState, ShardState
from ...checkpoints.state_layout import layout_of
from ...operators.contract import KeyedOperator
from ...protocols.event_time import MIN_WATERMARK
from ...protocols.operator_events.snapshot import StoredEvents
from ...protocols.watermarks import WatermarkTracker
from ...tasks.report import ShardReport


@dataclass(frozen=True)
class Shard:
    """One shard of a keyed stage."""

    manifest: StateManifest
    next_event_timer_ms: int | None = None
    next_processing_timer_ms: int | None = None
    #: What its processor keeps for the shard; several after the shards were dealt anew.
    own_state: tuple[str, ...] = ()


@dataclass
class StageState:
    """One keyed stage between two epochs."""

    operator: KeyedOperator
    max_parallelism: int
    shards: list[Shard]
    watermark: WatermarkTracker
    #: What the checkpoint that the job goes on from holds of its coordinator; None: there was none.
    restored_events: StoredEvents | None = None
    #: All of its input has ended, and its operator has finished: it hands on nothing any more, so processing-time
    #: timers that are still pending never fire, as in Flink (FLINK-14231).
    finished: bool = False

    @classmethod
    def fresh(
        cls, operator: KeyedOperator, max_parallelism: int, parallelism: int, watermark: WatermarkTracker
    ) -> StageState:
        """A stage that has processed nothing."""
        shards = [Shard(StateManifest(groups, ())) for groups in shard_ranges(parallelism, max_parallelism)]
        return cls(operator, max_parallelism, shards, watermark)

    @classmethod
    def restored(
        cls,
        metadata: CheckpointMetadata,
        operator: KeyedOperator,
        parallelism: int | None,
        watermark: WatermarkTracker,
    ) -> StageState:
        """What a checkpoint holds of a stage, dealt to ``parallelism`` shards (None: as many as it has).

        Args:
            metadata: the checkpoint.
            operator: the stage's.
            parallelism: number of shards.
            watermark: a new one, which is taken to where it was.

        Raises:
            CheckpointMismatchError: the checkpoint has no such stage.
        """
        stored = metadata.operator(operator.uid)
        if stored is None:
            held = ", ".join(one.uid for one in metadata.operators)
            raise CheckpointMismatchError(
                f"checkpoint {metadata.checkpoint_id} holds state of the operators {held}, but the job's is"
                f" {operator.uid!r} [upgrade:U15]"
            )
        shards = [
            Shard(shard.load(), shard.next_event_timer_ms, shard.next_processing_timer_ms, shard.own_state)
            for shard in stored.shards
        ]
        events = None
        if stored.coordinator is not None:
            events = StoredEvents.from_json(stored.coordinator, stored.buffered_events, len(shards))
        if shards and parallelism is not None and parallelism != len(shards):
            before = [shard.manifest.key_groups for shard in shards]
            shards = _redealt(shards, parallelism, stored.max_parallelism)
            if events is not None:
                events = events.redealt(before, [shard.manifest.key_groups for shard in shards])
        # Of a job with one stage, and of earlier versions, the job's watermark is the stage's.
        watermark.current_ms = metadata.watermark_ms if stored.watermark_ms is None else stored.watermark_ms
        fired_ms = metadata.fired_watermark_ms if stored.fired_watermark_ms is None else stored.fired_watermark_ms
        # A version that did not record it took the watermark itself for the bound of late rows.
        watermark.fired_ms = watermark.current_ms if fired_ms is None else fired_ms
        return cls(operator, stored.max_parallelism, shards, watermark, events, stored.finished)

    def restore_inputs(self, metadata: CheckpointMetadata) -> None:
        """Take over how far the event times of its sources had come in a checkpoint."""
        watermark = self.watermark
        own = next(held.max_event_times_ms for held in metadata.operators if held.uid == self.uid)
        several = len(watermark.inputs) > 1
        for name, one in watermark.inputs.items():
            known = metadata.sources.get(name) if several else metadata
            if own is not None:
                one.see(own.get(name))
            else:  # an earlier version knew one stage, so the job's are the stage's
                one.see(None if known is None else known.max_event_time_ms)

    def follow(self, fired_ms: Mapping[str, int | None], metadata: CheckpointMetadata) -> None:
        """Take over where the stages before it stand in a checkpoint.

        Args:
            fired_ms: by stage what it has fired up to.
            metadata: the checkpoint; a stage that begins with it knows nothing but that.
        """
        watermark = self.watermark
        watermark.observe(fired_ms)
        if next(held.watermark_ms for held in metadata.operators if held.uid == self.uid) is None:
            watermark.current_ms = watermark.fired_ms = MIN_WATERMARK
            watermark.current_ms = watermark.fired_ms = watermark.would_reach(None)

    @property
    def uid(self) -> str:
        """Id under which its state is stored."""
        return self.operator.uid

    @property
    def manifests(self) -> list[StateManifest]:
        return [shard.manifest for shard in self.shards]

    def apply(self, reports: Sequence[ShardReport]) -> None:
        """Take over a finished epoch: the winners' files and timers."""
        for report in reports:
            shard = self.shards[report.shard]
            self.shards[report.shard] = Shard(
                shard.manifest.append(report.files),
                report.counters.next_event_timer_ms,
                report.counters.next_processing_timer_ms,
                shard.own_state if report.own_state is None else (report.own_state,),
            )

    def goes_on_from(self, before: Sequence[StateManifest]) -> bool:
        """Whether its shards are those that had these manifests, and have only added files since."""
        return len(before) == len(self.shards) and all(
            shard.manifest.key_groups == one.key_groups and shard.manifest.files[: len(one.files)] == one.files
            for shard, one in zip(self.shards, before, strict=True)
        )

    def compacted(self, before: Sequence[StateManifest], manifests: Mapping[ShardId, StateManifest]) -> None:
        """Take over other files of the same state, or of state that was changed.

        Args:
            before: what the shards' manifests were then; epochs may have added files behind those since.
            manifests: the new ones, by shard.
        """
        for number, manifest in manifests.items():
            shard, taken = self.shards[number], before[number].files
            assert shard.manifest.files[: len(taken)] == taken, "between two compactions a manifest only grows"
            self.shards[number] = replace(shard, manifest=manifest.append(shard.manifest.files[len(taken) :]))

    def redeal(self, parallelism: int) -> None:
        """Deal the state to another number of shards; no file is read or copied."""
        self.shards = _redealt(self.shards, parallelism, self.max_parallelism)

    @property
    def key_groups(self) -> list[KeyGroupRange]:
        """What each shard has."""
        return [shard.manifest.key_groups for shard in self.shards]

    def shards_due(self, watermark_ms: int, processing_time_ms: int) -> list[ShardId]:
        """Shards with a timer that may fire now."""
        if self.finished:
            return []
        return [
            number
            for number, shard in by_shard(self.shards)
            if _due(shard.next_event_timer_ms, watermark_ms) or _due(shard.next_processing_timer_ms, processing_time_ms)
        ]

    def next_processing_timer_ms(self) -> int | None:
        """The earliest processing-time timer of all shards that will fire."""
        if self.finished:
            return None
        pending = [s.next_processing_timer_ms for s in self.shards if s.next_processing_timer_ms is not None]
        return min(pending, default=None)


@dataclass(frozen=True)
class StageCut:
    """A stage at a checkpoint: nothing that happens later is seen in it."""

    operator: KeyedOperator
    max_parallelism: int
    shards: tuple[Shard, ...]
    watermark_ms: int
    fired_watermark_ms: int
    #: Shards whose operators have finished for good: they are not run again after recovery.
    finished: frozenset[ShardId]
    #: The coordinator's part; None: the stage has none.
    events: StoredEvents | None
    #: Greatest event time of each input that the stage has seen.
    max_event_times_ms: Mapping[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, stage: StageState, finished: Collection[ShardId], events: StoredEvents | None) -> StageCut:
        """A stage as it stands now."""
        return cls(
            operator=stage.operator,
            max_parallelism=stage.max_parallelism,
            shards=tuple(stage.shards),
            watermark_ms=stage.watermark.current_ms,
            fired_watermark_ms=stage.watermark.fired_ms,
            finished=frozenset(finished),
            events=events,
            max_event_times_ms={name: one.max_event_time_ms for name, one in stage.watermark.inputs.items()},
        )

    @property
    def uid(self) -> str:
        """Id under which its state is stored."""
        return self.operator.uid

    @property
    def manifests(self) -> tuple[StateManifest, ...]:
        return tuple(shard.manifest for shard in self.shards)

    def to_metadata(self, *, with_state: bool) -> OperatorState:
        """What ``_metadata`` says of it; ``with_state`` False: the state of the shards is left out."""
        shards = tuple(
            ShardState(
                lineage=shard.manifest.to_json(),
                finished=number in self.finished,
                next_event_timer_ms=shard.next_event_timer_ms,
                next_processing_timer_ms=shard.next_processing_timer_ms,
                own_state=shard.own_state,
            )
            for number, shard in by_shard(self.shards)
        )
        coordinator, buffered = (None, ()) if self.events is None else self.events.to_json()
        return OperatorState(
            uid=self.operator.uid,
            layout=layout_of(self.operator),
            finished=len(self.finished) == len(self.shards),
            max_parallelism=self.max_parallelism,
            registry=self.operator.registry.to_json(),
            record=self.operator.state_record,
            watermark_ms=self.watermark_ms,
            fired_watermark_ms=self.fired_watermark_ms,
            max_event_times_ms=dict(self.max_event_times_ms),
            shards=shards if with_state else (),
            coordinator=coordinator,
            buffered_events=buffered if with_state else (),
        )


def _due(timer_ms: int | None, time_ms: int) -> bool:
    return timer_ms is not None and timer_ms <= time_ms


def _redealt(shards: list[Shard], parallelism: int, max_parallelism: int) -> list[Shard]:
    ranges = shard_ranges(parallelism, max_parallelism)
    manifests = redeal([shard.manifest for shard in shards], ranges)
    event = min((s.next_event_timer_ms for s in shards if s.next_event_timer_ms is not None), default=None)
    processing = min(
        (s.next_processing_timer_ms for s in shards if s.next_processing_timer_ms is not None), default=None
    )
    # Which new shard holds which timer is not known without reading: ask every shard at the earliest time of all.
    return [Shard(manifest, event, processing, _own_states(shards, manifest)) for manifest in manifests]


def _own_states(shards: list[Shard], manifest: StateManifest) -> tuple[str, ...]:
    """What all shards keep that owned a key group of the new one, in their order."""
    return tuple(
        kept for shard in shards if shard.manifest.key_groups.overlaps(manifest.key_groups) for kept in shard.own_state
    )
