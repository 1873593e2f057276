"""All that goes between a job's driver and its shards as events: the runtime's own, and those of a user's coordinator.

Both kinds have channels of the same make, and every checkpoint takes both through the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..protocols.operator_events.snapshot import StoredEvents
from ..protocols.operator_events.task_events import ShardInbox
from .coordinator_channel import UserChannel
from .stage_channel import StageChannel

if TYPE_CHECKING:
    from ..operators.contract import EpochSpec
    from ..spec import JobSpec
    from ..tasks.report import ShardReport
    from .job_state import JobState


@dataclass
class JobEvents:
    """The channels of one run."""

    stage: StageChannel
    #: None: the job has no coordinator.
    user: UserChannel | None = None
    _out: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, job: JobSpec, state: JobState, wake: Callable[[], None]) -> JobEvents:
        """The channels of a job that goes on from a state."""
        shards, latest = len(state.shards), state.checkpoint_id
        user = None
        if job.coordinator is not None:
            user = UserChannel(
                job.coordinator,
                shards,
                max_bytes=job.settings.operator_event_max_bytes,
                processor=str(job.operator.describe().get("processor")),
                takes_events=job.operator.takes_events,
                restored=state.restored_events,
                latest=latest,
                wake=wake,
            )
        return cls(StageChannel(shards, latest), user)

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
        """Shards for which user events wait."""
        return [] if self.user is None else self.user.waiting

    def command(
        self, epoch: EpochSpec, shards: Sequence[int], state: JobState, *, with_events: bool
    ) -> dict[int, ShardInbox]:
        """Send an epoch out; what goes with it to each shard that there is something for.

        Args:
            epoch: the epoch.
            shards: the shards that take part.
            state: has what the shards keep between epochs.
            with_events: whether user events go along.
        """
        self.stage.command(epoch, shards)
        self._out = list(shards)
        events = self.user.take(shards) if self.user is not None and with_events else {}
        return {
            shard: ShardInbox(events.get(shard, ()), state.shards[shard].own_state)
            for shard in shards
            if shard in events or state.shards[shard].own_state
        }

    def accept(self, reports: Sequence[ShardReport]) -> list[ShardReport]:
        """The winners of an epoch; what they have sent waits for :meth:`hand_over`."""
        self._out = []
        if self.user is not None:
            for report in reports:
                self.user.accept(report.shard, report.events)
        return self.stage.accept(reports)

    def fail(self) -> None:
        """The epoch that was sent out has failed."""
        shards, self._out = self._out, []
        self.stage.fail(shards)
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
        self.stage.begin(checkpoint_id)
        return None if self.user is None else self.user.begin(checkpoint_id)

    def complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete."""
        self.stage.complete(checkpoint_id)
        if self.user is not None:
            self.user.complete(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        """The checkpoint has been given up, wherever it stood."""
        self.stage.abort(checkpoint_id)
        if self.user is not None:
            self.user.abort(checkpoint_id)

    @property
    def counts(self) -> dict[str, int] | None:
        """For status and progress; None: there is no coordinator."""
        return None if self.user is None else self.user.counts
