"""Keyed state made and migrated without Spark: what a shard task does once its rows are sorted.

CPU time, not wall time: all threads of this process, so that the figure is keys per second and core.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from dataset import scattered
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata, OperatorState, ShardState, SourceState
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.transaction import SinkTransaction
from mixedmode.runtime.operators.contract import EpochSpec, KeyedOperator, ShardContext, ShardCounters
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.keys.keys import KeyCodec
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs

MAX_PARALLELISM = 128
ALL_GROUPS = KeyGroupRange(0, MAX_PARALLELISM - 1)
SORTED_EPOCH = EpochSpec(
    epoch=1,
    style="sorted",
    watermark_ms=MIN_WATERMARK,
    firing_watermark_ms=MIN_WATERMARK,
    late_watermark_ms=MIN_WATERMARK,
    processing_time_ms=0,
    processing_timers_upto_ms=MIN_WATERMARK,
)


@dataclass(frozen=True)
class Migrated:
    """A complete checkpoint of one shard, and the CPU time that it took."""

    manifest: StateManifest
    store: CheckpointStore
    pool: str
    cpu_s: float


class Discarded:
    """An output that nobody wants."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Forget them."""


def migrate_processor(operator: KeyedOperator, groups: list[int], keys: list[bytes], folder: Path) -> Migrated:
    """A value of each key through batch keyed state into a checkpoint; keys are encoded and in order."""
    store, writer = _begin(operator, folder)
    started = time.process_time()
    with BatchKeyedState(operator.registry, writer, 0) as state:
        totals = state.value_state("totals")
        select, update = state.set_current_key, totals.update
        for number, (group, key) in enumerate(zip(groups, keys, strict=True)):
            select(group, key)
            update((number, 0.5))
    return _complete(operator, store, writer.finish(), started)


def migrate_aggregate(operator: KeyedOperator, batches: Sequence[pa.RecordBatch], folder: Path) -> Migrated:
    """Sorted partial aggregates, one row a key, through the operator into a checkpoint; results are discarded."""
    store, writer = _begin(operator, folder)
    started = time.process_time()
    context = ShardContext(0, ALL_GROUPS, SORTED_EPOCH, None, writer, Discarded(), ShardCounters())
    operator.run(context, iter(batches))
    return _complete(operator, store, writer.finish(), started)


def _begin(operator: KeyedOperator, folder: Path) -> tuple[CheckpointStore, SstWriter]:
    shutil.rmtree(folder, ignore_errors=True)
    local = folder / "local"
    local.mkdir(parents=True)
    store = CheckpointStore(fs.LocalFileSystem(), str(folder / "checkpoints"))
    return store, SstWriter(store.filesystem, store.pool(operator.uid), str(local), "e1-s0", 1)


def _complete(operator: KeyedOperator, store: CheckpointStore, files: list[StateFile], started: float) -> Migrated:
    """Write the checkpoint's metadata: with that it exists."""
    manifest = StateManifest(ALL_GROUPS, tuple(files))
    stored = OperatorState(
        uid=operator.uid,
        max_parallelism=MAX_PARALLELISM,
        registry=operator.registry.to_json(),
        shards=(ShardState(manifest=manifest.to_json()),),
    )
    metadata = CheckpointMetadata(
        checkpoint_id=1,
        job_id="migration",
        timestamp_ms=0,
        epoch=1,
        watermark_ms=MIN_WATERMARK,
        sources={"history": SourceState(is_backlog=False, finished=True)},
        operators=(stored,),
        transaction=SinkTransaction(id=1),
    )
    store.write(metadata)
    cpu_s = time.process_time() - started
    assert store.ids() == [1]
    return Migrated(manifest, store, store.pool(operator.uid), cpu_s)


def encoded_keys(count: int) -> tuple[list[int], list[bytes]]:
    """Key groups and encoded keys of so many numbers, in stored order."""
    codec = KeyCodec(pa.schema([("key", pa.int64())]))
    numbers = scattered(np.arange(count, dtype=np.int64))
    groups = numbers % MAX_PARALLELISM
    order = np.lexsort((numbers, groups))
    encoded = codec.encode_columns([pa.array(numbers[order])])
    return groups[order].tolist(), encoded.to_pylist()


def sorted_batches(partials: pa.Table, operator: KeyedOperator, batch_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """What a task gets: partial aggregates with their key groups, in stored order."""
    key = partials.column(operator.key_columns[0]).to_numpy()
    groups = (key % MAX_PARALLELISM).astype(np.int32)
    order = np.lexsort((key, groups))
    table = partials.add_column(0, KEY_GROUP_COLUMN, pa.array(groups)).take(pa.array(order)).combine_chunks()
    yield from table.to_batches(max_chunksize=batch_rows)
