"""The task that changes keyed state offline: one shard, rows that say what becomes of its keys, files with the changes.

It works as a shard task does: on a local copy of the state as it was, with the state classes of a running processor,
and writes new, attempt-private files only.  Rows come in the order of the stored keys; of a key first whether it goes
as a whole, then its variables, then its timers.
"""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from ....errors import StateSchemaError
from ....state.backend.reader import ShardView
from ....state.backend.sorted_pass import BatchKeyedState
from ....state.backend.timer_index import earliest, stored_timers
from ....state.backend.variables import expire_at, keep_until
from ....state.keys.key_space import (
    CELL_SECTION,
    TIMER_KINDS,
    TIMER_SLOTS,
    TimerKind,
    after_prefix,
    group_prefix,
    state_prefix,
)
from ....state.keys.keygroups import KeyGroupRange, ShardId
from ....state.keys.keys import KeyCodec
from ....state.keys.registry import StateDescriptor, StateRegistry
from ....state.store.files import StateFile
from ....state.store.local_folder import local_root
from ....state.store.sst import SstWriter
from ...jvm.worker.worker_tasks import task_begins, task_context
from ...operators.contract import ShardCounters
from ...operators.keyed.keyed_rows import HandedOverRows, KeyedRows, KeySlices
from ...operators.processor.rows.row_reader import RowReader
from ...support.failpoints import failpoint
from ...support.ids import EpochNumber
from ..report import ShardReport, report_batch
from .scan_task import Shards, struct_of

#: What a row is about: its key goes, or the variable of that slot, or a timer of the kind of that slot.
REMOVED = -1
TAG, ORDER, EXPIRES = "__tag", "__order", "__expires"
_OWN = [StructField(TAG, IntegerType()), StructField(ORDER, LongType()), StructField(EXPIRES, LongType())]


def change_key_column(place: int) -> str:
    """The column of a key field, by its place."""
    return f"__key{place}"


def value_columns(item: StateDescriptor) -> list[StructField]:
    """The columns of a variable's values, and before them those of a map's keys."""
    key = [] if item.user_key_schema is None else struct_of(item.user_key_schema).fields
    named = [(f"__u{item.slot}_{place}", field) for place, field in enumerate(key)]
    named += [(f"__v{item.slot}_{place}", field) for place, field in enumerate(struct_of(item.schema).fields)]
    return [StructField(name, field.dataType) for name, field in named]


def change_schema(registry: StateRegistry) -> StructType:
    """Columns of the rows besides key group and key."""
    return StructType([*_OWN, *[column for item in registry for column in value_columns(item)]])


