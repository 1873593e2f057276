"""A join of two streams over keyed state.

The first backlog meets no state: there Spark joins the sides (:mod:`.first_pass`), and only rows that may still meet a
partner become state.  A stream's rows meet those that wait, and each other, in the tasks (:mod:`.run`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from ...platform.spark_session import empty_frame
from ..contract import EpochSpec, FirstPass, ShardContext
from .definition import StreamJoin
from .first_pass import first_pass_of
from .run import JoinRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What becomes of rows in a first pass: a changed rule makes other rows of the same backlog.
_RULE = 1


class JoinOperator(StreamJoin):
    """The keyed stage of a join of two streams."""

    has_first_pass = True

    def fingerprint(self) -> str | None:
        """All but the condition, of which Spark can tell whether it is always the same (:meth:`template`)."""
        sides = [[one.schema.json(), one.event_time, one.keep_us] for one in self.sides]
        parts = [self.describe(), sides, repr(self.bounds), self.output_schema.json(), self.output_columns, _RULE]
        return json.dumps(parts, sort_keys=True)

    def template(self, spark: SparkSession) -> DataFrame | None:
        """The condition over no rows."""
        if self.condition is None:
            return None
        fields = [
            StructField(name, field.dataType)
            for side, one in enumerate(self.sides)
            for name, field in zip(one.columns(side), one.schema.fields, strict=True)
        ]
        return empty_frame(spark, StructType(fields)).where(self.condition)

    # -- driver --------------------------------------------------------------------------------------------------------

    def first_pass(
        self, frame: DataFrame, epoch: EpochSpec, spread: Callable[[DataFrame], DataFrame], *, counted: bool
    ) -> FirstPass:
        """Pairs, and the rows of either side that stay."""
        return first_pass_of(self, frame, epoch, spread, counted=counted)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        JoinRun(self, context).execute(rows)
