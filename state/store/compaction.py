"""Compaction: replaces files of a manifest by fewer ones with the same content.

``logs``  merges the change logs at the end of the manifest; tombstones stay, the base is not touched.
``full``  rewrites the whole state as tables without tombstones, and drops what is dead: expired values and the cells of
          removed variables.

:func:`rewrite` is a full one that changes the values on the way.

:meth:`~.state_manifest.StateManifest.needs_compaction` says when either is due, so that the bytes rewritten follow the
changes: a log entry is copied a logarithmic number of times, the base once per half its size in changes.  Like an
epoch's attempt, a compaction only writes new files; old ones stay for the checkpoints that name them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from pyarrow import fs

from ..keys.key_space import CELL_SECTION, has_expired, parse_state_key
from ..keys.keygroups import KeyGroupRange
from ..keys.keys import KeyCodec
from ..keys.registry import StateRegistry
from .files import SortedStateWriter, StateFile, with_epochs
from .local_copy import LocalStateCopy
from .log import LogWriter, read_log
from .pool import StatePool
from .sst import SstWriter
from .state_manifest import CompactionKind, StateManifest

#: True for a stored entry that nobody can see any more.
IsDead = Callable[[bytes, bytes], bool]
#: The values that some cells have from now on, given their values so far; it can be pickled.
StateRewrite = Callable[[Sequence[bytes]], Sequence[bytes]]

_CHUNK_ENTRIES = 4096


def compact(
    manifest: StateManifest,
    local_copy: LocalStateCopy,
    filesystem: fs.FileSystem,
    pool: str,
    local_dir: str,
    name: str,
    *,
    kind: CompactionKind | None = None,
    is_dead: IsDead | None = None,
) -> StateManifest:
    """The manifest after the compaction that is due (or the given ``kind``); the same manifest if none is.

    ``local_copy`` must embody ``manifest``; ``name`` must be as unique as an attempt's.  ``is_dead``
    (:func:`dead_entries`) is asked only by a full compaction.
    """
    kind = kind or manifest.needs_compaction()
    if kind is None or not manifest.files:
        return manifest
    if kind == "full":
        taken, writer = len(manifest.files), SstWriter(filesystem, pool, local_dir, name, 0)
        entries: Iterator[tuple[bytes, bytes | None]] = _live_entries(local_copy, manifest.key_groups, is_dead)
        return _rewritten(manifest, taken, writer, entries)
    taken = manifest.trailing_logs
    if taken < 2:
        return manifest
    merged = _merged_logs(StatePool(filesystem, pool), manifest.files[-taken:])
    return _rewritten(manifest, taken, LogWriter(filesystem, pool, local_dir, name, 0), merged)


def rewrite(
    manifest: StateManifest,
    local_copy: LocalStateCopy,
    filesystem: fs.FileSystem,
    pool: str,
    local_dir: str,
    name: str,
    change: StateRewrite,
) -> StateManifest:
    """The manifest with other values in all cells; arguments as of :func:`compact`.

    It stands for no other file: a local copy of the state before must not be taken for one of the state after.
    """
    if not manifest.files:
        return manifest
    writer = SstWriter(filesystem, pool, local_dir, name, 0)
    rewritten = _rewritten(
        manifest, len(manifest.files), writer, _changed_entries(local_copy, manifest.key_groups, change)
    )
    return replace(rewritten, replaced=(), replaced_by=0)


def dead_entries(registry: StateRegistry, key_codec: KeyCodec, now_ms: int) -> IsDead:
    """Tells expired values and cells of removed variables."""
    expiring = {descriptor.slot for descriptor in registry if descriptor.ttl_ms is not None}
    retired = set(registry.retired_slots.values())

    def is_dead(stored: bytes, value: bytes) -> bool:
        if stored[2] != CELL_SECTION:
            return False
        slot = parse_state_key(stored, key_codec)[2]
        return slot in retired or (slot in expiring and has_expired(value, now_ms))

    return is_dead if expiring or retired else lambda stored, value: False


def _rewritten(
    manifest: StateManifest,
    taken: int,
    writer: SstWriter | LogWriter,
    entries: Iterable[tuple[bytes, bytes | None]],
) -> StateManifest:
    """The manifest with its last ``taken`` files replaced by what ``writer`` makes of ``entries``."""
    try:
        _write_all(writer, entries)
        written = writer.finish()
    except BaseException:
        writer.abort()
        raise
    old = manifest.files[len(manifest.files) - taken :]
    new = with_epochs(written, min(file.first_epoch for file in old), max(file.last_epoch for file in old))
    files = (*manifest.files[: len(manifest.files) - taken], *new)
    return replace(manifest, files=files, replaced=tuple(file.name for file in manifest.files), replaced_by=len(files))


def _write_all(writer: SortedStateWriter, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for key, value in entries:
        keys.append(key)
        values.append(value)
        if len(keys) >= _CHUNK_ENTRIES:
            writer.put_many(keys, values)
            keys, values = [], []
    if keys:
        writer.put_many(keys, values)


def _live_entries(
    local_copy: LocalStateCopy, key_groups: KeyGroupRange, is_dead: IsDead | None
) -> Iterator[tuple[bytes, bytes]]:
    entries = local_copy.scan(key_groups.lower_bound, key_groups.upper_bound)
    return entries if is_dead is None else (entry for entry in entries if not is_dead(*entry))


def _changed_entries(
    local_copy: LocalStateCopy, key_groups: KeyGroupRange, change: StateRewrite
) -> Iterator[tuple[bytes, bytes | None]]:
    entries = local_copy.scan(key_groups.lower_bound, key_groups.upper_bound)
    while chunk := list(islice(entries, _CHUNK_ENTRIES)):
        cells = [value for key, value in chunk if key[2] == CELL_SECTION]
        changed = iter(change(cells) if cells else ())
        yield from ((key, next(changed) if key[2] == CELL_SECTION else value) for key, value in chunk)


def _merged_logs(pool: StatePool, files: Sequence[StateFile]) -> Iterator[tuple[bytes, bytes | None]]:
    """All entries of some logs in key order, the newest of each key."""

    def entries(age: int, file: StateFile) -> Iterator[tuple[bytes, int, bytes | None]]:
        for batch in read_log(pool, file):
            for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield key, age, value

    # Equal keys come newest first; ages differ, so values are never compared.
    streams = [entries(len(files) - i, file) for i, file in enumerate(files)]
    last: bytes | None = None
    for key, _, value in heapq.merge(*streams):
        if key != last:
            last = key
            yield key, value
