"""Rows that came too late, handed out instead of dropped: Parquet files, exactly once.

The operator drops late rows and counts them, as it does without this.  Only when an epoch has counted some, its input
is read once more for them: micro-batches without late rows, which are nearly all, pay nothing, and an aggregate need
not carry single rows through its shuffle.  The rows are staged before the epoch is applied, belong to the transaction
of the next checkpoint and become visible with it.

Limit: an input that gives other rows when it is read again (``rand()``) may hand out other rows than were dropped.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from ...errors import PlanError
from ...state.pool import sync_path
from ..platform.columns import quoted
from ..platform.filesystem import delete_quietly, list_files, resolve
from ..platform.folder_checks import check_folder
from ..platform.parquet import read_parquet
from ..platform.spark_formats import parquet_holds
from ..platform.spark_paths import spark_uri
from .sinks.files import ParquetSink
from .staging import StagedFile
from .transaction import SinkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


logger = logging.getLogger(__name__)

#: The watermark that a late row was behind.
WATERMARK_COLUMN = "_watermark"


class LateRows:
    """The side output of one job.

    Args:
        path: folder of the files.
        input_schema: columns of a row, as the user knows them.
    """

    def __init__(self, path: str, input_schema: StructType) -> None:
        if WATERMARK_COLUMN in input_schema.fieldNames():
            raise PlanError(
                f"column {WATERMARK_COLUMN} has the name under which late rows get their watermark; rename it, or unset"
                " pipeline.late-data.path"
            )
        self.path = path
        self.schema = StructType([*input_schema.fields, StructField(WATERMARK_COLUMN, TimestampType())])
        self._sink = ParquetSink(self.schema, path)

    @property
    def branch(self) -> int:
        """As :attr:`Sink.branch`."""
        return self._sink.branch

    @branch.setter
    def branch(self, number: int) -> None:
        self._sink.branch = number

    def remove_older_branches(self) -> None:
        """As :meth:`Sink.remove_older_branches`."""
        self._sink.remove_older_branches()

    def check(self, spark: SparkSession) -> None:
        """Raise PlanError for a column that Parquet cannot hold: the first late row would be the end of the query."""
        for field in self.schema.fields:
            if not parquet_holds(spark, field.dataType):
                raise PlanError(
                    f"column {field.name} is of type {field.dataType.simpleString()}, which Parquet cannot hold; drop"
                    " or cast it, or unset pipeline.late-data.path"
                )

    def check_place(self, spark: SparkSession) -> None:
        """Raise OptionError if there is no writing to the folder, or no reader would see what is written."""
        check_folder("pipeline.late-data.path", self.path)
        self._sink.check_shown(spark, "pipeline.late-data.path")

    def open(self, spark: SparkSession, filesystem: fs.FileSystem, staging: str, job_id: str) -> None:
        """Prepare for a run; the arguments are those of a sink."""
        self._sink.open(spark, filesystem, staging, job_id)

    def stage(self, rows: DataFrame, epoch: int, watermark_ms: int, expected: int) -> list[StagedFile]:
        """Write the late rows among an epoch's input; nobody sees them yet.

        Args:
            rows: those of the input that are late.
            epoch: its number.
            watermark_ms: what they were behind.
            expected: how many rows were dropped as late.
        """
        columns = [F.col(quoted(name)) for name in self.schema.fieldNames()[:-1]]
        watermark = F.timestamp_millis(F.lit(watermark_ms)).alias(WATERMARK_COLUMN)
        filesystem, folder = self._sink.staging
        name = f"e{epoch:08d}-late-{uuid.uuid4().hex[:8]}"
        written = f"{folder}/{name}"
        rows.select(*columns, watermark).repartition(1).write.parquet(spark_uri(rows.sparkSession, self.path, written))
        staged: list[StagedFile] = []
        for info in sorted(list_files(filesystem, written), key=lambda info: info.path):
            if not info.base_name.endswith(".parquet"):
                continue
            flat = f"{name}-{len(staged)}.parquet"
            with filesystem.open_input_file(info.path) as file:
                count = pq.read_metadata(file).num_rows
            filesystem.move(info.path, f"{folder}/{flat}")
            if isinstance(filesystem, fs.LocalFileSystem):
                sync_path(f"{folder}/{flat}")
            staged.append(StagedFile(flat, count, info.size))
        delete_quietly(filesystem, written)
        found = sum(file.rows for file in staged)
        if found != expected:
            logger.warning(
                "epoch %s dropped %s late rows, but its input gave %s when it was read again for them: it is not the"
                " same each time it is read",
                epoch,
                expected,
                found,
            )
        return staged

    def commit(self, transaction: SinkTransaction | None) -> None:
        """Make the late rows of a complete checkpoint visible; idempotent."""
        if transaction is not None:
            self._sink.commit(transaction)

    def sweep(self, up_to_epoch: int | None = None) -> None:
        """Remove what was staged and is in no checkpoint; called when nothing is pending."""
        self._sink.sweep(up_to_epoch)

    def committed(self, spark: SparkSession) -> DataFrame:
        """All late rows of complete checkpoints so far."""
        return read_parquet(spark, self.schema, spark_uri(spark, self.path, resolve(self.path)[1]))
