"""Sends the rows of a lane, each once: transaction by transaction, each of which also commits how far it goes.

To connect is to fence: whoever connects as a lane's sender ends every transaction that an earlier one has left open,
and whatever that one still tries fails.  Only then is the marker read, so it says for good what is sent, until somebody
else connects.  This holds for attempts of one task as for drivers, whichever of them wakes up when.

An attempt that wakes up when the lane has long gone on finds no marker of its transaction, as if nothing of that were
sent.  So it is told which markers there were when the transaction was handed over, and sends nothing beside another.

Invariants: rows before the marker's position are sent, no other row of the transaction is; nothing is sent for a
transaction of an older branch than the marker's, nor for one that another has followed.
"""

from __future__ import annotations

import logging
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import pyarrow as pa

from .....errors import CheckpointError
from ....support.failpoints import failpoint
from .markers import Marker, newest_branch, position_of

logger = logging.getLogger(__name__)

#: A transaction is closed behind so many rows, or so much of them: it must end before the broker's patience does.
ROWS_PER_TRANSACTION = 100_000
BYTES_PER_TRANSACTION = 32 << 20
#: A transaction takes whole pieces, so by that much at most it is larger.
_PIECES_PER_TRANSACTION = 4
#: How often a sender begins again without having got further, and how long it waits in between, at first and at most.
_TRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 8, 0.2, 10.0


class Interrupted(Exception):
    """A transaction did not come to its end, and may if it is tried again.

    Args:
        said: what has happened.
        is_fenced: whether somebody else has connected as the same sender.
    """

    def __init__(self, said: str, *, is_fenced: bool = False) -> None:
        super().__init__(said)
        self.is_fenced = is_fenced


class Connection(Protocol):
    """A lane's producer, which keeps all earlier ones out from when it is made."""

    def markers(self) -> list[Marker]:
        """What the transactions of this lane have committed."""

    def send(self, rows: pa.RecordBatch) -> str:
        """Send messages, in the transaction that they begin if there is none; returns the topic of the last."""

    def mark(self, marker: Marker) -> None:
        """Have all messages in the log, and the marker in their transaction, which it begins if there is none."""

    def commit(self) -> None:
        """End the transaction: its messages and its marker are there together."""

    def close(self) -> None:
        """Give up what is open."""


@dataclass(frozen=True)
class SendPiece:
    """Some rows of a lane, and the position of each, in order."""

    rows: pa.RecordBatch
    positions: Sequence[int]

    def since(self, position: int) -> pa.RecordBatch:
        """Its rows from a position on."""
        return self.rows.slice(bisect_left(self.positions, position))

    def parts(self) -> Iterator[SendPiece]:
        """The same rows in pieces that are small beside a transaction, or of one row."""
        half = self.rows.num_rows // 2
        if half == 0 or self.rows.nbytes * _PIECES_PER_TRANSACTION <= BYTES_PER_TRANSACTION:
            yield self
            return
        yield from SendPiece(self.rows.slice(0, half), self.positions[:half]).parts()
        yield from SendPiece(self.rows.slice(half), self.positions[half:]).parts()


@dataclass
class Chunk:
    """The rows of a transaction, unless it must go on behind what is sent of it."""

    pieces: list[SendPiece] = field(default_factory=list)
    #: Everything before this position is in it, or was before it.
    end: int = 0

    def is_full(self, rows: int) -> bool:
        """Whether it is enough for a transaction of so many rows."""
        has_rows = sum(piece.rows.num_rows for piece in self.pieces)
        return has_rows >= rows or sum(piece.rows.nbytes for piece in self.pieces) >= BYTES_PER_TRANSACTION


def chunks(pieces: Iterable[SendPiece], end: int, rows: int) -> Iterator[Chunk]:
    """Pieces put together; the last chunk ends with the lane.

    Args:
        pieces: those of a lane, in order.
        end: the lane's.
        rows: how many are enough for one.
    """
    chunk = Chunk()
    for piece in (part for whole in pieces if whole.rows.num_rows for part in whole.parts()):
        if chunk.is_full(rows):
            yield chunk
            chunk = Chunk()
        chunk.pieces.append(piece)
        chunk.end = piece.positions[-1] + 1
    if chunk.pieces:
        chunk.end = end
        yield chunk


