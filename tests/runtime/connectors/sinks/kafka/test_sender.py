"""The sender against a model of Kafka's transactions, with senders that die, are fenced, or wake up at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError
from mixedmode.runtime.connectors.sinks.kafka import sender as sender_module
from mixedmode.runtime.connectors.sinks.kafka.markers import Marker
from mixedmode.runtime.connectors.sinks.kafka.sender import Interrupted, Sender, SendPiece, chunks
from mixedmode.runtime.connectors.sinks.kafka.sink import KafkaSink
from pyspark.sql.types import StructType

ROWS = 20
TOPIC = "t"


class Died(BaseException):
    """The process of a sender is gone."""


@dataclass
class Cluster:
    """One lane of a cluster: what is committed, and who may commit."""

    committed: list[int] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    epoch: int = 0
    #: Called before each step of a connection, with its name.
    before: Callable[[str], None] = lambda step: None

    def connect(self) -> Producer:
        self.before("connect")
        self.epoch += 1
        return Producer(self, self.epoch)


@dataclass
class Producer:
    cluster: Cluster
    epoch: int
    open: list[int] = field(default_factory=list)
    marked: Marker | None = None

    def markers(self) -> list[Marker]:
        self.cluster.before("markers")
        return list(self.cluster.markers)

    def send(self, rows: pa.RecordBatch) -> str:
        self.cluster.before("send")
        self.open += rows.column(0).to_pylist()
        return TOPIC

    def mark(self, marker: Marker) -> None:
        self.cluster.before("mark")
        self.marked = marker

    def commit(self) -> None:
        self.cluster.before("commit")
        if self.epoch != self.cluster.epoch:
            raise Interrupted("fenced", is_fenced=True)
        self.cluster.committed += self.open
        assert self.marked is not None
        self.cluster.markers = [self.marked]
        self.open = []
        self.cluster.before("committed")

    def close(self) -> None:
        self.open = []


def pieces(position: int, size: int = 3) -> Iterator[SendPiece]:
    """All rows, some at a time, each of which holds its own position."""
    for start in range(0, ROWS, size):
        positions = range(start, min(start + size, ROWS))
        yield SendPiece(pa.RecordBatch.from_pydict({"n": list(positions)}), positions)


def sender(cluster: Cluster, token: str = "a", branch: int = 0) -> Sender:
    return Sender(cluster.connect, branch, token, ROWS, 4, sleep=lambda seconds: None)


def sends(cluster: Cluster, token: str = "a", branch: int = 0, size: int = 3) -> int:
    return sender(cluster, token, branch).send(partial(pieces, size=size))


def at_steps(*numbers: int, error: type[BaseException] | Callable[[], None]) -> Callable[[str], None]:
    """Something that happens at some of the steps, counted through."""
    count = 0

    def before(step: str) -> None:
        nonlocal count
        count += 1
        if count in numbers:
            if isinstance(error, type):
                raise error(f"at {step}")
            error()

    return before


def test_pieces_become_transactions_of_bounded_size() -> None:
    """Rows are put together until they are enough, without those that are sent; the last transaction ends the lane."""
    found = list(chunks(pieces(0), ROWS + 2, 4))
    assert [chunk.end for chunk in found] == [6, 12, 18, ROWS + 2]
    piece = SendPiece(pa.RecordBatch.from_pydict({"n": [3, 5, 9]}), [3, 5, 9])
    assert [piece.since(at).column(0).to_pylist() for at in (0, 4, 5, 10)] == [[3, 5, 9], [5, 9], [5, 9], []]


def test_what_is_atomic_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large rows are fewer to a transaction, and explain() says so."""
    sink = KafkaSink(StructType().add("value", "string"), {"topic": "t"})
    assert "(a checkpoint of up to 10000 rows and 32 MiB is one)" in sink.describe()
    monkeypatch.setattr(sender_module, "BYTES_PER_TRANSACTION", 3 * 8)
    for size in (3, ROWS):
        assert [chunk.end for chunk in chunks(pieces(0, size), ROWS, 1_000)] == [3, 6, 9, 12, 15, 18, 20]


@given(st.lists(st.integers(1, 24), max_size=6), st.lists(st.integers(1, 24), max_size=6, unique=True))
def test_senders_that_die_or_fail_leave_each_row_once(deaths: list[int], failures: list[int]) -> None:
    """Whatever step a sender dies at, before or behind the commit itself, and whatever steps fail and are tried again:
    the next sender goes on behind what is there, however it reads the rows."""
    cluster = Cluster()
    for size, death in enumerate(deaths, 3):
        cluster.before = at_steps(death, error=Died)
        try:
            sends(cluster, size=size)
        except Died:
            assert cluster.committed == list(range(len(cluster.committed)))
    cluster.before = at_steps(*failures, error=Interrupted)
    sends(cluster)
    assert cluster.committed == list(range(ROWS))
    assert sends(cluster) == 0, "nothing is left to be sent"


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=5))
def test_two_senders_of_one_lane_send_each_row_once(meetings: list[tuple[int, int]]) -> None:
    """Another attempt that connects at any step, and is itself interrupted at any step, ends what the first has open:
    one of them sends each row."""
    cluster, left = Cluster(), iter(meetings)

    def other() -> None:
        before, meeting = cluster.before, next(left, None)
        if meeting is None:
            return
        cluster.before = at_steps(meeting[1], error=Died)
        with suppress(Died):
            sends(cluster)
        cluster.before = before

    cluster.before = at_steps(*{first for first, _ in meetings}, error=other)
    sends(cluster)
    assert cluster.committed == list(range(ROWS))


