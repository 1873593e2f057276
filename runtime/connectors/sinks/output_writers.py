"""Records which jobs have written to an output: a small file for each, in a folder that no reader looks into.

A job that is started with a new ``checkpointLocation`` knows nothing of what it has written before.  By these files it
finds out, before it adds all of it once more.  They are a versioned contract: ``<output>/_mixedmode/writers/_<job
id>.json``, written right before the job's first rows are shown.  Names begin with ``_``, as Spark looks into any folder
that a glob of its user names; those of older versions do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyarrow import fs

from ...storage.filesystem import delete_quietly, exists, list_files, read_bytes, write_atomically
from ...storage.spark_paths import HadoopPlace
from ...support.ids import JobId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Below the folder of the output; readers skip names that begin with ``_``.
FOLDER = "_mixedmode/writers"
#: Version of the files that this code writes.
_VERSION = 1
#: So many jobs have hardly written to one output; more are not looked at.
_MOST = 10_000


@dataclass(frozen=True)
class WritingJob:
    """A job that writes to an output."""

    job_id: JobId
    #: Its queryName; None: it has none.
    name: str | None
    #: The operators of its stages, as ``job.json`` has them.
    stages: tuple[Mapping[str, Any], ...]
    #: What it reads: topics, folders, tables.
    sources: tuple[str, ...]
    checkpoint_location: str

    def to_json(self) -> str:
        """The content of the job's file."""
        body = {
            "format_version": _VERSION,
            "job_id": self.job_id,
            "name": self.name,
            "stages": [dict(stage) for stage in self.stages],
            "sources": list(self.sources),
            "checkpoint_location": self.checkpoint_location,
        }
        return json.dumps(body, indent=1, default=str)

    @classmethod
    def from_json(cls, text: str) -> WritingJob | None:
        """The job that a file is of; None: it is damaged, or of a newer version."""
        try:
            body = json.loads(text)
            if body["format_version"] > _VERSION:
                return None
            return cls(
                body["job_id"],
                body["name"],
                tuple(body["stages"]),
                tuple(body["sources"]),
                body["checkpoint_location"],
            )
        except (ValueError, KeyError, TypeError):
            return None


class WritersFolder(Protocol):
    """The folder of the files, on whatever reaches it."""

    def texts(self) -> list[str]:
        """The content of all files; empty: the folder does not exist."""

    def has(self, name: str) -> bool:
        """Whether a file of that name is there."""

    def write(self, name: str, text: str) -> None:
        """Write a file."""


@dataclass(frozen=True)
class ArrowFolder:
    """The folder on a filesystem of pyarrow's.

    Args:
        filesystem: of the output.
        output: the output's folder.
    """

    filesystem: fs.FileSystem
    output: str

    def texts(self) -> list[str]:
        """As :meth:`WritersFolder.texts`."""
        found = list_files(self.filesystem, f"{self.output}/{FOLDER}")
        named = [info.path for info in found if info.base_name.endswith(".json")]
        return [read_bytes(self.filesystem, path).decode(errors="replace") for path in named[:_MOST]]

    def has(self, name: str) -> bool:
        """As :meth:`WritersFolder.has`."""
        return exists(self.filesystem, f"{self.output}/{FOLDER}/{name}")

    def write(self, name: str, text: str) -> None:
        """As :meth:`WritersFolder.write`."""
        self.filesystem.create_dir(f"{self.output}/{FOLDER}", recursive=True)
        write_atomically(self.filesystem, f"{self.output}/{FOLDER}/{name}", text.encode())


@dataclass(frozen=True)
class HadoopFolder:
    """The folder as Spark reaches it; errors are those of :class:`HadoopPlace`.

    Args:
        spark: the session.
        output: path or URI of the output.
        options: those of the write.
    """

    spark: SparkSession
    output: str
    options: Mapping[str, str]

    def _place(self, name: str = "") -> HadoopPlace:
        return HadoopPlace(self.spark, f"{self.output.rstrip('/')}/{FOLDER}/{name}".rstrip("/"), self.options)

    def texts(self) -> list[str]:
        """As :meth:`WritersFolder.texts`."""
        if not self._place().exists():
            return []
        names = [name for name, is_file in self._place().entries(_MOST) if is_file and name.endswith(".json")]
        return [self._place(name).read_text() for name in names]

    def has(self, name: str) -> bool:
        """As :meth:`WritersFolder.has`."""
        return self._place(name).exists()

    def write(self, name: str, text: str) -> None:
        """As :meth:`WritersFolder.write`."""
        self._place(name).write_text(text)


class OutputWriters:
    """The jobs that have written to one output.

    Args:
        folder: where their files are.
    """

    def __init__(self, folder: WritersFolder) -> None:
        self._folder = folder
        self._signed = False

    def others(self, job_id: JobId | None) -> list[WritingJob]:
        """All but the job of this id."""
        known = [WritingJob.from_json(text) for text in self._folder.texts()]
        return [writer for writer in known if writer is not None and writer.job_id != job_id]

    def sign(self, writer: WritingJob) -> None:
        """Remember that the job writes, from now on."""
        if self._signed:
            return
        name = f"{writer.job_id}.json"
        if not self._folder.has(name) and not self._folder.has(f"_{name}"):
            self._folder.write(f"_{name}", writer.to_json())
        self._signed = True

    def sign_again(self, writer: WritingJob) -> None:
        """As :meth:`sign`, for a folder that was removed with all that was in it."""
        self._signed = False
        self.sign(writer)


class Replacement:
    """Whether the job's first commit takes away what the output holds: a file in the checkpoint location says so.

    It is written before the job has a checkpoint and removed when the rows of before are gone, so a commit that was cut
    short takes away the rest when it is done again, and no later one takes anything away.

    Args:
        filesystem: of the checkpoint location.
        path: the file.
    """

    def __init__(self, filesystem: fs.FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._due: bool | None = None

    def begin(self, *, replaces: bool) -> None:
        """The job begins: say whether its first commit takes away what is there."""
        if replaces:
            self._filesystem.create_dir(self._path.rpartition("/")[0], recursive=True)
            write_atomically(self._filesystem, self._path, b"")
        else:
            delete_quietly(self._filesystem, self._path)
        self._due = replaces

    @property
    def is_due(self) -> bool:
        """Whether rows of before are to go with the next commit."""
        if self._due is None:
            self._due = exists(self._filesystem, self._path)
        return self._due

    def done(self) -> None:
        """They are gone."""
        delete_quietly(self._filesystem, self._path)
        self._due = False
