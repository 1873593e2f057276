"""Rows of two sides, the frame in which they come to a join, and what becomes of them by a model in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.contract import ShardContext
from mixedmode.runtime.operators.join.columns import LEFT, PAIR, RIGHT
from mixedmode.runtime.operators.join.definition import (
    How,
    JoinedColumns,
    JoinKey,
    JoinSide,
    ResidualCondition,
    TimeBounds,
)
from mixedmode.runtime.operators.join.operator import JoinOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

SECOND_US = 1_000_000
#: Key, event time in microseconds, value.
Row = tuple[Any, "int | None", "int | None"]
LEFT_SCHEMA = StructType(
    [StructField("k", StringType()), StructField("ts", TimestampType()), StructField("v", LongType())]
)
RIGHT_SCHEMA = StructType(
    [StructField("k", StringType()), StructField("ts", TimestampType()), StructField("w", LongType())]
)
OUTPUT_SCHEMA = StructType(
    [StructField(f"{side}_{field.name}", field.dataType) for side in "lr" for field in LEFT_SCHEMA.fields]
)


def some_rows(seed: int, count: int, *, seconds: int = 60, keys: str = "abcd") -> list[Row]:
    """Rows with nulls everywhere, equal times and rows that are there twice."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        key = rng.choice([*keys, None]) if rng.random() < 0.2 else rng.choice(keys)
        time_us = None if rng.random() < 0.05 else rng.randrange(seconds) * SECOND_US
        # A row is told from none by having something.
        values = [*range(5)] if key is None else [None, *range(5)]
        rows.append((key, time_us, rng.choice(values)))
    return rows + rng.sample(rows, count // 10)


def frame_of(spark: SparkSession, left: list[Row], right: list[Row]) -> DataFrame:
    """Both sides in one frame, as the planner makes it."""
    sides = []
    for side, rows in ((LEFT, left), (RIGHT, right)):
        made = spark.createDataFrame([(k, t, v) for k, t, v in rows], "k string, t long, v long").coalesce(1)
        made = made.select("k", F.timestamp_micros("t").alias("ts"), "v")
        own = [F.col(name) for name in ("k", "ts", "v")]
        null = [F.lit(None).cast(field.dataType) for field in LEFT_SCHEMA.fields]
        columns = [*own, *null] if side == LEFT else [*null, *own]
        names = [f"__{letter}{place}" for letter in "lr" for place in range(3)]
        sides.append(
            made.select(
                F.col("k").alias("__k0"),
                F.lit(side).alias("__side"),
                F.col("ts").alias("__time"),
                *[column.alias(name) for column, name in zip(columns, names, strict=True)],
            )
        )
    return sides[0].union(sides[1])


class Watcher(JoinOperator):
    """Hands on all that comes to its tasks, with shard and place."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.output_schema = StructType.fromDDL(
            "kg int, k string, side int, time timestamp, lk string, lts timestamp, lv long, rk string, rts timestamp, "
            "rw long, matched boolean, shard int, place long"
        )

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        place = 0
        for batch in rows:
            places = np.arange(place, place + batch.num_rows)
            place += batch.num_rows
            columns = [*batch.columns, np.full(batch.num_rows, context.shard, np.int32), places]
            schema = arrow_schema(self.output_schema)
            arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, schema, strict=True)]
            context.emit(pa.RecordBatch.from_arrays(arrays, schema=schema), 0)
        context.counters.rows_in = place


@dataclass(frozen=True)
class Case:
    """A join over such rows."""

    how: How
    least_us: int | None = -10 * SECOND_US
    greatest_us: int | None = 0
    keeps_us: tuple[int | None, int | None] = (10 * SECOND_US, 0)
    #: Whether a pair's left value must not be greater than its right one.
    compares: bool = True

    def operator(self, kind: type[JoinOperator] = Watcher) -> JoinOperator:
        """The operator."""
        condition = ResidualCondition(F.col("__l2") <= F.col("__r2"), "l.v <= r.w", ("__l2", "__r2"))
        left, right = (
            JoinSide(schema, "ts", keep_us)
            for schema, keep_us in zip((LEFT_SCHEMA, RIGHT_SCHEMA), self.keeps_us, strict=True)
        )
        return kind(
            uid="j",
            how=self.how,
            key=JoinKey(pa.schema([("__k0", pa.string())]), ("k",)),
            sides=(left, right),
            bounds=TimeBounds(self.least_us, self.greatest_us),
            residual=condition if self.compares else None,
            output=JoinedColumns(
                OUTPUT_SCHEMA, tuple((f"__{letter}{place}",) for letter in "lr" for place in range(3))
            ),
        )

    def is_pair(self, left: Row, right: Row) -> bool:
        """Whether two rows are a pair."""
        if left[0] is None or left[0] != right[0]:
            return False
        if self.least_us is not None or self.greatest_us is not None:
            if left[1] is None or right[1] is None:
                return False
            apart_us = left[1] - right[1]
            if self.least_us is not None and apart_us < self.least_us:
                return False
            if self.greatest_us is not None and apart_us > self.greatest_us:
                return False
        return not self.compares or (left[2] is not None and right[2] is not None and left[2] <= right[2])

    def is_over(self, side: int, row: Row, watermark_ms: int) -> bool:
        """Whether no partner of a row can come any more."""
        keep_us = self.keeps_us[side]
        if watermark_ms in (MIN_WATERMARK, MAX_WATERMARK):
            return watermark_ms == MAX_WATERMARK
        return keep_us is not None and row[1] is not None and watermark_ms * 1000 > row[1] + keep_us

    def first_pass(
        self, left: list[Row], right: list[Row], watermark_ms: int, delay_ms: int = 0
    ) -> tuple[Counter[Any], Counter[Any]]:
        """What goes out of a pass that meets no state, and what stays: (key, side, time, columns, matched)."""
        output: Counter[Any] = Counter()
        kept: Counter[Any] = Counter()
        pairs = [(one, other) for one in left for other in right if self.is_pair(one, other)]
        if self.how != "leftsemi":
            for one, other in pairs:
                times = [row[1] for row in (one, other) if row[1] is not None]
                output[(one[0], PAIR, max(times, default=None), one, other, True)] += 1
        for side, rows in ((LEFT, left), (RIGHT, right)):
            partnered = {pair[side] for pair in pairs}
            outer = self.how in ("full", "left" if side == LEFT else "right")
            for row in rows:
                has_partner, over = row in partnered, self.is_over(side, row, watermark_ms)
                columns = (row, None) if side == LEFT else (None, row)
                if self.how == "leftsemi" and side == LEFT and has_partner:
                    output[(row[0], PAIR, row[1], *columns, True)] += 1
                    continue
                if over and outer and not has_partner:
                    waits_us = (self.keeps_us[side] or 0) + (1 + delay_ms) * 1000
                    time_us = None if row[1] is None else row[1] + waits_us
                    output[(row[0], PAIR, time_us, *columns, False)] += 1
                if not over:
                    kept[(row[0], side, row[1], *columns, outer and has_partner)] += 1
        return output, kept


def as_told(rows: Iterable[Any]) -> Counter[Any]:
    """Rows of the frame of both sides as the model has them."""
    return Counter(map(_told, rows))


def _told(row: Any) -> Any:
    key, side, time, *columns, matched = row
    return (key, side, _us(time), _row(columns[:3]), _row(columns[3:]), matched)


def _row(columns: list[Any]) -> Row | None:
    key, time, value = columns
    return None if columns == [None] * 3 else (key, _us(time), value)


def _us(time: datetime | None) -> int | None:
    return None if time is None else round(time.replace(tzinfo=timezone.utc).timestamp() * SECOND_US)