@dataclass(frozen=True)
class StateChangeTask:
    """The function handed to ``mapInArrow``.

    Args:
        uid: the stage.
        key_schema: its key columns.
        key_labels: the same as users know them.
        registry: its variables.
        key_groups: of each shard.
        base: the state as it was; None: there is none.
        is_rows: whether values are encoded by the variables' row codec; if not, keys can be removed and no more.
        overwritten: slots whose cells of keys that no row speaks of go, too.
        filesystem: where the files go.
        pool: the folder for them.
        epoch: the epoch that they count as of.
        now_ms: processing time, from which times to live run.
        local_dir: folder for working copies; None: the system's.
    """

    uid: str
    key_schema: pa.Schema
    key_labels: tuple[str, ...]
    registry: StateRegistry
    key_groups: tuple[KeyGroupRange, ...]
    base: Shards | None
    is_rows: bool
    overwritten: frozenset[int]
    filesystem: fs.FileSystem
    pool: str
    epoch: EpochNumber
    now_ms: int
    local_dir: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_begins()
        context = task_context()
        yield report_batch(self.of_shard(ShardId(context.partitionId()), context.taskAttemptId(), batches).to_bytes())

    def of_shard(self, shard: ShardId, attempt_id: int, batches: Iterator[pa.RecordBatch]) -> ShardReport:
        """Change one shard.

        Args:
            shard: its number.
            attempt_id: Spark's id of the attempt.
            batches: what becomes of its keys, in order.
        """
        name = f"e{self.epoch:08d}-s{shard:04d}-offline-{attempt_id}-{uuid.uuid4().hex[:8]}"
        writer = SstWriter(self.filesystem, self.pool, local_root(self.local_dir), name, self.epoch)
        has_base = self.base is not None and bool(self.base.manifests[shard].files)
        try:
            with self.base.opened(shard) if self.base is not None and has_base else nullcontext(None) as view:
                codec = KeyCodec(self.key_schema)
                reader = RowReader(change_schema(self.registry))
                slices = KeySlices(codec, tuple(map(change_key_column, range(len(self.key_schema)))))
                keyed = KeyedRows(batches, slices, HandedOverRows(reader.rows))
                counters = ShardCounters()
                if self.is_rows:
                    self._change(keyed, writer, view, counters)
                else:
                    self._remove(keyed, writer, view, self.key_groups[shard], counters)
            failpoint("state-change-before-publish")
            files: list[StateFile] = writer.finish()
        except BaseException:
            writer.abort()
            raise
        return ShardReport(shard, name, tuple(files), (), counters, {})

    # -- variables and timers ----------------------------------------------------------------------------------------

    def _change(self, keyed: KeyedRows, writer: SstWriter, view: ShardView | None, counters: ShardCounters) -> None:
        with BatchKeyedState(self.registry, writer, self.now_ms, None if view is None else view.local_copy) as state:
            change = _KeyChange(self, state)
            given = ((group, key, values, rows) for group, key, values, _, rows in keyed)
            for group, key, values, rows in _with_stored(given, self._overwritten_keys(view)):
                state.set_current_key(group, key)
                change.clear(self.overwritten)
                if rows is not None:
                    counters.keys += 1
                    change.apply(values, rows)
        counters.next_event_timer_ms = state.next_timer("event")
        counters.next_processing_timer_ms = state.next_timer("processing")

    def _overwritten_keys(self, view: ShardView | None) -> Iterator[tuple[int, bytes]]:
        """Stored keys that have something in the slots that are overwritten, in order."""
        if view is None or not self.overwritten:
            return
        for group in view.key_groups:
            last = None
            prefix = group_prefix(group, CELL_SECTION)
            for stored, _ in view.local_copy.scan(prefix, after_prefix(prefix)):
                end = view.key_codec.end_of(stored, 3)
                if stored[end] in self.overwritten and stored[3:end] != last:
                    last = stored[3:end]
                    yield group, last

    def spoken(self, values: tuple[Any, ...]) -> str:
        """A key in words."""
        return ", ".join(f"{label} = {value!r}" for label, value in zip(self.key_labels, values, strict=True)) or "()"

    # -- keys as a whole ---------------------------------------------------------------------------------------------

    def _remove(
        self,
        keyed: KeyedRows,
        writer: SstWriter,
        view: ShardView | None,
        groups: KeyGroupRange,
        counters: ShardCounters,
    ) -> None:
        """Remove all cells and timers of the keys, whatever the operator has in them."""
        by_group = groupby(((group, key) for group, key, *_ in keyed), itemgetter(0))
        wanted = next(by_group, None)
        pending: dict[TimerKind, int | None] = dict.fromkeys(TIMER_KINDS)
        for group in groups:
            wanted_keys: set[bytes] = set()
            if wanted is not None and wanted[0] == group:
                for _, key in wanted[1]:
                    counters.keys += 1
                    wanted_keys.add(key)
                    prefix = state_prefix(group, key)
                    for stored, _ in () if view is None else view.local_copy.scan(prefix, after_prefix(prefix)):
                        writer.delete(stored)
                wanted = next(by_group, None)
            if view is None:
                continue
            cursor = view.local_copy.cursor()
            for kind in TIMER_KINDS:
                for ts_ms, key, stored in stored_timers(cursor, kind, group):
                    if key in wanted_keys:
                        writer.delete(stored)
                        continue
                    pending[kind] = earliest(pending[kind], ts_ms)
                    if not wanted_keys:
                        break  # they come in the order of time
        counters.next_event_timer_ms, counters.next_processing_timer_ms = pending["event"], pending["processing"]


