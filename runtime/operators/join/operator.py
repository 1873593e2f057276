"""A join of two streams over keyed state.

The first backlog meets no state: there Spark joins the sides (:mod:`.first_pass`), and only rows that may still meet a
partner become state.  A stream's rows meet those that wait, and each other, in the tasks (:mod:`.run`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from ...catalyst.spark_session import empty_frame
from ..admission import is_late
from ..contract import EpochSpec, EvolvedOperator, FirstPass, ShardContext
from .columns import MATCHED_COLUMN, TIME_COLUMN
from .condition_check import ANSWER_COLUMN, ASKED_COLUMN, is_candidate
from .definition import StreamJoin
from .evolution import changes_of, join_record
from .first_pass import first_pass_of
from .late_rows import by_side
from .run import JoinRun

if TYPE_CHECKING:
    from ....state.keys.registry import StateRegistry

#: What becomes of rows in a first pass: a changed rule makes other rows of the same backlog.
_RULE = 1


class JoinOperator(StreamJoin):
    """The keyed stage of a join of two streams."""

    has_first_pass = True
    scans_rows = True

    def fingerprint(self) -> str | None:
        """All but the condition, of which Spark can tell whether it is always the same (:meth:`template`)."""
        sides = [[one.schema.json(), one.event_time, one.keep_us] for one in self.sides]
        parts = [self.describe(), sides, repr(self.bounds), self.output_schema.json(), self.output.sources, _RULE]
        return json.dumps(parts, sort_keys=True)

    @property
    def state_record(self) -> Any:
        """What decides which rows are in the state, and what is known of them."""
        return join_record(self)

    def evolved(
        self, stored: StateRegistry, record: Any, described: Mapping[str, Any], *, going_on: bool = True
    ) -> EvolvedOperator:
        """Take over the rows that wait; see :mod:`.evolution`."""
        changes = changes_of(self, stored, record)
        return EvolvedOperator(self._with(registry=stored), tuple(changes))

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """The rows of either side that are behind what has fired."""
        if not self.uses_event_time:
            return None
        late = frame.where(is_late(frame, TIME_COLUMN, epoch.late_watermark_ms))
        return by_side(late, *[side.schema for side in self.sides])

    def template(self, spark: SparkSession) -> DataFrame | None:
        """The condition over no rows."""
        if self.residual is None:
            return None
        fields = [
            StructField(name, field.dataType)
            for side, one in enumerate(self.sides)
            for name, field in zip(one.columns(side), one.schema.fields, strict=True)
        ]
        return empty_frame(spark, StructType(fields)).where(self.residual.column)

    # -- driver --------------------------------------------------------------------------------------------------------

    def first_pass(
        self, frame: DataFrame, epoch: EpochSpec, spread: Callable[[DataFrame], DataFrame], *, counted: bool
    ) -> FirstPass:
        """Pairs, and the rows of either side that stay."""
        return first_pass_of(self, frame, epoch, spread, counted=counted)

    def prepares_by(self, epoch: EpochSpec) -> Hashable:
        """Nothing, if Spark is asked nothing."""
        return () if self.residual is None else None

    @property
    def questions(self) -> PairCondition | None:
        """The condition, if bounds alone do not decide."""
        return None if self.residual is None else PairCondition(self)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        run = JoinRun(self, context)
        try:
            run.execute(rows)
        finally:
            run.close()


class PairCondition:
    """Has Spark decide which pairs within bounds the rest of a join's condition is true of."""

    def __init__(self, operator: JoinOperator) -> None:
        self._operator = operator

    def columns(self, frame: DataFrame) -> StructType | None:
        """Those of prepared rows; None: this is a first pass, of which the pairs are made already."""
        if MATCHED_COLUMN in frame.columns:
            return None
        # What is asked has only some of the columns.
        fields = [StructField(field.name, field.dataType) for field in frame.schema.fields]
        return StructType([*fields, StructField(ASKED_COLUMN, LongType())])

    def ask(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, and the pairs within bounds."""
        return JoinRun(self._operator, context).questions(rows)

    def answered(self, frame: DataFrame) -> DataFrame:
        """Which candidates the condition is true of; their columns are not needed any more."""
        residual = self._operator.residual
        assert residual is not None and residual.column is not None, "answered() runs on the driver only"
        is_asked = F.expr(is_candidate())
        read = set(residual.reads)
        columns = [
            F.when(~F.coalesce(is_asked, F.lit(False)), F.col(name)).alias(name) if name in read else F.col(name)
            for name in frame.columns
        ]
        return frame.select(*columns, F.when(is_asked, residual.column).alias(ANSWER_COLUMN))