def test_what_is_sent_counts_for_its_own_transaction_alone() -> None:
    """Rows of another history, under whatever checkpoint's id, are not taken for those that were sent."""
    cluster = Cluster()
    cluster.before = at_steps(7, error=Died)
    with pytest.raises(Died):
        sends(cluster)
    sent = len(cluster.committed)
    assert 0 < sent < ROWS
    sends(cluster, "b")
    assert cluster.committed[sent:] == list(range(ROWS))


@pytest.mark.parametrize("step", range(1, 9))
def test_a_driver_that_was_taken_over_sends_nothing_more(step: int) -> None:
    """Whatever an older driver is at when a newer one fences it: what it had open is not there, and what is left of its
    rows it refuses to send; the newer one sends its own."""
    cluster, seen = Cluster(), []

    def take_over() -> None:
        cluster.before = lambda step: None
        seen.append(len(cluster.committed))
        assert sender(cluster, "", branch=1).fence([TOPIC])

    cluster.before = at_steps(step, error=take_over)
    with pytest.raises(CheckpointError, match="taken this job over"):
        sends(cluster)
    assert len(cluster.committed) == seen[0]
    sends(cluster, "b", branch=1)
    assert cluster.committed[seen[0] :] == list(range(ROWS))


@pytest.mark.parametrize("step", range(1, 22))
def test_an_attempt_that_wakes_up_behind_the_next_transaction_sends_nothing(step: int) -> None:
    """Whatever an attempt of the same driver was at when another one sent all of its rows, and the lane went on."""
    cluster = Cluster()
    sends(cluster, "before")

    def go_on() -> None:
        cluster.before = lambda step: None
        sends(cluster)
        sends(cluster, "next")

    known = sender(cluster, "").tokens()
    assert known == {"before"}
    cluster.before = at_steps(step, error=go_on)
    paused = replace(sender(cluster), known=known)
    was_at_its_end = step == 21
    with nullcontext() if was_at_its_end else pytest.raises(CheckpointError, match="later output has followed"):
        paused.send(pieces)
    assert cluster.committed == 3 * list(range(ROWS))


@given(
    st.lists(st.integers(1, 40), max_size=6, unique=True), st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)))
)
def test_senders_that_stay_connected_send_each_row_once(failures: list[int], meetings: list[tuple[int, int]]) -> None:
    """One after the other goes on with the connection of the one before, whatever steps fail, and whenever an attempt
    at an earlier transaction wakes up, connects, and is interrupted at any step."""
    cluster, left = Cluster(), iter(meetings)
    sends(cluster, "0")
    known = sender(cluster, "").tokens()
    one, connected = sender(cluster, "1"), []

    def wake_up() -> None:
        before, meeting = cluster.before, next(left, None)
        if meeting is None or one.token == "1":
            return
        cluster.before = at_steps(meeting[1], error=Died)
        with suppress(Died, CheckpointError):
            replace(sender(cluster, "1"), known=known).send(pieces)
        cluster.before = before

    meet = at_steps(*{first for first, _ in meetings}, error=wake_up)
    fail = at_steps(*failures, error=Interrupted)

    def before(step: str) -> None:
        connected.extend(["connect"] if step == "connect" else [])
        meet(step)
        fail(step)

    cluster.before = before
    for number, token in enumerate("12234"):  # one is handed over twice
        last, one = one, sender(cluster, token)
        if number:
            one.follow(last)
        one.send(pieces, keep=True)
    assert cluster.committed == 5 * list(range(ROWS))
    assert len(connected) == 1 or failures or meetings


def test_a_driver_that_stayed_connected_and_was_taken_over_sends_nothing_more() -> None:
    """What a newer driver has fenced between two of its transactions, its connection, it cannot commit by."""
    cluster = Cluster()
    first, second = sender(cluster, "a"), sender(cluster, "b")
    first.send(pieces, keep=True)
    assert sender(cluster, "", branch=1).fence([TOPIC])
    second.follow(first)
    with pytest.raises(CheckpointError, match="taken this job over"):
        second.send(pieces, keep=True)
    assert cluster.committed == list(range(ROWS))


def test_fencing_without_a_topic() -> None:
    """A marker needs a topic: one that is given, or any that was sent to; otherwise only what is open ends."""
    cluster = Cluster()
    assert not sender(cluster, "", branch=1).fence([])
    sends(cluster, "b", branch=1)
    assert sender(cluster, "", branch=2).fence([])
    with pytest.raises(CheckpointError, match="taken this job over"):
        sends(cluster, "b", branch=1)


def test_no_sender_tries_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without getting further it gives up, with what the brokers said; what gets further has all tries again."""
    cluster = Cluster()

    def refuse(step: str) -> None:
        raise Interrupted("no leader")

    cluster.before = refuse
    with pytest.raises(CheckpointError, match="0 of 20 rows are there: no leader"):
        sends(cluster)
    monkeypatch.setattr(sender_module, "_TRIES", 3)
    failures: list[str] = []

    def fail_every_seventh(step: str) -> None:
        failures.append(step)
        if len(failures) % 7 == 0:
            raise Interrupted("again")

    cluster.before = fail_every_seventh
    sends(cluster)
    assert len(failures) > 3 * 7
    assert cluster.committed == list(range(ROWS))


def test_markers_of_others_are_refused() -> None:
    """An offset that is not ours is not taken for how far a lane is sent."""
    assert Marker.read(TOPIC, 3, Marker(1, "a", 3, TOPIC).text()) == Marker(1, "a", 3, TOPIC)
    for text in (None, "", "offset", '{"v": 2, "branch": 0, "transaction": "a"}', '{"v": 1}', "[]"):
        with pytest.raises(CheckpointError, match="no marker"):
            Marker.read(TOPIC, 3, text)
