"""Late rows of two inputs as they are handed out: each says of which it is, and has its columns in a struct."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from .columns import LEFT, RIGHT, SIDE_COLUMN, SIDE_NAMES, side_column


def late_sides_schema(left: StructType, right: StructType) -> StructType:
    """Columns of late rows: ``side``, and ``left`` and ``right``, of which one is null."""
    return StructType().add("side", StringType()).add("left", left).add("right", right)


def by_side(rows: DataFrame, left: StructType, right: StructType) -> DataFrame:
    """Rows of the frame of both sides with those columns.

    Args:
        rows: the rows.
        left: columns of left rows, as users know them.
        right: those of right ones.
    """
    columns = []
    for side, (name, schema) in enumerate(zip(SIDE_NAMES, (left, right), strict=True)):
        fields = [F.col(side_column(side, place)).alias(field.name) for place, field in enumerate(schema.fields)]
        columns.append(F.when(F.col(SIDE_COLUMN) == side, F.struct(*fields)).alias(name))
    said = F.when(F.col(SIDE_COLUMN) == LEFT, SIDE_NAMES[LEFT]).otherwise(SIDE_NAMES[RIGHT])
    return rows.select(said.alias("side"), *columns)
