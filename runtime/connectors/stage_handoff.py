"""Hands rows from one stage to the next within an epoch: staged files that nobody else reads.

Attempts write under names of their own, as they do for a sink, and the next stage reads the winners'.  The files are
never part of a transaction: after the epoch they are gone, in a backlog that a restarted driver may take over with the
checkpoint at its end.

Invariant: a file that is missing, cut off or altered fails the epoch that reads it; it is never read as fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..catalyst.spark_buckets import hash_partitioned
from ..catalyst.spark_session import empty_frame
from ..storage.filesystem import delete_quietly
from .output_place import OutputPlace
from .staging import StagedFile
from .staging_folder import StagingFolder


@dataclass(frozen=True)
class StageHandoff:
    """The rows that leave one stage for others.

    Args:
        spark: the session.
        staging: where the files are: a folder of this stage alone.
        schema: the stage's output columns, as they are handed on.
    """

    spark: SparkSession
    staging: StagingFolder
    schema: StructType

    @property
    def place(self) -> OutputPlace:
        """Where the stage's tasks put their rows."""
        return OutputPlace(self.staging.filesystem, self.staging.path)

    @property
    def no_rows(self) -> DataFrame:
        """The rows of no file."""
        return empty_frame(self.spark, self.schema)

    def frame(self, files: Iterable[StagedFile]) -> DataFrame | None:
        """The rows of some files; None: there are none."""
        staged = list(files)
        return self.staging.frame(self.spark, self.schema, staged, whole=True) if staged else None

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
            delete_quietly(self.staging.filesystem, f"{self.staging.path}/{file.name}")
