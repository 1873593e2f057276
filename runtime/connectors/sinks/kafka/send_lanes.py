"""Divides the rows of a checkpoint into lanes: each is sent by one producer, in one order.

A lane has whole shards: what one shard has staged, epoch by epoch, so a key's messages leave in the order in which
they were made.  The rows of a lane are counted through, and a *position* is a number of such rows.  A small checkpoint
is one lane.

Invariant: lanes are a function of the transaction alone (its files' names, order and numbers of rows, which stay when
files are staged again in another form), so that every attempt of every run deals the same rows to the same lanes, and a
position means the same to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...staging import StagedFile, epoch_of, writer_number

#: The most lanes, part of the contract with what earlier runs have sent, as is the next one: who changes them needs
#: another version of :class:`.markers.Marker`, and must read both.
MOST_LANES = 16
#: A lane more for each so many rows.
ROWS_PER_LANE = 10_000


@dataclass(frozen=True)
class SendLane:
    """Rows that are sent one after the other."""

    number: int
    #: In the order in which they are sent.
    files: tuple[StagedFile, ...]

    @property
    def rows(self) -> int:
        """How many rows it has: the position of its end."""
        return sum(file.rows for file in self.files)

    @property
    def starts(self) -> list[int]:
        """The position of each file's first row."""
        return [sum(file.rows for file in self.files[:place]) for place in range(len(self.files))]


def lanes_of(files: Sequence[StagedFile]) -> list[SendLane]:
    """The lanes of a transaction's files; each has rows."""
    rows = sum(file.rows for file in files)
    number = min(MOST_LANES, -(-rows // ROWS_PER_LANE))
    dealt: dict[int, list[StagedFile]] = {}
    for file in sorted(files, key=lambda file: epoch_of(file.name)):
        if file.rows:
            dealt.setdefault(writer_number(file.name) % number, []).append(file)
    return [SendLane(lane, tuple(dealt[lane])) for lane in sorted(dealt)]
