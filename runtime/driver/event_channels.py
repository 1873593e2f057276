"""What goes between a job's coordinator and its shards, as the steps of a run see it; nothing, if it has none.

The runtime's own control traffic (epoch specs, watermarks, shard reports) does not come through here: one driver thread
sends an epoch out and gets its reports back under one lock (``RunContext.turn``), so no checkpoint can come between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocols.operator_events.snapshot import StoredEvents
from ..protocols.operator_events.task_events import ShardInbox
from .coordinator_channel import UserChannel

if TYPE_CHECKING:
    from ..spec import JobSpec
    from ..tasks.report import ShardReport
    from .job_state import JobState
    from .stage_state import StageState


@dataclass(frozen=True)
class JobEvents:
    """The events of one run."""

    #: None: the job has no coordinator.
    user: UserChannel | None = None

    @classmethod
    def of(cls, job: JobSpec, state: JobState, wake: Callable[[], None]) -> JobEvents:
        """The channels of a job that goes on from a state."""
        spec, stage = job.stages[0], state.stage
        if spec.coordinator is None:
            return cls()
        user = UserChannel(
            spec.coordinator,
            len(stage.shards),
            max_bytes=job.settings.operator_event_max_bytes,
            processor=str(spec.operator.processor_name),
            takes_events=spec.operator.takes_events,
            restored=stage.restored_events,
            latest=state.checkpoint_id,
            wake=wake,
        )
        return cls(user)

    def open(self) -> None:
        """Start the coordinator, if there is one."""
        if self.user is not None:
            self.user.open()

    def close(self) -> None:
        """End the coordinator."""
        if self.user is not None:
            self.user.close()

    # -- epochs ------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[int]:
        """Shards for which events wait."""
        return [] if self.user is None else self.user.waiting

    def take(self, shards: Sequence[int], stage: StageState, *, with_events: bool) -> dict[int, ShardInbox]:
        """What goes with an epoch to each shard that there is something for.

        Args:
            shards: the shards that take part.
            stage: has what the shards keep between epochs.
            with_events: whether events go along.
        """
        events = self.user.take(shards) if self.user is not None and with_events else {}
        return {
            shard: ShardInbox(events.get(shard, ()), stage.shards[shard].own_state)
            for shard in shards
            if shard in events or stage.shards[shard].own_state
        }

    def accept(self, reports: Sequence[ShardReport]) -> None:
        """The winners of an epoch: what went with it is delivered, what they have sent waits for :meth:`hand_over`."""
        if self.user is not None:
            for report in reports:
                self.user.accept(report.shard, report.events)

    def fail(self, shards: Sequence[int]) -> None:
        """The epoch has failed: what went with it to these shards waits again."""
        if self.user is not None:
            self.user.fail_epoch(shards)

    def check(self) -> None:
        """Raise what a thread of the coordinator's has reported."""
        if self.user is not None:
            self.user.check()

    def hand_over(self) -> None:
        """Give the coordinator what has arrived."""
        if self.user is not None:
            self.user.hand_over()

    # -- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """True if a checkpoint would hold events that the last one does not."""
        return self.user is not None and self.user.has_news

    def begin(self, checkpoint_id: int) -> StoredEvents | None:
        """Close all gateways for a checkpoint; returns what it holds of the coordinator, if there is one."""
        return None if self.user is None else self.user.begin(checkpoint_id)

    def complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete."""
        if self.user is not None:
            self.user.complete(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        """The checkpoint has been given up, wherever it stood."""
        if self.user is not None:
            self.user.abort(checkpoint_id)

    @property
    def counts(self) -> dict[str, int] | None:
        """For status and progress; None: there is no coordinator."""
        return None if self.user is None else self.user.counts
