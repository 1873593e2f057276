"""Files of a relation with the values of the columns that Spark reads off their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..catalyst.spark_expressions import items
from ..jvm.gateway import scala_sequence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def files_with_values(spark: SparkSession, relation: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The URI of each file, and its values in the order of the partition schema, as Spark holds them.

    Args:
        spark: the session.
        relation: a ``HadoopFsRelation`` with partition columns.
    """
    nothing = scala_sequence(spark, [])
    types = [field.dataType() for field in items(relation.partitionSchema())]
    found = []
    for directory in items(relation.location().listFiles(nothing, nothing)):
        values = tuple(directory.values().get(place, data_type) for place, data_type in enumerate(types))
        for file in items(directory.files()):
            found.append((str(file.fileStatus().getPath().toUri().toString()), values))
    return found
