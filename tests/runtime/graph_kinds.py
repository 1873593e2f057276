"""Kinds of stages for :mod:`graph_support`, each with a model of a few lines that shares no code with the engine.

A model is told what Spark would be: rows of an epoch, the bound of late rows, what fires.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
from graph_support import TIME, Kind, Row, key_group
from mixedmode.runtime.operators.aggregate.buffers import CountBuffer, SumBuffer
from mixedmode.runtime.operators.aggregate.definition import GroupBy, GroupColumns, GroupKey, OutputColumn, Partials
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.operators.aggregate.results import Result
from mixedmode.runtime.operators.contract import EpochSpec, KeyedOperator
from mixedmode.runtime.operators.dedup.definition import Lateness, Retention
from mixedmode.runtime.operators.dedup.operator import DedupOperator
from mixedmode.runtime.operators.emission_watermark import EMITTED_COLUMN
from mixedmode.runtime.operators.join.columns import LEFT, RIGHT, SIDE_COLUMN, TIME_COLUMN, side_column
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.processor.cogroup.cogroup_form import Cogrouped as CogroupedRows
from mixedmode.runtime.operators.processor.definition import CallingConvention
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.operators.processor.rows.row_form import RowsForm
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

KEY = StructType().add("k", StringType())
ROWS = StructType().add("k", StringType()).add("ts", TimestampType()).add("v", LongType())
EPOCH = datetime(1970, 1, 1)
WINDOW = pa.struct([("start", TIME), ("end", TIME)])


@dataclass(frozen=True)
class Emitted:
    """A row, and the watermark at which it was emitted; of a source's rows it is not known."""

    row: Row
    at_ms: int | None = None

    @property
    def time_us(self) -> int | None:
        return self.row[1]


@dataclass(frozen=True)
class Turn:
    """What a stage is told of an epoch."""

    #: What it had fired up to: rows behind it are late.  MIN: none are.
    late_ms: int
    firing_ms: int
    #: Where the watermark of in-order starts, how far it stays behind times, and how far it goes; None: after-rows.
    clock: tuple[int, int, int] | None = None
    delay_ms: int = 0


class Model(ABC):
    """What a stage is."""

    @abstractmethod
    def epoch(self, rows: Sequence[Emitted], turn: Turn) -> tuple[list[Emitted], list[Emitted]]:
        """The rows that it hands on, and those of its input that are late."""

    @abstractmethod
    def is_due(self) -> bool:
        """Whether anything waits for the end."""


def split(rows: Sequence[Emitted], late_ms: int, over: Any) -> tuple[list[Emitted], list[Emitted]]:
    """Rows in time, and late ones; those without event time are never late."""
    late = [row for row in rows if row.time_us is not None and late_ms > MIN_WATERMARK and over(row.time_us)]
    return [row for row in rows if row not in late], late


