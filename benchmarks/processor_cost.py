"""What a processor costs its worker, without Spark: one shard of a sorted pass, in CPU time per row.

Keys are scattered over 64 bits (seeded), as those of real data are.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from mixedmode.runtime.operators.columnar import key_batches
from mixedmode.runtime.operators.contract import ShardContext, ShardCounters
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.operators.processor import run
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.state.backend import sorted_pass
from mixedmode.state.backend.row_columns import RowColumns
from mixedmode.state.store import sst
from mixedmode.state.store.sst import SstWriter
from pyarrow import fs
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import DoubleType, LongType, StringType, StructType, TimestampType
from state_on_disk import ALL_GROUPS, SORTED_EPOCH, Discarded

# Not as DDL, which only a JVM can parse.
_KEY = StructType().add("key", LongType())
_INPUT = (
    StructType()
    .add("key", LongType())
    .add("ts", TimestampType())
    .add("category", StringType())
    .add("amount", DoubleType())
)
_TOTALS = StructType().add("n", LongType()).add("total", DoubleType())
_OUTPUT = StructType().add("key", LongType()).add("n", LongType()).add("total", DoubleType())
_EVENT = StructType().add("ts", TimestampType()).add("amount", DoubleType())
_CATEGORY = StructType().add("category", StringType())
_SEEN = StructType().add("n", LongType()).add("last", TimestampType())
_BATCH_ROWS = 10_000
_BEGIN_US = 1_700_000_000_000_000
_CATEGORIES = 5
_DAY_MS = 86_400_000


class Idle(StatefulProcessor):
    """Takes its rows and does nothing: what is left is the cost of cutting keys and making rows."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for _ in rows:
            pass
        return iter(())


class Totals(StatefulProcessor):
    """The trivial one: a count and a sum a key."""

    def init(self, handle: Any) -> None:
        self._totals = handle.getValueState("totals", _TOTALS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        n, total = self._totals.get() or (0, 0.0)
        for row in rows:
            n += 1
            total += row.amount
        self._totals.update((n, total))
        yield (key[0], n, total)


class TotalsInBlocks(Totals):
    """The trivial one on blocks of keys."""

    def handleArrowRows(self, block: Any, timerValues: Any) -> pa.RecordBatch:
        totals = block.value("totals")
        before = totals.get()
        counts = np.diff(block.starts) + before.field("n").fill_null(0).to_numpy()
        sums = np.add.reduceat(block.rows["amount"].to_numpy(), block.starts[:-1])
        sums += before.field("total").fill_null(0.0).to_numpy()
        totals.update({"n": counts, "total": sums})
        return pa.record_batch({"key": block.keys["key"], "n": counts, "total": sums})


class Recent(StatefulProcessor):
    """One as in life: the last events in a list, counts by category in a map, a timer that would let the key go."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._events = handle.getListState("events", _EVENT)
        self._counts = handle.getMapState("counts", _CATEGORY, _SEEN)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        n, total, last = 0, 0.0, datetime.min
        for row in rows:
            self._events.appendValue((row.ts, row.amount))
            category = (row.category,)
            seen = self._counts.getValue(category)[0] if self._counts.containsKey(category) else 0
            self._counts.updateValue(category, (seen + 1, row.ts))
            n, total, last = n + 1, total + row.amount, max(last, row.ts)
        self._handle.registerTimer(int(last.timestamp() * 1000) + _DAY_MS)
        yield (key[0], n, total)


def operator_of(processor: StatefulProcessor) -> ProcessorOperator:
    """The operator that ``start()`` would hand to the runtime."""
    return ProcessorOperator(
        processor,
        uid="cost",
        rows=KeyedInput(_INPUT, ("key",), _KEY, "ts"),
        output_schema=_OUTPUT,
        time_mode="eventTime",
    )


def rows_of_a_shard(rows: int, rows_per_key: int, seed: int = 7) -> list[pa.RecordBatch]:
    """Sorted as Spark hands them over: by key group, key and event time."""
    random = np.random.default_rng(seed)
    keys = np.sort(random.integers(-(2**62), 2**62, size=rows // rows_per_key))
    places = np.repeat(np.arange(len(keys)), rows_per_key)
    rows = len(places)
    groups = (places * 128 // len(keys)).astype(np.int32)
    times = _BEGIN_US + places % 1000 * 1_000_000 + np.tile(np.arange(rows_per_key), len(keys)) * 60_000_000
    table = pa.table(
        {
            KEY_GROUP_COLUMN: groups,
            "key": keys[places],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "category": pa.array([f"category-{i}" for i in range(_CATEGORIES)]).take(
                pa.array(random.integers(0, _CATEGORIES, size=rows))
            ),
            "amount": random.random(rows).round(2),
        }
    )
    return list(table.to_batches(max_chunksize=_BATCH_ROWS))


class Nowhere:
    """A state writer that writes nothing."""

    def put_many(self, keys: Any, values: Any) -> None:
        pass

    def put_arrays(self, keys: Any, values: Any) -> None:
        pass

    def finish(self) -> list[Any]:
        return []


def cpu_us_per_row(processor: StatefulProcessor, batches: list[pa.RecordBatch], folder: Path, *, files: bool) -> float:
    """CPU time of one pass in microseconds a row, all threads of the process; ``files``: with those of the state."""
    shutil.rmtree(folder, ignore_errors=True)
    operator = operator_of(processor)
    writer: Any = Nowhere()
    if files:
        writer = SstWriter(fs.LocalFileSystem(), str(folder / "pool"), str(folder / "local"), "cost", 1)
    context = ShardContext(0, ALL_GROUPS, SORTED_EPOCH, None, writer, Discarded(), ShardCounters())
    begun = time.process_time()
    operator.run(context, iter(batches))
    writer.finish()
    return (time.process_time() - begun) * 1e6 / sum(sorted_pass.num_rows for sorted_pass in batches)


def parts_of_blocks(batches: list[pa.RecordBatch], folder: Path) -> dict[str, float]:
    """What one pass of the trivial processor on blocks of keys is made of, in CPU microseconds a row by part.

    Clocks around the calls of the parts, of which there is one for each block or so.
    """
    spent_us: dict[str, float] = {}
    inside: list[float] = [0.0]

    def timed(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any) -> Any:
            inside.append(0.0)
            begun = time.process_time()
            try:
                return call(*arguments)
            finally:
                whole = (time.process_time() - begun) * 1e6
                spent_us[part] = spent_us.get(part, 0.0) + whole - inside.pop()
                inside[-1] += whole

        return measured

    def pieces(*arguments: Any) -> Iterator[Any]:
        advance = timed("rows into blocks of keys", partial(next, key_batches.whole_keys(*arguments), None))
        return iter(advance, None)

    calls = (
        (TotalsInBlocks, "handleArrowRows", "user code"),
        (RowColumns, "encode", "values to bytes"),
        (RowColumns, "decode", "bytes to values"),
        (sorted_pass, "entries_of", "names of entries"),
        (sst, "bytes_of", "entries to Python's bytes"),
        (SstWriter, "put_arrays", "entries into the file"),
        (SstWriter, "finish", "end of the file, checksum"),
    )
    with ExitStack() as patches:
        patches.enter_context(patch.object(run, "whole_keys", pieces))
        for owner, name, part in calls:
            patches.enter_context(patch.object(owner, name, timed(part, getattr(owner, name))))
        whole = cpu_us_per_row(TotalsInBlocks(), batches, folder, files=True)
    rows = sum(one.num_rows for one in batches)
    parts = {part: us / rows for part, us in spent_us.items()}
    return {**parts, "the rest": whole - sum(parts.values())}
