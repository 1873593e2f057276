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
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ....errors import MixedModeError
from ....sorter import ExternalSorter
from ....sorter.order import Ordering
from ....state.keys.keygroups import shard_ranges
from ....state.store.local_folder import local_root
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.partial_calls import PartialCall
from ...scan.segments import merged_segments

#: Where runs end: offset, bytes and checksum of each bucket, and the checksum of all of that.
_ENTRY = np.dtype([("offset", "<i8"), ("size", "<i8"), ("checksum", "<i8")])
#: About how many buckets a run has.
_BUCKETS = 128


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

    def of_shard(self, shard: int) -> range:
        """The buckets of a shard."""
        groups = shard_ranges(self.parallelism, self.max_parallelism)[shard]
        first, end = np.searchsorted(self.firsts, [groups.first, groups.last + 1])
        return range(int(first), int(end))


def in_order(rows: pa.RecordBatch, key_columns: Sequence[str]) -> pa.RecordBatch:
    """Partial aggregates by key group and key; those of one key come in any order.

    Args:
        rows: them, key group first.
        key_columns: the key.
    """
    return rows.take(pa.array(places_in_order(rows, key_columns)))


def places_in_order(rows: pa.RecordBatch, key_columns: Sequence[str]) -> np.ndarray:
    """Where the rows of :func:`in_order` are among those that it is given.

    Args:
        rows: them, key group first.
        key_columns: the key.
    """
    numbers = as_numbers(rows.column(key_columns[0])) if len(key_columns) == 1 else None
    if numbers is None:
        keys = _to_sort_by(rows, key_columns)
        is_text = keys.num_columns == 2 and pa.types.is_string(keys.column(1).type) and not keys.column(1).null_count
        places: np.ndarray = (_places_of_texts(keys) if is_text else _places(keys)).to_numpy()
        return places
    return sorted_places(rows.column(0).to_numpy(), numbers)


def _places(keys: pa.RecordBatch) -> pa.Array:
    ordering = Ordering(keys.schema, keys.schema.names)
    return ordering.sort_indices(ordering.extend(keys))


def _places_of_texts(keys: pa.RecordBatch) -> pa.Array:
    """Where rows are in the order of their key groups and texts: sorted as numbers of the bytes that first differ."""
    groups, texts = keys.column(0).to_numpy(), keys.column(1)
    numbers = _first_bytes(texts)
    places = sorted_places(groups, numbers)
    numbers, groups = numbers[places], groups[places]
    is_like_last = np.append(False, (numbers[1:] == numbers[:-1]) & (groups[1:] == groups[:-1]))
    seconds = np.flatnonzero(is_like_last)
    ones, others = (texts.take(pa.array(places[at])) for at in (seconds - 1, seconds))
    unsorted = seconds[pc.not_equal(ones, others).to_numpy(zero_copy_only=False)]
    if len(unsorted):
        # Other texts with the same bytes there: all rows with those are sorted by the whole text.
        alike = np.cumsum(~is_like_last)
        at = np.flatnonzero(np.isin(alike, alike[unsorted]))
        among = places[at]
        places[at] = among[_places(keys.take(pa.array(among))).to_numpy()]
    return pa.array(places)


def _first_bytes(texts: pa.Array) -> np.ndarray:
    """The first eight bytes after those that all texts have in common, as numbers of the same order."""
    ends = pc.min_max(texts.view(pa.binary()))
    least, greatest = (ends[side].as_py() or b"" for side in ("min", "max"))
    pairs = enumerate(zip(least, greatest, strict=False))
    common = next((at for at, (one, other) in pairs if one != other), min(len(least), len(greatest)))
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    some = np.frombuffer(data, dtype=np.uint8)[: bounds[-1]] if data is not None else np.zeros(0, dtype=np.uint8)
    some = np.append(some, np.zeros(common + 8, dtype=np.uint8))
    starts, lengths = bounds[:-1] + common, np.diff(bounds) - common
    numbers = np.zeros(len(texts), dtype=np.uint64)
    for byte in range(8):
        numbers = (numbers << np.uint64(8)) | np.where(lengths > byte, some[starts + byte], 0).astype(np.uint64)
    return numbers


