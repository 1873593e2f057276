"""The walk over rows, state and due keys against a model in plain Python, without Spark."""

from __future__ import annotations

import tempfile
import zlib
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.operators.contract import EpochSpec, InOrder, ShardContext, ShardCounters
from mixedmode.runtime.operators.dedup.definition import Lateness, Retention
from mixedmode.runtime.operators.dedup.operator import DedupOperator, DedupWithinWatermarkOperator
from mixedmode.runtime.operators.emission_watermark import EMITTED_COLUMN
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

GROUPS = KeyGroupRange(0, 3)
SCHEMA = StructType().add("k", StringType()).add("ts", TimestampType()).add("v", LongType())
DELAY_MS = 20
TIME = pa.timestamp("us", "UTC")

#: key, time in ms, value
Row = tuple[str, "int | None", int]


def operator(kind: str) -> DedupOperator:
    """By key alone, or by key and event time."""
    keys = ("k", "ts") if kind == "key-time" else ("k",)
    made = DedupWithinWatermarkOperator if kind in ("delay", "in-order") else DedupOperator
    return made(
        uid="dedup",
        keys=keys,
        payload=tuple(name for name in ("k", "ts", "v") if name not in keys),
        schema=SCHEMA,
        retention={
            "for-ever": Retention("for-ever"),
            "key-time": Retention("key-time", "ts", 1),
            "delay": Retention("delay", "ts", delay_ms=DELAY_MS),
            "in-order": Retention("delay", "ts", delay_ms=DELAY_MS),
        }[kind],
        event_time="ts",
        lateness=Lateness("ts"),
        may_repeat=kind == "in-order",
    )


def order(row: Row) -> Any:
    return (row[1] is not None, row[1] or 0, row[2])


