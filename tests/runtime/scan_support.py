"""What tasks scan and aggregate by themselves, and the same by Spark, as bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.jobs.columnar_pass import recognise
from mixedmode.runtime.operators.aggregate.buffers import reduce_segments
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.scan.partial_scans import file_parts
from mixedmode.runtime.tasks.scan.partial_runs import Buckets, PartialRuns
from mixedmode.runtime.tasks.scan.partial_scan import PartialScanTask
from pyarrow import fs
from pyspark.sql import Column, DataFrame

GROUPS, SHARDS = 128, 4


def planned(frame: DataFrame, keys: list[Any], *columns: Column, event_time: str | None = None) -> AggregateOperator:
    """The operator of an aggregation of a frame."""
    return plan_aggregate(frame, keys, list(columns), event_time=event_time, output_mode=None, uid="agg")


def scanned(
    operator: AggregateOperator, frame: DataFrame, folder: Path, memory_bytes: int, engine: str = "arrow"
) -> pa.Table:
    """What tasks would hand to the operator, all shards together, in order."""
    found = recognise(operator, frame, None, engine)
    source, parts = file_parts(found.uris, 2, found.constants)
    schema = pa.schema([pa.field("__kg", pa.int32()), *fields_of(operator, found)])
    buckets = Buckets(SHARDS, GROUPS)
    folder.mkdir(exist_ok=True)
    task = PartialScanTask(
        partials=found.partials,
        source=source,
        parts=tuple(map(tuple, parts)),
        target=fs.LocalFileSystem(),
        folder=str(folder),
        name="run",
        schema=schema,
        group_columns=operator.key_group_columns,
        buckets=buckets,
        without=(),
        memory_bytes=memory_bytes,
        engine=engine,
    )
    paths = [path for i, one in enumerate(task.parts) for path in task.scanned(one, f"{memory_bytes}-{i}").runs]
    assert len(paths) > len(task.parts) or memory_bytes > 1 << 20, "little memory is for more than one run a task"
    runs = PartialRuns(
        fs.LocalFileSystem(),
        tuple(paths),
        schema,
        buckets,
        operator.key_columns,
        found.partials.calls,
        max(memory_bytes, 1 << 18),
        str(folder),
        None,
    )
    batches = [batch for shard in range(SHARDS) for batch in runs.of_shard(shard)]
    return pa.Table.from_batches(batches, schema)


def fields_of(operator: AggregateOperator, found: Any) -> Iterator[pa.Field]:
    for key in found.partials.keys:
        yield operator.key_schema.field(key.name)
    for call in found.partials.calls:
        yield pa.field(call.name, call.type)


def merged(operator: AggregateOperator, table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as bits, those of a key merged as the operator merges them."""
    batch = table.combine_chunks().to_batches()[0]
    keys = [bits(batch.column(name)) for name in ("__kg", *operator.key_columns)]
    tuples = list(zip(*keys, strict=True))
    order = sorted(range(len(tuples)), key=lambda i: repr(tuples[i]))
    starts = [at for at, i in enumerate(order) if at == 0 or tuples[i] != tuples[order[at - 1]]]
    batch = batch.take(pa.array(order))
    partials = operator.partials
    typed = zip(partials.places, partials.types, strict=True)
    buffers = [batch.column(name).cast(kind) for name, kind in typed]
    buffers = reduce_segments(partials.buffers, buffers, np.array(starts))
    values = [bits(column) for column in buffers]
    counted = np.add.reduceat(batch.column(operator.rows_column).to_numpy(), starts).tolist()
    return list(zip([tuples[order[at]] for at in starts], counted, *values, strict=True))


def merged_rows(operator: AggregateOperator, table: pa.Table) -> pa.Table:
    """One row for each key, which is one column of whole numbers, merged as the operator merges them."""
    (key,) = operator.key_columns
    batch = table.sort_by(key).combine_chunks().to_batches()[0]
    keys = batch.column(key).to_numpy()
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    partials = operator.partials
    typed = zip(partials.places, partials.types, strict=True)
    buffers = reduce_segments(partials.buffers, [batch.column(name).cast(kind) for name, kind in typed], starts)
    return pa.table([batch.column(key).take(pa.array(starts)), *buffers], names=[key, *partials.places])


def bits(array: pa.Array) -> list[Any]:
    if pa.types.is_floating(array.type):
        return array.view(pa.int64() if array.type.bit_width == 64 else pa.int32()).to_pylist()
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_struct(array.type):
        return list(zip(*[bits(pc.struct_field(array, i)) for i in range(array.type.num_fields)], strict=True))
    if pa.types.is_list(array.type):
        return [sorted(map(repr, values)) for values in array.to_pylist()]  # the order of a set is nobody's
    return array.to_pylist()
