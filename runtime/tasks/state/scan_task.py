"""The tasks of :mod:`...state_reader`: each opens one shard of a checkpoint and makes record batches of what is in it.

A task reads on a local copy of its own, which it throws away at the end: a query that runs in the same process keeps
its local copies, and nothing that is read here can be changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from ....errors import CheckpointError, CorruptStateError
from ....state.backend.reader import Ident, ShardView
from ....state.codec.byte_arrays import end_to_end
from ....state.keys.key_space import TIMER_KINDS
from ....state.keys.keygroups import ShardId, all_shards
from ....state.keys.keys import KeyCodec
from ....state.keys.registry import StateDescriptor, schema_from_json
from ....state.store.local_copy import LocalStateCache
from ....state.store.local_folder import local_root
from ....state.store.state_manifest import StateManifest
from ...catalyst.types.arrow_types import arrow_type
from ...checkpoints.metadata import OperatorState, StateLayout
from ...checkpoints.savepoints.store import open_store
from ...checkpoints.stored_checkpoints import StoredCheckpoints
from ...operators.columnar.record_codec import RecordCodec, RecordListCodec
from ...operators.processor.rows.row_writer import RowWriter
from ...storage.folder_checks import local_option
from ...support.ids import CheckpointId

#: The setting that says where tasks put local copies.
LOCAL_DIR = "spark.mixedmode.state.local-dir"
#: Rows, and about bytes of state, per record batch.
_BATCH_ROWS = 10_000
_BATCH_BYTES = 16 * 1024 * 1024
_CACHE_BYTES = 32 * 1024 * 1024

#: Encoded keys and what belongs to each, to be made a record batch.
_Piece = tuple[list[bytes], list[Any]]


def spark_type(data_type: pa.DataType) -> DataType:
    """The Spark type of what is stored with an Arrow type."""
    return from_arrow_type(data_type, True)


def struct_of(schema: pa.Schema) -> StructType:
    """The Spark struct of a stored schema."""
    return StructType([StructField(field.name, spark_type(field.type)) for field in schema])


def known_layout(stored: OperatorState) -> StateLayout:
    """How an operator's state is laid out; raises CheckpointError if its checkpoint does not say so."""
    if stored.layout is None:
        raise CheckpointError(
            f"the checkpoint or savepoint does not say which key columns stage {stored.uid!r} has: it was written by an"
            " older version of mixedmode. Let the job take another one"
        )
    return stored.layout


@dataclass(frozen=True)
class Shards:
    """The shards of one operator in one checkpoint, as tasks open them."""

    filesystem: fs.FileSystem
    location: str
    checkpoint_id: CheckpointId
    uid: str
    manifests: tuple[StateManifest, ...]
    key_schema: pa.Schema
    #: The key columns under the names that the user knows.
    key_labels: tuple[str, ...]
    local_dir: str | None
    now_ms: int
    #: Partition number -> shard.
    visited: tuple[ShardId, ...]
    #: Look at this key alone; None: at all.
    only: Ident | None = None

    @classmethod
    def of(
        cls, spark: SparkSession, store: StoredCheckpoints, checkpoint_id: CheckpointId, stored: OperatorState
    ) -> Shards:
        """All shards of an operator.

        Args:
            spark: the session that says where tasks put local copies.
            store: where the checkpoint is.
            checkpoint_id: which one.
            stored: the operator.

        Raises:
            CheckpointError: the checkpoint does not say what the keys are.
        """
        layout = known_layout(stored)
        return cls(
            filesystem=store.filesystem,
            location=store.location,
            checkpoint_id=checkpoint_id,
            uid=stored.uid,
            manifests=tuple(shard.load() for shard in stored.shards),
            key_schema=schema_from_json(layout.key_schema),
            key_labels=layout.key_labels,
            local_dir=local_option(LOCAL_DIR, spark.conf.get(LOCAL_DIR, None)),
            now_ms=round(time.time() * 1000),
            visited=all_shards(len(stored.shards)),
        )

    @contextmanager
    def opened(self, shard: ShardId) -> Iterator[ShardView]:
        """One shard, for as long as it is looked at."""
        store = open_store(self.filesystem, self.location)
        manifest, cache = self.manifests[shard], LocalStateCache(max_open=1)
        try:
            local_copy = cache.acquire(
                f"reader-{self.checkpoint_id}",
                shard,
                manifest,
                self.filesystem,
                store.pool(self.uid),
                local_root(self.local_dir),
                _CACHE_BYTES,
            )
            yield ShardView(local_copy, manifest.key_groups, KeyCodec(self.key_schema), self.now_ms, self.only)
        except CorruptStateError as error:
            if self.checkpoint_id not in store.ids():
                raise CorruptStateError(
                    f"checkpoint {self.checkpoint_id} was removed by the running query while it was read ({error}); "
                    "read the newest one, or let the query keep more (state.checkpoints.num-retained)"
                ) from error
            raise store.with_alternative(error, self.checkpoint_id) from error
        finally:
            cache.close()