class _KeyChange:
    """What becomes of the current key."""

    def __init__(self, task: StateChangeTask, state: BatchKeyedState) -> None:
        self._task = task
        self._state = state
        schema = change_schema(task.registry)
        places = {name: place for place, name in enumerate(schema.fieldNames())}
        #: By slot what takes the rows.
        self._setters: dict[int, Callable[[tuple[Any, ...], list[Any]], None]] = {}
        for item in task.registry:
            columns = [places[column.name] for column in value_columns(item)]
            width = len(columns) - len(item.schema)
            self._setters[item.slot] = self._setter(item, columns[:width], columns[width:])
        self._all_slots = frozenset({*self._setters, *TIMER_SLOTS.values()})

    def clear(self, slots: frozenset[int]) -> None:
        """Remove what the key has in these slots."""
        for slot in slots:
            for suffix, _ in self._state.scan_cells(slot):
                self._state.delete_cell(suffix)

    def apply(self, values: tuple[Any, ...], rows: Iterator[Any]) -> None:
        """Do what the rows say, which are sorted by what they are about; ``values``: the key, for errors."""
        for tag, its in groupby(rows, itemgetter(0)):
            if tag == REMOVED:
                self.clear(self._all_slots)
            elif tag in self._setters:
                self.clear(frozenset([tag]))
                self._setters[tag](values, list(its))
            else:
                kind = next(kind for kind, slot in TIMER_SLOTS.items() if slot == tag)
                for row in its:
                    self._state.register_timer(kind, row[1])

    def _setter(
        self, item: StateDescriptor, key_at: list[int], value_at: list[int]
    ) -> Callable[[tuple[Any, ...], list[Any]], None]:
        made: Any = None  # a state object asks for the current key's struct class, so it is made when there is a key

        def taken(kind: str) -> Any:
            nonlocal made
            if made is None:
                made = getattr(self._state, f"{kind}_state")(item.name)
            return made

        def set_value(key: tuple[Any, ...], rows: list[Any]) -> None:
            if len(rows) > 1:
                raise self._doubled(item, key, f"{len(rows)} rows", "a value state holds one value a key")
            self._until(taken("value"), item, rows[0])
            taken("value").update(tuple(rows[0][at] for at in value_at))

        def set_list(key: tuple[Any, ...], rows: list[Any]) -> None:
            positions = [row[1] for row in rows]
            if len(rows) > 1 and None in positions:
                raise self._doubled(
                    item, key, f"{len(rows)} rows without a position", "their order says where an element is"
                )
            if len(set(positions)) < len(positions):
                twice = next(one for one, after in pairwise(positions) if one == after)
                raise self._doubled(item, key, f"position {twice} twice", "an element has a position of its own")
            state = taken("list")
            for row in rows:
                self._until(state, item, row)
                state.appendValue(tuple(row[at] for at in value_at))
            if item.ttl_ms is not None:
                keep_until(state, max(self._expiry(item, row) for row in rows))

        def set_map(key: tuple[Any, ...], rows: list[Any]) -> None:
            state, seen, codec = taken("map"), set(), item.user_key_codec()
            assert codec is not None, "a map has user keys"
            for row in rows:
                user_key = tuple(row[at] for at in key_at)
                if (encoded := codec.encode(user_key)) in seen:
                    raise self._doubled(item, key, f"user key {user_key!r} twice", "a map holds one value a user key")
                seen.add(encoded)
                self._until(state, item, row)
                state.updateValue(user_key, tuple(row[at] for at in value_at))

        return {"value": set_value, "list": set_list, "map": set_map}[item.kind]

    def _until(self, state: Any, item: StateDescriptor, row: Any) -> None:
        """Have the next value expire when its row says."""
        if item.ttl_ms is not None:
            expire_at(state, self._expiry(item, row))

    def _expiry(self, item: StateDescriptor, row: Any) -> int:
        assert item.ttl_ms is not None
        return self._task.now_ms + item.ttl_ms if row[2] is None else int(row[2])

    def _doubled(self, item: StateDescriptor, key: tuple[Any, ...], got: str, why: str) -> StateSchemaError:
        return StateSchemaError(
            f"{item.kind} state {item.name!r} of stage {self._task.uid!r} got {got} for key {self._task.spoken(key)}:"
            f" {why}"
        )


def _with_stored(
    given: Iterator[tuple[int, bytes, tuple[Any, ...], Any]], stored: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes, tuple[Any, ...], Any]]:
    """Keys with rows and stored keys in one order, each once; rows are read before the next entry is asked for."""
    bare = ((group, key, (), None) for group, key in stored)
    last = None
    for entry in heapq.merge(given, bare, key=itemgetter(0, 1)):
        # Of equal keys the one with rows comes first: it is of the first iterator.
        if entry[:2] != last:
            last = entry[:2]
            yield entry
