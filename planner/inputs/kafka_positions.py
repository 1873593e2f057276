"""Reads which messages of a topic a history holds, and checks that the topic goes on right behind them.

Every message has a position: the number of its partition and its offset there.  Offsets grow by one, but for those that
transactions and compaction take: so holes inside of what a history holds mean nothing, and what lies between its end
and the topic's beginning is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from ...errors import PlanError
from ...runtime.spark_io.spark_kafka import TopicRange
from .schemas import find_column, missing_column, quoted_columns

#: Spark's number for the first message that there is.
EARLIEST = -2


@dataclass(frozen=True)
class HeldRange:
    """What a history holds of one partition."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class HeldPositions:
    """What a history holds of a topic."""

    partitions: Mapping[int, HeldRange] = field(default_factory=dict)
    #: Rows that do not say where they come from.
    without: int = 0

    @classmethod
    def up_to(cls, ends: Mapping[int, int]) -> HeldPositions:
        """Everything before these offsets."""
        return cls({number: HeldRange(0, end - 1, 0) for number, end in ends.items()})

    def next_offsets(self, topic: TopicRange) -> dict[int, int]:
        """For each partition of the topic the first offset behind what is held; ``EARLIEST``: nothing is."""
        held = self.partitions
        return {
            number: max(held[number].last + 1, begin) if number in held else EARLIEST
            for number, begin in topic.begins.items()
        }

    def flaws(self, topic: TopicRange) -> Iterator[str]:
        """Gaps and overlaps that the topic's offsets show, in words."""
        if self.without:
            yield f"{self.without} rows of the history do not say which message they were, and would be left out"
        for number, held in sorted(self.partitions.items()):
            if held.rows > held.last - held.first + 1:
                yield (
                    f"partition {number}: the history has {held.rows} rows of the offsets {held.first} to {held.last},"
                    " so some messages are in it more than once"
                )
        for number, begin in sorted(topic.begins.items()):
            behind = self.partitions[number].last + 1 if number in self.partitions else 0
            if begin > behind:
                has = f"ends with offset {behind - 1}" if number in self.partitions else "has none of it"
                yield (
                    f"partition {number}: the history {has}, and the topic begins at offset {begin}: the messages"
                    f" {behind} to {begin - 1} are in neither"
                )

    def check_of(self, name: str, topic: TopicRange) -> None:
        """Raise PlanError if that is no history of this topic."""
        strange = sorted(self.partitions.keys() - topic.begins.keys())
        if strange:
            raise PlanError(
                f"the history has rows of partition {strange[0]}, and topic {name!r} has"
                f" {len(topic.begins)} partitions, 0 to {len(topic.begins) - 1}: it is the history of another topic",
                code="MIXEDMODE_SEAM_BROKEN",
            )
        for number, held in sorted(self.partitions.items()):
            if held.last >= topic.ends[number]:
                raise PlanError(
                    f"the history has offset {held.last} of partition {number}, and topic {name!r} ends at"
                    f" {topic.ends[number]} there: it is the history of another topic, or the topic has been made anew."
                    " Without positions that fit, cut both sides by time (cut=…)",
                    code="MIXEDMODE_SEAM_BROKEN",
                )


def flaws_of_cut(topic: TopicRange, cut_ms: int) -> Iterator[str]:
    """What a topic has forgotten that may belong behind a moment: in words, by partition."""
    for number, begin in sorted(topic.begins.items()):
        first_ms = topic.first_times_ms.get(number)
        if begin > 0 and (first_ms is None or first_ms > cut_ms):
            has = "has no message with a time any more" if first_ms is None else f"begins at {_utc(first_ms)}"
            yield (
                f"partition {number}: the topic has forgotten the messages before offset {begin} and {has}; whether"
                f" some of them came after the cut at {_utc(cut_ms)} cannot be seen"
            )


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def held_positions(history: DataFrame, columns: tuple[str, str]) -> HeldPositions:
    """Read the positions of a history's rows, which are in these columns (one Spark job over two columns)."""
    where, at = quoted_columns(columns)
    found = history.groupBy(where).agg(F.min(at), F.max(at), F.count(at), F.count("*")).collect()
    ranges = {
        int(number): HeldRange(int(first), int(last), int(rows))
        for number, first, last, rows, _ in found
        if number is not None and rows
    }
    lacking = sum(int(every) - (0 if number is None else int(rows)) for number, _, _, rows, every in found)
    return HeldPositions(ranges, lacking)


def position_columns(history: DataFrame, columns: tuple[str, str], *, case_sensitive: bool) -> tuple[str, str]:
    """The columns with a row's partition and offset, as the history writes them.

    Raises:
        PlanError: it has no such columns, or they are no integers.
    """
    found = []
    for what, name in zip(("partition", "offset"), columns, strict=True):
        column = find_column(name, history.schema, case_sensitive=case_sensitive)
        if column is None:
            raise missing_column(
                f"the history does not say which message a row was (positions = {columns!r}): column",
                name,
                history.schema,
            )
        kind = history.schema[column].dataType
        if not isinstance(kind, IntegralType):
            raise PlanError(
                f"column {column} of the history, by which the {what} of a message is told, is of type"
                f" {kind.simpleString()}; it must be an integer"
            )
        found.append(column)
    return found[0], found[1]


def rows_before(history: DataFrame, columns: tuple[str, str], next_offsets: Mapping[int, int]) -> DataFrame:
    """The rows of a history up to where live begins, whatever it has grown by since."""
    held = {number: offset for number, offset in next_offsets.items() if offset != EARLIEST}
    if not held:
        return history.where(F.lit(False))
    partition, offset = quoted_columns(columns)
    bounds = F.create_map(*[F.lit(one) for number, bound in held.items() for one in (number, bound)])
    return history.where(offset < F.try_element_at(bounds, partition.cast("int")))


def offsets_option(topic: str, offsets: Mapping[int, int]) -> str:
    """Offsets of a topic as Spark's options take them."""
    return json.dumps({topic: {str(number): offset for number, offset in sorted(offsets.items())}})
