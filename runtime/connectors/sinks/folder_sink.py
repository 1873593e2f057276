"""A folder of files, exactly once: whatever their format, they are shown by renames.

Tasks stage files below ``<path>/_mixedmode/<job id>`` (Spark and most readers skip folders that begin with ``_``); the
commit renames each into ``<path>``.  A rename is atomic and its target name is fixed by the transaction, so a commit
that was cut short is completed by doing it again.  Object stores have no rename: there the store copies each file,
which appears whole, and the staged ones are removed when all are shown.  In between a reader sees some of a
transaction's files, there as elsewhere.

Several jobs may write one ``path``: each stages below its own id, and no two files have one name.  Readers see the
output of all.  A job that starts anew (with a new checkpointLocation) is another job: what the earlier one had only
staged stays below its id, invisible, until somebody removes it.  What it has committed is found by its file in
``_mixedmode/writers`` (:mod:`.output_writers`); if the job was told to replace it, its first commit shows its own
files and then removes all others.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyarrow import fs

from ....errors import CheckpointError
from ....state.store.disk_syncs import sync_path
from ...catalyst.columns import column_fold
from ...storage.deletions import delete_files
from ...storage.filesystem import absolute, appears_whole, delete_quietly, exists, is_local_disk, list_files, resolve
from ...storage.folder_checks import check_folder
from ...storage.parallel import in_parallel
from ...storage.spark_paths import spark_uri
from ...support.failpoints import failpoint
from ...support.ids import JobId
from ..staging import StagedFile, staging_folder
from ..staging_folder import StagingFolder
from ..transaction import SinkTransaction
from .base import Sink
from .output_folder import OutputFolder, is_hidden
from .output_writers import ArrowFolder, OutputWriters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class FolderSink(Sink):
    """Files appear in ``path`` when their checkpoint completes: all of a transaction's, each exactly once."""

    guarantee = "exactly-once"
    fencing = "whoever takes over removes what the other has staged"
    can_replace = True
    path: str

    def __init__(self, schema: StructType, path: str) -> None:
        super().__init__(schema)
        self.path = path
        self._writers: OutputWriters | None = None

    def writers(self, spark: SparkSession) -> OutputWriters:
        if self._writers is None:
            self._writers = OutputWriters(ArrowFolder(*resolve(self.path)))
        return self._writers

    def has_rows(self, spark: SparkSession) -> bool:
        return self._folder(spark, "path").has_files()

    @property
    def staging_path(self) -> str:
        """Files are renamed when they are shown, so they are staged where they go."""
        return absolute(self.path)

    def open(self, spark: SparkSession, staging: StagingFolder, job_id: JobId) -> None:
        self._filesystem, self._target = resolve(self.path)
        super().open(spark, StagingFolder(self._filesystem, staging_folder(self._target, job_id, self.branch)), job_id)
        self._filesystem.create_dir(self._target, recursive=True)

    @property
    def shared_folder(self) -> str | None:
        return self.path

    def check_place(self, spark: SparkSession) -> None:
        check_folder("path", self.path)
        self.check_shown(spark, "path", self.partition_by)

    def check_shown(self, spark: SparkSession, option: str, layout: Sequence[str]) -> None:
        """Raise OptionError if readers of the folder that the option names would not see what is added to it.

        Args:
            spark: the session.
            option: names the folder.
            layout: what its folders are called by.
        """
        self._folder(spark, option).check_shown(layout, column_fold(spark))

    def _folder(self, spark: SparkSession, option: str) -> OutputFolder:
        return OutputFolder(spark, option, self.path, spark_uri(spark, self.path, resolve(self.path)[1]))

    def commit(self, transaction: SinkTransaction) -> None:
        if self.writer is not None and transaction.files:
            self.writers(self._spark).sign(self.writer)
        self._show_all(transaction)
        if self.replaces_now:
            assert self.replacement is not None, "it is due"
            self._remove_all_but(transaction)
            self.replacement.done()

    def _remove_all_but(self, transaction: SinkTransaction) -> None:
        """Remove what readers see of earlier jobs; the rows of the transaction are there already."""
        failpoint("sink-before-replacing")
        own = {f"{self._target}/{file.shown_as(transaction.id)}" for file in transaction.files}
        found = list_files(self._filesystem, self._target, recursive=True)
        skip = len(self._target) + 1
        old = [
            info.path
            for info in found
            if info.type == fs.FileType.File and info.path not in own and _is_seen(info.path[skip:])
        ]
        delete_files(self._filesystem, old)

    def _show_all(self, transaction: SinkTransaction) -> None:
        copies = appears_whole(self._filesystem)
        # All are checked before one is moved.
        there = (in_parallel if copies else map)(self.staging.is_staged, transaction.files)
        staged = {file.name for file, is_there in zip(transaction.files, there, strict=True) if is_there}

        def show(file: StagedFile) -> None:
            self._show(file, transaction.id, is_staged=file.name in staged, copies=copies)

        if copies:
            in_parallel(show, transaction.files)
        else:
            for file in transaction.files:
                show(file)
        if not transaction.files:
            return
        if copies:
            self.staging.discard(transaction.files)
        if staged and is_local_disk(self._filesystem):
            # The marker that says "visible" must not outlive the renames.
            for folder in sorted(
                {part for file in transaction.files for part in _and_above(file.folder)}, reverse=True
            ):
                sync_path(f"{self._target}/{folder}")
            sync_path(self._target)

    def close(self) -> None:
        # Not after a commit: tasks of later epochs may be about to stage there.
        delete_if_empty(self._filesystem, self.staging.path)

    def _show(self, file: StagedFile, number: int, *, is_staged: bool, copies: bool) -> None:
        """Bring one file to its place, or find it there."""
        source, target = f"{self.staging.path}/{file.name}", f"{self._target}/{file.shown_as(number)}"
        if is_staged:
            if file.folder:
                self._filesystem.create_dir(f"{self._target}/{file.folder}", recursive=True)
            try:
                (self._filesystem.copy_file if copies else self._filesystem.move)(source, target)
            except OSError:
                if not exists(self._filesystem, target):  # another driver commits the same checkpoint
                    raise
            failpoint("sink-between-files")
        elif not exists(self._filesystem, target):
            raise CheckpointError(
                f"transaction {number} names {file.name}, which is neither staged ({source}) nor committed "
                f"({target}): somebody removed it; restore it, or use a new checkpointLocation and output path"
            )

    def remove_older_branches(self) -> None:
        for info in list_files(self._filesystem, f"{self._target}/_mixedmode"):
            match = re.fullmatch(rf"{re.escape(self._job_id)}(?:-b(\d{{8}}))?", info.base_name)
            if match and int(match[1] or 0) < self.branch:
                with contextlib.suppress(OSError):  # somebody may still be writing there
                    delete_quietly(self._filesystem, info.path)


def _is_seen(name: str) -> bool:
    """Whether readers of an output take a file for a part of it, by its path below the folder.

    They go into folders of partitions and into no others.
    """
    *folders, file = name.split("/")
    return not is_hidden(file) and all("=" in folder and not is_hidden(folder) for folder in folders)


def _and_above(folder: str) -> list[str]:
    """A folder and those that it is in."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def delete_if_empty(filesystem: fs.FileSystem, folder: str) -> None:
    """Leave no empty staging folder behind."""
    if not filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        delete_quietly(filesystem, folder)
