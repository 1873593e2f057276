"""Rows whose partitions are where one wants them: Spark runs tasks there if it can.

Invariant: Spark knows of the rows that partition i holds number i, as if it had moved them there itself, so a join with
rows that it has moved by their number needs no exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from ...jvm.gateway import java_class, java_session, query_execution, scala_sequence
from ..spark_expressions import items
from ..spark_plans import analyzed, frame_of
from .prepared_logical_plan import members


@dataclass(frozen=True)
class PlacedNumbers:
    """One row for each number from 0, each in a partition of its own.

    Args:
        frame: the rows.
        rdd: what they are made of.
    """

    frame: DataFrame
    rdd: Any

    @classmethod
    def of(cls, spark: SparkSession, column: str, places: Sequence[str]) -> PlacedNumbers:
        """The rows, cached where they are first computed.

        Args:
            spark: a session without adaptive execution.
            column: that of the number.
            places: for each number the place of its partition (``spark_cluster.Executors``).
        """
        row = java_class(spark, "org.apache.spark.sql.catalyst.InternalRow")
        pair = java_class(spark, "scala.Tuple2")
        parts = [
            pair(row.fromSeq(scala_sequence(spark, [number])), scala_sequence(spark, [place]))
            for number, place in enumerate(places)
        ]
        tag = java_class(spark, "scala.reflect.ClassTag").Any()
        session = java_session(spark)
        rdd = session.sparkContext().makeRDD(scala_sequence(spark, parts), tag).cache()
        schema = StructType([StructField(column, IntegerType(), False)])
        unplaced = frame_of_rdd(spark, rdd, schema)
        moved = query_execution(unplaced.repartitionById(len(places), F.col(column))).executedPlan()
        leaf = analyzed(unplaced)
        columns, its_rdd, _, *others = members(leaf)
        placed = java_class(spark, "org.apache.spark.sql.execution.LogicalRDD")(
            columns, its_rdd, moved.outputPartitioning(), *others, *items(leaf.otherCopyArgs())
        )
        return cls(frame_of(spark, placed), rdd)

    def places(self) -> list[str | None]:
        """Where each partition is: where it is cached, or else where it was to be; None: nowhere any more."""
        context = self.rdd.context()
        found: list[str | None] = []
        for number in range(self.rdd.getNumPartitions()):
            known = context.getPreferredLocs(self.rdd, number)
            found.append(None if known.isEmpty() else str(known.head().toString()))
        return found

    def close(self) -> None:
        """Let go of what is cached."""
        self.rdd.unpersist(False)


def frame_of_rdd(spark: SparkSession, rdd: Any, schema: StructType) -> DataFrame:
    """A frame of Spark's own rows.

    Args:
        spark: the session.
        rdd: of the rows.
        schema: their columns.
    """
    session = java_session(spark)
    return DataFrame(session.internalCreateDataFrame(rdd, session.parseDataType(schema.json()), False), spark)
