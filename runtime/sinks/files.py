"""Parquet files, exactly once.

Tasks stage files below ``<path>/_mixedmode/<job id>`` (Spark and most readers skip folders that begin with ``_``); the
commit renames each into ``<path>``.  A rename is atomic and its target name is fixed by the transaction, so a commit
that was cut short is completed by doing it again.

Several jobs may write one ``path``: each stages below its own id, and no two files have one name.  Readers see the
output of all.  A job that starts anew (with a new checkpointLocation) is another job: what the earlier one has
committed stays, and what it had only staged stays below its id, invisible, until somebody removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow import fs

from ...errors import CheckpointError
from ...state.pool import sync_path
from ..checkpoints.metadata import SinkTransaction
from ..failpoints import failpoint
from ..filesystem import delete_quietly, exists, resolve
from ..folders import check_folder
from .base import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class ParquetSink(Sink):
    """Files appear in ``path`` when their checkpoint completes: all of a transaction's, each exactly once."""

    name = "parquet"
    guarantee = "exactly-once"

    def __init__(self, schema: StructType, path: str) -> None:
        super().__init__(schema)
        self.path = path

    def open(self, spark: SparkSession, filesystem: fs.FileSystem, staging: str, job_id: str) -> None:
        target_filesystem, self._target = resolve(self.path)
        super().open(spark, target_filesystem, f"{self._target}/_mixedmode/{job_id}", job_id)
        target_filesystem.create_dir(self._target, recursive=True)

    def check_place(self, spark: SparkSession) -> None:
        check_folder("path", self.path)

    def describe(self) -> str:
        return f"parquet files in {self.path}: exactly-once, visible when a checkpoint completes"

    def commit(self, transaction: SinkTransaction) -> None:
        # All are checked before one is moved.
        staged = {file.name for file in transaction.files if self.is_staged(file)}
        for file in transaction.files:
            source = f"{self._staging}/{file.name}"
            target = f"{self._target}/part-{transaction.id:08d}-{file.name}"
            if file.name in staged:
                self._filesystem.move(source, target)
                failpoint("sink-between-files")
            elif not exists(self._filesystem, target):
                raise CheckpointError(
                    f"transaction {transaction.id} names {file.name}, which is neither staged ({source}) nor committed "
                    f"({target}): somebody removed it; restore it, or use a new checkpointLocation and output path"
                )
        if not transaction.files:
            return
        if staged and isinstance(self._filesystem, fs.LocalFileSystem):
            sync_path(self._target)  # the marker that says "visible" must not outlive the renames
        delete_if_empty(self._filesystem, self._staging)


def delete_if_empty(filesystem: fs.FileSystem, folder: str) -> None:
    """Leave no empty staging folder behind."""
    if not filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        delete_quietly(filesystem, folder)