class Model:
    """What a deduplication is, in a few lines."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.expires_ms: dict[Any, int] = {}

    def key(self, row: Row) -> Any:
        return row[:2] if self.kind == "key-time" else row[0]

    def epoch(self, rows: list[Row], late_ms: int, firing_ms: int, clock: InOrder) -> list[Row]:
        first: dict[Any, Row] = {}
        if self.kind == "in-order":
            return self.in_order(rows, late_ms, firing_ms, clock)
        for row in sorted(rows, key=order):
            if row[1] is None or row[1] >= late_ms:
                first.setdefault(self.key(row), row)
        out = [row for key, row in first.items() if key not in self.expires_ms]
        for row in out:
            self.expires_ms[self.key(row)] = {
                "for-ever": MAX_WATERMARK,
                "key-time": MAX_WATERMARK if row[1] is None else row[1] + 1,
                "delay": (row[1] or 0) + DELAY_MS,
            }[self.kind]
        self.forget(firing_ms)
        return out

    def in_order(self, rows: list[Row], late_ms: int, firing_ms: int, clock: InOrder) -> list[Row]:
        out: list[Row] = []
        least: dict[Any, Row] = {}
        for row in sorted((row for row in rows if row[1] is None or row[1] >= late_ms), key=order):
            least.setdefault(row[:2], row)
        for row in least.values():
            seen_ms = -clock.delay_ms if row[1] is None else row[1] - clock.delay_ms
            seen_ms = clock.fired_ms if row[1] is None else max(clock.fired_ms, min(seen_ms, clock.upto_ms))
            if self.expires_ms.get(row[0], MIN_WATERMARK) <= seen_ms:
                out.append(row)
                self.expires_ms[row[0]] = (row[1] or 0) + DELAY_MS
        self.forget(firing_ms)
        return out

    def forget(self, firing_ms: int) -> None:
        stays = {key: ms for key, ms in self.expires_ms.items() if ms > firing_ms or ms == MAX_WATERMARK}
        self.expires_ms = stays


def prepared(kind: str, rows: list[Row], late_ms: int) -> pa.Table:
    """One row per key, as Spark would make it."""
    model, groups = Model(kind), {}  # type: ignore[var-annotated]
    for row in rows:
        groups.setdefault(row[:2] if kind == "in-order" else model.key(row), []).append(row)
    entries = []
    for some in groups.values():
        good = sorted((row for row in some if row[1] is None or row[1] >= late_ms), key=order)
        k, ts, v = good[0] if good else (some[0][0], some[0][1] if kind == "key-time" else None, None)
        moment = None if ts is None else ts * 1000
        entry = {"__k0": k, "__rows": len(some), "__late_rows": len(some) - len(good), "__time": moment}
        times = [row[1] * 1000 for row in good if row[1] is not None]
        if kind == "in-order":
            entry["__time"] = None if some[0][1] is None else some[0][1] * 1000
        else:
            entry |= {"__max_ts": max(times, default=None)}
        entry |= {"__k1": moment, "__b0": v} if kind == "key-time" else {"__b0": moment, "__b1": v}
        entries.append({"__kg": zlib.crc32(repr((k, ts if kind == "key-time" else 0)).encode()) % 4, **entry})
    then = "__time" if kind == "in-order" else "__k1"
    entries.sort(key=lambda entry: (entry["__kg"], entry["__k0"], entry.get(then) is not None, entry.get(then)))
    own = [("__k1", TIME), ("__b0", pa.int64())] if kind == "key-time" else [("__b0", TIME), ("__b1", pa.int64())]
    greatest = [] if kind == "in-order" else [("__max_ts", TIME)]
    counts = [("__rows", pa.int64()), ("__late_rows", pa.int64()), *greatest, ("__time", TIME)]
    return pa.Table.from_pylist(entries, pa.schema([("__kg", pa.int32()), ("__k0", pa.string()), *counts, *own]))


class Shard:
    """One shard that runs epoch after epoch over real state files."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind, self.folder, self.epoch = kind, folder, 0
        self.operator = operator(kind)
        Path(folder, "pool").mkdir()
        self.manifest = StateManifest(GROUPS, ())
        self.cache = LocalStateCache()
        self.counters = ShardCounters()

    def base(self) -> Any:
        if not self.manifest.files:
            return None
        places = f"{self.folder}/pool", f"{self.folder}/local"
        return self.cache.acquire("job", 0, self.manifest, fs.LocalFileSystem(), *places, 1 << 20)

    def run(self, rows: list[Row], late_ms: int, firing_ms: int, style: Any, clock: InOrder) -> list[Row]:
        self.epoch += 1
        self.counters = ShardCounters()
        spec = EpochSpec(self.epoch, style, MIN_WATERMARK, firing_ms, late_ms, 0, MIN_WATERMARK)
        if self.kind == "in-order":
            spec = replace(spec, in_order=clock)
        writer_class = SstWriter if style == "sorted" else LogWriter
        writer = writer_class(fs.LocalFileSystem(), f"{self.folder}/pool", self.folder, f"e{self.epoch}", self.epoch)
        found: list[Row] = []

        class Output:
            def write(self, rows: pa.RecordBatch) -> None:
                times = rows.column("ts").cast(pa.int64()).to_pylist()
                values = zip(rows.column("k").to_pylist(), times, rows.column("v").to_pylist(), strict=True)
                found.extend((k, None if ts is None else ts // 1000, v) for k, ts, v in values)

        context = ShardContext(0, GROUPS, spec, self.base(), writer, Output(), self.counters)
        table = prepared(self.kind, rows, late_ms).combine_chunks()
        self.operator.run(context, iter(table.to_batches(max_chunksize=3)))
        self.manifest = self.manifest.append(writer.finish())
        return found

    def entries(self) -> tuple[int, int]:
        """Cells and timers of the state."""
        base = self.base()
        sections = [] if base is None else [stored[2] for stored, _ in base.scan(b"", b"\xff\xff\xff")]
        return sections.count(1), sections.count(2)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), st.integers(0, 100)), st.integers(0, 3)), max_size=12
)