# -- windows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows(Kind):
    """``groupBy("k", window("ts", length)).agg(count, sum)`` in append mode; ``window_time`` behind it."""

    length_ms: int
    key = ("k", "w")

    def start(self, time_us: int) -> int:
        return time_us // (self.length_ms * 1000) * self.length_ms * 1000

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        partials = Partials(
            columns={"__b0": "count(1)", "__b1": "sum(v)"},
            places=("__b0", "__b1"),
            types=(pa.int64(), pa.int64()),
            buffers=(CountBuffer((0,)), SumBuffer((1,), True, "sum(v)")),
            results=(Result("n", "count", (0,), pa.int64()), Result("total", "value", (1,), pa.int64())),
            outputs=(OutputColumn("n", "count(1)", "", (0,)), OutputColumn("total", "sum(v)", "", (1,))),
        )
        window = StructType().add("start", TimestampType()).add("end", TimestampType())
        return AggregateOperator(
            uid=uid,
            by=GroupBy(
                (GroupKey("k", "k", "plain", False), GroupKey("w", "w", "window", True)),
                (pa.string(), WINDOW),
                GroupColumns(()),
            ),
            partials=partials,
            output_schema=StructType()
            .add("k", StringType())
            .add("w", window)
            .add("n", LongType())
            .add("v", LongType()),
            output_mode="append",
            event_time="ts",
        )

    def prepared(self, rows: list[dict[str, Any]], spec: EpochSpec) -> tuple[list[dict[str, Any]], pa.Schema]:
        groups: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            if row["ts"] is not None:
                groups.setdefault((row["k"], self.start(row["ts"])), []).append(row)
        made = [
            {
                "__kg": key_group(k, start),
                "k": k,
                "w": {"start": start, "end": start + self.length_ms * 1000},
                "__b0": len(some),
                "__b1": sum(row["v"] for row in some),
                "__max_ts": max(row["ts"] for row in some),
            }
            for (k, start), some in groups.items()
        ]
        counts = [("__b0", pa.int64()), ("__b1", pa.int64()), ("__max_ts", TIME)]
        return made, pa.schema([("__kg", pa.int32()), ("k", pa.string()), ("w", WINDOW), *counts])

    def handed_on(self, row: dict[str, Any]) -> Row:
        return (row["k"], row["w"]["end"] - 1, row["v"])

    def model(self) -> Model:
        return WindowsModel(self)


