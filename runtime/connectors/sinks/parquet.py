"""Parquet files, exactly once: tasks stage them as they are to be shown, laid out and compressed as the user said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, TimestampType

from ....errors import OptionError
from ...catalyst.columns import column_fold
from ...support.ids import JobId
from ..output_place import OutputPlace
from ..parquet_form import CODEC_CONF, ParquetForm
from ..partition_paths import PARTITION_TYPES, PartitionPaths, session_zone
from ..staging_folder import StagingFolder
from .file_formats import check_partition_columns
from .folder_sink import FolderSink

if TYPE_CHECKING:
    from .sink_spec import SinkSpec


class ParquetSink(FolderSink):
    """A folder of Parquet files."""

    name = "parquet"

    def __init__(
        self, schema: StructType, path: str, partition_by: Sequence[str] = (), form: ParquetForm | None = None
    ) -> None:
        super().__init__(schema, path)
        self.form = form or ParquetForm()
        self.partition_by = tuple(partition_by)
        self._partitions: PartitionPaths | None = None

    @classmethod
    def of(cls, spec: SinkSpec) -> ParquetSink:
        """The sink that a user asked for; raises OptionError without a path."""
        if not spec.path:
            raise OptionError(
                'format "parquet" needs a path: .option("path", …) or .start(path)', code="MIXEDMODE_LOCATION_MISSING"
            )
        return cls(spec.schema, spec.path, spec.partition_by, ParquetForm.of(spec.options, spec.schema))

    @property
    def output(self) -> OutputPlace:
        """Where tasks put their output, and how it is laid out."""
        return OutputPlace(self.staging.filesystem, self.staging.path, self._partitions, self.form)

    def check(self, spark: SparkSession) -> None:
        self._partitions = partition_paths(spark, self.schema, self.partition_by)
        self.form = self.form.in_session(spark.conf.get(CODEC_CONF, None))
        super().check(spark)

    def open(self, spark: SparkSession, staging: StagingFolder, job_id: JobId) -> None:
        if self.partition_by and self._partitions is None:
            self._partitions = partition_paths(spark, self.schema, self.partition_by)
        super().open(spark, staging, job_id)

    def describe(self) -> str:
        by = f" by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"parquet files in {self.path}{by}: exactly-once, visible when a checkpoint completes"


def partition_paths(spark: SparkSession, schema: StructType, partition_by: Sequence[str]) -> PartitionPaths | None:
    """How rows of the schema are laid out; None: they are not.

    Raises:
        OptionError: a column does not exist, or cannot be a folder.
    """
    if not partition_by:
        return None
    fold = column_fold(spark)
    check_partition_columns(partition_by, schema, fold)
    places = {fold(name): place for place, name in enumerate(schema.fieldNames())}
    columns = [places[fold(name)] for name in partition_by]
    fields = [schema.fields[place] for place in columns]
    if len(set(columns)) < len(columns):
        raise OptionError(f"partitionBy names a column twice: {', '.join(partition_by)}; name each once")
    if len(columns) == len(schema.fields):
        raise OptionError(
            f"partitionBy names all columns, {', '.join(partition_by)}; leave at least one that is written to the files"
        )
    for field in fields:
        if not isinstance(field.dataType, PARTITION_TYPES):
            raise OptionError(
                f"partitionBy names {field.name}, which is of type {field.dataType.simpleString()}; allowed are"
                " strings, integers, decimals, booleans, dates and timestamps: cast it to one of them",
                code="MIXEDMODE_OUTPUT_MISFIT",
            )
    time_zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if any(isinstance(field.dataType, TimestampType) for field in fields):
        session_zone(time_zone)
    # The folders have the names that partitionBy was given, as in Spark.
    return PartitionPaths(tuple(columns), tuple(partition_by), tuple(field.dataType for field in fields), time_zone)
