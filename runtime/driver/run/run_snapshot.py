"""Publishes what other threads may know of a run: one immutable object, replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...metrics.events.events import RealTimeProgressed
from ...spec import Phase
from ...support.ids import NO_CHECKPOINT, NO_EPOCH, CheckpointId, EpochNumber
from ..state.job_state import JobState


@dataclass(frozen=True)
class RunSnapshot:
    """Where a run stood when it last changed."""

    #: None: it recovers.
    phase: Phase | None = None
    #: None: not known yet.
    is_backlog: bool | None = None
    #: Last epoch that was applied.
    epoch: EpochNumber = NO_EPOCH
    #: Last checkpoint that is complete.
    checkpoint_id: CheckpointId = NO_CHECKPOINT
    #: Number of shards by stage; empty: not known yet.
    parallelism: Mapping[str, int] = field(default_factory=dict)


class Published:
    """Holds the newest snapshot.  Written by the run's threads, one at a time; read by anybody without a lock, since
    taking a reference is atomic."""

    def __init__(self) -> None:
        self.now = RunSnapshot()
        #: How far the epoch is that runs in Real-Time Mode; None: none does, or nothing is known of it yet.
        self.real_time: RealTimeProgressed | None = None

    def enters(self, phase: Phase) -> None:
        """A phase begins."""
        self.now = replace(self.now, phase=phase)

    def of_state(self, state: JobState) -> None:
        """The job's state has changed."""
        self.now = replace(
            self.now,
            is_backlog=state.is_backlog,
            epoch=state.epoch,
            checkpoint_id=state.checkpoint_id,
            parallelism=state.parallelism,
        )
