"""The two inputs of a job as one: whatever is done to a job's rows is done to both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import PlanError
from .analysis import error_text
from .environment import check_session, refuse_connect
from .schemas import check_distinct_columns, check_same_columns, merge_nullability, quoted


@dataclass(frozen=True)
class Inputs:
    """History and live; at least one, of one session, with the same columns in the same order."""

    history: DataFrame | None
    live: DataFrame | None

    @property
    def template(self) -> DataFrame:
        """Either of them, for questions about columns."""
        frame = self.history if self.history is not None else self.live
        assert frame is not None, "an Inputs has at least one frame"
        return frame

    @property
    def spark(self) -> SparkSession:
        frame = self.live if self.live is not None else self.history
        assert frame is not None, "an Inputs has at least one frame"
        return frame.sparkSession

    @property
    def schema(self) -> StructType:
        if self.history is None or self.live is None:
            return self.template.schema
        return merge_nullability(self.history.schema, self.live.schema)

    @property
    def case_sensitive(self) -> bool:
        return str(self.spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"

    def map(self, what: str, function: Callable[[DataFrame], DataFrame]) -> Inputs:
        """Both inputs through a function.

        Raises:
            AnalysisException: Spark's own, if the first input does not take it.
            PlanError: only the second input does not take it.
        """
        history = None if self.history is None else function(self.history)
        if self.live is None:
            return Inputs(history, None)
        try:
            live = function(self.live)
        except AnalysisException as error:
            if history is None:
                raise
            raise PlanError(
                f"{what} works on history but not on live: {error_text(error)}; a column that was taken from a frame"
                " (frame['x'], frame.x) belongs to that frame alone, use its name or F.col('x')"
            ) from error
        return Inputs(history, live)


def check_inputs(history: Any, live: Any) -> Inputs:
    """The inputs of ``read()``, checked; live's columns are put into history's order.

    Raises:
        PlanError: none is given, one is of the wrong kind, or their columns differ.
        SetupError: the session is a Spark Connect one, or its workers run another Python.
    """
    if history is None and live is None:
        raise PlanError("read() got neither history nor live; give it at least one of them")
    for name, frame, streaming in (("history", history, False), ("live", live, True)):
        if frame is not None:
            _check_frame(name, frame, streaming)
    inputs = Inputs(history, live)
    check_session(inputs.spark)
    if history is None or live is None:
        return inputs
    if history.sparkSession.sparkContext is not live.sparkSession.sparkContext:
        raise PlanError("history and live belong to different Spark contexts; make both with one session")
    check_same_columns(history.schema, live.schema)
    if history.columns != live.columns:
        live = live.select(*quoted(history.columns))
    return Inputs(history, live)


def _check_frame(name: str, frame: Any, streaming: bool) -> None:
    refuse_connect(frame)
    if not isinstance(frame, DataFrame):
        raise PlanError(f"{name} must be a DataFrame, got {type(frame).__name__}")
    if frame.isStreaming and not streaming:
        raise PlanError(
            "history is a streaming DataFrame; history must end: read it with spark.read, or pass it as live"
        )
    if streaming and not frame.isStreaming:
        raise PlanError("live is a batch DataFrame; read it with spark.readStream, or pass it as history")
    check_distinct_columns(name, frame.schema)
