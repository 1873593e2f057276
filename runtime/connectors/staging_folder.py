"""The folder in which attempts of tasks stage their files, until the driver shows, reads or removes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs

from ...errors import CheckpointError
from ..spark_io.parquet import read_parquet
from ..storage.deletions import delete_files
from ..storage.filesystem import delete_quietly, list_files
from ..support.ids import CheckpointId, EpochNumber
from .staging import StagedFile, checkpoint_of_marker, epoch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class StagingFolder:
    """Staged files, by their names below one folder."""

    filesystem: fs.FileSystem
    path: str
    #: The folder as Spark must be given it; None: it is a local one.
    uri: str | None = None

    def is_staged(self, file: StagedFile) -> bool:
        """True if the file is there, whole.

        Raises:
            CheckpointError: it is there with another size (cut off by a power failure, say); nobody must see it.
        """
        info = self.filesystem.get_file_info(f"{self.path}/{file.name}")
        if info.type == fs.FileType.NotFound:
            return False
        if info.size != file.size_bytes:
            raise CheckpointError(
                f"staged output {info.path} has {info.size} bytes, its checkpoint recorded {file.size_bytes}: it was "
                "altered or cut off; restore it, or go back to an older checkpoint"
            )
        return True

    def frame(
        self, spark: SparkSession, schema: StructType, files: Iterable[StagedFile], *, whole: bool = False
    ) -> DataFrame:
        """The rows of staged files as a batch DataFrame.

        Args:
            spark: the session.
            schema: the columns of the files.
            files: their names; at least one.
            whole: a file that is missing or cut off fails the job that reads it.
        """
        uri = f"file://{self.path}" if self.uri is None else self.uri
        return read_parquet(spark, schema, *(f"{uri}/{file.name}" for file in files), whole=whole)

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Remove staged files."""
        delete_files(self.filesystem, [f"{self.path}/{file.name}" for file in files])

    def sweep(
        self,
        up_to_epoch: EpochNumber | None = None,
        up_to_checkpoint: CheckpointId | None = None,
        keep: Collection[str] = (),
    ) -> int:
        """Remove what losing attempts staged, and markers of what was handed over; returns how many files.

        Args:
            up_to_epoch: the last one of a complete checkpoint; files of later epochs are left alone, as a later
                checkpoint may be handed over meanwhile.  None: remove all (no task of the job runs, and nothing is
                pending).
            up_to_checkpoint: that checkpoint; markers of later ones are left alone.
            keep: names of files to keep.
        """
        removed = 0
        for info in list_files(self.filesystem, self.path):
            marked = checkpoint_of_marker(info.base_name)
            if up_to_epoch is None:
                old = True
            elif marked is None:
                old = epoch_of(info.base_name) <= up_to_epoch
            else:
                old = up_to_checkpoint is not None and marked <= up_to_checkpoint
            if old and info.base_name not in keep:
                delete_quietly(self.filesystem, info.path)
                removed += 1
        return removed
