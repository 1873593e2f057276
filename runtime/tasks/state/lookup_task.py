"""Looks up everything that a checkpoint holds of one key, in one task on the key's shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import Row, StructField, StructType

from ....state.backend.reader import Ident
from ....state.keys.keygroups import ShardId, key_group_of, shard_of
from ....state.keys.keys import KeyCodec
from ...catalyst.types.arrow_functions import mapped_in_arrow
from ...jvm.worker.worker_tasks import task_context
from .scan_task import RecordScan, RowScan, Scan, Shards, TimerScan, struct_of

_COLUMNS = "name string, rows binary"
_TIMERS = "timers"


@dataclass(frozen=True)
class LookupTask:
    """Runs some scans over one key of one shard."""

    shards: Shards
    scans: tuple[tuple[str, Scan], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        context = task_context()
        shard = self.shards.visited[context.partitionId()]
        with self.shards.opened(shard) as view:
            for name, scan in self.scans:
                for batch in scan.of_shard(shard, view):
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, batch.schema) as stream:
                        stream.write_batch(batch)
                    rows = pa.array([sink.getvalue().to_pybytes()], pa.binary())
                    yield pa.RecordBatch.from_arrays([pa.array([name]), rows], names=["name", "rows"])


def identify_key(
    spark: SparkSession,
    key_schema: pa.Schema,
    key: tuple[Any, ...],
    max_parallelism: int,
    key_group_places: tuple[int, ...] | None = None,
) -> Ident:
    """Key group and encoded form of a key, by Spark's own hash of it.

    Args:
        spark: the session.
        key_schema: the key columns.
        key: a value for each of them.
        max_parallelism: number of key groups.
        key_group_places: places of the key columns that decide the key group; None: all.
    """
    # Float keys are stored with one zero.
    values = tuple([value + 0.0 if isinstance(value, float) else value for value in key])
    encoded = KeyCodec(key_schema).encode(values)
    if not values:
        return 0, encoded
    fields = [StructField(f"k{place}", field.dataType) for place, field in enumerate(struct_of(key_schema).fields)]
    frame = spark.createDataFrame([values], StructType(fields))
    places = range(len(fields)) if key_group_places is None else key_group_places
    row = frame.select(F.hash(*[F.col(fields[place].name) for place in places])).first()
    assert row is not None
    return key_group_of(row[0], max_parallelism), encoded


def lookup(spark: SparkSession, shards: Shards, scans: Mapping[str, RowScan | RecordScan]) -> dict[str, Any]:
    """State and timers of one key, and whether it has any.

    Args:
        spark: the session.
        shards: what the checkpoint holds; its ``only`` names the key.
        scans: the readers of the state variables, by name.

    Returns:
        ``found``, ``state`` by variable, and ``timers``: times in ms by kind.
    """
    timers = TimerScan(shards)
    task = LookupTask(shards, (*scans.items(), (_TIMERS, timers)))
    found: dict[str, list[Any]] = {name: [] for name in (*scans, _TIMERS)}
    for name, data in mapped_in_arrow(spark.range(0, 1, 1, 1), task, _COLUMNS).collect():
        scan = timers if name == _TIMERS else scans[name]
        with pa.ipc.open_stream(bytes(data)) as reader:
            rows = ArrowTableToRowsConversion.convert(reader.read_all(), scan.schema)
            found[name] += [_own(scan, row) for row in rows]
    is_known = any(found.values())
    pending: dict[str, list[int]] = {}
    for ts_ms, kind in found.pop(_TIMERS):
        pending.setdefault(kind, []).append(ts_ms)
    state = {name: _value(scans[name], rows) for name, rows in found.items()}
    return {"found": is_known, "state": state, "timers": pending}


def only_shard(group: int, parallelism: int, max_parallelism: int) -> tuple[ShardId, ...]:
    """The shard to visit for a key group.

    Args:
        group: the key group.
        parallelism: number of shards.
        max_parallelism: number of key groups.
    """
    return (shard_of(group, parallelism, max_parallelism),)


def _own(scan: Scan, row: Row) -> tuple[Any, ...]:
    """The scan's own columns of a row, Spark's and ours: without the key before them and the shard in between."""
    shard = 1 + len(scan.own_schema.fields)
    return (*row[1:shard], *row[shard + 1 :])


def _value(scan: RowScan | RecordScan, rows: list[tuple[Any, ...]]) -> Any:
    """A variable as a user thinks of it."""
    if isinstance(scan, RecordScan):
        return [row[0] for row in rows] if scan.sessions else (rows[0][0] if rows else None)
    read: Callable[[Any], Any] = (lambda value: value.value) if scan.has_ttl else (lambda value: value)
    if scan.descriptor.kind == "list":
        return [read(row[0]) for row in rows]
    if scan.descriptor.kind == "map":
        return {key: read(value) for key, value in rows}
    return read(rows[0][0]) if rows else None