@pytest.mark.slow
@given(
    kind=st.sampled_from(["for-ever", "key-time", "delay", "in-order"]),
    epochs=st.lists(st.tuples(ROWS, st.integers(0, 40), st.sampled_from(["sorted", "random"])), max_size=6),
)
@settings(max_examples=150)
def test_epochs_put_out_what_the_model_does_and_forget_what_is_over(kind: str, epochs: list[Any]) -> None:
    """Rows, counters, cells and timers, over any sequence of sorted passes and live epochs."""
    with tempfile.TemporaryDirectory() as folder:
        shard, model, late_ms, firing_ms = Shard(kind, folder), Model(kind), MIN_WATERMARK, MIN_WATERMARK
        for rows, step, style in epochs:
            clock = InOrder(late_ms, DELAY_MS // 2, firing_ms if style == "sorted" else max(firing_ms, 0) + 30)
            expected = model.epoch(rows, late_ms, firing_ms, clock)
            assert sorted(shard.run(rows, late_ms, firing_ms, style, clock), key=repr) == sorted(expected, key=repr)
            late = [row for row in rows if row[1] is not None and row[1] < late_ms]
            assert (shard.counters.rows_in, shard.counters.rows_late) == (len(rows), len(late))
            times = [row[1] for row in rows if row[1] is not None and row[1] >= late_ms]
            assert shard.counters.max_event_time_ms == max(times, default=None)
            ends = [ms for ms in model.expires_ms.values() if ms < MAX_WATERMARK]
            assert shard.entries() == (len(model.expires_ms), len(ends))
            assert shard.counters.next_event_timer_ms == min(ends, default=None)
            late_ms = firing_ms
            firing_ms = max(firing_ms, 0) + step
        shard.run([], late_ms, MAX_WATERMARK, "random", InOrder(late_ms, 0))
        assert shard.entries()[1] == 0, "nothing that can end outlives the end of event time"
        shard.cache.close()


@pytest.mark.parametrize("kind", ["for-ever", "key-time", "delay", "window"])
def test_a_row_is_handed_on_at_the_watermark_that_its_event_time_brings(kind: str, tmp_path: Path) -> None:
    """Not before what has fired; without event time then, and from a window at its last instant."""
    made, rows = operator("key-time" if kind == "window" else kind), [("a", 50, 1), ("b", None, 2), ("c", 5, 3)]
    table = prepared("key-time" if kind == "window" else kind, rows, MIN_WATERMARK)
    if kind == "window":
        made = copy(made)
        made.event_time = None
        made.output_arrow_schema = made.output_arrow_schema.set(1, pa.field("ts", pa.struct([("end", TIME)])))
        made.retention = Retention("key-time", "w", 1, is_window=True)
        made.key_schema = pa.schema([("__k0", pa.string()), ("__k1", pa.struct([("end", TIME)]))])
        times = table.column("__k1").combine_chunks()
        windows = pa.StructArray.from_arrays([times], ["end"], mask=times.is_null())
        table = table.set_column(table.schema.names.index("__k1"), "__k1", windows)
    found: dict[str, int] = {}

    class Output:
        def write(self, rows: pa.RecordBatch) -> None:
            found.update(zip(rows.column(0).to_pylist(), rows.column(EMITTED_COLUMN).to_pylist(), strict=True))

    spec = EpochSpec(1, "sorted", 10, MIN_WATERMARK, 4, 0, MIN_WATERMARK, keep_state=False, delay_ms=20)
    writer = SstWriter(fs.LocalFileSystem(), f"{tmp_path}/pool", str(tmp_path), "e1", 1)
    context = ShardContext(0, GROUPS, spec, None, writer, Output(), ShardCounters(), feeds_a_stage=True)
    made.run(context, iter(table.combine_chunks().to_batches()))
    assert found == {"a": 29 if kind == "window" else 30, "b": 4, "c": 4}


@pytest.mark.parametrize("kind", ["key-time", "delay", "in-order"])
def test_a_key_is_remembered_while_a_row_of_its_time_is_not_late(kind: str, tmp_path: Path) -> None:
    """Also without a delay: the watermark is at the row's own time, and the row comes again."""
    shard, clock = Shard(kind, str(tmp_path)), InOrder(MIN_WATERMARK, 0)
    shard.operator.retention = replace(shard.operator.retention, delay_ms=0)
    assert shard.run([("a", 50, 1)], MIN_WATERMARK, 50, "random", clock) == [("a", 50, 1)]
    assert shard.run([("a", 50, 1)], 50, 50, "random", InOrder(50, 0)) == []
    assert shard.entries() == (1, 1)
    assert shard.run([], 50, 51, "random", InOrder(50, 0)) == []
    assert shard.entries() == (0, 0)
    assert shard.run([("a", 51, 1)], 51, 51, "random", InOrder(51, 0)) == [("a", 51, 1)]
    shard.cache.close()
