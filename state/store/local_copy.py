"""A shard's local copy: the local database that embodies a manifest, and the process's cache of local copies.

Invariants: between two calls of :meth:`LocalStateCache.acquire` or :meth:`LocalStateCache.follow` a local copy does
not change, and it holds exactly what its manifest says; only the cache writes to it, and only by bringing in durable
files. These are committed, or, in Real-Time Mode, an epoch's that may be committed.  If it is not, the manifest is no
beginning of any committed one, as names of files are an attempt's own, and the copy is built anew.  A local copy is
private to its process and lives on local disk without a write-ahead log: if the process dies, the next one builds a new
local copy from the pool. If anything goes wrong while files are brought in, or a read finds damage, the local copy is
thrown away, not repaired. Its tables may be the pool's own files (hard links), so a read that finds damage looks there
for the file to blame.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import resource
import shutil
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from pyarrow import fs

from ...errors import CheckpointError, CorruptStateError, MixedModeError
from ..keys.keygroups import KeyGroupRange, ShardId
from .cursor import LocalStateCursor
from .database import LocalDatabase, StateBackend
from .files import StateFile
from .folder_owner import own_folder, remove_folders_of_dead_processes
from .local_folder import make_private
from .pool import StatePool
from .restore import Restorer
from .rocksdb import RocksDBBackend
from .state_manifest import StateManifest

logger = logging.getLogger(__name__)

#: The backend that tasks read state with.
BACKEND: Callable[[int], StateBackend] = RocksDBBackend
#: A process that may have few files open, such as 256 on macOS, holds fewer copies.
_LEAST_OPEN, _MOST_OPEN = 8, 32
_FILES_OF_A_COPY = 32


class LocalStateCopy:
    """Point and range reads of one shard's committed state.

    Args:
        database: open, and private to it.
        folder: on the local disk, goes with it.
        restorer: brings files in.
        manifest: what the database holds.
    """

    def __init__(self, database: LocalDatabase, folder: str, restorer: Restorer, manifest: StateManifest) -> None:
        self._database: LocalDatabase | None = database
        self._explained = database.explained
        self.folder = folder
        self.restorer = restorer
        #: What it holds; only whoever writes to the database changes it.
        self.manifest = manifest
        #: True once a read found damage: the cache will not hand it out again.
        self.damaged = False

    @property
    def database(self) -> LocalDatabase:
        """The open database; only the cache and compaction may do more than read."""
        if self._database is None:
            raise CheckpointError(f"the local copy at {self.folder} is closed")
        return self._database

    def get(self, key: bytes) -> bytes | None:
        """The value of a stored key."""
        try:
            return self.database.get(key)
        except Exception as error:
            raise self._failed(error, "read from") from error

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of many stored keys; fastest when they are sorted and close together."""
        if not keys:
            return []
        try:
            return self.database.multi_get(keys)
        except Exception as error:
            raise self._failed(error, "read from") from error

    def scan(self, lower: bytes, upper: bytes, check: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``lower <= key < upper`` in order, as of the first ``next``; never silently short."""
        try:
            yield from self.database.scan(lower, upper, check)
        except CorruptStateError as error:
            raise self._damaged(error) from error

    @property
    def key_groups(self) -> KeyGroupRange:
        """The shard's."""
        return self.manifest.key_groups

    def cursor(self) -> LocalStateCursor:
        """A cursor for many short range reads in ascending order."""
        return LocalStateCursor(self.database, self._failed)

    @property
    def memory_bytes(self) -> int:
        """Bytes that its tables hold in memory, without the blocks of the process's cache; 0 once it is closed."""
        database = self._database
        return 0 if database is None else database.memory_bytes

    def close(self) -> None:
        """Release the database and delete its folder.  Cursors and scans that are still alive keep the files open.

        It is given up whatever happens here, and nobody who gives one up can do anything about its disk: a folder that
        is gone, or cannot be written to any more, is no error.
        """
        database, self._database = self._database, None
        if database is not None:
            try:
                database.close()
            except Exception as error:
                logger.warning("the working copy at %s was abandoned, but not closed: %s", self.folder, error)
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_lost(self) -> bool:
        """True if its files are gone: what is open may still be read, but nothing can be brought in."""
        return self._database is None or self._database.is_lost

    def _failed(self, error: Exception, doing: str) -> Exception:
        if isinstance(error, CheckpointError):
            return error
        wrapped = self._explained(error, f"{doing} the local copy at {self.folder}")
        return self._damaged(wrapped) if isinstance(wrapped, CorruptStateError) else wrapped

    def _damaged(self, error: CorruptStateError) -> CorruptStateError:
        """What is to be said about damage that a read has found."""
        self.damaged = True
        try:
            for file in self.manifest.files:
                self.restorer.pool.check(file)
        except CorruptStateError as blamed:
            return blamed
        return CorruptStateError(f"{error}. The checkpoint's files are whole, this local copy is not: start again")


def most_open() -> int:
    """How many local copies a process holds open: of files it may have open, a copy takes a dozen and sometimes more.

    With fewer than the process has shards, each epoch would build copies anew, since shards come in turn.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MOST_OPEN
    return max(_LEAST_OPEN, min(limit // _FILES_OF_A_COPY, _MOST_OPEN))


class LocalStateCache:
    """The local copies that a process holds open, least recently used first; only for the process that made it.

    Args:
        max_open: how many; None: :func:`most_open`.
    """

    def __init__(self, max_open: int | None = None) -> None:
        self._max_open = most_open() if max_open is None else max_open
        self._held: OrderedDict[tuple[str, int, str], LocalStateCopy] = OrderedDict()
        self._backend: StateBackend | None = None
        self._roots: set[str] = set()
        self._lock = threading.Lock()
        #: Acquisitions that found the local copy current, that had to apply files to it, and that built a new one.
        self.hits = 0
        self.applies = 0
        self.rebuilds = 0
        #: Files brought in so far, by either way.
        self.files_brought = 0
        self.bytes_brought = 0
        self.evictions = 0

    def acquire(
        self,
        job: str,
        shard: ShardId,
        manifest: StateManifest,
        filesystem: fs.FileSystem,
        pool: str,
        local_root: str,
        cache_bytes: int,
    ) -> LocalStateCopy:
        """This process's local copy of a shard, holding exactly what ``manifest`` says.

        If the local copy embodies a beginning of the manifest (or what compaction has replaced it by), only the new
        files are applied; otherwise it is built anew.  It stays valid until the next call for the same shard, or until
        ``max_open`` other shards have been acquired.
        """
        with self._lock:
            slot = (job, shard, pool)
            held = self._held.pop(slot, None)
            if held is not None:
                held = self._brought_on(held, manifest)
            if held is None:
                held = self._built(job, shard, manifest, StatePool(filesystem, pool), local_root, cache_bytes)
            self._held[slot] = held
            while len(self._held) > self._max_open:
                _, oldest = self._held.popitem(last=False)
                self.evictions += 1
                oldest.close()
            return held

    def follow(self, job: str, shard: ShardId, manifest: StateManifest, pool: str) -> bool:
        """Bring a copy that this process holds up to a manifest, if only files are to be appended to it.

        Returns:
            Whether the process has such a copy now; False: it has none, or one that would have to be built anew.
        """
        with self._lock:
            slot = (job, shard, pool)
            held = self._held.get(slot)
            if held is None or held.damaged or held.is_lost or missing_files(held.manifest, manifest) is None:
                return False
            del self._held[slot]  # it is closed if this fails
            self._brought_on(held, manifest)
            self._held[slot] = held
            return True

    def known(self, job: str, shard: ShardId, pool: str) -> LocalStateCopy | None:
        """The local copy of a shard as it is, which may be behind; None: this process has none."""
        with self._lock:
            return self._held.get((job, shard, pool))

    def memory_of(self, local_copy: LocalStateCopy) -> int:
        """Bytes of memory that a local copy takes: its own, and its share of the blocks that all copies have cached."""
        with self._lock:
            cached = 0 if self._backend is None else self._backend.cached_bytes
            return local_copy.memory_bytes + cached // max(1, len(self._held))

    def retire(self, job: str, pool: str, shards: int) -> None:
        """Close what is held of shards that a stage does not have any more.

        Args:
            job: the job.
            pool: the stage's pool.
            shards: how many shards it has.
        """
        with self._lock:
            gone = [slot for slot in self._held if (slot[0], slot[2]) == (job, pool) and slot[1] >= shards]
            for slot in gone:
                self._held.pop(slot).close()

    def _brought_on(self, held: LocalStateCopy, manifest: StateManifest) -> LocalStateCopy | None:
        unusable = held.damaged or held.is_lost
        missing = None if unusable else missing_files(held.manifest, manifest)
        if missing is None:
            held.close()
            return None
        if missing:
            try:
                held.restorer.bring(held.database, manifest.key_groups, missing, at_hand=True)
            except BaseException:
                held.close()
                raise
            self.applies += 1
            self.files_brought += len(missing)
            self.bytes_brought += sum(file.size_bytes for file in missing)
        else:
            self.hits += 1
        held.manifest = manifest
        return held

    def _built(
        self, job: str, shard: ShardId, manifest: StateManifest, pool: StatePool, local_root: str, cache_bytes: int
    ) -> LocalStateCopy:
        root = self._root(local_root)
        if self._backend is None:
            self._backend = BACKEND(cache_bytes)
        self._backend.resize(cache_bytes)
        short = hashlib.sha256(job.encode()).hexdigest()[:12]
        folder = f"{root}/{short}-{shard}-{uuid.uuid4().hex[:8]}"
        os.mkdir(folder, 0o700)
        restorer = Restorer(pool, folder, self._backend)
        local_copy = LocalStateCopy(self._backend.open(f"{folder}/db"), folder, restorer, manifest)
        try:
            restorer.restore(local_copy.database, manifest)
        except BaseException:
            local_copy.close()
            raise
        self.rebuilds += 1
        self.files_brought += len(manifest.files)
        self.bytes_brought += manifest.size_bytes
        return local_copy

    def _root(self, local_root: str) -> str:
        folder = own_folder(local_root)
        os.makedirs(local_root, exist_ok=True)
        make_private(folder)  # each time: it may have been taken from under us
        if folder not in self._roots:
            self._roots.add(folder)
            remove_folders_of_dead_processes(local_root)
        return folder

    def close(self) -> None:
        """Close all local copies and delete their folders."""
        with self._lock:
            while self._held:
                _, held = self._held.popitem()
                held.close()
            for root in self._roots:
                # Only when empty: another cache of this process may use it too.
                with contextlib.suppress(OSError):
                    os.rmdir(root)
            self._roots.clear()


def missing_files(embodied: StateManifest, wanted: StateManifest) -> Sequence[StateFile] | None:
    """The files that lead from one manifest to the other by appending; None if appending does not."""
    missing = _appended(embodied, wanted)
    # A clipped file came with re-dealing: what it holds beyond its clip must not overlay what is there.
    return None if missing is None or any(file.clip is not None for file in missing) else missing


def _appended(embodied: StateManifest, wanted: StateManifest) -> Sequence[StateFile] | None:
    if embodied.key_groups != wanted.key_groups:
        return None
    count = len(embodied.files)
    if embodied.files == wanted.files[:count]:
        return wanted.files[count:]
    if wanted.replaced and count >= len(wanted.replaced):
        later = wanted.files[wanted.replaced_by :]
        appended = count - len(wanted.replaced)
        names = tuple(file.name for file in embodied.files)
        if names == (*wanted.replaced, *(file.name for file in later[:appended])) and appended <= len(later):
            return later[appended:]
    return None


_process_cache: tuple[int, LocalStateCache] | None = None
#: Caches inherited through fork.  Never touched, never freed: closing a parent's RocksDB in a child can hang.
_inherited: list[LocalStateCache] = []
_process_lock = threading.Lock()


def process_cache() -> LocalStateCache:
    """The cache of this process; a forked child gets one of its own."""
    global _process_cache
    with _process_lock:
        if _process_cache is None or _process_cache[0] != os.getpid():
            if _process_cache is not None:
                _inherited.append(_process_cache[1])
            _process_cache = (os.getpid(), LocalStateCache())
        return _process_cache[1]


@atexit.register
def _close_at_exit() -> None:
    if _process_cache is not None and _process_cache[0] == os.getpid():
        with contextlib.suppress(MixedModeError, OSError):
            _process_cache[1].close()
