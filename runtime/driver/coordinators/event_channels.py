"""Gives the steps of a run one interface to the events between coordinators and shards.

The runtime's own control traffic (epoch specs, watermarks, shard reports) does not come through here: one driver thread
sends an epoch out and gets its reports back under one lock (``RunContext.turn``), so no checkpoint can come between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ....state.keys.keygroups import KeyGroupRange, ShardId
from ...protocols.operator_events.snapshot import StoredEvents
from ...protocols.operator_events.task_events import ShardInbox
from ...spec import JobSpec
from ...support.clean_up import take_all
from ...support.ids import CheckpointId
from ...tasks.report import ShardReport
from ..state.job_state import JobState
from ..state.stage_state import StageState
from .coordinator_channel import UserChannel


@dataclass(frozen=True)
class JobEvents:
    """The events of one run."""

    #: By stage, of those that have a coordinator.
    users: Mapping[str, UserChannel] = field(default_factory=dict)

    @classmethod
    def of(cls, job: JobSpec, state: JobState, wake: Callable[[], None]) -> JobEvents:
        """The channels of a job that goes on from a state."""
        users = {}
        for spec in job.stages:
            if spec.coordinator is not None:
                stage = state.stages[spec.uid]
                users[spec.uid] = UserChannel(
                    spec.coordinator,
                    len(stage.shards),
                    max_bytes=job.settings.operator_event_max_bytes,
                    processor=str(spec.operator.processor_name),
                    takes_events=spec.operator.takes_events,
                    restored=stage.restored_events,
                    latest=state.checkpoint_id,
                    wake=wake,
                )
        return cls(users)

    def open(self) -> None:
        """Start the coordinators."""
        for user in self.users.values():
            user.open()

    def redeal(self, stage: StageState, before: Sequence[KeyGroupRange], latest: CheckpointId) -> None:
        """A stage's shards have been dealt anew, between two epochs: what waits for them goes along.

        Args:
            stage: the stage.
            before: the key groups of the shards that it had.
            latest: the last checkpoint that is complete.
        """
        if stage.uid in self.users:
            self.users[stage.uid].redeal(before, stage.key_groups, latest)

    def close(self) -> None:
        """End the coordinators."""
        take_all(*[user.close for user in self.users.values()])

    # -- epochs ------------------------------------------------------------------------------------------------------

    def waiting(self, stage: StageState) -> list[ShardId]:
        """Shards of a stage for which events wait; none of one that has finished: they go nowhere."""
        return self.users[stage.uid].waiting if stage.uid in self.users and not stage.finished else []

    def take(self, shards: Sequence[ShardId], stage: StageState, *, with_events: bool) -> dict[ShardId, ShardInbox]:
        """What goes with an epoch to each shard that there is something for.

        Args:
            shards: the shards that take part.
            stage: whose they are; it has what they keep between epochs.
            with_events: whether events go along.
        """
        user = self.users.get(stage.uid)
        events = user.take(shards) if user is not None and with_events else {}
        return {
            shard: ShardInbox(events.get(shard, ()), stage.shards[shard].own_state)
            for shard in shards
            if shard in events or stage.shards[shard].own_state
        }

    def accept(self, uid: str, reports: Sequence[ShardReport]) -> None:
        """A stage's winners: what went with the epoch is delivered, what they have sent waits for :meth:`hand_over`."""
        if uid in self.users:
            for report in reports:
                self.users[uid].accept(report.shard, report.events)

    def fail(self, uid: str, shards: Sequence[ShardId]) -> None:
        """The epoch has failed: what went with it to these shards of a stage waits again."""
        if uid in self.users:
            self.users[uid].fail_epoch(shards)

    def check(self) -> None:
        """Raise what a thread of a coordinator's has reported."""
        for user in self.users.values():
            user.check()

    def hand_over(self) -> None:
        """Give the coordinators what has arrived."""
        for user in self.users.values():
            user.hand_over()

    # -- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """True if a checkpoint would hold events that the last one does not."""
        return any(user.has_news for user in self.users.values())

    def begin(self, checkpoint_id: CheckpointId) -> dict[str, StoredEvents]:
        """Close all gateways for a checkpoint; returns by stage what it holds of the coordinator."""
        return {uid: user.begin(checkpoint_id) for uid, user in self.users.items()}

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint is complete."""
        for user in self.users.values():
            user.complete(checkpoint_id)

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint has been given up, wherever it stood."""
        for user in self.users.values():
            user.abort(checkpoint_id)

    @property
    def counts(self) -> dict[str, int] | None:
        """For status and progress, over all coordinators; None: there is none."""
        if not self.users:
            return None
        counted: Counter[str] = Counter()
        for user in self.users.values():
            counted.update(user.counts)
        return dict(counted)
