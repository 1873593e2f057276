"""G9: random schedules of events, overlapping checkpoints, abortions and failures of either end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mixedmode.errors import CheckpointError
from mixedmode.runtime.protocols.operator_events.coordinator_holder import (
    CloseGateway,
    CoordinatorHolder,
    FailCheckpoint,
    OpenGateway,
    SendBarriers,
    TakeSnapshot,
)
from mixedmode.runtime.protocols.operator_events.gateway import Closed
from mixedmode.runtime.protocols.operator_events.subtask import SubtaskEnd, SubtaskSnapshot

SHARDS = 2


@dataclass
class Subtask:
    """A subtask's own state, besides its end of the channels."""

    sent: int = 0
    received: int = 0
    #: What it works on; None: nothing.
    taken: tuple[int, ...] | None = None
    #: Checkpoints whose barriers have come, and whose snapshot is to be taken.
    barriers: deque[int] = field(default_factory=deque)
    #: Messages on their way to it: CloseGateway and OpenGateway.
    messages: deque[Any] = field(default_factory=deque)


class ExactlyOnce(RuleBasedStateMachine):
    """Both ends count.  Events are numbers: any that is lost, doubled or out of order is not the next one."""

    @initialize()
    def start(self) -> None:
        self.next_id = 1
        #: The last complete checkpoint: its id, the coordinator's part, the subtasks' parts.
        self.checkpoint: tuple[int, Any, dict[int, Any]] = (0, ([0] * SHARDS, [0] * SHARDS), {})
        self.restore_all()

    # -- failures ----------------------------------------------------------------------------------------------------

    def restore_all(self) -> None:
        number, (sent, received), _ = self.checkpoint
        self.sent, self.received = list(sent), list(received)
        #: Coordinator snapshots that are being taken; they may come late.
        self.snapshots: dict[int, Any] = {}
        self.coordinator_parts: dict[int, Any] = {}
        self.subtask_parts: dict[int, dict[int, Any]] = {}
        #: On the way to the coordinator, by subtask: events, markers and acknowledgements, in order.
        self.wires: list[deque[Any]] = [deque() for _ in range(SHARDS)]
        self.subtasks: list[Subtask] = [Subtask() for _ in range(SHARDS)]
        self.ends: list[SubtaskEnd[int]] = [None] * SHARDS  # type: ignore[list-item]
        self.holder: CoordinatorHolder[int] = CoordinatorHolder(
            SHARDS, lambda shard, n: self.ends[shard].put(n), number
        )
        for shard in range(SHARDS):
            self.restore(shard)

    def restore(self, shard: int) -> None:
        number, (sent, received), parts = self.checkpoint
        part, ours, theirs = parts.get(shard, (SubtaskSnapshot(), 0, 0))
        self.wires[shard].clear()
        self.subtasks[shard] = Subtask(ours, theirs)
        self.ends[shard] = SubtaskEnd(shard, lambda at, n: self.wires[at].append(n), part, number)
        self.sent[shard], self.received[shard] = sent[shard], received[shard]

    @rule(dice=st.integers(0, 3))
    def coordinator_fails(self, dice: int) -> None:
        """With it everything goes back to the last checkpoint."""
        if dice == 3:
            self.restore_all()

    @rule(shard=st.integers(0, SHARDS - 1), dice=st.integers(0, 3))
    def subtask_fails(self, shard: int, dice: int) -> None:
        """It alone goes back, and with it what the coordinator knows of it."""
        if dice < 3:
            return
        self.do(self.holder.shard_failed(shard))
        self.holder.shard_reset(shard)
        self.restore(shard)

    # -- events ------------------------------------------------------------------------------------------------------

    @rule(shard=st.integers(0, SHARDS - 1))
    def coordinator_sends(self, shard: int) -> None:
        self.holder.send(shard, self.sent[shard])
        self.sent[shard] += 1

    @rule(shard=st.integers(0, SHARDS - 1))
    def work_begins(self, shard: int) -> None:
        subtask, end = self.subtasks[shard], self.ends[shard]
        if subtask.taken is None and end.waiting:
            subtask.taken = end.take()
            self.holder.delivering(shard)

    @rule(shard=st.integers(0, SHARDS - 1), events=st.integers(0, 2), accepted=st.booleans())
    def work_ends(self, shard: int, events: int, accepted: bool) -> None:
        """A subtask handles what it has taken and sends events; or its work counts for nothing."""
        subtask, end = self.subtasks[shard], self.ends[shard]
        taken, subtask.taken = subtask.taken, None
        if not accepted:
            if taken is not None:
                end.failed()
                self.do(self.holder.lost(shard))
            return
        for n in taken or ():
            assert n == subtask.received, f"subtask {shard} got {n}, expected {subtask.received}"
            subtask.received += 1
        assert end.accepted() == len(taken or ())
        self.do(self.holder.delivered(shard))
        end.send(range(subtask.sent, subtask.sent + events))
        subtask.sent += events

    @rule(shard=st.integers(0, SHARDS - 1))
    def coordinator_hears(self, shard: int) -> None:
        if not self.wires[shard]:
            return
        message = self.wires[shard].popleft()
        if isinstance(message, Closed):
            self.do(self.holder.marker(message))
        elif isinstance(message, tuple):
            self.do(self.holder.acknowledged(*message))
        else:
            assert message == self.received[shard], f"got {message} from {shard}, expected {self.received[shard]}"
            self.received[shard] += 1

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def do(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, (CloseGateway, OpenGateway)):
                self.subtasks[action.shard].messages.append(action)
            elif isinstance(action, TakeSnapshot):
                self.snapshots[action.checkpoint_id] = None
            elif isinstance(action, SendBarriers):
                self.coordinator_parts[action.checkpoint_id] = self.holder.data(action.checkpoint_id)
                self.subtask_parts[action.checkpoint_id] = {}
                for subtask in self.subtasks:
                    subtask.barriers.append(action.checkpoint_id)
            else:
                assert isinstance(action, FailCheckpoint)
                self.forget(action.checkpoint_id)

    def forget(self, number: int) -> None:
        self.subtask_parts.pop(number, None)
        for subtask in self.subtasks:
            if number in subtask.barriers:
                subtask.barriers.remove(number)

    @precondition(lambda self: len(self.holder._pending) < 3)
    @rule()
    def checkpoint_begins(self) -> None:
        """One that begins before the coordinator's snapshot for the one before is refused, and changes nothing."""
        number, self.next_id = self.next_id, self.next_id + 1
        if any(pending.data is None for pending in self.holder._pending.values()):
            with pytest.raises(CheckpointError, match="has not taken its snapshot"):
                self.holder.begin(number)
        else:
            self.do(self.holder.begin(number))

    @rule(shard=st.integers(0, SHARDS - 1))
    def subtask_hears(self, shard: int) -> None:
        """A message of the driver arrives."""
        if not self.subtasks[shard].messages:
            return
        message = self.subtasks[shard].messages.popleft()
        gateway = self.ends[shard].gateway
        if isinstance(message, CloseGateway):
            self.wires[shard].append(gateway.close(shard, message.checkpoint_id))
        elif message.checkpoint_id <= gateway.latest:
            gateway.open(message.checkpoint_id)

    @precondition(lambda self: bool(self.snapshots))
    @rule(place=st.integers(0, 2))
    def coordinator_snapshot(self, place: int) -> None:
        """The coordinator's snapshot is there, in time or too late."""
        number = sorted(self.snapshots, reverse=True)[place % len(self.snapshots)]
        del self.snapshots[number]
        state = repr((self.sent, self.received)).encode()
        self.do(self.holder.snapshot_taken(number, state))

    @rule(shard=st.integers(0, SHARDS - 1))
    def subtask_snapshot(self, shard: int) -> None:
        subtask, end = self.subtasks[shard], self.ends[shard]
        if not subtask.barriers or subtask.taken is not None:
            return
        number = subtask.barriers.popleft()
        self.subtask_parts[number][shard] = (end.snapshot(), subtask.sent, subtask.received)
        self.wires[shard].append((shard, number))

    @precondition(lambda self: any(len(parts) == SHARDS for parts in self.subtask_parts.values()))
    @rule()
    def checkpoint_completes(self) -> None:
        number = next(number for number, parts in self.subtask_parts.items() if len(parts) == SHARDS)
        self.checkpoint = (number, eval(self.coordinator_parts[number]), self.subtask_parts.pop(number))
        self.check()
        self.do(self.holder.completed(number))

    def check(self) -> None:
        """A checkpoint is consistent: what one end has sent is received by the other, or in it."""
        _, (sent, received), parts = self.checkpoint
        for shard, (events, ours, theirs) in parts.items():
            assert list(events.inbox) == list(range(theirs, sent[shard]))
            assert list(events.kept) == list(range(received[shard], ours))

    @rule(steps=st.lists(st.integers(0, 5), max_size=25))
    def things_move_on(self, steps: list[int]) -> None:
        """Messages arrive, work is done, snapshots are taken: so that schedules get far, in any order."""
        for step in steps:
            for shard in range(SHARDS):
                (
                    lambda at: self.subtask_hears(at),
                    lambda at: self.coordinator_hears(at),
                    lambda at: self.work_begins(at),
                    lambda at: self.work_ends(at, 1, True),
                    lambda at: self.subtask_snapshot(at),
                    lambda at: self.coordinator_sends(at),
                )[step](shard)

    @precondition(lambda self: bool(self.holder._pending))
    @rule(place=st.integers(0, 9))
    def checkpoint_aborts(self, place: int) -> None:
        """Sometimes; most checkpoints are let live."""
        pending = sorted(self.holder._pending)
        if place >= len(pending):
            return
        number = pending[place]
        self.forget(number)
        self.do(self.holder.aborted(number))

    @invariant()
    def nobody_is_ahead(self) -> None:
        """What was received was sent."""
        for shard, subtask in enumerate(getattr(self, "subtasks", ())):
            assert subtask.received <= self.sent[shard]
            assert self.received[shard] <= subtask.sent

    def teardown(self) -> None:
        """When everything comes to rest, both ends have all that was sent."""
        if not hasattr(self, "subtasks"):
            return
        for number in list(self.holder._pending):
            self.checkpoint_abort_quietly(number)
        for shard, subtask in enumerate(self.subtasks):
            while subtask.messages:
                self.subtask_hears(shard)
            while self.wires[shard]:
                self.coordinator_hears(shard)
            self.work_ends(shard, 0, True)
            self.work_begins(shard)
            self.work_ends(shard, 0, True)
            assert (subtask.received, self.received[shard]) == (self.sent[shard], subtask.sent)

    def checkpoint_abort_quietly(self, number: int) -> None:
        self.forget(number)
        self.do(self.holder.aborted(number))


TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
