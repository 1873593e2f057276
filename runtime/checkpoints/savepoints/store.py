"""Reads a savepoint: one folder that needs nothing outside of it and may be moved, renamed or copied.

::

    _unfinished              whose it is, until it is finished: written first, removed last
    _metadata                written last and atomically: without it the folder is no savepoint
    plan.json                the job's execution plan
    state/<operator uid>/…   the state files of one checkpoint
    spark/sources/…          the live source's own log of what it has read
    first-position/…         where the live source begins, if the checkpoint has no position of it yet

Every file is named by its path below the folder, with size and checksum.  The checkpoint in ``_metadata`` has no
pending output: the job that took the savepoint has shown it.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from pyarrow import fs

from ....errors import CheckpointError, CheckpointMismatchError, CorruptStateError
from ...storage.checksummed import Envelope
from ...storage.filesystem import exists, list_files, read_bytes, resolve
from ...support.frozen import Frozen
from ...support.ids import CheckpointId
from .. import metadata
from ..branch import Branch
from ..format import Format
from ..metadata import CheckpointMetadata
from ..store import CheckpointStore

FORMAT = Format(version=1)
#: Version of the format that this code writes; the checkpoint inside has its own.
SAVEPOINT_VERSION = FORMAT.version
MANIFEST = "_metadata"
PLAN = "plan.json"
CLAIM = "_unfinished"
_KIND = "savepoint"


class SavepointFile(Frozen):
    """One file, by its path below the savepoint's folder."""

    path: str
    size_bytes: int
    sha256: str


class Savepoint(Frozen):
    """The content of a savepoint's ``_metadata``."""

    #: Unique; stays the same wherever the folder goes.
    savepoint_id: str
    created_ms: int
    #: What the last stage's operator said of itself, for the comparison with the job that is restored.
    operator: dict[str, Any]
    #: The same of all stages, in topological order; empty: there was the one.
    stages: tuple[dict[str, Any], ...] = ()
    max_parallelism: int
    #: Format version of ``checkpoint``.
    checkpoint_format: int = 1
    checkpoint: CheckpointMetadata
    files: tuple[SavepointFile, ...]

    def described(self, uid: str) -> dict[str, Any]:
        """What a stage's operator said of itself; the last one's, where only that was recorded."""
        return next((stage for stage in self.stages if stage.get("uid") == uid), self.operator)

    def to_bytes(self) -> bytes:
        """The file's content: kind, version, checksum of the body, body."""
        return Envelope(SAVEPOINT_VERSION, self.model_dump_json(), _KIND).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Savepoint:
        """Parse and verify; ``where`` names the file in errors."""
        try:
            envelope = Envelope.from_bytes(data)
            if envelope.kind is None:
                raise ValueError("it does not say what it is")
        except ValueError as error:
            raise CorruptStateError(f"{where} is damaged, or not that of a savepoint: {error}") from error
        if envelope.kind != _KIND:
            raise CheckpointMismatchError(f"{where} is of kind {envelope.kind!r}, not that of a savepoint")
        version = FORMAT.check(envelope.version, where)
        if not envelope.is_whole:
            raise CorruptStateError(f"{where} does not match its checksum: the file was altered or cut off")
        try:
            content = json.loads(FORMAT.upgrade(envelope.body, version))
            inner = metadata.FORMAT.check(content.get("checkpoint_format", 1), f"the checkpoint in {where}")
            checkpoint = json.loads(metadata.FORMAT.upgrade(json.dumps(content["checkpoint"]), inner))
            content.update(checkpoint=checkpoint, checkpoint_format=metadata.FORMAT.version)
            return cls.model_validate_json(json.dumps(content))
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # a ValidationError is a ValueError
            raise CorruptStateError(f"{where} cannot be understood: {error}") from error


class SavepointStore(CheckpointStore):
    """A savepoint as a store with one checkpoint, which is complete, visible and never changes.

    Raises:
        CheckpointError: there is no savepoint at ``location``.
        CorruptStateError: its ``_metadata`` is damaged.
    """

    def __init__(self, filesystem: fs.FileSystem, location: str) -> None:
        super().__init__(filesystem, location, Branch())
        self.root = location
        path = f"{location}/{MANIFEST}"
        if not exists(filesystem, path):
            raise CheckpointError(
                f"{location!r} is not a savepoint: {_why_not(filesystem, location)}",
                code="MIXEDMODE_CHECKPOINT_NOT_FOUND",
            )
        self.savepoint = Savepoint.from_bytes(read_bytes(filesystem, path), path)

    def ids(self) -> list[CheckpointId]:
        return [self.savepoint.checkpoint.checkpoint_id]

    def known_ids(self) -> list[CheckpointId]:
        return self.ids()

    def read(self, checkpoint_id: CheckpointId) -> CheckpointMetadata:
        if checkpoint_id not in self.ids():
            raise CheckpointError(f"savepoint {self.location!r} holds checkpoint {self.ids()[0]}, not {checkpoint_id}")
        return self.savepoint.checkpoint

    def kind_of(self, metadata: CheckpointMetadata) -> str:
        return _KIND

    def is_committed(self, checkpoint_id: CheckpointId) -> bool:
        return True

    def latest(self) -> CheckpointMetadata:
        try:
            self.check_files(self.savepoint.checkpoint, checksums=False)
        except CorruptStateError as error:
            raise self.with_alternative(error, self.ids()[0]) from error
        return self.savepoint.checkpoint

    def with_alternative(self, error: CorruptStateError, damaged_id: CheckpointId) -> CorruptStateError:
        return CorruptStateError(f"{error}. Savepoint {self.location!r} is damaged: use a copy of it, or another one")

    def write(self, metadata: CheckpointMetadata) -> NoReturn:
        raise CheckpointError(f"savepoint {self.location!r} never changes; checkpoints need a folder of their own")


def open_savepoint(path: str) -> SavepointStore:
    """The savepoint in a folder, local or on any filesystem that a URI names."""
    return SavepointStore(*resolve(path))


def open_store(filesystem: fs.FileSystem, location: str) -> CheckpointStore:
    """The store of a savepoint or of a checkpointLocation, whichever ``location`` is."""
    if exists(filesystem, f"{location}/{MANIFEST}"):
        return SavepointStore(filesystem, location)
    return CheckpointStore(filesystem, location)


def _why_not(filesystem: fs.FileSystem, location: str) -> str:
    if not exists(filesystem, location):
        return "it does not exist"
    names = {info.base_name for info in list_files(filesystem, location)}
    if "mixedmode" in names:
        return "it is a checkpointLocation; give it as option checkpointLocation"
    if names & {"state", PLAN, CLAIM}:
        return (
            f"it has no {MANIFEST}, so it was never finished. If the job was to stop with it, starting the job again on"
            " its checkpointLocation finishes it, and so does `mixedmode savepoint LOCATION --complete`, unless they"
            " know nothing of it"
        )
    return f"it has no {MANIFEST}"
