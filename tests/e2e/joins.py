"""Two streams that are joined: their rows, the jobs, and a model of what is out at each watermark.

Rows are the events of :mod:`support`.  Those of the left have the columns ``num, ts, value``, those of the right
``who, paid, cents``; ``num`` and ``who`` are the keys as numbers, so that NaN and the two zeros are among them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

import mixedmode
import support
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import Event, World

#: A right row is a partner if it comes so much later than the left one, or less.
RANGE_S = 300
#: No time of a row or an end of its range is ever equal to a watermark: there the boundaries differ from stock's.
DELAY_MS = 100_500
DELAY = f"{DELAY_MS} milliseconds"
IN_RANGE = f"num = who AND paid BETWEEN ts AND ts + INTERVAL {RANGE_S} SECONDS"
#: What bounds of the event times cannot say.
FURTHER = f"{IN_RANGE} AND value > cents"
#: A null equals nothing; NaN equals NaN, and -0.0 equals 0.0.
KEYS = ("1", "2", "3", "0.0", "-0.0", "NaN", None)
#: A row of this key brings a watermark past everything.
FLUSH_KEY, FLUSH_S = "9", 1_000_000

#: The side, 0 or 1, and the row.
Sided = tuple[int, Event]


def sides_of(seed: int, rows: int, step_s: int = 40) -> list[Sided]:
    """Rows of both sides as they come: doubled, out of order by less than the delay, and at the very ends of ranges.

    Some have no key, some no event time.
    """
    chance, now_s = random.Random(seed), 1_000
    made: list[Sided] = []
    lefts = [now_s]
    while len(made) < rows:
        now_s += chance.randrange(step_s)
        side = chance.randrange(2)
        time_s = now_s - chance.choice([0, 0, chance.randrange(100)])
        if side == 1:  # at an end of a left row's range, or just outside
            ends = [left + more for left in lefts[-40:] for more in (0, RANGE_S, -1, RANGE_S + 1)]
            time_s = chance.choice([time_s, *[end for end in ends if now_s - 100 < end <= now_s][-6:]])
        else:
            lefts.append(time_s)
        event = (chance.choice(KEYS), None if chance.random() < 0.03 else time_s, chance.randrange(100))
        made += [(side, event)] * chance.choice([1, 1, 1, 2])
    return made


def of_side(rows: Iterable[Sided], side: int) -> list[Event]:
    return [event for one, event in rows if one == side]


def as_left(frame: DataFrame) -> DataFrame:
    return frame.select(F.expr("try_cast(key AS double) AS num"), "ts", "value")


def as_right(frame: DataFrame) -> DataFrame:
    return frame.select(F.expr("try_cast(key AS double) AS who"), F.expr("ts AS paid"), F.expr("value AS cents"))


def joined(left: Any, right: Any, how: str, condition: str = IN_RANGE) -> Any:
    """The join, of our frames and of Spark's."""
    return left.withWatermark("ts", DELAY).join(right.withWatermark("paid", DELAY), F.expr(condition), how)


class Pair:
    """The sources of a job: those of the left are a world's, those of the right are in a folder of their own."""

    def __init__(self, world: World) -> None:
        self.left = world
        self.right = World(world.spark, world.folder / "right")
        self.spark = world.spark

    def read(
        self,
        left: Sequence[Event] | None = None,
        right: Sequence[Event] | None = None,
        live: tuple[bool, bool] = (True, True),
        **options: str,
    ) -> tuple[Any, Any]:
        """Both sides: their histories, None for none, and whether what lands is read, with these options."""
        sides = ((self.left, left, as_left, "left"), (self.right, right, as_right, "right"))
        found = []
        for (world, history, shape, name), is_live in zip(sides, live, strict=True):
            found.append(
                mixedmode.read(
                    history=None if history is None else shape(world.history(history)),
                    live={name: shape(world.live(**options))} if is_live else None,
                )
            )
        return found[0], found[1]

    def stock(self, **options: str) -> tuple[DataFrame, DataFrame]:
        """Both landing zones as Spark's own streams."""
        return as_left(self.left.live(**options)), as_right(self.right.live(**options))

    def land(self, rows: Sequence[Sided], each: bool = False) -> None:
        """A file of each side that has rows; with ``each`` also of one that has none."""
        for side, world in enumerate((self.left, self.right)):
            events = of_side(rows, side)
            if events or each:
                world.land(events)

    def batch(self, rows: Sequence[Sided]) -> tuple[DataFrame, DataFrame]:
        """All rows as two plain frames."""
        frames = []
        for side, shape in enumerate((as_left, as_right)):
            path = self.left.folder / f"all-{side}.parquet"
            support.write(path, of_side(rows, side))
            frames.append(shape(self.spark.read.schema(support.ROW_SCHEMA).parquet(str(path))))
        return frames[0], frames[1]

    def expected(self, rows: Sequence[Sided], how: str, condition: str = IN_RANGE) -> list[str]:
        """By Spark's batch join over all rows."""
        return shown(map(tuple, joined(*self.batch(rows), how, condition).collect()))


