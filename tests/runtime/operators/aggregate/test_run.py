"""The walk over rows, state and due windows against a model in plain Python, without Spark."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.operators.aggregate import run
from mixedmode.runtime.operators.aggregate.buffers import CountBuffer, ListBuffer, SumBuffer
from mixedmode.runtime.operators.aggregate.definition import GroupBy, GroupColumns, GroupKey, OutputColumn, Partials
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.operators.aggregate.results import Result
from mixedmode.runtime.operators.contract import EpochSpec, ShardContext, ShardCounters
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark.sql.types import ArrayType, LongType, StringType, StructType, TimestampType

GROUPS = KeyGroupRange(0, 3)
WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
#: Windows are 10 ms long; a session closes 5 ms after its last row.
LENGTH_MS, GAP_MS = 10, 5

Row = tuple[str, int, int]  # key, time in ms, value


def operator(kind: Literal["window", "session"] | None, output_mode: Any) -> AggregateOperator:
    """count, sum and collect_list by key and window (None: by key alone), as the planner would make it."""
    window_keys = () if kind is None else (GroupKey("w", "w", kind, True),)
    window = StructType().add("start", TimestampType()).add("end", TimestampType())
    outputs = StructType().add("k", StringType())
    partials = Partials(
        columns={"__b0": "count(1)", "__b1": "sum(v)", "__b2": "collect_list(v)"},
        places=("__b0", "__b1", "__b2"),
        types=(pa.int64(), pa.int64(), pa.list_(pa.int64())),
        buffers=(CountBuffer((0,)), SumBuffer((1,), True, "sum(v)"), ListBuffer((2,))),
        results=(
            Result("n", "count", (0,), pa.int64()),
            Result("total", "value", (1,), pa.int64()),
            Result("all", "list", (2,), pa.list_(pa.int64())),
        ),
        outputs=(
            OutputColumn("n", "count(1)", "", (0,)),
            OutputColumn("total", "sum(v)", "", (1,)),
            OutputColumn("all", "collect_list(v)", "", (2,)),
        ),
    )
    return AggregateOperator(
        uid="agg",
        by=GroupBy(
            (GroupKey("k", "k", "plain", False), *window_keys),
            (pa.string(), WINDOW)[: 1 + len(window_keys)],
            GroupColumns(()),
        ),
        partials=partials,
        output_schema=(
            (outputs.add("w", window) if window_keys else outputs)
            .add("n", LongType())
            .add("total", LongType())
            .add("all", ArrayType(LongType()))
        ),
        output_mode=output_mode,
        event_time="ts" if window_keys else None,
    )


def window_of(time_ms: int) -> tuple[int, int]:
    start = time_ms // LENGTH_MS * LENGTH_MS
    return start, start + LENGTH_MS


def key_group(*key: Any) -> int:
    return zlib.crc32(repr(key).encode()) % 4


def prepared(kind: str, rows: list[Row]) -> pa.Table:
    """Partial rows as Spark would make them, but one per row: to be merged on arrival."""
    entries = []
    for key, time_ms, value in rows:
        start, end = window_of(time_ms) if kind == "window" else (time_ms, time_ms + GAP_MS)
        entry: dict[str, Any] = {"k": key, "__b0": 1, "__b1": value, "__b2": [value], "__rows": 1}
        entry["__max_ts"] = time_ms * 1000
        if kind == "window":
            entry |= {"__kg": key_group(key, start), "w": {"start": start * 1000, "end": end * 1000}}
        else:
            entry |= {"__kg": key_group(key), "__session_start": start * 1000, "__session_end": end * 1000}
        entries.append(entry)
    entries.sort(key=lambda entry: (entry["__kg"], entry["k"], window_of(entry["__max_ts"] // 1000)[0]))
    if kind == "session":
        entries.sort(key=lambda entry: (entry["__kg"], entry["k"], entry["__session_start"]))
    time = pa.timestamp("us", "UTC")
    middle = [("w", WINDOW)] if kind == "window" else [("__session_start", time), ("__session_end", time)]
    schema = pa.schema(
        [
            *[("__kg", pa.int32()), ("k", pa.string()), *middle],
            *[("__b0", pa.int64()), ("__b1", pa.int64()), ("__b2", pa.list_(pa.int64()))],
            *[("__rows", pa.int64()), ("__max_ts", time)],
        ]
    )
    return pa.Table.from_pylist(entries, schema=schema)


def in_order(table: pa.Table) -> pa.Table:
    """Rows by key group, key and window."""
    start = pa.compute.struct_field(table["w"], "start")
    order = [(name, "ascending") for name in ("__kg", "k", "start")]
    return table.append_column("start", start).sort_by(order).drop_columns(["start"])


class Shard:
    """One shard that runs epoch after epoch over real state files."""

    def __init__(self, made: AggregateOperator, folder: str) -> None:
        self.operator = made
        self.folder = folder
        Path(folder, "pool").mkdir()
        self.manifest = StateManifest(GROUPS, ())
        self.cache = LocalStateCache()
        self.epoch = 0

    def run(
        self,
        table: pa.Table,
        style: Literal["sorted", "random"],
        late_ms: int,
        firing_ms: int,
        batch_rows: int,
        *,
        is_unsorted: bool = False,
    ) -> tuple[list[tuple[Any, ...]], ShardCounters]:
        self.epoch += 1
        epoch = EpochSpec(self.epoch, style, MIN_WATERMARK, firing_ms, late_ms, 0, MIN_WATERMARK)
        filesystem, pool = fs.LocalFileSystem(), f"{self.folder}/pool"
        base = self.base()
        make = SstWriter if style == "sorted" else LogWriter
        writer = make(filesystem, pool, self.folder, f"e{self.epoch}", self.epoch)
        out: list[tuple[Any, ...]] = []

        class Output:
            def write(self, rows: pa.RecordBatch) -> None:
                for row in rows.to_pylist():
                    bounds = [int(row["w"][name].timestamp() * 1000) for name in ("start", "end") if "w" in row]
                    out.append((row["k"], *bounds, row["n"], row["total"], sorted(row["all"])))

        counters = ShardCounters()
        context = ShardContext(0, GROUPS, epoch, base, writer, Output(), counters)
        batches = iter(table.combine_chunks().to_batches(max_chunksize=batch_rows))
        if is_unsorted:
            done: list[int] = []
            rest = list(self.operator.output_unsorted(context, batches, lambda batch: done.append(batch.num_rows)))
            assert sum(done) + sum(batch.num_rows for batch in rest) == table.num_rows
            batches = iter(in_order(pa.Table.from_batches(rest, table.schema)).to_batches())
        self.operator.run(context, batches)
        self.manifest = self.manifest.append(writer.finish())
        return out, counters

    def base(self) -> Any:
        if not self.manifest.files:
            return None
        return self.cache.acquire(
            "job", 0, self.manifest, fs.LocalFileSystem(), f"{self.folder}/pool", f"{self.folder}/local", 1 << 20
        )

    def entries(self) -> list[bytes]:
        base = self.base()
        return [] if base is None else [key for key, _ in base.scan(b"", b"\xff\xff\xff")]


class Model:
    """What should come out: a dict of open windows or sessions."""

    def __init__(self, kind: str, output_mode: str) -> None:
        self.kind = kind
        self.output_mode = output_mode
        #: (key, start, end) -> values
        self.open: dict[tuple[str, int, int], list[int]] = {}

    def run(self, rows: list[Row], late_ms: int, firing_ms: int) -> tuple[list[tuple[Any, ...]], int]:
        late, touched = 0, set()
        for key, time_ms, value in rows:
            start, end = window_of(time_ms) if self.kind == "window" else (time_ms, time_ms + GAP_MS)
            if end <= late_ms:
                late += 1
                continue
            values = [value]
            if self.kind == "session":
                for name in [n for n in self.open if n[0] == key and n[1] <= end and start <= n[2]]:
                    values += self.open.pop(name)
                    start, end = min(start, name[1]), max(end, name[2])
            self.open.setdefault((key, start, end), []).extend(values)
            touched.add((key, start, end))
        due = {name for name in self.open if name[2] <= firing_ms}
        emitted = due if self.output_mode == "append" else touched
        out = [(*name, len(v), sum(v), sorted(v)) for name in emitted if (v := self.open[name])]
        for name in due:
            del self.open[name]
        return out, late


EPOCHS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from(["", "a", "a\0", "b"]), st.integers(-30, 60), st.integers(-9, 9)), max_size=12
        ),
        st.sampled_from(["sorted", "random"]),
        # Lateness, and how far firing is ahead of it.
        st.none() | st.tuples(st.integers(-30, 60), st.sampled_from([0, 3, 10, None])),
        st.sampled_from([1, 2, 100]),
    ),
    max_size=6,
)


def check(
    kind: Literal["window", "session"], output_mode: str, epochs: list[Any], chance: Random | None = None
) -> None:
    """Run epochs as the model does; ``chance``: brings the rows of sorted passes out of order."""
    model = Model(kind, output_mode)
    with tempfile.TemporaryDirectory() as folder:
        shard = Shard(operator(kind, output_mode), folder)
        try:
            for rows, style, watermark, batch_rows in epochs:
                late_ms, firing_ms = MIN_WATERMARK, MIN_WATERMARK
                if watermark is not None:
                    late_ms = watermark[0]
                    firing_ms = MAX_WATERMARK if watermark[1] is None else late_ms + watermark[1]
                table, is_unsorted = prepared(kind, rows), chance is not None and style == "sorted"
                if chance is not None and is_unsorted:
                    table = table.take(pa.array(chance.sample(range(table.num_rows), table.num_rows), pa.int64()))
                out, counters = shard.run(table, style, late_ms, firing_ms, batch_rows, is_unsorted=is_unsorted)
                expected, late = model.run(rows, late_ms, firing_ms)
                assert sorted(out) == sorted(expected)
                if style == "random" and output_mode == "append":
                    assert [row[2] for row in out] == sorted(row[2] for row in out)
                assert (counters.rows_in, counters.rows_late) == (len(rows), late)
                on_time = [t for _, t, _ in rows if (window_of(t)[1] if kind == "window" else t + GAP_MS) > late_ms]
                assert counters.max_event_time_ms == max(on_time, default=None)
                assert counters.next_event_timer_ms == min((end for _, _, end in model.open), default=None)
                cells = len({name[0] for name in model.open}) if kind == "session" else len(model.open)
                assert len(shard.entries()) == 2 * cells, "one cell and one timer each, nothing left behind"
        finally:
            shard.cache.close()


@settings(max_examples=60)
@given(EPOCHS)
def test_windows_in_append_mode_follow_the_model(epochs: list[Any]) -> None:
    """Any rows, any watermarks, both styles in turn: what fires, what is late, what stays, when the next one is due."""
    check("window", "append", epochs)


@settings(max_examples=30)
@given(EPOCHS)
def test_windows_in_update_mode_follow_the_model(epochs: list[Any]) -> None:
    """Touched windows come out, those behind the watermark leave the state without a word."""
    check("window", "update", epochs)


@settings(max_examples=30, deadline=None)
@given(EPOCHS)
def test_keys_without_times_are_added_up_from_epoch_to_epoch(epochs: list[Any]) -> None:
    """Keys that wait for no watermark come out with all of their rows so far, and stay in the state, one cell each."""
    sums: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        shard = Shard(operator(None, "update"), folder)
        try:
            for rows, style, _, batch_rows in epochs:
                table = prepared("window", sorted(rows)).drop_columns(["w", "__max_ts"])
                table = table.set_column(
                    0, "__kg", pa.array([key_group(k) for k in table["k"].to_pylist()], pa.int32())
                )
                table = table.sort_by([("__kg", "ascending"), ("k", "ascending")])
                out, _ = shard.run(table, style, MIN_WATERMARK, MIN_WATERMARK, batch_rows)
                for key, _, value in rows:
                    sums.setdefault(key, []).append(value)
                touched = {key for key, _, _ in rows}
                assert sorted(out) == sorted((k, len(sums[k]), sum(sums[k]), sorted(sums[k])) for k in touched)
                assert len(shard.entries()) == len(sums)
        finally:
            shard.cache.close()


@settings(max_examples=60)
@given(EPOCHS, st.sampled_from(["append", "update"]), st.randoms(use_true_random=False))
def test_rows_of_windows_that_are_over_need_no_order(epochs: list[Any], output_mode: str, chance: Random) -> None:
    """A row for each window in any order: where there is no state the same comes out and is kept as of sorted ones."""
    once = [({(row[0], window_of(row[1])): row for row in rows}.values(), *others) for rows, *others in epochs]
    check("window", output_mode, [(list(rows), *others) for rows, *others in once], chance)


@pytest.mark.slow
@settings(max_examples=60)
@given(EPOCHS)
def test_sessions_follow_the_model(epochs: list[Any]) -> None:
    """Sessions join, bridge and fire as in the model, which merges row by row."""
    check("session", "append", epochs)


def test_memory_follows_the_batches_and_not_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are gathered to pieces, and each piece's cells are written before the next but one is read."""
    monkeypatch.setattr(run, "_PIECE_ROWS", 100)
    made = operator("window", "update")
    written: list[int] = []
    ahead: list[int] = []

    class Writer:
        def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
            written.append(len(keys))

    class Output:
        def write(self, rows: pa.RecordBatch) -> None:
            pass

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            rows = prepared("window", [(f"{number:03}-{i:03}", 1, i) for i in range(50)])
            ahead.append((number * 50) - sum(written))
            yield rows.set_column(0, "__kg", pa.array([number] * 50, pa.int32())).combine_chunks().to_batches()[0]

    epoch = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
    counters = ShardCounters()
    context: Any = ShardContext(0, KeyGroupRange(0, 19), epoch, None, Writer(), Output(), counters)  # type: ignore[arg-type]
    made.run(context, batches())
    assert counters.keys == 1000
    assert sum(written) == 2000, "a cell and a timer for each key"
    assert max(ahead) <= 200
