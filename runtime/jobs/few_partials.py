"""Finds out which aggregates of few rows their task computes itself; asks Spark once, not in each epoch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException

from ..catalyst.spark_session import empty_frame
from ..catalyst.types.arrow_types import arrow_schema
from ..operators.aggregate.operator import AggregateOperator
from ..operators.columnar.few_partials import FewPartialRows
from ..operators.columnar.few_rows import hashed_columns
from ..scan.parquet_scan import NotTakenError
from ..scan.scan_plans import recognised_rows
from .columnar_pass import check_calls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ..operators.contract import EpochSpec

logger = logging.getLogger(__name__)


class FewPartials:
    """What computes the partial aggregates of a stage's few rows, for each shape of its input.

    Args:
        operator: the stage's.
        max_parallelism: number of key groups.
    """

    def __init__(self, operator: AggregateOperator, max_parallelism: int) -> None:
        self._operator = operator
        self._max_parallelism = max_parallelism
        self._known: list[tuple[StructType, FewPartialRows | None]] = []
        self._given_up = False

    def give_up(self, why: str) -> None:
        """From now on Spark aggregates; ``why``: what the task has said."""
        logger.info("from now on Spark aggregates the rows of stage %s: %s", self._operator.uid, why)
        self._given_up = True

    def of(self, session: SparkSession, frame: DataFrame, epoch: EpochSpec) -> FewPartialRows | None:
        """What computes them of a frame; None: Spark does.

        Args:
            session: the session that the job is planned in.
            frame: the input.
            epoch: what the task must know.
        """
        if self._given_up:
            return None
        schema = frame.schema
        for known, found in self._known:
            if known is schema or known == schema:
                return found
        try:
            found = self._recognised(session, schema, epoch)
        except (NotTakenError, AnalysisException) as error:  # the latter: the user's session knows what ours does not
            why = str(error).partition("\n")[0]
            logger.info("Spark aggregates the rows of stage %s also where they are few: %s", self._operator.uid, why)
            found = None
        self._known.append((schema, found))
        return found

    def _recognised(self, session: SparkSession, schema: StructType, epoch: EpochSpec) -> FewPartialRows | None:
        operator = self._operator
        hashed = hashed_columns(operator.key_columns, operator.key_schema, operator.key_group_places)
        if hashed is None:
            return None
        prepared = operator.prepare(empty_frame(session, schema), epoch)
        partials = recognised_rows(prepared, schema, operator.column_texts)
        own = arrow_schema(prepared.schema)
        check_calls(operator, partials, own)
        if not partials.scan.columns:
            raise NotTakenError("no column is asked for")
        types = {field.name: field.type for field in operator.key_schema}
        made = pa.schema([pa.field(one.name, types.get(one.name, one.type)) for one in own])
        return FewPartialRows.of_partials(hashed, self._max_parallelism, operator.order_in(epoch), partials, made)
