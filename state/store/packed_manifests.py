"""The manifests of all shards on their way to tasks, each of which needs but its own.

A job's function is the same for all of its tasks, so it carries the manifests of all shards.  Here each shard's are
some bytes: pickling and reading the function copies them, and only the shard's own are ever made objects again.  What a
file's description is as bytes is remembered with it, so an epoch costs the driver no more than the files that are new;
a worker remembers the other way round what it has read.

Never on disk: both ends are the same version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, overload

import msgspec

from ..keys.keygroups import KeyGroupRange
from .files import StateFile
from .state_manifest import StateManifest

_KEPT = "_packed"


class PackedManifests(Sequence[StateManifest]):
    """Lineages by shard.

    Args:
        manifests: of every shard.
    """

    def __init__(self, manifests: Iterable[StateManifest]) -> None:
        self._packed = tuple(map(_packed, manifests))

    @classmethod
    def _of(cls, packed: tuple[bytes, ...]) -> PackedManifests:
        made = cls(())
        made._packed = packed
        return made

    def __reduce__(self) -> Any:
        return PackedManifests._of, (self._packed,)

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, shard: int) -> StateManifest: ...

    @overload
    def __getitem__(self, shard: slice) -> tuple[StateManifest, ...]: ...

    def __getitem__(self, shard: int | slice) -> StateManifest | tuple[StateManifest, ...]:
        if isinstance(shard, slice):
            return tuple(map(_unpacked, self._packed[shard]))
        return _unpacked(self._packed[shard])

    def emptied(self) -> PackedManifests:
        """As many, for a function that only needs to know how many there are."""
        return PackedManifests._of((b"",) * len(self._packed))


def _packed(manifest: StateManifest) -> bytes:
    groups = manifest.key_groups
    files = [_packed_file(file) for file in manifest.files]
    return msgspec.msgpack.encode((groups.first, groups.last, files, manifest.replaced, manifest.replaced_by))


@lru_cache(maxsize=16)
def _unpacked(packed: bytes) -> StateManifest:
    first, last, files, replaced, replaced_by = msgspec.msgpack.decode(packed)
    return StateManifest(KeyGroupRange(first, last), tuple(map(_unpacked_file, files)), tuple(replaced), replaced_by)


def _packed_file(file: StateFile) -> bytes:
    known: bytes | None = file.__dict__.get(_KEPT)
    if known is None:
        digest = bytes.fromhex(file.sha256)
        clip = None if file.clip is None else (file.clip.first, file.clip.last)
        described = (file.name, file.format, file.size_bytes, digest, file.entries, file.tombstones, file.first_key)
        known = msgspec.msgpack.encode((*described, file.last_key, file.first_epoch, file.last_epoch, clip))
        # Not one of its fields: copies do not have it, and are not equal or unequal by it.
        file.__dict__[_KEPT] = known
    return known


@lru_cache(maxsize=4096)
def _unpacked_file(packed: bytes) -> StateFile:
    (name, kind, size, digest, entries, tombstones, first_key, last_key, first_epoch, last_epoch, clip) = (
        msgspec.msgpack.decode(packed)
    )
    kept = None if clip is None else KeyGroupRange(*clip)
    return StateFile(
        name, kind, size, digest.hex(), entries, tombstones, first_key, last_key, first_epoch, last_epoch, kept
    )
