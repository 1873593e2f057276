"""Drivers that can be paused before every single access to a filesystem, and that filesystem, in memory.

The drivers are threads that run what real ones run: lease, branches, store, sink.  Only what a job computes is a model:
each epoch counts one further, keeps the number as state and hands it out as a row.  Whoever tests them decides at each
access which of them goes on; time passes with each access, and by sleeping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from mixedmode.runtime.checkpoints.branch import Branch
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease, LeaseClock
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.sinks.parquet import ParquetSink
from mixedmode.runtime.connectors.staged_form import StagedForm
from mixedmode.runtime.driver.checkpoint.output_commit import commit_transaction, pending_output
from mixedmode.runtime.driver.recovery.takeover import begin_branch, open_outputs, remove_older_branches
from mixedmode.state.store.files import StateFile
from pyarrow import fs
from pyspark.sql.types import StructType

EXPIRY_MS = 60
UID = "stage"
IDENTITY = JobIdentity("job", ({"uid": UID},), 128)
LOCATION, OUT = "loc", "out"

MakeMetadata = Callable[..., CheckpointMetadata]

#: The disk as the driver of this thread sees it.
here = threading.local()


class GivenUp(BaseException):
    """Ends a driver that is not wanted any more."""


class Disk(fs.FileSystemHandler):
    """Files in memory.

    Args:
        pausing: called before each access.
        renames: True: files are moved in one step, and can be put if absent; False: an object store without either.
    """

    def __init__(self, files: dict[str, bytes], pausing: Callable[[str], None], *, renames: bool) -> None:
        self.files = files
        self.pausing = pausing
        self.appears_whole = not renames
        if renames:
            self.put_if_absent = self._put_if_absent

    def _put_if_absent(self, path: str, data: bytes) -> bool:
        self.pausing(f"put {path}")
        if path in self.files:
            return False
        self.files[path] = data
        return True

    def get_type_name(self) -> str:
        return "disk"

    def normalize_path(self, path: str) -> str:
        return path

    def _info(self, path: str) -> fs.FileInfo:
        if path in self.files:
            return fs.FileInfo(path, fs.FileType.File, size=len(self.files[path]))
        kind = (
            fs.FileType.Directory if any(name.startswith(f"{path}/") for name in self.files) else fs.FileType.NotFound
        )
        return fs.FileInfo(path, kind)

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        self.pausing(f"look {paths[0]}")
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.pausing(f"list {selector.base_dir}")
        below = f"{selector.base_dir}/"
        inner = [name[len(below) :] for name in self.files if name.startswith(below)]
        names = inner if selector.recursive else sorted({name.partition("/")[0] for name in inner})
        return [self._info(below + name) for name in names]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Folders are where files are."""

    def delete_dir(self, path: str) -> None:
        for name in sorted(self.files):
            if name.startswith(f"{path}/"):
                self.pausing(f"delete {name}")
                self.files.pop(name, None)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.delete_dir(path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.pausing(f"delete {path}")
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(path)

    def move(self, src: str, dest: str) -> None:
        if self.appears_whole:
            self.copy_file(src, dest)
            self.delete_file(src)
            return
        self.pausing(f"move {src}")
        if src not in self.files:
            raise FileNotFoundError(src)
        self.files[dest] = self.files.pop(src)

    def copy_file(self, src: str, dest: str) -> None:
        self.pausing(f"copy {src}")
        if src not in self.files:
            raise FileNotFoundError(src)
        self.files[dest] = self.files[src]

    def open_input_stream(self, path: str) -> Any:
        self.pausing(f"read {path}")
        if path not in self.files:
            raise FileNotFoundError(path)
        return pa.PythonFile(pa.BufferReader(self.files[path]), mode="r")

    open_input_file = open_input_stream

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Writer(self, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


class _Writer:
    """An open file; without renames it appears when it is closed."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path, self._data = disk, path, b""
        self.closed = False

    def write(self, data: bytes) -> int:
        self._data += bytes(data)
        if not self._disk.appears_whole:
            self._disk.pausing(f"write {self._path}")
            self._disk.files[self._path] = self._data
        return len(data)

    def tell(self) -> int:
        return len(self._data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._disk.pausing(f"write {self._path}")
            self._disk.files[self._path] = self._data


@dataclass
class Driver:
    """One driver, as a thread that goes on when it is told to."""

    name: str
    world: World
    epochs: int
    retained: int
    #: What it is about to do; None: it has ended.
    about: str | None = "begin"
    wakes_ms: int = 0
    error: BaseException | None = None
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _there: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    # -- for whoever decides -----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let it do what it is about to do, up to its next access."""
        self.world.now_ms = max(self.world.now_ms + 1, self.wakes_ms)
        self._go.release()
        self._there.acquire()

    def give_up(self) -> None:
        """End it where it is."""
        self.world.unwanted.add(self.name)
        while self.about is not None:
            self.step()

    # -- the driver --------------------------------------------------------------------------------------------------

    def _pause(self, about: str, wakes_ms: int = 0) -> None:
        self.about, self.wakes_ms = about, wakes_ms
        self._there.release()
        self._go.acquire()
        if self.name in self.world.unwanted:
            raise GivenUp

    def _main(self) -> None:
        self._go.acquire()
        try:
            if self.name not in self.world.unwanted:
                self._drive()
        except BaseException as error:
            self.error = error
        self.about = None
        self._there.release()

    def _drive(self) -> None:
        world = self.world
        disk = fs.PyFileSystem(Disk(world.files, self._pause, renames=world.renames))
        clock = LeaseClock(lambda: world.now_ms, lambda ms: self._pause("sleep", world.now_ms + round(ms)))
        store = CheckpointStore(disk, LOCATION)
        lease = DriverLease(disk, store.root, self.name, expiry_ms=EXPIRY_MS, clock=clock)
        lease._lives = lambda claim: None  # type: ignore[method-assign]  # all are on different hosts
        store.guard = lease.check
        here.disk = disk
        sink = ParquetSink(StructType(), OUT)
        job: Any = SimpleNamespace(
            sink=sink, spark=None, checkpoint_location=None, late_rows=None, staged_form=StagedForm(columns=())
        )
        claim = lease.take(store.view, heartbeat=False)
        world.claimed.append((claim.generation, self.name))
        store.work_in(Branch(claim.branch))
        begin_branch(job, store, IDENTITY, claim)
        open_outputs(job, store, IDENTITY)
        last = store.latest()
        if last is not None:
            commit_transaction(job, store, last, pending_output(job, store, last))
        store.guard()
        sink.staging.sweep()
        named = [] if last is None else [shard.load() for shard in last.operators[0].shards]
        store.retention.collect_garbage(UID, named)
        remove_older_branches(job, store)
        for _ in range(self.epochs):
            last = self._epoch(job, store, lease, last)
        lease.release()

    def _epoch(
        self, job: Any, store: CheckpointStore, lease: DriverLease, last: CheckpointMetadata | None
    ) -> CheckpointMetadata:
        world, number = self.world, 1 if last is None else last.epoch + 1
        name = f"e{number:08d}-{self.name}"
        pool, (disk, staging) = store.pool(UID), (job.sink.staging.filesystem, job.sink.staging.path)
        for path in (f"{pool}/{name}", f"{staging}/{name}"):
            with disk.open_output_stream(path) as stream:
                stream.write(b"%d" % number)
        size = len(b"%d" % number)
        before = () if last is None else last.operators[0].shards[0].load().files
        key = b"\x00\x00\x01key"
        state = StateFile(name, "log", size, "", 1, 0, key, key, number, number)
        metadata = world.make_metadata(
            (0 if last is None else last.checkpoint_id) + 1,
            *before[-1:],  # what came before that has been compacted away
            state,
            epoch=number,
            spark=None,
            transaction={
                "id": number,
                "files": [{"name": name, "rows": 1, "size_bytes": size}],
                "form": job.staged_form,
            },
        )
        lease.check(look=True)
        store.write(metadata)
        commit_transaction(job, store, metadata)
        store.retention.subsume(self.retained)
        store.guard()
        job.sink.staging.sweep(number, number)
        store.retention.collect_garbage(UID, [metadata.operators[0].shards[0].load()], up_to_epoch=number)
        return metadata


@dataclass
class World:
    """The disk that the drivers share, and the time."""

    make_metadata: MakeMetadata
    renames: bool
    files: dict[str, bytes] = field(default_factory=dict)
    now_ms: int = 0
    #: Drivers that are to end where they are.
    unwanted: set[str] = field(default_factory=set)
    claimed: list[tuple[int, str]] = field(default_factory=list)

    @property
    def store(self) -> CheckpointStore:
        """The location, for a reader that nobody pauses."""
        disk = Disk(self.files, lambda about: None, renames=self.renames)
        return CheckpointStore(fs.PyFileSystem(disk), LOCATION)

    def check_valid_checkpoints(self) -> None:
        """Raise if the checkpoint that the next start would take lacks a file."""
        self.store.latest()

    @property
    def shown(self) -> list[int]:
        """What a reader of the output sees."""
        return sorted(int(data) for name, data in self.files.items() if name.startswith(f"{OUT}/part-"))