def shown(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Rows to compare: NaN is equal to itself, the zeros differ."""
    return sorted(map(repr, rows))


def out_at(rows: Sequence[Sided], how: str, watermark_ms: float, further: bool = False) -> list[str]:
    """What is out when these rows have come and this is the watermark: a model, of rows with event times.

    A row without a partner goes out when the watermark is past the time of the last partner that could come.
    """
    lefts, rights = ([event for event in of_side(rows, side) if event[1] is not None] for side in (0, 1))
    pairs = [
        (i, j)
        for i, (key, ts, value) in enumerate(lefts)
        for j, (who, paid, cents) in enumerate(rights)
        if same(key, who) and ts <= paid <= ts + RANGE_S and (not further or value > cents)
    ]
    left, right = ([left_row(event) for event in lefts], [left_row(event) for event in rights])
    matched = ({i for i, _ in pairs}, {j for _, j in pairs})
    if how == "leftsemi":
        return shown(left[i] for i in matched[0])
    out = [(*left[i], *right[j]) for i, j in pairs]
    if how in ("left", "full"):
        over = [support.at_ms(event[1] + RANGE_S) < watermark_ms for event in lefts]
        out += [(*row, None, None, None) for i, row in enumerate(left) if over[i] and i not in matched[0]]
    if how in ("right", "full"):
        over = [support.at_ms(event[1]) < watermark_ms for event in rights]
        out += [(None, None, None, *row) for j, row in enumerate(right) if over[j] and j not in matched[1]]
    return shown(out)


def left_row(event: Event) -> tuple[Any, ...]:
    key, seconds, value = event
    return (None if key is None else float(key), support.at(seconds), value)


def same(key: str | None, other: str | None) -> bool:
    """Whether Spark's ``=`` is true of them as numbers."""
    if key is None or other is None:
        return False
    return key == other or float(key) == float(other)


def watermark_ms(query: Any) -> float:
    """Up to where the query says that it has fired."""
    told = query.lastProgress["eventTime"].get("watermark")
    if told is None:
        return float("-inf")
    moment = datetime.strptime(told, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    return moment.timestamp() * 1000


def without_flush(rows: Iterable[str]) -> list[str]:
    """Without rows that a flush is part of."""
    return [row for row in rows if f"({float(FLUSH_KEY)}," not in row and f" {float(FLUSH_KEY)}," not in row]


#: Rows that bring both watermarks past everything.
FLUSH: list[Sided] = [(0, (FLUSH_KEY, FLUSH_S, 0)), (1, (FLUSH_KEY, FLUSH_S, 0))]


def halves(history: DataFrame | None, live: DataFrame | None) -> Any:
    """Small values and even ones of the same rows, each as a stream of its own, and each row beside its partners."""

    def read(name: str, condition: str, shape: Any) -> Any:
        def half(frame: DataFrame) -> DataFrame:
            return shape(frame.where(condition).withColumn("key", F.expr("substr(key, 2)")))

        return mixedmode.read(
            history=None if history is None else half(history), live=None if live is None else {name: half(live)}
        )

    return joined(read("small", "value < 60", as_left), read("even", "value % 2 = 0", as_right), "full", FURTHER)


def halves_of(events: Sequence[Event]) -> list[str]:
    """What :func:`halves` gives of events in order of time once the watermark has passed all of them."""
    rows: list[Sided] = []
    for key, seconds, value in events:
        event = (key[1:], seconds, value)
        rows += [(side, event) for side, is_of in ((0, value < 60), (1, value % 2 == 0)) if is_of]
    return out_at(rows, "full", support.at_ms(FLUSH_S), further=True)
