"""Runs: partial aggregates on their way from the tasks that scan to those of the shards, as files of their own.

A run is in the order of key groups and lies in *buckets*, a few neighbouring key groups of one shard each, so that a
shard's task reads its part of every run and no more, bucket by bucket within its memory.  Attempts write under names of
their own, and the driver hands on those of the winners, as in an exchange between stages.

Invariant: a run that is missing, cut off or altered fails the task that reads it; it is never read as fewer rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyarrow import fs

from ....errors import MixedModeError
from ....sorter import ExternalSorter
from ....state.codec.gather import gathered, gathered_rows
from ....state.keys.keygroups import ShardId, shard_ranges
from ....state.store.local_folder import local_root
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.partial_calls import PartialCall
from ...scan.segments import merged_segments
from .key_order import key_order

#: Where runs end: offset, bytes and checksum of each bucket, and the checksum of all of that.
_ENTRY = np.dtype([("offset", "<i8"), ("size", "<i8"), ("checksum", "<i8")])
#: About how many buckets a run has.
_BUCKETS = 128
#: Rows that are merged are there as read, joined and merged, with numbers to sort by.
_TO_MERGE = 4


@dataclass(frozen=True)
class Buckets:
    """How key groups are dealt to buckets, shard by shard."""

    parallelism: int
    max_parallelism: int

    @cached_property
    def firsts(self) -> np.ndarray:
        """The first key group of each bucket."""
        each = max(1, _BUCKETS // self.parallelism)
        found: list[int] = []
        for groups in shard_ranges(self.parallelism, self.max_parallelism):
            count = groups.last - groups.first + 1
            found += sorted({groups.first + i * count // each for i in range(each)})
        return np.array(found, dtype=np.int32)

    def of_shard(self, shard: ShardId) -> range:
        """The buckets of a shard."""
        groups = shard_ranges(self.parallelism, self.max_parallelism)[shard]
        first, end = np.searchsorted(self.firsts, [groups.first, groups.last + 1])
        return range(int(first), int(end))


def write_run(
    filesystem: fs.FileSystem,
    path: str,
    rows: Sequence[pa.RecordBatch],
    buckets: Buckets,
    without: Sequence[ShardId] = (),
) -> None:
    """Write one run.

    Args:
        filesystem: where.
        path: the file, which nobody else writes.
        rows: some batches, each in the order of its key groups, which come first.
        buckets: how they are dealt.
        without: shards that nobody asks for.
    """
    firsts = np.append(buckets.firsts, buckets.max_parallelism)
    bounds = [np.searchsorted(batch.column(0).to_numpy(), firsts).tolist() for batch in rows]
    left_out = {bucket for shard in without for bucket in buckets.of_shard(shard)}
    index = np.zeros(len(buckets.firsts), dtype=_ENTRY)
    offset = 0
    with filesystem.open_output_stream(path) as stream:
        for bucket in range(len(index)):
            if bucket in left_out:
                continue
            slices = [
                batch.slice(its[bucket], its[bucket + 1] - its[bucket])
                for batch, its in zip(rows, bounds, strict=True)
                if its[bucket + 1] > its[bucket]
            ]
            if not slices:
                continue
            data = (slices[0] if len(slices) == 1 else pa.concat_batches(slices)).serialize()
            index[bucket] = (offset, data.size, zlib.crc32(data))
            stream.write(data)
            offset += data.size
        entries = index.tobytes()
        stream.write(entries + zlib.crc32(entries).to_bytes(8, "little"))


@dataclass(frozen=True)
class PartialRuns:
    """The runs of one pass, for the tasks of its shards."""

    filesystem: fs.FileSystem
    paths: tuple[str, ...]
    schema: pa.Schema
    buckets: Buckets
    key_columns: tuple[str, ...]
    calls: tuple[PartialCall, ...]
    #: Memory for what is merged at once.
    memory_bytes: int
    #: Where a bucket that needs more is sorted; None: in the folder for local files.
    spill_dir: str | None
    local_dir: str | None

    def behind(self, batches: Iterator[pa.RecordBatch], shard: ShardId) -> Iterator[pa.RecordBatch]:
        """Rows, then those of the runs with the same columns.

        Args:
            batches: the rows.
            shard: whose.
        """
        schema: pa.Schema | None = None
        for batch in batches:
            schema = batch.schema
            yield batch
        for batch in self.of_shard(shard):
            if schema is not None:
                columns = [batch.column(name).cast(schema.field(name).type) for name in schema.names]
                batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            yield batch

    def of_shard(self, shard: ShardId) -> Iterator[pa.RecordBatch]:
        """The rows of a shard in order; those of a key are neighbours, and few."""
        runs = [_Run(self.filesystem, path, len(self.buckets.firsts)) for path in self.paths]
        try:
            waiting: list[int] = []
            size = 0
            for bucket in self.buckets.of_shard(shard):
                more = sum(int(run.index[bucket]["size"]) for run in runs)
                if _TO_MERGE * more > self.memory_bytes:
                    yield from self._merged(runs, waiting)
                    waiting, size = [], 0
                    yield from self._sorted(runs, bucket)
                    continue
                if waiting and _TO_MERGE * (size + more) > self.memory_bytes:
                    yield from self._merged(runs, waiting)
                    waiting, size = [], 0
                waiting.append(bucket)
                size += more
            yield from self._merged(runs, waiting)
        finally:
            for run in runs:
                run.close()

    def _sorted(self, runs: Sequence[_Run], bucket: int) -> Iterator[pa.RecordBatch]:
        """A bucket that does not fit into memory."""
        key = (KEY_GROUP_COLUMN, *self.key_columns)
        spill_dir = self.spill_dir or local_root(self.local_dir)
        with ExternalSorter(self.schema, key, memory_bytes=self.memory_bytes, spill_dir=spill_dir) as sorter:
            for run in runs:
                for batch in run.batches([bucket], self.schema):
                    sorter.add(batch)
            yield from sorter.sorted_batches()

    def _merged(self, runs: Sequence[_Run], buckets: Sequence[int]) -> Iterator[pa.RecordBatch]:
        batches = [] if not buckets else [batch for run in runs for batch in run.batches(buckets, self.schema)]
        if not batches:
            return
        rows = pa.concat_batches(batches)
        del batches
        yield merged(rows, self.key_columns, self.calls)


class _Run:
    def __init__(self, filesystem: fs.FileSystem, path: str, buckets: int) -> None:
        self._path = path
        try:
            self._file = filesystem.open_input_file(path)
            size = buckets * _ENTRY.itemsize
            end = self._file.size()
            entries, checksum = self._file.read_at(size, end - size - 8), self._file.read_at(8, end - 8)
        except (OSError, ValueError) as error:
            raise self._lost(str(error)) from error
        if len(entries) != size or zlib.crc32(entries).to_bytes(8, "little") != checksum:
            raise self._lost("its index does not match its checksum")
        self.index = np.frombuffer(entries, dtype=_ENTRY)

    def batches(self, buckets: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of neighbouring buckets, read at once."""
        entries = [entry for entry in self.index[buckets[0] : buckets[-1] + 1] if entry["size"]]
        if not entries:
            return
        start = int(entries[0]["offset"])
        size = int(entries[-1]["offset"] + entries[-1]["size"]) - start
        data = pa.py_buffer(self._file.read_at(size, start))
        for entry in entries:
            part = data.slice(int(entry["offset"]) - start, int(entry["size"]))
            if part.size != entry["size"] or zlib.crc32(part) != entry["checksum"]:
                raise self._lost("its rows do not match their checksum")
            yield pa.ipc.read_record_batch(part, schema)

    def close(self) -> None:
        self._file.close()

    def _lost(self, why: str) -> MixedModeError:
        return MixedModeError(f"{self._path}, which holds partial aggregates of this pass, cannot be read: {why}")


def merged(rows: pa.RecordBatch, key_columns: Sequence[str], calls: Sequence[PartialCall]) -> pa.RecordBatch:
    """Partial aggregates in order, one row for each key where numpy can merge them; else as many as there were.

    Args:
        rows: them, in any order.
        key_columns: the key.
        calls: the other columns.
    """
    order = key_order(rows, key_columns)
    starts = order.starts
    if len(starts) == rows.num_rows:
        return gathered_rows(rows, pa.array(order.places))
    of_name = {call.name: call for call in calls}
    places, firsts = pa.array(order.places), pa.array(order.places[starts])
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        call = of_name.get(name)
        found = gathered(column, firsts) if call is None else merged_segments(gathered(column, places), call, starts)
        if found is None:
            return gathered_rows(rows, places)
        columns.append(found)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
