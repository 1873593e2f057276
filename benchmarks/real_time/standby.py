"""The other shard's copy in a process, which is kept warm: a shard may change its process at any epoch."""

from __future__ import annotations

import json
import os
import time

from mixedmode.state.keys.keygroups import ShardId
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.local_copy import LocalStateCache, LocalStateCopy
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from timeline import Timeline

JOB = "real-time"
_CACHE_BYTES = 64 << 20
#: What takes longer is in the timeline.
_LONG_S = 0.01


def acquire(cache: LocalStateCache, folder: str, shard: int, manifest: StateManifest) -> LocalStateCopy:
    """The local copy of a shard in this process, as a manifest says."""
    return cache.acquire(JOB, shard, manifest, fs.LocalFileSystem(), f"{folder}/pool", f"{folder}/local", _CACHE_BYTES)


def held(cache: LocalStateCache, folder: str, shard: int) -> LocalStateCopy | None:
    """A shard's copy in this process, as it is; None: there is none."""
    return cache.known(JOB, ShardId(shard), f"{folder}/pool")


class Standby:
    """A copy that follows a shard of another process through an epoch.

    Args:
        cache: of local copies of this process.
        folder: of the run.
        shard: the one that is followed.
        name: of the epoch and that shard, in names of files.
        committed: that shard's manifest before the epoch.
        log: the timeline.
    """

    def __init__(
        self, cache: LocalStateCache, folder: str, shard: int, name: str, committed: StateManifest, log: Timeline
    ) -> None:
        self._cache, self._folder, self._shard, self._name = cache, folder, shard, name
        self._committed, self._log = committed, log
        self._followed = 0
        if held(cache, folder, shard) is None:
            acquire(cache, folder, shard, committed)
            log("shard standby opened")

    def follow(self) -> None:
        """Bring the copy up to the pieces that its shard has told of; they may never be committed."""
        copy = held(self._cache, self._folder, self._shard)
        if copy is None:
            return
        began, before = time.perf_counter(), self._followed
        if not before:
            # The commit's version first; what was followed of it is there already.
            copy = acquire(self._cache, self._folder, self._shard, self._committed)
        while os.path.exists(path := f"{self._folder}/pieces/{self._name}-{self._followed}"):
            with open(path) as told:
                file = StateFile.from_json(json.load(told))
            copy = acquire(self._cache, self._folder, self._shard, copy.manifest.append([file]))
            self._followed += 1
        took = time.perf_counter() - began
        if took > _LONG_S:
            self._log("shard followed", files=self._followed - before, ms=round(took * 1e3, 1))
