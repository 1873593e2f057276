"""Checks that a format has a batch writer, by which each checkpoint's rows are appended.

A stream writer of Spark's, which a Python ``DataSource`` may have alone, takes micro-batches of a streaming query, and
nothing else.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from ....errors import not_supported
from ...jvm.spark_errors import NOT_THERE
from ...spark_io.spark_formats import is_only_read, python_data_source

logger = logging.getLogger(__name__)

_INSTEAD = "use another format, or foreachBatch"


def check_batch_writer(spark: SparkSession, name: str) -> None:
    """Raise PlanError if a batch job could not write the format.

    Args:
        spark: the session.
        name: the format's; there is a data source of that name.
    """
    try:
        if is_only_read(spark, name):
            raise not_supported(f"format {name!r} can only be read: Spark has no batch writer for it; {_INSTEAD}")
    except NOT_THERE as error:
        logger.debug("it is unknown whether format %s can be written: %s", name, error)
        return
    try:
        kind = python_data_source(spark, name)
    except Exception as error:  # whatever loading the user's class raises
        logger.debug("the class of format %s cannot be looked at: %s", name, error)
        return
    if kind is not None and kind.writer is DataSource.writer:  # to call it might do something
        stream = " (a streamWriter alone does not do)" if kind.streamWriter is not DataSource.streamWriter else ""
        raise not_supported(
            f"format {name!r} has no batch writer: {kind.__name__} does not implement writer(schema, overwrite)\n"
            f"Each checkpoint's rows are appended by it{stream}; add the method, or {_INSTEAD}"
        )
