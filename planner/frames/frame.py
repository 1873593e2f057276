"""The rows of a job: a ``DataFrame`` that stands for history and live together, or for what a keyed stage gives.

Mirrors PySpark's ``DataFrame``: same names, same arguments.  Every operation is applied lazily, to each input, as Spark
applies it; nothing runs before ``start()``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...errors import MixedModeError, PlanError
from ...runtime.catalyst.spark_plans import is_repeatable
from ...runtime.catalyst.types.spark_durations import duration_ms
from ..inputs.analysis import is_aggregate, plain_columns, refuse_state_of_spark
from ..inputs.arrangement import arranged
from ..inputs.event_time import (
    CARRIER,
    Watermark,
    carried,
    check_event_time,
    check_not_redefined,
    keeps,
    marked,
    unmarked,
    without_carrier,
)
from ..inputs.inputs import Inputs, checked
from ..inputs.schemas import check_reserved_columns
from ..stages.limit import plan_limit
from ..stages.qualified_names import with_names_apart
from ..stages.stage import STAGE_UID, WRITTEN, KeyedStage, StageInput
from ..stages.stateless import plan_stateless, through_stages
from .column_access import ColumnAccess
from .joining import columns_explained
from .keyed_methods import KeyedMethods
from .stateless.mapped_rows import ColumnOrName, listed
from .transformed import transformed
from .views import ViewedFrame
from .writer import MixedStreamWriter

logger = logging.getLogger(__name__)

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class MixedFrame(ColumnAccess, KeyedMethods, ViewedFrame):
    """The rows of a job, immutable; returned by :func:`~mixedmode.read` and by keyed stages.

    Example: ``orders = mixedmode.read(history=spark.read.parquet("lake"), live=landing)``
    """

    @classmethod
    def _of(cls, stage: KeyedStage) -> MixedFrame:
        """What comes out of a stage."""
        return cls(stage.output, stage.output_watermark)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> StructType:
        """The names and types of the columns: ``orders.schema["amount"].dataType``."""
        schema = self._inputs.shown.schema if self._inputs.arrangement else self._inputs.schema
        return without_carrier(schema) if self._has_carrier else schema

    def _read(self) -> Inputs:
        return self._inputs

    # -- stateless operations that are more than a map -----------------------------------------------------------------

    def select(self, *cols: ColumnOrName | list[ColumnOrName]) -> MixedFrame:
        """Selects columns.  Aggregates alone make one group of all rows, as on a ``DataFrame``.

        Example: ``orders.select("customer", (F.col("amount") * 2).alias("twice"))``
        """
        columns = listed(cols)
        names = [column for column in columns if isinstance(column, str)]
        if self._inputs.arrangement and len(names) == len(columns) and names in (self.columns, ["*"]):
            return self  # jobs name what is there once more, behind orderBy and limit
        one_group: MixedFrame | None = self._one_group(columns)
        return super().select(*columns) if one_group is None else one_group

    def selectExpr(self, *expr: str | list[str]) -> MixedFrame:
        """Selects columns given as SQL: ``orders.selectExpr("customer", "amount * 2 AS twice")``."""
        texts = listed(expr)
        one_group = self._one_group([F.expr(text) if isinstance(text, str) else text for text in texts])
        return super().selectExpr(*texts) if one_group is None else one_group

    def _one_group(self, columns: Sequence[Any]) -> MixedFrame | None:
        return self.agg(*columns) if is_aggregate(self._inputs.shown, self._own(columns)) else None

    def withColumnRenamed(self, existing: str, new: str) -> MixedFrame:
        """Renames a column; as in Spark: ``orders.withColumnRenamed("id", "order_id")``."""
        return self.withColumnsRenamed({existing: new})

    def withColumnsRenamed(self, colsMap: dict[str, str]) -> MixedFrame:
        """Renames several columns; as in Spark.

        Example: ``orders.withColumnsRenamed({"id": "order_id", "ts": "ordered_at"})``
        """
        watermark = self._watermark
        if watermark is not None and not self._inputs.arrangement:
            for existing, new in colsMap.items():
                if self._find(existing) == watermark.event_time:
                    inputs = self._inputs.map("withColumnsRenamed", lambda frame: frame.withColumnsRenamed(colsMap))
                    return MixedFrame(inputs, replace(watermark, event_time=new))
        return self._map("withColumnsRenamed", lambda frame: frame.withColumnsRenamed(colsMap))

    def transform(self, func: Callable[..., DataFrame], *args: Any, **kwargs: Any) -> MixedFrame:
        """Applies a function of a DataFrame to each input, for example a join with a static table.

            orders.transform(lambda frame: frame.join(spark.read.parquet("rates"), "country"))

        The function is called once for history and once for live (after a keyed stage: for an empty frame, and then for
        the rows of each epoch), and must return the same columns each time.  If its result has state, it is called once
        with this frame itself, so it may call what this frame has (``dropDuplicates``, ``groupBy(…).agg(…)``, another
        ``transform``).  Afterwards the column with the name of the watermarked column is the event time.
        """
        mapped = self._inputs.map("transform", lambda frame: transformed(frame, func, args, kwargs))
        inputs = replace(mapped, parts=checked(mapped.parts).parts)
        event_time = None if self._watermark is None else self._watermark.event_time
        if event_time in inputs.schema.names and not keeps([part.frame for part in inputs.parts], event_time):
            check_event_time(event_time, inputs.schema[event_time].dataType)
            inputs = inputs.map("transform", lambda frame: marked(frame, event_time))
        result = MixedFrame(inputs, self._watermark)
        try:
            refuse_state_of_spark(inputs, "transform")
        except PlanError:
            own = _transformed_itself(self, func, args, kwargs)
            return result if own is None else own  # what follows says what is wrong with it
        return result

    def orderBy(self, *cols: ColumnOrName | int | Sequence[ColumnOrName | int], **kwargs: Any) -> MixedFrame:
        """Sorts the result; only for outputMode ``complete``, as in Spark.

            totals.orderBy(F.desc("spent"))

        Raises:
            PlanError: there is no keyed stage before it, or the frame does not have one of the columns.
        """
        with columns_explained("orderBy"):
            ordered = arranged(self._inputs, "orderBy", lambda frame: frame.orderBy(*cols, **kwargs))
        return self._shown(ordered)

    sort = orderBy

    def limit(self, num: int) -> MixedFrame:
        """Keeps the first rows of the stream.  After an aggregate in outputMode ``complete``: of the result.

            totals.orderBy(F.desc("spent")).limit(10)

        As in Spark, rows of all epochs count.  The first rows are the first by event time if there is a watermark, else
        in the order of arrival; after a stage without a watermark their order is undefined.  Not for outputMode
        ``update``.

        Raises:
            PlanError: ``num`` is not a number of rows.
        """
        outputs = self._inputs.outputs
        if outputs and all(cast(KeyedStage, part.origin).is_aggregate for part in outputs):
            return self._shown(arranged(self._inputs, "limit", lambda frame: frame.limit(num)))
        return MixedFrame._of(plan_limit(self._stage_input("limit"), num))

    def observe(self, observation: str, *exprs: Column) -> MixedFrame:
        """Computes aggregates of all rows that pass here, for each epoch.

        ``query.lastProgress["observedMetrics"][name]`` is a ``Row`` of them, as in a ``StreamingQuery``.

            orders.observe("orders", F.count("*").alias("n"), F.max("amount").alias("largest"))

        Args:
            observation: the name.
            exprs: aggregates, as of ``DataFrame.observe``.

        Raises:
            PlanError: the name is not allowed, or there is no aggregate.
        """
        if isinstance(observation, Observation):
            raise PlanError(
                "observe got an Observation, which has the metrics of one action; a job has some for each of its"
                " epochs: give a name, observe('rows', …), and read query.lastProgress['observedMetrics']['rows']"
            )
        if not isinstance(observation, str) or not observation:
            raise PlanError(f"observe({observation!r}) is no name; use for example observe('rows', F.count('*'))")
        wrong = [expr for expr in exprs if not isinstance(expr, Column)]
        if wrong or not exprs:
            got = repr(wrong[0]) if wrong else "none"
            raise PlanError(f"observe({observation!r}) takes aggregates such as F.count('*').alias('n'), got {got}")
        return MixedFrame(self._inputs.observed(observation, self._own(exprs)), self._watermark)

    # -- event time and stages -----------------------------------------------------------------------------------------

    def withWatermark(self, eventTime: str, delayThreshold: str) -> MixedFrame:
        """Declares the event-time column, and how late rows may come.

            orders.withWatermark("ts", "1 hour")

        Raises:
            PlanError: the column is missing, is not a timestamp, or differs from an earlier one; or the delay is not a
                duration.
        """
        for name, given in (("eventTime", eventTime), ("delayThreshold", delayThreshold)):
            if not isinstance(given, str):
                raise PlanError(
                    f"{name} of withWatermark must be a str, got {given!r}; use for example"
                    " withWatermark('ts', '10 minutes')"
                )
        name = eventTime
        if "." in name and self._find(name) is None:  # of a frame with a name: ``a.ts`` behind ``alias("a")``
            with columns_explained(f"column {name}"):
                name = plain_columns(self._inputs.template, [F.col(name)])[0] or name
        column = self._column("event-time column", name)
        check_event_time(column, self.schema[column].dataType)
        try:
            delay_ms = duration_ms(self._inputs.spark, delayThreshold)
        except ValueError as error:
            raise PlanError(
                f"delayThreshold {delayThreshold!r} of withWatermark is not a duration ({error});"
                " use for example '10 minutes' or '1 hour'"
            ) from error
        if delay_ms < 0:
            raise PlanError(f"delayThreshold {delayThreshold!r} of withWatermark is negative; use '0 seconds' or more")
        check_not_redefined(
            None if self._inputs.outputs or not self._inputs.lives else self._watermark, column, self._inputs.spark
        )
        hidden = [CARRIER] if self._has_carrier else []
        inputs = self._inputs.map("withWatermark", lambda frame: marked(unmarked(frame).drop(*hidden), column))
        return MixedFrame(inputs.timed(column), Watermark(column, delay_ms))

    def _stage_input(self, what: str) -> StageInput:
        """The rows for a keyed stage, if they are fit for one."""
        self._inputs.check_not_arranged(what)
        refuse_state_of_spark(self._inputs, what)
        if self._watermark is not None and self._watermark.event_time not in self._inputs.template.columns:
            raise PlanError(
                f"the watermarked column {self._watermark.label} is no longer there at {what}; keep it, or call"
                " withWatermark later",
                code="MIXEDMODE_COLUMN_NOT_FOUND",
            )
        check_reserved_columns(self.schema, what)
        rows, watermark = self, self._watermark
        if watermark is not None and isinstance(self._inputs.schema[watermark.event_time].dataType, StructType):
            rows = self._carrying()  # by the window's last instant
        return StageInput(rows._inputs, rows._watermark, self.schema)

    def uid(self, uid: str) -> MixedFrame:
        """Names the keyed stage.  Its state is stored under this name.

        Keep the name for the life of the state: a savepoint finds the state by it after the job has changed.

            orders.groupBy("customer").agg(F.sum("amount")).uid("totals")

        Raises:
            PlanError: the name is not allowed, this frame is not the direct output of a stage, or the stage already has
                another name.
        """
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            raise PlanError(
                f"uid({uid!r}) is not allowed: it names a folder; give 1 to 64 letters, digits, '_', '-' or '.', the"
                " first of them a letter or digit"
            )
        self._inputs.check_not_arranged("uid")
        if self._stage is None:
            raise PlanError(
                f"uid({uid!r}) names a keyed stage; call it right after agg(…), transformWithState(…) or"
                " dropDuplicates(…)"
            )
        if self._stage.uid not in (STAGE_UID, uid):
            raise PlanError(
                f"uid({uid!r}) names a keyed stage that is called {self._stage.uid!r} already, under which its state is"
                " stored; call uid once for each stage"
            )
        return MixedFrame._of(replace(self._stage, uid=uid))

    @property
    def writeStream(self) -> MixedStreamWriter:
        """The writer, as PySpark's ``DataStreamWriter``.

        For example:

            totals.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "ckpt").start()
        """
        refuse_state_of_spark(self._inputs, "writeStream")
        output = self._inputs
        if self._has_carrier:
            parts = [part.mapped(WRITTEN, lambda frame: frame.drop(CARRIER)) for part in output.parts]
            output = replace(output, parts=tuple(parts))
        output, known = with_names_apart(output)
        stage = self._stage
        bare = None if stage is None else stage if stage.bare is None else replace(stage.bare, uid=stage.uid)
        if not self._inputs.outputs:
            check_reserved_columns(self.schema, "writeStream")
            output = plan_stateless(output).bare_output
        elif bare is not None and self._inputs.template.columns == bare.output_schema.fieldNames():
            output, known = replace(self._inputs, parts=bare.bare_output.parts), bare.known
        else:
            output = through_stages(output)
        if known is not None and self.columns != [name for name in known.names if name != CARRIER]:
            # They are staged by other names than users know them by.
            self._inputs.check_not_arranged("select")
        return MixedStreamWriter(output, known)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _map(
        self,
        what: str,
        function: Callable[[DataFrame], DataFrame],
        carrying: Callable[..., DataFrame] | None = None,
    ) -> MixedFrame:
        """Apply an operation; ``carrying`` is the same with more columns in its result, given behind the frame."""
        if self._inputs.arrangement:
            with columns_explained(what):
                shown = arranged(self._inputs, what, function)
            if not is_repeatable(shown.shown):  # it is shown once more after a failure
                self._inputs.check_not_arranged(what)
            return self._shown(shown)
        with columns_explained(what):
            inputs, watermark = self._inputs.map(what, function, carrying), self._watermark
        if watermark is None or keeps([part.frame for part in inputs.parts], watermark.event_time):
            return MixedFrame(inputs, watermark)
        event_time = watermark.event_time
        if event_time not in self._inputs.template.columns:  # lost in transform(…): a stage would say so
            return MixedFrame(inputs, watermark)

        def again(frame: DataFrame, *more: Column) -> DataFrame:
            if carrying is not None:
                return carrying(frame, carried(frame, event_time), *more)
            return function(frame.withColumn(CARRIER, carried(frame, event_time)))

        carrying_it = self._inputs.map(what, again, again)
        if CARRIER not in carrying_it.template.columns:
            logger.warning(
                "%s gives columns of its own: the watermark of %s is lost, as in Spark; call withWatermark behind it",
                what,
                watermark.label,
            )
            return MixedFrame(inputs)
        return MixedFrame(carrying_it, watermark.carried(self._inputs.template))

    def _shown(self, inputs: Inputs) -> MixedFrame:
        """These rows, of which the whole result is arranged; they may have lost the event time that nobody sees."""
        lost = self._has_carrier and CARRIER not in inputs.shown.columns
        return MixedFrame(inputs, None if lost else self._watermark)

    def _partitioned(self, what: str, function: Callable[[DataFrame], DataFrame]) -> MixedFrame:
        return MixedFrame(self._inputs.partitioned(what, function), self._watermark)

    @property
    def _stage(self) -> KeyedStage | None:
        """The keyed stage whose rows these are, as they come out of it; None: they are not."""
        part = self._inputs.parts[0]
        if len(self._inputs.parts) > 1 or part.origin is None:
            return None
        stage = cast(KeyedStage, part.origin)
        return stage if len(part.steps) == (stage.presented is not None) else None


def _transformed_itself(rows: MixedFrame, func: Callable[..., Any], args: Any, kwargs: Any) -> MixedFrame | None:
    """What a function makes of a job's rows; None: it takes none, or makes something else of them."""
    try:
        result = func(rows, *args, **kwargs)
    except (MixedModeError, AttributeError, TypeError):
        return None
    return result if isinstance(result, MixedFrame) else None
