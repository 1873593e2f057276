"""The holder's six steps, one rule at a time."""

from __future__ import annotations

import pytest
from mixedmode.errors import CheckpointError, OperatorEventError
from mixedmode.runtime.protocols.operator_events.coordinator_holder import (
    CloseGateway,
    CoordinatorHolder,
    FailCheckpoint,
    OpenGateway,
    SendBarriers,
    TakeSnapshot,
)
from mixedmode.runtime.protocols.operator_events.gateway import Closed


class Held:
    """A holder of two subtasks, and what it has transmitted."""

    def __init__(self, latest: int = 0) -> None:
        self.sent: list[tuple[int, int]] = []
        self.holder: CoordinatorHolder[int] = CoordinatorHolder(
            2, lambda shard, event: self.sent.append((shard, event)), latest
        )

    def is_open(self, shard: int) -> bool:
        """Whether events to the subtask pass."""
        return self.holder.gateways[shard].is_open

    def markers(self, checkpoint_id: int) -> list[object]:
        """Begin, and send both markers; what the last of them asks for."""
        self.holder.begin(checkpoint_id)
        assert self.holder.marker(Closed(0, checkpoint_id)) == []
        return list(self.holder.marker(Closed(1, checkpoint_id)))

    def close(self, checkpoint_id: int, data: bytes = b"") -> list[object]:
        self.markers(checkpoint_id)
        return list(self.holder.snapshot_taken(checkpoint_id, data))


@pytest.fixture
def held() -> Held:
    return Held()


def test_the_six_steps(held: Held) -> None:
    """Announce, markers, snapshot, closed gateways, snapshots of the subtasks, open gateways: in that order."""
    holder = held.holder
    assert holder.begin(1) == [CloseGateway(0, 1), CloseGateway(1, 1)]
    holder.send(0, 0)
    assert holder.marker(Closed(1, 1)) == []
    assert holder.marker(Closed(0, 1)) == [TakeSnapshot(1)]
    holder.send(0, 1)
    assert held.sent == [(0, 0), (0, 1)], "events pass until the snapshot is there"
    assert holder.snapshot_taken(1, b"state") == [SendBarriers(1)]
    assert holder.data(1) == b"state"
    holder.send(0, 2)
    holder.send(1, 3)
    assert (len(held.sent), holder.gateways.kept) == (2, 2)
    assert holder.acknowledged(0, 1) == [OpenGateway(0, 1)]
    assert held.sent[2:] == [(0, 2)]
    assert holder.completed(1) == [OpenGateway(0, 1), OpenGateway(1, 1)]
    assert held.sent[2:] == [(0, 2), (1, 3)]


def test_g3_ids_ascend(held: Held) -> None:
    """G3: a checkpoint that is not newer cannot begin; notices about unknown ones are ignored."""
    held.close(5)
    with pytest.raises(CheckpointError, match="checkpoint 5 cannot begin: checkpoint 5 has begun"):
        held.holder.begin(5)
    assert held.holder.completed(9) == held.holder.aborted(3) == held.holder.acknowledged(0, 9) == []
    assert not held.is_open(0)


def test_g4_late_snapshot(held: Held) -> None:
    """G4: the snapshot of an aborted checkpoint closes nothing, even while a newer one is under way."""
    holder = held.holder
    held.markers(1000)
    holder.aborted(1000)
    assert holder.snapshot_taken(1000, b"late") == []
    assert held.is_open(0)
    held.markers(1010)
    assert holder.snapshot_taken(1000, b"later") == []
    holder.send(0, 0)
    assert held.sent == [(0, 0)]
    assert holder.snapshot_taken(1010, b"good") == [SendBarriers(1010)]
    assert holder.data(1010) == b"good"


def test_g5_one_acknowledgement_opens_one_gateway(held: Held) -> None:
    """G5: a subtask's acknowledgement opens its gateway, an abortion all of them."""
    holder = held.holder
    held.close(1)
    holder.acknowledged(1, 1)
    assert (held.is_open(0), held.is_open(1)) == (False, True)
    assert holder.aborted(1) == [OpenGateway(0, 1), OpenGateway(1, 1)]
    assert held.is_open(0)


def test_g6_failed_subtask(held: Held) -> None:
    """G6: a failed subtask fails pending checkpoints and takes no events; reset, what was kept for it is dropped."""
    holder = held.holder
    held.close(1)
    holder.send(0, 0)
    actions = holder.shard_failed(1)
    assert actions[0] == FailCheckpoint(1, "subtask 1 has failed")
    assert OpenGateway(0, 1) in actions
    assert held.sent == [(0, 0)]
    with pytest.raises(OperatorEventError, match="subtask 1 does not run"):
        holder.send(1, 1)
    holder.shard_reset(1)
    holder.send(1, 1)
    assert held.sent == [(0, 0), (1, 1)]


def test_g6_reset_drops_what_was_kept(held: Held) -> None:
    """G6: events kept for a subtask that is reset do not come by themselves."""
    holder = held.holder
    held.close(1)
    holder.send(1, 0)
    holder.shard_reset(1)
    holder.aborted(1)
    assert held.sent == []


