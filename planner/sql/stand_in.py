"""The stand-in for a job's rows in Spark's catalog: a streaming source that Spark analyses statements over.

Spark can neither run nor store it.  An action, and a command that would write its rows, is refused by Spark itself
("Queries with streaming sources must be executed with writeStream.start()").  A query of Spark's own fails when it
starts, with the error below.  So nothing ever runs over a part of the job's rows, or over none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.platform.spark_plans import analyzed, leaves
from ...runtime.platform.statements import stream_option

#: Spark's name of the source, and its option with the number of the frame.
_FORMAT, _NUMBER, _VIEW = "mixedmode-view", "mixedmode.view", "mixedmode.name"


class JobRows(Protocol):
    """The frame of a job, as far as a statement asks for it."""

    @property
    def schema(self) -> StructType: ...

    @property
    def columns(self) -> list[str]: ...

    @property
    def sparkSession(self) -> SparkSession: ...


class ViewSource(DataSource):
    """The source that stands for a job's rows."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def streamReader(self, schema: StructType) -> NoReturn:
        """Fails: whoever asks for a reader is a query of Spark's own."""
        raise PlanError(
            f"view {self.options.get(_VIEW)!r} is of a frame of mixedmode, and Spark's own query does not have its"
            " rows; write spark.sql('SELECT … FROM …') or spark.table('…') after createOrReplaceTempView, in the same"
            " program, and continue with what that returns"
        )


class StandIns:
    """The stand-ins of a program, and their frames, which it keeps: a plan over a stand-in may live on anywhere."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._frames: dict[str, Any] = {}
        self._sessions: WeakSet[SparkSession] = WeakSet()

    def make(self, frame: JobRows, name: str) -> DataFrame:
        """A stand-in for a frame.

        Args:
            frame: the frame of a job.
            name: what users call the view.
        """
        spark = frame.sparkSession
        if spark not in self._sessions:
            spark.dataSource.register(ViewSource)
            self._sessions.add(spark)
        number = str(next(self._numbers))
        self._frames[number] = frame
        reader = spark.readStream.format(_FORMAT).schema(frame.schema)
        return reader.option(_NUMBER, number).option(_VIEW, name).load()

    def frame_of(self, leaf: Any) -> Any:
        """The frame that a leaf of a plan stands for; None: it stands for none."""
        number = stream_option(leaf, _NUMBER)
        return None if number is None else self._frames.get(number)

    def are_in(self, rows: DataFrame) -> bool:
        """True if a frame of Spark's reads a stand-in."""
        return self.are_below(analyzed(rows))

    def are_below(self, plan: Any) -> bool:
        """True if there is a stand-in at the bottom of a plan."""
        return bool(plan.isStreaming()) and any(self.frame_of(leaf) is not None for leaf in leaves(plan))


#: Views live as long as Spark's session, and so do their frames.
STAND_INS = StandIns()

#: Makes the frame of a job that a statement stands for.
Answer = Callable[[DataFrame], Any]
