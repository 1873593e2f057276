"""One shard of a join, epoch by epoch and without Spark, and the same in a few lines of Python."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.contract import EpochSpec, InOrder, ShardContext, ShardCounters
from mixedmode.runtime.operators.emission_watermark import EMITTED_COLUMN
from mixedmode.runtime.operators.join.columns import LEFT, MATCHED_COLUMN, PAIR, RIGHT, SIDE_COLUMN, TIME_COLUMN
from mixedmode.runtime.operators.join.condition_check import ANSWER_COLUMN, ASKED_COLUMN
from mixedmode.runtime.operators.join.definition import (
    JoinedColumns,
    JoinKey,
    JoinSide,
    ResidualCondition,
    Sizes,
    TimeBounds,
)
from mixedmode.runtime.operators.join.operator import JoinOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

GROUPS = KeyGroupRange(0, 3)
SIDE = StructType().add("k", StringType()).add("ts", TimestampType()).add("v", LongType()).add("s", StringType())
TIME = pa.timestamp("us", "UTC")
OUTPUT = StructType().add("k", StringType()).add("a", LongType()).add("s", StringType()).add("b", LongType())
FRAME = pa.schema(
    [
        pa.field("__kg", pa.int32()),
        pa.field("__k0", pa.string()),
        pa.field(SIDE_COLUMN, pa.int32()),
        pa.field(TIME_COLUMN, TIME),
        *[pa.field(f"__{side}{place}", one.type) for side in "lr" for place, one in enumerate(arrow_schema(SIDE))],
    ]
)
#: So small that all that is cut up is.
TINY = Sizes(piece_rows=4, chunk_rows=3, inline_rows=2, read_rows=4, pair_rows=3)


@dataclass(frozen=True)
class Row:
    """A row of one side; its time in microseconds."""

    side: int
    key: str | None
    time: int | None
    value: int


#: What goes out: the values of the pair (None: no partner), and the watermark at which it is emitted.
Out = tuple["int | None", "int | None", int]


def joined(
    how: str,
    bounds: TimeBounds,
    sizes: Sizes = Sizes(),  # noqa: B008
    more_us: int = 0,
    has_condition: bool = False,
) -> JoinOperator:
    """A join of two sides alike, each of which waits as long as its bound says, and a little longer."""
    waits = (bounds.least_us, bounds.greatest_us)
    keeps = (None if waits[0] is None else more_us - waits[0], None if waits[1] is None else more_us + waits[1])
    output = (("__l0", "__k0", "__r0"), ("__l2",), ("__l3", "__r3"), ("__r2",))
    if how == "leftsemi":
        output = (("__k0",), ("__l2",), ("__l3",))  # type: ignore[assignment]
    made = JoinOperator(
        uid="join",
        how=how,  # type: ignore[arg-type]
        key=JoinKey(pa.schema([pa.field("__k0", pa.string())]), ("k",)),
        sides=(JoinSide(SIDE, "ts", keeps[0]), JoinSide(SIDE, "ts", keeps[1])),
        bounds=bounds,
        residual=ResidualCondition(None, "(a + b) % 3 <> 0", ("__l2", "__r2")) if has_condition else None,
        output=JoinedColumns(StructType(OUTPUT.fields[: len(output)]), output),
    )
    made.sizes = sizes
    return made


def is_true(left: int, right: int) -> bool:
    """The rest of the condition, where there is one."""
    return (left + right) % 3 != 0


@dataclass
class Model:
    """What a join is: all pairs, and when each row is over."""

    operator: JoinOperator
    #: Rows that wait, and whether they have had a partner.
    waiting: list[list[Any]] = field(default_factory=list)

    def due_ms(self, row: Row) -> int:
        keep = self.operator.sides[row.side].keep_us
        return MAX_WATERMARK if row.time is None or keep is None else (row.time + keep) // 1000 + 1

    def is_pair(self, left: Row, right: Row) -> bool:
        if left.key is None or left.key != right.key:
            return False
        if self.operator.residual is not None and not is_true(left.value, right.value):
            return False
        least, greatest = self.operator.bounds.least_us, self.operator.bounds.greatest_us
        if least is None and greatest is None:
            return True
        if left.time is None or right.time is None:
            return False
        apart = left.time - right.time
        return (least is None or least <= apart) and (greatest is None or apart <= greatest)

    def epoch(self, rows: list[Row], late_ms: int, firing_ms: int, clock: InOrder) -> list[Out]:
        """What one epoch puts out."""
        out: list[Out] = []
        come = [[row, False] for row in rows if row.time is None or row.time >= late_ms * 1000]
        is_semi = self.operator.how == "leftsemi"
        firsts: dict[int, int] = {}
        for place, one in enumerate(come):
            for other in self.waiting + come[:place]:
                left, right = (one, other) if one[0].side == LEFT else (other, one)
                if left[0].side == right[0].side or not self.is_pair(left[0], right[0]):
                    continue
                at_ms = self.emitted_ms(left[0], right[0], clock)
                if is_semi:
                    if not left[1]:
                        firsts[id(left)] = min(firsts.get(id(left), at_ms), at_ms)
                    continue
                left[1] = right[1] = True
                out.append((left[0].value, right[0].value, at_ms))
        self.waiting += come
        for one in self.waiting:
            if id(one) in firsts:
                one[1] = True
                out.append((one[0].value, None, firsts[id(one)]))
        kept = []
        for one in self.waiting:
            if firing_ms > MIN_WATERMARK and self.due_ms(one[0]) <= firing_ms:
                if one[0].side in self.operator.outer_sides and not one[1]:
                    at_ms = max(self.due_ms(one[0]), clock.fired_ms)
                    value = one[0].value
                    out.append((value, None, at_ms) if one[0].side == LEFT else (None, value, at_ms))
            elif not (is_semi and one[1] and one[0].side == LEFT):
                kept.append(one)
        self.waiting = kept
        return out

    @staticmethod
    def emitted_ms(left: Row, right: Row, clock: InOrder) -> int:
        times = [row.time for row in (left, right) if row.time is not None]
        reached_ms = max(times) // 1000 - clock.delay_ms if times else MIN_WATERMARK
        return max(clock.fired_ms, min(reached_ms, clock.upto_ms))


class Shard:
    """One shard that runs epoch after epoch over real state files."""

    def __init__(self, operator: JoinOperator, folder: str, groups: KeyGroupRange = GROUPS) -> None:
        self.operator, self.folder, self.epoch = operator, folder, 0
        Path(folder, "pool").mkdir(exist_ok=True)
        self.manifest = StateManifest(groups, ())
        self.cache = LocalStateCache()
        self.counters = ShardCounters()

    def base(self) -> Any:
        if not self.manifest.files:
            return None
        places = f"{self.folder}/pool", f"{self.folder}/local"
        return self.cache.acquire("job", 0, self.manifest, fs.LocalFileSystem(), *places, 1 << 20)

    def restart(self) -> None:
        """Begin again from the files."""
        self.cache.close()
        self.cache = LocalStateCache()

    def run(
        self,
        rows: list[Row],
        late_ms: int,
        firing_ms: int,
        style: Any,
        clock: InOrder,
        batch_rows: int = 3,
        made: list[tuple[Row | None, Row | None, int | None]] | None = None,
        matched: list[bool] | None = None,
    ) -> list[Out]:
        """One epoch; ``made`` and ``matched``: it is the first pass, with what is joined already."""
        table = frame(rows)
        if made is not None and matched is not None:
            order = sorted(range(len(rows)), key=lambda place: order_of(rows[place]))
            flags = pa.array([matched[place] for place in order], pa.bool_())
            table = pa.concat_tables([table.append_column(MATCHED_COLUMN, flags), made_rows(made)])
        return self.run_table(table, late_ms, firing_ms, style, clock, batch_rows)

    def run_table(
        self, table: pa.Table, late_ms: int, firing_ms: int, style: Any, clock: InOrder, batch_rows: int = 3
    ) -> list[Out]:
        found: list[Out] = []

        class Output:
            def write(self, rows: pa.RecordBatch) -> None:
                names = rows.schema.names
                right = rows.column("b").to_pylist() if "b" in names else [None] * rows.num_rows
                emitted = rows.column(EMITTED_COLUMN).to_pylist()
                found.extend(zip(rows.column("a").to_pylist(), right, emitted, strict=True))
                for k, s in zip(rows.column("k").to_pylist(), rows.column("s").to_pylist(), strict=True):
                    assert s is None if k is None else s == k * 3

        context, writer = self.context(style, late_ms, firing_ms, clock, Output())
        batches = table.combine_chunks().to_batches(max_chunksize=batch_rows)
        if self.operator.residual is not None and MATCHED_COLUMN not in table.schema.names:
            asking = replace(context, writer=None, output=None, counters=ShardCounters())
            batches = answered(self.operator.questions.ask(asking, iter(batches)), batch_rows + 1)
        self.operator.run(context, iter(batches))
        self.manifest = self.manifest.append(writer.finish())
        return found

    def context(self, style: Any, late_ms: int, firing_ms: int, clock: InOrder, output: Any) -> tuple[Any, Any]:
        self.epoch += 1
        self.counters = ShardCounters()
        spec = EpochSpec(self.epoch, style, clock.fired_ms, firing_ms, late_ms, 0, MIN_WATERMARK, in_order=clock)
        writer_class = SstWriter if style == "sorted" else LogWriter
        writer = writer_class(fs.LocalFileSystem(), f"{self.folder}/pool", self.folder, f"e{self.epoch}", self.epoch)
        context = ShardContext(
            0, self.manifest.key_groups, spec, self.base(), writer, output, self.counters, feeds_a_stage=True
        )
        return context, writer

    def entries(self) -> Counter[int]:
        """How many entries each section of the state has: cells are 1, timers 2."""
        base = self.base()
        return Counter() if base is None else Counter(stored[2] for stored, _ in base.scan(b"", b"\xff\xff\xff"))


def answered(batches: Iterator[pa.RecordBatch], batch_rows: int) -> list[pa.RecordBatch]:
    """What Spark does: it evaluates the condition, and cuts rows into batches anew."""
    found = list(batches)
    if not found:
        return []
    table = pa.Table.from_batches(found)
    answers = []
    for asked, left, right in zip(
        *[table.column(name).to_pylist() for name in (ASKED_COLUMN, "__l2", "__r2")], strict=True
    ):
        answers.append(is_true(left, right) if asked == -1 else None)
    table = table.append_column(ANSWER_COLUMN, pa.array(answers, pa.bool_()))
    return table.combine_chunks().to_batches(max_chunksize=batch_rows)


def key_group(key: str | None) -> int:
    return zlib.crc32(repr(key).encode()) % 4


def order_of(row: Row) -> Any:
    return (key_group(row.key), row.key is not None, row.key or "", row.time is not None, row.time or 0)


def frame(rows: list[Row]) -> pa.Table:
    """Rows of both sides as the planner makes them and Spark sorts them."""
    entries = []
    for row in sorted(rows, key=order_of):
        prefix = f"__{'lr'[row.side]}"
        values = (row.key, row.time, row.value, None if row.key is None else row.key * 3)
        entry = {"__kg": key_group(row.key), "__k0": row.key, SIDE_COLUMN: row.side, TIME_COLUMN: row.time}
        entries.append({**entry, **{f"{prefix}{place}": value for place, value in enumerate(values)}})
    return pa.Table.from_pylist(entries, FRAME)


def made_rows(made: list[tuple[Row | None, Row | None, int | None]]) -> pa.Table:
    """Pairs, and rows without a partner, as Spark's own join gives them: with the time that brings them out."""
    entries = []
    for left, right, time in made:
        key = (left or right).key  # type: ignore[union-attr]
        entry: dict[str, Any] = {"__kg": key_group(key), "__k0": key, SIDE_COLUMN: PAIR, TIME_COLUMN: time}
        for prefix, row in (("__l", left), ("__r", right)):
            if row is not None:
                values = (row.key, row.time, row.value, None if row.key is None else row.key * 3)
                entry.update({f"{prefix}{place}": value for place, value in enumerate(values)})
        entries.append(entry)
    return pa.Table.from_pylist(entries, FRAME.append(pa.field(MATCHED_COLUMN, pa.bool_())))


__all__ = ["LEFT", "RIGHT", "TINY", "Model", "Out", "Row", "Shard", "frame", "joined"]
