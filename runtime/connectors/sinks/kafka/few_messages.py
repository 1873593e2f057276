"""Reads few staged messages on the driver, for Spark's writer to send.

To have Spark read one small file takes longer than to send it: it lists the file, plans a scan, tells the tasks how
Hadoop is set, and reads the footer.

Invariant: all messages are in one partition, file after file, so those of a key stay in the order of their epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from ....catalyst.types.arrow_types import arrow_schema

if TYPE_CHECKING:
    from ...staging import StagedFile
    from ...staging_folder import StagingFolder

#: More are read by tasks.
_MOST_ROWS, _MOST_BYTES, _MOST_FILES = 20_000, 4 << 20, 16
#: Types that Parquet, Arrow and Spark have alike.
_ALIKE = (StringType(), BinaryType(), IntegerType(), LongType())


def few_messages(
    spark: SparkSession, staging: StagingFolder, schema: StructType, files: Sequence[StagedFile]
) -> DataFrame | None:
    """The rows of staged files, which are there already; None: Spark is to read them.

    Args:
        spark: the session.
        staging: where the files are.
        schema: their columns.
        files: all that are sent together, in order.

    Raises:
        OSError: a file cannot be read.
    """
    rows, size_bytes = sum(file.rows for file in files), sum(file.size_bytes for file in files)
    if rows > _MOST_ROWS or size_bytes > _MOST_BYTES or len(files) > _MOST_FILES:
        return None
    if any(field.dataType not in _ALIKE for field in schema.fields):
        return None
    types, tables = arrow_schema(schema), []
    for file in files:
        with staging.filesystem.open_input_file(f"{staging.path}/{file.name}") as stream:
            tables.append(pq.ParquetFile(stream).read(types.names).cast(types))
    return spark.createDataFrame(pa.concat_tables(tables), schema).coalesce(1)
