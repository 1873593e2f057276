"""Hands rows from one stage to the next within an epoch: staged files that nobody else reads.

Attempts write under names of their own, as they do for a sink, and the next stage reads the winners'.  The files are
never part of a transaction: after the epoch they are gone, in a backlog that a restarted driver may take over with the
checkpoint at its end.

Invariant: a file that is missing, cut off or altered fails the epoch that reads it; it is never read as fewer rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs
from pyspark.sql.types import StructType

from ..catalyst.spark_buckets import hash_partitioned
from ..catalyst.spark_session import empty_frame
from ..spark_io.parquet import read_parquet
from ..storage.filesystem import delete_quietly, list_files
from .output_place import OutputPlace
from .staging import StagedFile, epoch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StageHandoff:
    """The rows that leave one stage for others.

    Args:
        spark: the session.
        filesystem: where the files are.
        folder: their folder, of this stage alone.
        uri: the same as Spark must be given it.
        schema: the stage's output columns, as they are handed on.
    """

    spark: SparkSession
    filesystem: fs.FileSystem
    folder: str
    uri: str
    schema: StructType

    @property
    def place(self) -> OutputPlace:
        """Where the stage's tasks put their rows."""
        return OutputPlace(self.filesystem, self.folder)

    @property
    def no_rows(self) -> DataFrame:
        """The rows of no file."""
        return empty_frame(self.spark, self.schema)

    def frame(self, files: Iterable[StagedFile]) -> DataFrame | None:
        """The rows of some files; None: there are none."""
        paths = [f"{self.uri}/{file.name}" for file in files]
        return read_parquet(self.spark, self.schema, *paths, whole=True) if paths else None

    def frame_in_shards(self, files: Iterable[StagedFile], by: Sequence[str], shards: int) -> DataFrame | None:
        """The same, and Spark knows which shard's each file is.

        Args:
            files: what was staged.
            by: the columns that decide the shard.
            shards: how many there are; a power of two.
        """
        rows = self.frame(files)
        return None if rows is None else hash_partitioned(rows, by, shards)

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Remove files that have been read."""
        for file in files:
            delete_quietly(self.filesystem, f"{self.folder}/{file.name}")

    def sweep(self, up_to_epoch: int | None = None, keep: Collection[str] = ()) -> None:
        """Remove what is left of earlier epochs, losing attempts' files included.

        Args:
            up_to_epoch: leave files of later epochs alone; None: remove all.
            keep: names of files to keep.
        """
        for info in list_files(self.filesystem, self.folder):
            old = up_to_epoch is None or epoch_of(info.base_name) <= up_to_epoch
            if old and info.base_name not in keep:
                delete_quietly(self.filesystem, info.path)