def test_g7_deliveries_delay_the_checkpoint(held: Held) -> None:
    """G7: what is being delivered when the gateways close delays the barriers until it is acknowledged."""
    holder = held.holder
    holder.delivering(0)
    assert held.close(1) == []
    holder.delivering(1)  # begun after the gateways have closed: not the coordinator's affair
    assert holder.delivered(0) == [SendBarriers(1)]


def test_g7_lost_delivery_fails_the_checkpoint(held: Held) -> None:
    """G7: a delivery that fails fails the checkpoint that waits for it, and opens the gateways."""
    held.holder.delivering(0)
    held.close(1)
    held.holder.send(1, 7)
    actions = held.holder.lost(0)
    assert actions[0] == FailCheckpoint(1, "events to subtask 0 were not delivered")
    assert held.sent == [(1, 7)]
    assert held.holder.lost(0) == []


def test_g8_markers(held: Held) -> None:
    """G8: the snapshot waits for all markers; stale and repeated ones are ignored."""
    holder = held.holder
    holder.begin(1)
    holder.aborted(1)
    holder.begin(2)
    assert holder.marker(Closed(0, 1)) == holder.marker(Closed(0, 2)) == holder.marker(Closed(0, 2)) == []
    with pytest.raises(CheckpointError, match=r"checkpoint 2 cannot be complete: the subtasks \[1\] have not closed"):
        holder.completed(2)
    assert holder.marker(Closed(1, 2)) == [TakeSnapshot(2)]


def test_g8_subtasks_that_do_not_run_count(held: Held) -> None:
    """G8: a subtask that does not run has nothing more to say."""
    holder = held.holder
    holder.shard_failed(1)
    assert holder.begin(1) == [CloseGateway(0, 1)]
    assert holder.marker(Closed(0, 1)) == [TakeSnapshot(1)]
    holder.aborted(1)
    holder.shard_failed(0)
    assert holder.begin(2) == [TakeSnapshot(2)]


def test_g8_failure_while_a_marker_is_awaited(held: Held) -> None:
    """G8: a subtask that fails while its marker is awaited fails the checkpoint."""
    held.holder.begin(1)
    assert FailCheckpoint(1, "subtask 0 has failed") in held.holder.shard_failed(0)
    assert held.holder.marker(Closed(1, 1)) == []


def test_g2_barriers_wait_for_older_events(held: Held) -> None:
    """G2: barriers of a second checkpoint wait until what was sent before it, and kept for the first, is out."""
    holder = held.holder
    held.close(1)
    holder.send(0, 0)
    assert held.close(2) == []
    holder.send(0, 1)
    assert holder.acknowledged(0, 1) == [OpenGateway(0, 1), SendBarriers(2)]
    assert held.sent == [(0, 0)]
    holder.completed(1)
    holder.completed(2)
    assert held.sent == [(0, 0), (0, 1)]


def test_g10_sent_inside_the_snapshot_call(held: Held) -> None:
    """G10: what is sent once the snapshot is there, before anybody else knows, comes after the checkpoint."""
    held.close(1)
    held.holder.send(0, 0)
    assert held.sent == []
    held.holder.completed(1)
    assert held.sent == [(0, 0)]


def test_begin_before_the_snapshot_of_the_one_before(held: Held) -> None:
    """A checkpoint that begins before the snapshot for the one before is refused, and that one goes on."""
    holder = held.holder
    holder.begin(1)
    with pytest.raises(CheckpointError, match="has not taken its snapshot for checkpoint 1"):
        holder.begin(2)
    assert [holder.marker(Closed(shard, 1)) for shard in (0, 1)] == [[], [TakeSnapshot(1)]]
    with pytest.raises(CheckpointError, match="has not taken its snapshot for checkpoint 1"):
        holder.begin(2)
    assert holder.snapshot_taken(1, b"one") == [SendBarriers(1)]
    holder.send(0, 0)
    assert held.sent == [], "the gateways have closed for the first one"
    assert held.close(2) == [], "what was sent before the second one is kept by the first"
    assert holder.completed(1)[-1] == SendBarriers(2)
    assert held.sent == [(0, 0)]


def test_a_given_up_snapshot_holds_nobody_back(held: Held) -> None:
    """A checkpoint that was aborted before the coordinator's snapshot lets the next one begin."""
    held.markers(1)
    held.holder.aborted(1)
    assert held.close(2) == [SendBarriers(2)]


def test_a_restored_coordinator_knows_nothing_of_its_earlier_life() -> None:
    """A coordinator that goes on from checkpoint 2 has open gateways; what comes for an attempt that its earlier life
    has made changes nothing, and ids go on behind the checkpoint."""
    held = Held(latest=2)
    holder = held.holder
    assert (held.is_open(0), holder.gateways.kept) == (True, 0)
    assert holder.snapshot_taken(3, b"") == holder.marker(Closed(0, 3)) == holder.acknowledged(0, 3) == []
    holder.send(0, 1)
    assert held.sent == [(0, 1)]
    with pytest.raises(CheckpointError, match="checkpoint 2 cannot begin: checkpoint 2 has begun before"):
        holder.begin(2)
    assert held.close(3) == [SendBarriers(3)]
