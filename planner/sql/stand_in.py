"""The stand-in for a job's rows in Spark's catalog: a streaming source that Spark analyses statements over.

Spark can neither run nor store it.  An action, and a command that would write its rows, is refused by Spark itself
("Queries with streaming sources must be executed with writeStream.start()").  A query of Spark's own fails when it
starts, with the text below.  So nothing ever runs over a part of the job's rows, or over none.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...runtime.catalyst.spark_plans import analyzed, leaves
from ...runtime.catalyst.sql_statements import failing_stream, stream_option
from ...runtime.catalyst.view_catalogs import ViewCatalogs

#: Spark's name of the source, and its option with the number of the frame.
_FORMAT, _NUMBER, _VIEW = "mixedmode-view", "mixedmode.view", "mixedmode.name"
#: What Spark says if it is to read a stand-in.
_WHY = (
    "view {name!r} is of a frame of mixedmode, and Spark's own query does not have its rows; write"
    " spark.sql('SELECT … FROM …') or spark.table('…') behind createOrReplaceTempView, in the same program, and go on"
    " with what that returns"
)
#: So many frames are kept without a look at the views that read them.
_FEW = 16


class JobRows(Protocol):
    """The frame of a job, as far as a statement asks for it."""

    @property
    def schema(self) -> StructType: ...

    @property
    def columns(self) -> list[str]: ...

    @property
    def sparkSession(self) -> SparkSession: ...


class StandIns:
    """The stand-ins of a program, and their frames, as long as a view of them is in a catalog of Spark's.

    Nothing but a view keeps a stand-in: what ``spark.sql`` and ``spark.table`` return are frames of jobs, and Spark
    keeps a view that is made in SQL as its text.  So now and then the views are looked through, and frames that none
    of them reads are let go.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._frames: dict[str, Any] = {}
        self._catalogs = ViewCatalogs()
        self._limit = _FEW

    def make(self, frame: JobRows, name: str) -> DataFrame:
        """A stand-in for a frame.

        Args:
            frame: the frame of a job.
            name: what users call the view.
        """
        number = str(next(self._numbers))
        self._frames[number] = frame
        return failing_stream(
            frame.sparkSession, frame.schema, _FORMAT, _WHY.format(name=name), {_NUMBER: number, _VIEW: name}
        )

    def forget(self, stand_ins: Iterable[DataFrame]) -> None:
        """Let go the frames of stand-ins that nothing reads any more."""
        for stand_in in stand_ins:
            for leaf in leaves(analyzed(stand_in)):
                self._frames.pop(stream_option(leaf, _NUMBER) or "", None)

    def clear(self, spark: SparkSession) -> None:
        """Let go the frames that no view reads, if there are many; called when a view has been made in a session."""
        self._catalogs.add(spark)
        if len(self._frames) <= self._limit:
            return
        read = {stream_option(leaf, _NUMBER) for plan in self._catalogs.plans() for leaf in leaves(plan)}
        self._frames = {number: frame for number, frame in self._frames.items() if number in read}
        self._limit = max(_FEW, 2 * len(self._frames))

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


#: Of the program: a view may be seen by several sessions.
STAND_INS = StandIns()
