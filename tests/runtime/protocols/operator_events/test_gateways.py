"""Gateways: pass, keep, release in order (the ids are those of the project's cases)."""

from __future__ import annotations

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.protocols.operator_events.gateway import Closed, CoordinatorGateway, SubtaskGateway
from mixedmode.runtime.protocols.operator_events.subtask import SubtaskEnd, SubtaskSnapshot


def closed(*checkpoints: int) -> tuple[SubtaskGateway[int], list[int]]:
    sent: list[int] = []
    gateway = SubtaskGateway(sent.append)
    for number in checkpoints:
        gateway.mark(number)
        assert gateway.close(number)
    return gateway, sent


def test_g1_open_passes_closed_keeps() -> None:
    """G1: an open gateway passes events, a marked one too; a closed one keeps them and releases them in order."""
    gateway, sent = closed()
    gateway.send(0)
    gateway.mark(1)
    gateway.send(1)
    assert sent == [0, 1]
    assert gateway.close(1)
    gateway.send(2)
    gateway.send(3)
    assert (sent, gateway.kept, gateway.is_open) == ([0, 1], [2, 3], False)
    gateway.open(1)
    gateway.send(4)
    assert (sent, gateway.kept, gateway.is_open) == ([0, 1, 2, 3, 4], [], True)


def test_g1_closes_only_when_marked_for_it() -> None:
    """G1: without the mark, or with the mark of another checkpoint, a gateway does not close."""
    gateway, _ = closed()
    assert not gateway.close(1)
    gateway.mark(2)
    assert not gateway.close(1)
    assert gateway.close(2)
    assert not gateway.close(2)
    gateway.mark(2)
    assert not gateway.close(2)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_g2_overlapping_checkpoints(order: tuple[int, int]) -> None:
    """G2: an event kept under the newer of two checkpoints goes out when both have opened, in either order."""
    gateway, sent = closed(1)
    gateway.send(0)
    gateway.mark(2)
    assert gateway.close(2)
    gateway.send(1)
    gateway.open(order[0])
    assert sent == ([0] if order[0] == 1 else [])
    gateway.send(2)
    gateway.open(order[1])
    assert sent == [0, 1, 2]


def test_g3_unknown_checkpoints() -> None:
    """G3: opening for a newer checkpoint than ever seen is an error, for an older unknown one nothing."""
    gateway, sent = closed(5)
    gateway.send(0)
    with pytest.raises(CheckpointError, match="cannot open for checkpoint 6: the newest that it has seen is 5"):
        gateway.open(6)
    gateway.open(4)
    assert sent == []
    gateway.open(5)
    gateway.open(5)
    assert sent == [0]


def test_coordinator_gateway_answers_with_its_marker() -> None:
    """A subtask's gateway closes at once and says so; closed twice, it stays closed until the newest is undone."""
    sent: list[int] = []
    gateway = CoordinatorGateway(sent.append)
    gateway.send(0)
    assert gateway.close(3, 1) == Closed(3, 1)
    gateway.send(1)
    assert gateway.close(3, 2) == Closed(3, 2)
    gateway.open(1)
    assert (sent, gateway.kept) == ([0], [1]), "the marker of checkpoint 2 came before event 1, so it waits for 2"
    gateway.open(2)
    assert sent == [0, 1]


def test_g8_kept_events_are_in_the_snapshot() -> None:
    """G8: a subtask's snapshot holds what it keeps and what it has not taken; restored, both come once, in order."""
    arrived: list[tuple[int, str]] = []
    end: SubtaskEnd[str] = SubtaskEnd(4, lambda shard, event: arrived.append((shard, event)))
    end.put("in")
    end.gateway.close(4, 1)
    end.send(["a", "b"])
    snapshot = end.snapshot()
    assert snapshot == SubtaskSnapshot(("in",), ("a", "b"))
    assert arrived == []
    restored = SubtaskEnd(4, lambda shard, event: arrived.append((shard, event)), snapshot, latest=1)
    restored.send(["c"])
    assert arrived == [(4, "a"), (4, "b"), (4, "c")]
    assert restored.take() == ("in",)


def test_in_flight_events() -> None:
    """Taken events are neither here nor there: failed work gives them back in place, accepted work removes them."""
    end: SubtaskEnd[int] = SubtaskEnd(0, lambda shard, event: None)
    end.put(1)
    assert end.take() == (1,)
    end.put(2)
    assert end.waiting == 1
    for what in (end.take, end.snapshot):
        with pytest.raises(CheckpointError, match="subtask 0"):
            what()
    end.failed()
    assert end.take() == (1, 2)
    end.put(3)
    assert end.accepted() == 2
    assert end.snapshot().inbox == (3,)
