"""Columns of the frame in which both sides of a join, or of a cogroup, come to their keyed stage.

Both sides' rows are one frame: each row has its side, its key, its event time and the columns of its side; those of the
other side are null.
"""

from __future__ import annotations

#: Which side a row is of, an int: ``LEFT`` or ``RIGHT``.  In the first pass of a backlog also ``PAIR``.
SIDE_COLUMN = "__side"
LEFT, RIGHT = 0, 1
#: A row that is output already: the columns of both sides.
PAIR = 2
#: Event time of the row, a timestamp in whatever zone; null: it has none, or its side has no watermark.
TIME_COLUMN = "__time"


def key_column(place: int) -> str:
    """Name of a key column."""
    return f"__k{place}"


def side_column(side: int, place: int) -> str:
    """Name of a column of a side, by its place there."""
    return f"__{'lr'[side]}{place}"
