"""Rows that came too late, handed out instead of dropped: Parquet files, exactly once.

The operator drops late rows and counts them, as it does without this.  Only when an epoch has counted some, its input
is read once more for them: micro-batches without late rows, which are nearly all, pay nothing, and an aggregate need
not carry single rows through its shuffle.  The rows are staged before the epoch is applied, belong to the transaction
of the next checkpoint and become visible with it.

Layout, which is a contract: a job of one stage has its files in the folder itself.  The stages of a job take rows of
other columns, so of several stages each has those that were late for it in ``stage=<uid>``.

Limit: an input that gives other rows when it is read again (``rand()``) may hand out other rows than were dropped.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from ...errors import PlanError
from ...state.store.disk_syncs import sync_path
from ..catalyst.columns import column_fold, quoted
from ..catalyst.spark_session import empty_frame
from ..catalyst.struct_fields import repeated_field
from ..spark_io.parquet import read_parquet
from ..spark_io.spark_formats import parquet_holds
from ..storage.filesystem import delete_quietly, exists, is_local_disk, list_files, resolve
from ..storage.folder_checks import check_folder
from ..storage.spark_paths import spark_uri
from ..support.ids import EpochNumber
from .sinks.parquet import ParquetSink
from .staging import StagedFile
from .transaction import SinkTransaction

logger = logging.getLogger(__name__)

#: The option that asks for them.
OPTION = "pipeline.late-data.path"
#: What the folders of several stages are called by.
STAGE_FOLDER = "stage"
#: The watermark that a late row was behind.
WATERMARK_COLUMN = "_watermark"


class LateRows:
    """The side output of one job.

    Args:
        path: folder of the files.
        input_schemas: by stage the columns of a row that it takes, as the user knows them.
    """

    def __init__(self, path: str, input_schemas: Mapping[str, StructType]) -> None:
        self.path = path
        #: Columns of the late rows of each stage.
        self.schemas: dict[str, StructType] = {}
        self._is_divided = len(input_schemas) > 1
        for uid, schema in input_schemas.items():
            self._check_names(uid, schema)
            self.schemas[uid] = StructType([*schema.fields, StructField(WATERMARK_COLUMN, TimestampType())])
        #: Shows the files, and no rows.
        self.sink = ParquetSink(StructType(), path)

    def _check_names(self, uid: str, schema: StructType) -> None:
        """Raise PlanError for a column with a name of ours; readers see them in the files, and in the folders' names.

        In any case, as Spark's readers take names.
        """
        taken = {WATERMARK_COLUMN: "under which late rows get their watermark"}
        if self._is_divided:
            taken[STAGE_FOLDER] = f"of the folders that late rows of several stages are in ({STAGE_FOLDER}=<uid>)"
        for name in schema.fieldNames():
            if name.lower() in taken:
                raise PlanError(
                    f"column {name}{self._of(uid)} has the name {taken[name.lower()]}; rename it, or unset {OPTION}"
                )

    def _of(self, uid: str) -> str:
        """Which stage's it is, for errors."""
        return f", which stage {uid} takes," if self._is_divided else ""

    def _folder(self, uid: str) -> str:
        """Where a stage's files are shown, below the folder of all."""
        return f"{STAGE_FOLDER}={uid}" if self._is_divided else ""

    def check(self, spark: SparkSession) -> None:
        """Raise PlanError for a column that Parquet cannot hold: the first late row would be the end of the query."""
        for uid, schema in self.schemas.items():
            for field in schema.fields:
                if (repeated := repeated_field(field.dataType, column_fold(spark))) is not None:
                    raise PlanError(
                        f"column {field.name}{self._of(uid)} has structs with two fields named {repeated}, which"
                        f" Parquet cannot hold; rename one, or unset {OPTION}",
                        code="MIXEDMODE_OUTPUT_MISFIT",
                    )
                if not parquet_holds(spark, field.dataType):
                    raise PlanError(
                        f"column {field.name}{self._of(uid)} is of type {field.dataType.simpleString()}, which Parquet"
                        f" cannot hold; drop or cast it, or unset {OPTION}",
                        code="MIXEDMODE_OUTPUT_MISFIT",
                    )

    def check_place(self, spark: SparkSession) -> None:
        """Raise OptionError if there is no writing to the folder, or no reader would see what is written."""
        check_folder(OPTION, self.path)
        self.sink.check_shown(spark, OPTION, (STAGE_FOLDER,) if self._is_divided else ())

    def stage(
        self, uid: str, rows: DataFrame, epoch: EpochNumber, watermark_ms: int, expected: int
    ) -> list[StagedFile]:
        """Write the late rows among a stage's input of an epoch; nobody sees them yet.

        Args:
            uid: the stage.
            rows: those of the input that are late.
            epoch: its number.
            watermark_ms: what they were behind.
            expected: how many rows were dropped as late.
        """
        columns = [F.col(quoted(name)) for name in self.schemas[uid].fieldNames()[:-1]]
        watermark = F.timestamp_millis(F.lit(watermark_ms)).alias(WATERMARK_COLUMN)
        filesystem, folder = self.sink.staging.filesystem, self.sink.staging.path
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
            if is_local_disk(filesystem):
                sync_path(f"{folder}/{flat}")
            staged.append(StagedFile(flat, count, info.size, folder=self._folder(uid)))
        delete_quietly(filesystem, written)
        found = sum(file.rows for file in staged)
        if found != expected:
            logger.warning(
                "epoch %s dropped %s late rows, but a second read of its input gave %s: the input is not the same"
                " each time",
                epoch,
                expected,
                found,
            )
        return staged

    def commit(self, transaction: SinkTransaction | None) -> None:
        """Make the late rows of a complete checkpoint visible; idempotent."""
        if transaction is not None:
            self.sink.commit(transaction)

    def committed(self, spark: SparkSession, uid: str) -> DataFrame:
        """All rows of complete checkpoints so far that were late for a stage."""
        filesystem, folder = resolve(self.path)
        if self._is_divided:
            folder = f"{folder}/{self._folder(uid)}"
            if not exists(filesystem, folder):
                return empty_frame(spark, self.schemas[uid])
        return read_parquet(spark, self.schemas[uid], spark_uri(spark, self.path, folder))
