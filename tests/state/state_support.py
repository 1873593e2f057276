"""What the tests of state/ share: a workspace with a pool and a local folder, and plain builders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow as pa
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.local_copy import LocalStateCache, LocalStateCopy
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs

CACHE_BYTES = 8 << 20
NUMBER = pa.schema([("n", pa.int64())])
WHOLE = KeyGroupRange(0, 127)


@dataclass
class Workspace:
    """A pool and a local folder below a temporary path, with writers of unique names."""

    root: Path
    filesystem: fs.FileSystem = field(default_factory=fs.LocalFileSystem)
    cache: LocalStateCache = field(default_factory=LocalStateCache)
    _names: count[int] = field(default_factory=count)

    @property
    def pool(self) -> str:
        """Path of the pool on the workspace's filesystem."""
        return str(self.root / "pool")

    @property
    def local(self) -> str:
        """Local folder, made on first use."""
        folder = self.root / "local"
        folder.mkdir(exist_ok=True)
        return str(folder)

    def sst(self, epoch: int = 1, max_file_bytes: int = 64 << 20) -> SstWriter:
        """A new table writer."""
        return SstWriter(self.filesystem, self.pool, self.local, f"e{epoch}-{next(self._names)}", epoch, max_file_bytes)

    def log(self, epoch: int = 1) -> LogWriter:
        """A new log writer."""
        return LogWriter(self.filesystem, self.pool, self.local, f"e{epoch}-{next(self._names)}", epoch)

    def written(self, writer: SstWriter | LogWriter, entries: Iterable[tuple[bytes, bytes | None]]) -> list[StateFile]:
        """Files of a writer after these entries."""
        for key, value in entries:
            if value is None:
                writer.delete(key)
            else:
                writer.put(key, value)
        return writer.finish()

    def local_copy(self, manifest: StateManifest, shard: int = 0, job: str = "job") -> LocalStateCopy:
        """The workspace cache's local copy of a manifest."""
        return self.cache.acquire(job, shard, manifest, self.filesystem, self.pool, self.local, CACHE_BYTES)


def contents(local_copy: LocalStateCopy) -> dict[bytes, bytes]:
    """Everything that a local copy holds, in range or not."""
    return dict(local_copy.scan(b"", b"\xff\xff\xff"))


def stored(key_group: int, rest: bytes | int) -> bytes:
    """A stored key of some key group."""
    tail = rest if isinstance(rest, bytes) else rest.to_bytes(4, "big")
    return key_group.to_bytes(2, "big") + b"\x01" + tail
