"""One shard of a processor stage, epoch by epoch, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.contract import EpochSpec, ShardContext, ShardCounters
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.processor.definition import CallingConvention
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.operators.processor.rows.row_form import Form, RowsForm
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.local_copy import LocalStateCache, LocalStateCopy
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

KEY = StructType([StructField("key", StringType())])
INPUT = StructType([*KEY.fields, StructField("ts", TimestampType()), StructField("does", StringType())])
OUTPUT = StructType(
    [StructField("what", StringType()), StructField("key", StringType()), StructField("at", LongType())]
)
COUNT = StructType([StructField("n", LongType())])
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: (key, event time in ms or None, what the processor is to do)
Input = tuple[Any, "int | None", str]


class Scripted(StatefulProcessor):
    """Does what its rows say: ``+5`` registers a timer, ``-5`` deletes one, ``count``, ``timers``, ``watermark``.

    ``again`` says, for a timer, which timers to register when it fires.
    """

    def __init__(self, again: dict[int, list[int]] | None = None) -> None:
        self._again = again or {}

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            for command in row.does.split():
                if command[0] == "+":
                    self._handle.registerTimer(int(command[1:]))
                elif command[0] == "-":
                    self._handle.deleteTimer(int(command[1:]))
                elif command == "count":
                    (n,) = self._count.get() or (0,)
                    self._count.update((n + 1,))
                    yield ("count", key[0], n + 1)
                elif command == "timers":
                    yield from (("pending", key[0], ts) for ts in self._handle.listTimers())
                elif command == "watermark":
                    yield ("watermark", key[0], timerValues.getCurrentWatermarkInMs())
                elif command == "time":
                    yield ("time", key[0], timerValues.getCurrentProcessingTimeInMs())
                else:
                    yield (command, key[0], None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        expiry_ms = expiredTimerInfo.getExpiryTimeInMs()
        for again_ms in self._again.get(expiry_ms, []):
            self._handle.registerTimer(again_ms)
        yield ("fired", key[0], expiry_ms)
        if "w" in self._again:  # type: ignore[comparison-overlap]
            yield ("watermark", key[0], timerValues.getCurrentWatermarkInMs())


class Stage:
    """One shard with all key groups; each epoch's files are committed, as the driver does it."""

    def __init__(
        self,
        folder: Path,
        time_mode: str = "eventTime",
        processor: StatefulProcessor | None = None,
        form: Form | None = None,
        operator: ProcessorOperator | None = None,
    ) -> None:
        self.operator = operator or ProcessorOperator(
            processor or Scripted(),
            uid="stage",
            rows=KeyedInput(INPUT, ("key",), KEY, "ts"),
            output_schema=OUTPUT,
            time_mode=time_mode,  # type: ignore[arg-type]
            calls=CallingConvention(form or RowsForm()),
        )
        self._folder = folder
        self._lineage = StateManifest(KeyGroupRange(0, 127))
        self._cache = LocalStateCache()
        self._pool, self._local = str(folder / "pool"), str(folder / "local")
        self.epoch = 0
        self.counters = ShardCounters()

    def take_over(self, other: Stage) -> None:
        """Go on from another version of the stage in the same folder."""
        self._lineage, self.epoch = other._lineage, other.epoch

    def run(
        self,
        rows: list[Input],
        style: str,
        batch_rows: int = 3,
        source: Iterator[pa.RecordBatch] | None = None,
        **spec: Any,
    ) -> list[tuple[Any, ...]]:
        """One epoch over the rows, or over ``source``; returns what the processor yielded, in order."""
        self.epoch += 1
        filesystem, name = fs.LocalFileSystem(), f"e{self.epoch:08d}"
        base = self._local_copy()
        writer_class = SstWriter if style == "sorted" else LogWriter
        writer = writer_class(filesystem, self._pool, self._local, name, self.epoch)
        defaults = {
            "watermark_ms": MIN_WATERMARK,
            "firing_watermark_ms": MIN_WATERMARK,
            "late_watermark_ms": MIN_WATERMARK,
            "processing_time_ms": 0,
            "processing_timers_upto_ms": MIN_WATERMARK,
        }
        epoch = EpochSpec(epoch=self.epoch, style=style, **{**defaults, **spec})  # type: ignore[arg-type]
        self.counters, output = ShardCounters(), Output()
        context = ShardContext(0, self._lineage.key_groups, epoch, base, writer, output, self.counters)
        self.operator.run(context, iter(batches(rows, batch_rows)) if source is None else source)
        self._lineage = self._lineage.append(writer.finish())
        return output.rows

    def _local_copy(self) -> LocalStateCopy | None:
        if not self._lineage.files:
            return None
        filesystem = fs.LocalFileSystem()
        return self._cache.acquire("job", 0, self._lineage, filesystem, self._pool, self._local, 1 << 20)

    def stored(self) -> dict[bytes, bytes]:
        """Everything that is stored after the last epoch."""
        local_copy = self._local_copy()
        return {} if local_copy is None else dict(local_copy.scan(b"", b"\xff\xff\xff"))

    def stream(self, rows: list[Input], watermark_ms: int = MIN_WATERMARK, **spec: Any) -> list[tuple[Any, ...]]:
        """A micro-batch (or a clock tick) under a watermark."""
        watermarks = {
            "watermark_ms": watermark_ms,
            "firing_watermark_ms": watermark_ms,
            "late_watermark_ms": watermark_ms,
        }
        return self.run(rows, "random", **{**watermarks, **spec})

    def backlog(self, rows: list[Input], final_ms: int = MIN_WATERMARK, **spec: Any) -> list[tuple[Any, ...]]:
        """A sorted pass whose keys end under a final watermark."""
        return self.run(rows, "sorted", firing_watermark_ms=final_ms, **spec)

    def batch(self, rows: list[Input], **spec: Any) -> list[tuple[Any, ...]]:
        """Batch mode: the state of a key is forgotten at its end."""
        at_end = {"keep_state": False, "processing_timers_upto_ms": MAX_WATERMARK, "timers_at_max": "ignore"}
        return self.backlog(rows, MAX_WATERMARK, **{**at_end, **spec})


class Output:
    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows.extend(tuple(row.values()) for row in rows.to_pylist())


def batches(rows: list[Input], batch_rows: int) -> list[pa.RecordBatch]:
    """Rows as Spark hands them over: sorted by key (nulls first), then event time; all in key group 7."""
    rows = sorted(rows, key=lambda row: (row[0] is not None, (row[0] or "").encode(), row[1] is not None, row[1] or 0))
    schema = pa.schema([pa.field("__kg", pa.int32()), *arrow_schema(INPUT)])
    made = []
    for start in range(0, len(rows), batch_rows):
        part = [
            (7, key, None if ms is None else EPOCH + timedelta(milliseconds=ms), does)
            for key, ms, does in rows[start : start + batch_rows]
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(zip(*part, strict=True), schema, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return made


def by_key(output: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """Rows whose second column is the key, by key."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in output:
        found.setdefault(row[1], []).append(row)
    return found
