"""A shard's state as an ordered list of immutable files; where two files hold a key, the later one wins.

The choice that the whole recovery story rests on: an epoch's task attempt never changes anything shared, nor the local
copy it reads.  It reads the state after the previous epoch and writes new files of its own; the driver picks the
winning attempt of each shard and appends its files to the manifest; the next epoch's task brings its local copy up to
that. So a retry, a speculative duplicate, a zombie or a lost executor can leave garbage files, never wrong state.
In Real-Time Mode copies are brought up to an epoch's files before it is committed; if it is not, what they embody is no
beginning of what is wanted, and they are built anew.

Invariants: a manifest only grows at its end, or is replaced as a whole by compaction or re-dealing; within the shard's
key groups, applying its files in order gives the state; files may reach beyond the range (``StateFile.clip``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..keys.keygroups import KeyGroupRange
from .files import StateFile

#: Overlays up to this size never ask for a full rewrite: tiny states would be rewritten all the time.
_FULL_MIN_BYTES = 4 * 1024 * 1024
#: Full rewrite when the overlays outgrow this share of the base.
_FULL_SHARE = 0.5
#: Logs at the end of the manifest before they are merged.
_LOGS_MAX = 16
#: Overlay table files before a full rewrite, whatever their size.
_OVERLAYS_MAX = 256

CompactionKind = Literal["logs", "full"]


@dataclass(frozen=True)
class StateManifest:
    """The committed state of one shard."""

    key_groups: KeyGroupRange
    files: tuple[StateFile, ...] = ()
    #: Names of files whose content is that of the first ``replaced_by`` files: what the last compaction took in.
    #: A local copy that embodies them need not be rebuilt.
    replaced: tuple[str, ...] = ()
    replaced_by: int = 0

    def append(self, files: Sequence[StateFile]) -> StateManifest:
        """The manifest after an epoch that wrote ``files``."""
        return replace(self, files=(*self.files, *files))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def base_files(self) -> int:
        """How many leading files are the base: tables that follow each other without overlap or clip."""
        last = b""
        for count, file in enumerate(self.files):
            if file.format != "sst" or file.clip is not None or file.first_key <= last:
                return count
            last = file.last_key
        return len(self.files)

    @property
    def trailing_logs(self) -> int:
        """How many files at the end of the manifest are logs worth merging.

        Each older log that is taken in is at most twice the size of all newer ones together, so that an entry is
        copied only a logarithmic number of times.
        """
        count, newer_bytes = 0, 0
        for file in reversed(self.files):
            if file.format != "log" or file.clip is not None or (count >= 2 and file.size_bytes > 2 * newer_bytes):
                break
            count += 1
            newer_bytes += file.size_bytes
        return count

    def needs_compaction(self) -> CompactionKind | None:
        """What compaction is due, if any; its cost is amortised over the changes that made it due."""
        base = self.base_files
        base_bytes = sum(file.size_bytes for file in self.files[:base])
        overlay_bytes = self.size_bytes - base_bytes
        if overlay_bytes > max(_FULL_MIN_BYTES, _FULL_SHARE * base_bytes):
            return "full"
        if sum(1 for file in self.files[base:] if file.format == "sst") >= _OVERLAYS_MAX:
            return "full"
        return "logs" if self.trailing_logs >= _LOGS_MAX else None

    def to_json(self) -> dict[str, Any]:
        """JSON-able form for checkpoint metadata."""
        return {
            "key_groups": [self.key_groups.first, self.key_groups.last],
            "files": [file.to_json() for file in self.files],
            "replaced": list(self.replaced),
            "replaced_by": self.replaced_by,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> StateManifest:
        """Inverse of :meth:`to_json`."""
        return cls(
            KeyGroupRange(*body["key_groups"]),
            tuple(StateFile.from_json(file) for file in body["files"]),
            tuple(body.get("replaced", ())),
            body.get("replaced_by", 0),
        )


def redeal(manifests: Sequence[StateManifest], ranges: Sequence[KeyGroupRange]) -> list[StateManifest]:
    """Deal the state of some shards to shards with other ranges; no file is read or copied.

    A file that reaches beyond the range of the shard it came from, or of the one it goes to, gets a clip: what lies
    outside may be stale.
    """
    return [_manifest_of(manifests, wanted) for wanted in ranges]


def _manifest_of(manifests: Sequence[StateManifest], wanted: KeyGroupRange) -> StateManifest:
    for manifest in manifests:
        if manifest.key_groups == wanted:
            return manifest
    files = []
    for manifest in manifests:
        for file in manifest.files:
            region = _intersection(manifest.key_groups, wanted)
            if region is not None and file.clip is not None:
                region = _intersection(region, file.clip)
            if region is None or not region.overlaps(file.key_groups):
                continue
            files.append(replace(file, clip=None if region.covers(file.key_groups) else region))
    return StateManifest(wanted, tuple(files))


def _intersection(one: KeyGroupRange, other: KeyGroupRange) -> KeyGroupRange | None:
    first, last = max(one.first, other.first), min(one.last, other.last)
    return KeyGroupRange(first, last) if first <= last else None