class WindowsModel(Model):
    """Also of :class:`Buckets`, which has another rule of what is late."""

    def __init__(self, kind: Windows | Buckets) -> None:
        self.kind = kind
        self.open: dict[tuple[Any, int], int] = {}

    def is_due(self) -> bool:
        return bool(self.open)

    def end_us(self, time_us: int) -> int:
        return self.kind.start(time_us) + self.kind.length_ms * 1000

    def epoch(self, rows: Sequence[Emitted], turn: Turn) -> tuple[list[Emitted], list[Emitted]]:
        used, late = split(rows, turn.late_ms, lambda time_us: self.end_us(time_us) <= turn.late_ms * 1000)
        self.add(used)
        due = [group for group in self.open if group[1] <= turn.firing_ms * 1000]
        return [Emitted((k, end - 1, self.open.pop((k, end))), end // 1000) for k, end in due], late

    def add(self, rows: Sequence[Emitted]) -> None:
        for one in rows:
            k, time_us, value = one.row
            if time_us is not None:
                group = k, self.end_us(time_us)
                self.open[group] = self.open.get(group, 0) + value


# -- a processor -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Buckets(Kind):
    """The same by a processor whose timers are at the ends; its rows are of that time, or ``back_ms`` before."""

    length_ms: int
    back_ms: int = 0

    def start(self, time_us: int) -> int:
        return time_us // (self.length_ms * 1000) * self.length_ms * 1000

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        return ProcessorOperator(
            BucketSums(self.length_ms, self.back_ms),
            uid=uid,
            rows=KeyedInput(ROWS, ("k",), KEY, "ts", follows),
            output_schema=ROWS,
            time_mode="eventTime",
        )

    def prepared(self, rows: list[dict[str, Any]], spec: EpochSpec) -> tuple[list[dict[str, Any]], pa.Schema]:
        fields = [
            ("__kg", pa.int32()),
            ("k", pa.string()),
            ("ts", TIME),
            ("v", pa.int64()),
            (EMITTED_COLUMN, pa.int64()),
        ]
        made = [{"__kg": key_group(row["k"]), **row} for row in rows]
        return made, pa.schema(fields if made and EMITTED_COLUMN in made[0] else fields[:-1])

    def handed_on(self, row: dict[str, Any]) -> Row:
        return (row["k"], row["ts"], row["v"])

    def model(self) -> Model:
        return BucketsModel(self)


class BucketSums(StatefulProcessor):
    """Sums of each bucket of time, given out by a timer at its end."""

    def __init__(self, length_ms: int, back_ms: int) -> None:
        self._length_ms, self._back_ms = length_ms, back_ms

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sums = handle.getMapState(
            "sums", StructType().add("end", LongType()), StructType().add("total", LongType())
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            if row.ts is not None:
                time_ms = (row.ts - EPOCH) // timedelta(milliseconds=1)
                end_ms = time_ms // self._length_ms * self._length_ms + self._length_ms
                (total,) = self._sums.getValue((end_ms,)) or (0,)
                self._sums.updateValue((end_ms,), (total + row.v,))
                self._handle.registerTimer(end_ms)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        end_ms = expiredTimerInfo.getExpiryTimeInMs()
        (total,) = self._sums.getValue((end_ms,))
        self._sums.removeKey((end_ms,))
        yield key[0], EPOCH + timedelta(milliseconds=end_ms - self._back_ms), total


class BucketsModel(WindowsModel):
    """A processor's rows are late by their own event time; in-order its timers fire between the rows of a key."""

    kind: Buckets

    def epoch(self, rows: Sequence[Emitted], turn: Turn) -> tuple[list[Emitted], list[Emitted]]:
        used, late = split(rows, turn.late_ms, lambda time_us: time_us < turn.late_ms * 1000)
        out: list[Emitted] = []
        if turn.clock is None:
            self.add(used)
            self.fire(out, list(self.open), turn.firing_ms, MIN_WATERMARK)
            return out, late
        for key in {one.row[0] for one in used} | {k for k, _ in self.open}:
            self.in_order(out, key, [one for one in used if one.row[0] == key], turn)
        return out, late

    def in_order(self, out: list[Emitted], key: Any, rows: list[Emitted], turn: Turn) -> None:
        assert turn.clock is not None
        start_ms, delay_ms, upto_ms = turn.clock
        now_ms = turn.late_ms
        times: dict[int | None, list[Emitted]] = {}
        for one in rows:
            time_us = one.time_us if one.at_ms is None else one.at_ms * 1000
            times.setdefault(time_us, []).append(one)
        for time_us in sorted(times, key=lambda time: (time is not None, time or 0)):
            follows = MIN_WATERMARK if time_us is None else min(time_us // 1000 - delay_ms, upto_ms)
            reached_ms = max(now_ms, start_ms, follows)
            self.fire(out, [group for group in self.open if group[0] == key], reached_ms, now_ms)
            now_ms = reached_ms
            self.add(times[time_us])
        self.fire(out, [group for group in self.open if group[0] == key], max(turn.firing_ms, now_ms), now_ms)

    def fire(self, out: list[Emitted], groups: list[Any], upto_ms: int, now_ms: int) -> None:
        for k, end in groups:
            if end <= upto_ms * 1000:
                row = (k, end - self.kind.back_ms * 1000, self.open.pop((k, end)))
                out.append(Emitted(row, max(end // 1000, now_ms)))


@dataclass(frozen=True)
class Cogrouped(Buckets):
    """The same over two inputs: odd values are the left one's, even ones the right one's."""

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        return ProcessorOperator(
            CogroupSums(self.length_ms, self.back_ms),
            uid=uid,
            rows=KeyedInput(StructType().add("__k0", StringType()), ("__k0",), KEY, TIME_COLUMN, follows),
            output_schema=ROWS,
            time_mode="eventTime",
            calls=CallingConvention(CogroupedRows(RowsForm(), ROWS, ROWS)),
        )

    def prepared(self, rows: list[dict[str, Any]], spec: EpochSpec) -> tuple[list[dict[str, Any]], pa.Schema]:
        rows, schema = super().prepared(rows, spec)
        made = []
        for row in rows:
            side = LEFT if row["v"] % 2 else RIGHT
            values = {side_column(side, place): row[name] for place, name in enumerate(ROWS.names)}
            made.append({**row, **values, "__k0": row["k"], SIDE_COLUMN: side, TIME_COLUMN: row["ts"]})
        types = [schema.field(name).type for name in ROWS.names]
        sides = [(side_column(side, place), of) for side in (LEFT, RIGHT) for place, of in enumerate(types)]
        fields = [("__k0", types[0]), (SIDE_COLUMN, pa.int32()), (TIME_COLUMN, types[1]), *sides]
        return made, pa.schema([*schema, *(pa.field(*field) for field in fields)])


class CogroupSums(BucketSums):
    """Of both inputs; reads the right one first."""

    def handleInputRows(  # type: ignore[override]
        self, key: Any, left: Iterator[Any], right: Iterator[Any], timerValues: Any
    ) -> Iterator[Any]:
        for rows in (right, left):
            yield from super().handleInputRows(key, rows, timerValues)


# -- deduplication -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unique(Kind):
    """``dropDuplicates``: by key, by key and event time, or (``within``) for as long as the watermark's delay."""

    by: Literal["key", "time"]

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        keys = ("k", "ts") if self.by == "time" else ("k",)
        return DedupOperator(
            uid=uid,
            keys=keys,
            payload=tuple(name for name in ("k", "ts", "v") if name not in keys),
            schema=ROWS,
            retention=Retention("key-time", "ts", 1) if self.by == "time" else Retention("for-ever"),
            event_time="ts",
            lateness=Lateness("ts"),
        )

    def prepared(self, rows: list[dict[str, Any]], spec: EpochSpec) -> tuple[list[dict[str, Any]], pa.Schema]:
        groups: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault((row["k"], row["ts"]) if self.by == "time" else (row["k"],), []).append(row)
        made = []
        for key, some in groups.items():
            used = [row for row in some if row["ts"] is None or row["ts"] >= spec.late_watermark_ms * 1000]
            first = min(used or some, key=lambda row: (row["ts"] is not None, row["ts"] or 0, row["v"]))
            entry = {"__kg": key_group(*key), "__rows": len(some), "__late_rows": len(some) - len(used)}
            entry |= {"__max_ts": max((row["ts"] for row in used if row["ts"] is not None), default=None)}
            payload = (
                {"__k1": first["ts"], "__b0": first["v"]}
                if self.by == "time"
                else {"__b0": first["ts"], "__b1": first["v"]}
            )
            made.append({**entry, "__k0": first["k"], **payload})
        values = [("__k1", TIME), ("__b0", pa.int64())] if self.by == "time" else [("__b0", TIME), ("__b1", pa.int64())]
        counts = [("__rows", pa.int64()), ("__late_rows", pa.int64()), ("__max_ts", TIME)]
        return made, pa.schema([("__kg", pa.int32()), ("__k0", pa.string()), *counts, *values])

    def handed_on(self, row: dict[str, Any]) -> Row:
        return (row["k"], row["ts"], row["v"])

    def model(self) -> Model:
        return UniqueModel(self.by)


class UniqueModel(Model):
    """Forgets nothing: what may be forgotten is what cannot come again."""

    def __init__(self, by: str) -> None:
        self.by = by
        self.seen: set[Any] = set()

    def is_due(self) -> bool:
        return False  # what it would forget at the end, nobody sees

    def epoch(self, rows: Sequence[Emitted], turn: Turn) -> tuple[list[Emitted], list[Emitted]]:
        used, late = split(rows, turn.late_ms, lambda time_us: time_us < turn.late_ms * 1000)
        out = []
        for one in sorted(used, key=lambda one: (one.time_us is not None, one.time_us or 0, one.row[2])):
            key = one.row[:2] if self.by == "time" else one.row[0]
            if key not in self.seen:
                self.seen.add(key)
                came_ms = MIN_WATERMARK if one.time_us is None else one.time_us // 1000 - turn.delay_ms
                out.append(Emitted(one.row, max(came_ms, turn.late_ms)))
        return out, late