def _to_sort_by(rows: pa.RecordBatch, key_columns: Sequence[str]) -> pa.RecordBatch:
    """The key group and the key; structs as their fields, which are in the same order and need not be encoded."""
    columns = [rows.column(KEY_GROUP_COLUMN)]
    for name in key_columns:
        column = rows.column(name)
        is_plain = pa.types.is_struct(column.type) and not column.null_count
        columns += column.flatten() if is_plain else [column]
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def in_order_of_groups(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Partial aggregates by key group; ``rows``: them, key group first."""
    groups = rows.column(0).to_numpy().astype(np.uint16)  # so narrow that numpy sorts by digits
    return rows.take(pa.array(np.argsort(groups, kind="stable")))


def sorted_places(groups: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Where rows are in the order of their key groups and keys.

    Args:
        groups: the key groups.
        numbers: the keys.
    """
    groups = groups.astype(np.uint16)  # so narrow that numpy sorts by digits
    places = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups)).tolist()
    for start, end in pairwise([0, *ends]):
        if end - start > 1:
            places[start:end] = places[start:end][np.argsort(numbers[places[start:end]])]
    return places


def is_sortable(data_type: pa.DataType) -> bool:
    """Whether the order of a type is that of whole numbers."""
    types = pa.types
    return bool(
        types.is_signed_integer(data_type)
        or types.is_date32(data_type)
        or (types.is_timestamp(data_type) and data_type.unit == "us")
    )


def as_numbers(column: pa.Array) -> np.ndarray | None:
    """Values whose order is that of whole numbers; None: they are others, or there are nulls."""
    if column.null_count or not is_sortable(column.type):
        return None
    if not pa.types.is_signed_integer(column.type):
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    numbers: np.ndarray = column.to_numpy()
    return numbers


def write_run(
    filesystem: fs.FileSystem, path: str, rows: pa.RecordBatch, buckets: Buckets, without: Sequence[int] = ()
) -> None:
    """Write one run.

    Args:
        filesystem: where.
        path: the file, which nobody else writes.
        rows: in the order of their key groups, which come first.
        buckets: how they are dealt.
        without: shards that nobody asks for.
    """
    groups = rows.column(0).to_numpy()
    bounds = np.searchsorted(groups, np.append(buckets.firsts, buckets.max_parallelism))
    left_out = {bucket for shard in without for bucket in buckets.of_shard(shard)}
    index = np.zeros(len(buckets.firsts), dtype=_ENTRY)
    offset = 0
    with filesystem.open_output_stream(path) as stream:
        for bucket in range(len(index)):
            start, end = int(bounds[bucket]), int(bounds[bucket + 1])
            if end == start or bucket in left_out:
                continue
            data = rows.slice(start, end - start).serialize()
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

    def behind(self, batches: Iterator[pa.RecordBatch], shard: int) -> Iterator[pa.RecordBatch]:
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

    def of_shard(self, shard: int) -> Iterator[pa.RecordBatch]:
        """The rows of a shard in order; those of a key are neighbours, and few."""
        runs = [_Run(self.filesystem, path, len(self.buckets.firsts)) for path in self.paths]
        try:
            waiting: list[int] = []
            size = 0
            for bucket in self.buckets.of_shard(shard):
                more = sum(int(run.index[bucket]["size"]) for run in runs)
                # Rows are there as read, joined and sorted.
                if 3 * more > self.memory_bytes:
                    yield from self._merged(runs, waiting)
                    waiting, size = [], 0
                    yield from self._sorted(runs, bucket)
                    continue
                if waiting and 3 * (size + more) > self.memory_bytes:
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
        rows = in_order(rows, self.key_columns)
        yield reduced(rows, self.key_columns, self.calls)


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


def reduced(rows: pa.RecordBatch, key_columns: Sequence[str], calls: Sequence[PartialCall]) -> pa.RecordBatch:
    """Sorted partial aggregates with one row for each key, where numpy can merge them; else as they are.

    Args:
        rows: sorted by key.
        key_columns: the key.
        calls: the other columns.
    """
    changed = np.zeros(rows.num_rows, dtype=bool)
    changed[0] = True
    for name in key_columns:
        changed[1:] |= _differ(rows.column(name))
    starts = np.flatnonzero(changed)
    if len(starts) == rows.num_rows:
        return rows
    of_name = {call.name: call for call in calls}
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        call = of_name.get(name)
        merged = column.take(pa.array(starts)) if call is None else merged_segments(column, call, starts)
        if merged is None:
            return rows
        columns.append(merged)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _differ(column: pa.Array) -> np.ndarray:
    """Whether each value but the first is another one than that before it; nulls are the same."""
    if pa.types.is_struct(column.type):
        return np.logical_or.reduce([_differ(field) for field in column.flatten()])
    one, other = column.slice(1), column.slice(0, len(column) - 1)
    differ = pc.fill_null(pc.not_equal(one, other), False).to_numpy(zero_copy_only=False)
    if column.null_count:
        differ = differ | pc.xor(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
    return differ
