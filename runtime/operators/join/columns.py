"""Columns of the frame in which both sides of a join, or of a cogroup, come to their keyed stage.

Both sides' rows are one frame: each row has its side, its key, its event time and the columns of its side; those of the
other side are null.
"""

from __future__ import annotations

#: Which side a row is of, an int: ``LEFT`` or ``RIGHT``.  In the first pass of a backlog also ``PAIR``.
SIDE_COLUMN = "__side"
LEFT, RIGHT = 0, 1
#: What they are called, by their numbers.
SIDE_NAMES = ("left", "right")
#: A row that is output already: the columns of both sides, of one alone if it has no partner.
PAIR = 2
#: Event time of the row, a timestamp; null: it has none, or its side has no watermark.  Of a ``PAIR``
#: the event time at which the orderly stream has it go out: the later one of its rows', and of a row without a partner
#: the one that brings the watermark past its retention.
TIME_COLUMN = "__time"
#: Only in the first pass of a backlog: whether the row has had a partner in it.
MATCHED_COLUMN = "__matched"


def join_key_column(place: int) -> str:
    """Name of a key column."""
    return f"__k{place}"


def side_column(side: int, place: int) -> str:
    """Name of a column of a side, by its place there."""
    return f"__{'lr'[side]}{place}"
