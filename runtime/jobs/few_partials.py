"""Finds out which aggregates of few rows their task computes itself; asks Spark once, not in each epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DateType, NumericType, StructType, TimestampNTZType, TimestampType

from ..catalyst.spark_session import empty_frame
from ..catalyst.types.arrow_types import arrow_schema
from ..operators.aggregate.operator import AggregateOperator
from ..operators.columnar.few_partials import FewPartialRows
from ..operators.columnar.few_rows import hashed_columns
from ..scan.computed_arguments import computed_arguments
from ..scan.parquet_scan import NotTakenError
from ..scan.scan_plans import recognised_rows
from .columnar_pass import check_calls

if TYPE_CHECKING:
    from ..operators.contract import EpochSpec

logger = logging.getLogger(__name__)

#: Spark compiles code to select columns, in each epoch; so many further ones that are a number each cost less.
_FURTHER_COLUMNS, _SMALL_TYPES = 8, (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)


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

    def of(self, frame: DataFrame, epoch: EpochSpec, session: Callable[[], SparkSession]) -> FewPartialRows | None:
        """What computes them of a frame; None: Spark does.

        Args:
            frame: the input.
            epoch: what the task must know.
            session: gives the session that the job is planned in; asked once for each shape of input.
        """
        if self._given_up:
            return None
        schema = frame.schema
        for known, found in self._known:
            if known is schema or known == schema:
                return found
        try:
            found = self._taken(self._operator.prepare(empty_frame(session(), schema), epoch), schema, epoch)
        except (NotTakenError, AnalysisException) as error:  # the latter: the user's session knows what ours does not
            why = str(error).partition("\n")[0]
            logger.info("Spark aggregates the rows of stage %s also where they are few: %s", self._operator.uid, why)
            found = None
        self._known.append((schema, found))
        return found

    def of_computed(
        self, frame: DataFrame, epoch: EpochSpec, session: Callable[[], SparkSession]
    ) -> tuple[DataFrame, FewPartialRows]:
        """The rows of a frame with all keys and arguments as columns, and what computes partial aggregates of these.

        Args:
            frame: as of :meth:`of`.
            epoch: as of :meth:`of`.
            session: as of :meth:`of`.

        Raises:
            NotTakenError: only Spark can; says why.
        """
        leaf = empty_frame(session(), frame.schema)
        arguments = computed_arguments(self._operator.prepare(leaf, epoch), leaf)
        found = self._taken(arguments.prepared, arguments.schema, epoch)
        if found is None:
            raise NotTakenError("only Spark computes the hash of its keys")
        return arguments.of(frame), found

    def _taken(self, prepared: DataFrame, schema: StructType, epoch: EpochSpec) -> FewPartialRows | None:
        operator = self._operator
        hashed = hashed_columns(operator.key_columns, operator.key_schema, operator.key_group_places)
        if hashed is None:
            return None
        partials = recognised_rows(prepared, schema, operator.column_texts)
        own = arrow_schema(prepared.schema)
        check_calls(operator, partials, own)
        if not partials.scan.columns:
            raise NotTakenError("no column is asked for")
        types = {field.name: field.type for field in operator.key_schema}
        made = pa.schema([pa.field(one.name, types.get(one.name, one.type)) for one in own])
        names, order = _handed_over(schema, {column.name for column in partials.scan.columns}), operator.order_in(epoch)
        return FewPartialRows.of_partials(hashed, self._max_parallelism, order, names, partials, made)


def _handed_over(schema: StructType, asked: set[str]) -> tuple[str, ...]:
    """The columns that the task gets: all, if that costs less than to have Spark select some of them.

    Args:
        schema: the columns that there are.
        asked: those that are asked for.
    """
    others = [field.dataType for field in schema.fields if field.name not in asked]
    if len(others) <= _FURTHER_COLUMNS and all(isinstance(one, _SMALL_TYPES) for one in others):
        return tuple(schema.names)
    return tuple(name for name in schema.names if name in asked)