@dataclass(frozen=True)
class Scan:
    """What is common to the scans: a task per shard, and Spark's columns: key, what belongs to it, shard, then ours."""

    shards: Shards

    @property
    def own_schema(self) -> StructType:
        """What belongs to a key, as in Spark's ``statestore`` source."""
        raise NotImplementedError

    @property
    def more_schema(self) -> StructType:
        """What we have to say besides."""
        return StructType()

    def batches(self, view: ShardView) -> Iterator[tuple[list[bytes], list[pa.Array]]]:
        """Encoded keys, and for them the columns of ``own_schema`` and then those of ``more_schema``."""
        raise NotImplementedError

    @property
    def schema(self) -> StructType:
        """All columns."""
        types = zip(self.shards.key_labels, self.shards.key_schema, strict=True)
        key = StructType([StructField(label, spark_type(field.type)) for label, field in types])
        return StructType(
            [
                StructField("key", key),
                *self.own_schema.fields,
                StructField("partition_id", IntegerType()),
                *self.more_schema.fields,
            ]
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The rows say which shards to visit: in a union the numbers of the partitions begin elsewhere.
        for place in [place for batch in batches for place in batch.column(0).to_pylist()]:
            shard = self.shards.visited[place]
            with self.shards.opened(shard) as view:
                yield from self.of_shard(shard, view)

    def of_shard(self, shard: ShardId, view: ShardView) -> Iterator[pa.RecordBatch]:
        """The record batches of one shard."""
        fields = [pa.field(field.name, arrow_type(field.dataType)) for field in self.schema.fields]
        own = len(self.own_schema.fields)
        for keys, columns in self.batches(view):
            shards = pa.array([shard] * len(keys), pa.int32())
            arrays = [self._key(view, keys), *columns[:own], shards, *columns[own:]]
            typed = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
            yield pa.RecordBatch.from_arrays(typed, schema=pa.schema(fields))

    def _key(self, view: ShardView, keys: list[bytes]) -> pa.Array:
        if not self.shards.key_labels:
            return pa.array([{}] * len(keys), pa.struct([]))
        fields = zip(self.shards.key_labels, self.shards.key_schema, strict=True)
        return pa.StructArray.from_arrays(
            view.key_codec.decode_columns(keys), fields=[field.with_name(label) for label, field in fields]
        )


@dataclass(frozen=True)
class TimerScan(Scan):
    """Pending timers."""

    @property
    def own_schema(self) -> StructType:
        return StructType([StructField("expiration_timestamp_ms", LongType())])

    @property
    def more_schema(self) -> StructType:
        return StructType([StructField("timer_kind", StringType())])

    def batches(self, view: ShardView) -> Iterator[tuple[list[bytes], list[pa.Array]]]:
        for kind in TIMER_KINDS:
            for keys, times in pieces((key, ts_ms, 0) for key, ts_ms in view.timers(kind)):
                yield keys, [pa.array(times, pa.int64()), pa.array([kind] * len(keys))]


@dataclass(frozen=True)
class RowScan(Scan):
    """A processor's state variable."""

    descriptor: StateDescriptor

    @property
    def own_schema(self) -> StructType:
        value = struct_of(self.descriptor.schema)
        if self.has_ttl:
            value = StructType([StructField("value", value), StructField("ttlExpirationMs", LongType())])
        if self.descriptor.kind == "value":
            return StructType([StructField("value", value)])
        if self.descriptor.kind == "list":
            return StructType([StructField("list_element", value)])
        assert self.descriptor.user_key_schema is not None
        user_key = struct_of(self.descriptor.user_key_schema)
        return StructType([StructField("user_map_key", user_key), StructField("user_map_value", value)])

    @property
    def has_ttl(self) -> bool:
        """True if the time at which a value expires stands beside it."""
        return self.descriptor.ttl_ms is not None

    @property
    def more_schema(self) -> StructType:
        return StructType([StructField("position", LongType())] if self.descriptor.kind == "list" else [])

    def batches(self, view: ShardView) -> Iterator[tuple[list[bytes], list[pa.Array]]]:
        columns = [_column_of(field.dataType) for field in (*self.own_schema.fields, *self.more_schema.fields)]
        for keys, rows in pieces(view.rows(self.descriptor)):
            parts = list(zip(*rows, strict=True))
            if self.descriptor.kind == "list":
                parts.reverse()  # positions come last
            yield keys, [column(values) for column, values in zip(columns, parts, strict=True)]


@dataclass(frozen=True)
class RecordScan(Scan):
    """An aggregate's buffers; with session windows one row per open session."""

    descriptor: StateDescriptor
    sessions: bool

    @property
    def own_schema(self) -> StructType:
        return StructType([StructField("value", struct_of(self._labelled))])

    @cached_property
    def _labelled(self) -> pa.Schema:
        """The buffers by their SQL; stored is that with its place before it, which only matters if it comes twice."""
        names = self.descriptor.schema.names
        short = [name.partition(": ")[2] or name for name in names]
        labels = short if len(set(short)) == len(short) else names
        fields = zip(labels, self.descriptor.schema, strict=True)
        return pa.schema([pa.field(label, field.type) for label, field in fields])

    def batches(self, view: ShardView) -> Iterator[tuple[list[bytes], list[pa.Array]]]:
        codec = RecordCodec([pa.field(field.name, field.type) for field in self.descriptor.schema])
        suffix = bytes([self.descriptor.slot])
        stored = ((key, cells[suffix], len(cells[suffix])) for key, cells in view.cells(self.descriptor.slot))
        for found, records in pieces(stored):
            keys, (data, offsets) = found, end_to_end(records)
            if self.sessions:
                columns, lengths = RecordListCodec(codec).decode(data, offsets)
                keys = [key for key, length in zip(found, lengths.tolist(), strict=True) for _ in range(length)]
            else:
                columns = codec.decode(data, offsets)
            yield keys, [pa.StructArray.from_arrays(columns, fields=list(self._labelled))]


def _column_of(data_type: DataType) -> Callable[[tuple[Any, ...]], pa.Array]:
    """Makes an Arrow column of values as the state classes give them: tuples for structs, plain numbers otherwise."""
    if not isinstance(data_type, StructType):
        return lambda values: pa.array(values, arrow_type(data_type))
    writer = RowWriter(data_type)

    def convert(values: tuple[Any, ...]) -> pa.Array:
        columns = list(zip(*values, strict=True)) or [()] * len(data_type.fields)
        batch = writer.batch(columns, lambda place: f"row {place} of a state variable")
        return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))

    return convert


def pieces(entries: Iterator[tuple[bytes, Any, int]]) -> Iterator[_Piece]:
    """Entries (key, what belongs to it, bytes) in pieces of bounded size."""
    keys: list[bytes] = []
    values: list[Any] = []
    held_bytes = 0
    for key, value, size_bytes in entries:
        keys.append(key)
        values.append(value)
        held_bytes += size_bytes
        if len(keys) >= _BATCH_ROWS or held_bytes >= _BATCH_BYTES:
            yield keys, values
            keys, values, held_bytes = [], [], 0
    if keys:
        yield keys, values