@dataclass
class Sender:
    """Sends one lane of one transaction of the sink.

    Args:
        connect: makes a connection, which fences all others of the lane; raises Interrupted.
        branch: the driver's.
        token: the transaction's.
        end: the lane's.
        rows: how many are enough for a transaction.
        known: tokens of the transactions that the lane's markers were of when this one was handed over; None: of any.
        sleep: waits for so many seconds; it may raise an error, which ends the sending.
    """

    connect: Callable[[], Connection]
    branch: int
    token: str
    end: int
    rows: int = ROWS_PER_TRANSACTION
    known: frozenset[str] | None = None
    sleep: Callable[[float], None] = time.sleep
    _connection: Connection | None = None
    _markers: tuple[Marker, ...] = ()
    _sent: int = 0
    _tries: int = 0

    def follow(self, before: Sender) -> None:
        """Go on with the connection that another sender of this lane has kept, and with the markers that it knows.

        Nobody else has committed any since: whoever has connected meanwhile has fenced this connection.
        """
        self._connection, self._markers, before._connection = before._connection, before._markers, None

    def send(self, pieces: Callable[[int], Iterable[SendPiece]], *, keep: bool = False) -> int:
        """Send what is not sent yet; returns how many messages this sender has sent.

        Args:
            pieces: the lane's rows from a position on, in order; more of them before it do no harm.
            keep: stay connected, for the next sender (:meth:`follow`); after a failure nobody is.

        Raises:
            CheckpointError: a newer driver has taken over, or it is no use trying any more.
        """
        messages, done = 0, False
        try:
            self._until_done(self._look)
            if self._sent < self.end:
                for chunk in chunks(pieces(self._sent), self.end, self.rows):
                    while self._sent < chunk.end:
                        messages += self._until_done(partial(self._transaction, chunk))
            done = True
        finally:
            if not (keep and done):
                self.disconnect()
        return messages

    def tokens(self) -> frozenset[str]:
        """Those of the transactions that the lane's markers are of; nobody else can commit another one meanwhile.

        Raises:
            CheckpointError: a newer driver has taken over, or it is no use trying any more.
        """
        try:
            self._until_done(self._look)
            return frozenset(marker.token for marker in self._markers)
        finally:
            self.disconnect()

    def fence(self, topics: Iterable[str]) -> bool:
        """Have no driver of an older branch send anything here; False: nothing but its open transaction is ended.

        Args:
            topics: some that exist; none are needed where something has been sent.

        Raises:
            CheckpointError: a newer driver has taken over, or it is no use trying any more.
        """
        try:
            return bool(self._until_done(partial(self._fence, tuple(topics))))
        finally:
            self.disconnect()

    def _fence(self, topics: tuple[str, ...]) -> int:
        self._look()
        assert self._connection is not None
        topic = next(iter([*topics, *[marker.topic for marker in self._markers]]), None)
        if topic is not None:
            self._connection.mark(Marker(self.branch, "", 0, topic))
            self._connection.commit()
        return topic is not None

    def _until_done(self, act: Callable[[], int]) -> int:
        while True:
            try:
                return act()
            except Interrupted as error:
                self.disconnect()
                self._tries += 1
                if self._tries >= _TRIES:
                    raise CheckpointError(
                        f"sending to Kafka got no further in {_TRIES} tries, {self._sent} of {self.end} rows are"
                        f" there: {error}"
                    ) from error
                # Two attempts of one task fence each other: chance has one of them come through.
                logger.info(
                    "sending to Kafka is tried again (%s of %s), %s of %s rows are there: %s",
                    self._tries,
                    _TRIES,
                    self._sent,
                    self.end,
                    error,
                )
                longest = min(_FIRST_PAUSE_S * 2**self._tries, _LONGEST_PAUSE_S)
                self.sleep(random.uniform(longest / 2, longest))

    def _look(self) -> int:
        """Be the lane's only sender, and see how far it is sent."""
        if self._connection is None:
            self._connection = self.connect()
            self._markers = tuple(self._connection.markers())
        markers = self._markers
        newest = newest_branch(markers)
        if newest > self.branch:
            raise CheckpointError(
                f"another driver has taken this job over (branch {newest}; this one's is {self.branch}): what this one"
                " still had to send to Kafka is not sent",
                code="MIXEDMODE_LOCATION_LOST",
            )
        if self.known is not None and {marker.token for marker in markers} - self.known - {self.token}:
            raise CheckpointError(
                "another attempt has sent what this one was to send to Kafka, and later output has followed: it sends"
                " nothing more",
                code="MIXEDMODE_LOCATION_LOST",
            )
        self._got_to(position_of(markers, self.token))
        return 0

    def _transaction(self, chunk: Chunk) -> int:
        if self._connection is None:
            self._look()
            if self._sent >= chunk.end:
                return 0
        connection = self._connection
        assert connection is not None
        messages, topic = 0, ""
        for piece in chunk.pieces:
            rows = piece.since(self._sent)
            if rows.num_rows:
                topic = connection.send(rows)
                messages += rows.num_rows
        if topic:
            marker = Marker(self.branch, self.token, chunk.end, topic)
            connection.mark(marker)
            self.sleep(0)  # whoever has given up waiting is told by it
            failpoint("kafka-before-commit")
            connection.commit()
            failpoint("kafka-after-commit")
            self._markers = (*(one for one in self._markers if one.topic != topic), marker)
        self._got_to(chunk.end)
        return messages

    def _got_to(self, position: int) -> None:
        if position > self._sent:
            self._sent, self._tries = position, 0

    def disconnect(self) -> None:
        """Give up the connection, and what is open on it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
