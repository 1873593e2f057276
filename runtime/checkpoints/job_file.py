"""``job.json``: whose a checkpoint location is, written once, before anything else of the job."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyarrow import fs

from ...errors import CheckpointError, CheckpointMismatchError, CorruptStateError
from ..storage.checksummed import is_as_stamped, stamp
from ..storage.exclusive import put_if_absent
from ..storage.filesystem import exists, list_files, read_bytes
from .branch import Branch, branches_in
from .identity import IDENTITY_VERSION, JobIdentity


@dataclass(frozen=True)
class JobFile:
    """The file of one checkpoint location."""

    filesystem: fs.FileSystem
    location: str

    @property
    def _root(self) -> str:
        return f"{self.location}/mixedmode"

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self._root}/job.json"

    def read(self) -> JobIdentity | None:
        """The job that the location belongs to; None: it is empty.

        Raises:
            CheckpointMismatchError: the location is something else's, or of a newer version.
            CorruptStateError: the file is damaged, or missing where a job has run.
        """
        if not exists(self.filesystem, self.path):
            self._refuse_foreign()
            self._refuse_orphaned()
            return None
        try:
            body = json.loads(read_bytes(self.filesystem, self.path))
            version = body["format_version"]
            if version > IDENTITY_VERSION:
                raise CheckpointMismatchError(
                    f"{self.path} has format version {version}; this version of mixedmode reads up to"
                    f" {IDENTITY_VERSION} [upgrade:U26]",
                    code="MIXEDMODE_FORMAT_NEWER",
                )
            if not is_as_stamped(body):
                raise ValueError("it was altered: it does not match its checksum")
            return JobIdentity.from_json(body)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError(
                f"{self.path} is damaged ({error}); restore it, or use another checkpointLocation"
            ) from error

    def claim(self, identity: JobIdentity) -> None:
        """Write the identity of a new job.

        Raises:
            CheckpointError: somebody else has.
        """
        self.filesystem.create_dir(self._root, recursive=True)
        body = stamp(identity.to_json())
        if not put_if_absent(self.filesystem, self.path, json.dumps(body, indent=1).encode()):
            raise CheckpointError(
                f"{self.path} exists already: another driver claims the same checkpointLocation",
                code="MIXEDMODE_LOCATION_IN_USE",
            )

    def _refuse_foreign(self) -> None:
        names = {info.base_name for info in list_files(self.filesystem, self.location)}
        if "_metadata" in names:
            raise CheckpointMismatchError(
                f"checkpointLocation {self.location!r} is a savepoint, or a single checkpoint; give a new folder, and "
                "the savepoint as option execution.savepoint.path"
            )
        if names & {"offsets", "commits", "metadata"}:
            raise CheckpointMismatchError(
                f"checkpointLocation {self.location!r} holds the checkpoint of a stock Structured Streaming query; "
                "use a folder of its own for this job"
            )

    def _refuse_orphaned(self) -> None:
        """A location with checkpoints or a query log belongs to a job: the file is written before either."""
        branches = [Branch(number).home(self._root) for number in (0, *branches_in(self.filesystem, self._root))]
        held_by_jobs = [f"{home}/{name}" for home in branches for name in ("checkpoints", "state")]
        for held in (*held_by_jobs, f"{self.location}/spark/offsets"):
            if list_files(self.filesystem, held):
                raise CorruptStateError(
                    f"{self.path} is missing, but {held} is there: a job has run here. Restore {self.path}, or use"
                    " another checkpointLocation and another output path"
                )
