"""Local files of the tests' shared session, which are written without processes.

Without its native library Hadoop starts a ``chmod`` for each file that it writes, and Spark's log of a streaming query
some twenty ``readlink`` more for each micro-batch: a fifth of what the processors do for a micro-batch of stock Spark.
"""

from __future__ import annotations

from typing import Any

from mixedmode.runtime.jvm.gateway import java_class, java_session
from mixedmode.runtime.spark_io import query_log_writes
from pyspark.sql import SparkSession


def write_without_processes(spark: SparkSession) -> None:
    """Have Hadoop leave the modes of local files to the umask, and Spark's streaming queries use its simple interface.

    All else is as users have it: files of the same names with the same content, checksum files among them.
    """
    settings = java_session(spark).sessionState().newHadoopConf()
    new_array: Any = spark.sparkContext._gateway.new_array
    kind, thing = java_class(spark, "java.lang.Class"), java_class(spark, "java.lang.Object")
    place = java_class(spark, "java.net.URI").create("file:///")
    local = java_class(spark, "org.apache.hadoop.fs.LocalFileSystem")(query_log_writes.without_modes(spark, settings))
    local.initialize(place, settings)
    file_system = kind.forName("org.apache.hadoop.fs.FileSystem")
    types, values = new_array(kind, 3), new_array(thing, 3)
    types[0], types[1], types[2] = place.getClass(), settings.getClass(), file_system
    values[0], values[1], values[2] = place, settings, local
    add = file_system.getDeclaredMethod("addFileSystemForTesting", types)
    add.setAccessible(True)
    add.invoke(None, values)
    spark.conf.set(query_log_writes.OPTION, query_log_writes.manager_class(spark))
