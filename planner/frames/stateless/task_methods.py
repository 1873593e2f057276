"""Operations that say how Spark's tasks work on a job's rows: functions of batches, and partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ....errors import PlanError
from .mapped_rows import ColumnOrName, MappedRows, of_users

if TYPE_CHECKING:
    from typing_extensions import Self


class TaskMethods(MappedRows):
    """Rows with functions of batches, and with hints of how many files an epoch writes."""

    def mapInPandas(self, func: Any, schema: StructType | str, barrier: bool = False, profile: Any = None) -> Self:
        """Maps rows with a Python function of pandas frames; as in Spark.

            orders.mapInPandas(lambda frames: (f[f.amount > 0] for f in frames), orders.schema)

        Args:
            func: takes an iterator of frames and returns one.
            schema: the columns of the result.
            barrier: as in Spark; not after a keyed stage.
            profile: as in Spark; not after a keyed stage.

        Raises:
            PlanError: ``barrier`` or ``profile`` is given after a keyed stage.
        """
        return self._mapped_in_tasks("mapInPandas", func, schema, barrier, profile)

    def mapInArrow(self, func: Any, schema: StructType | str, barrier: bool = False, profile: Any = None) -> Self:
        """Maps rows with a Python function of Arrow batches; as in Spark.

            orders.mapInArrow(lambda batches: (b.slice(0, 10) for b in batches), orders.schema)

        Args:
            func: takes an iterator of batches and returns one.
            schema: the columns of the result.
            barrier: as in Spark; not after a keyed stage.
            profile: as in Spark; not after a keyed stage.

        Raises:
            PlanError: as :meth:`mapInPandas`.
        """
        return self._mapped_in_tasks("mapInArrow", func, schema, barrier, profile)

    def _mapped_in_tasks(self, what: str, func: Any, schema: StructType | str, barrier: bool, profile: Any) -> Self:
        """Map rows by a method of ``DataFrame``.

        Args:
            what: ``mapInPandas`` or ``mapInArrow``.
            func: its function.
            schema: the columns of the result.
            barrier: as in Spark.
            profile: as in Spark.

        Raises:
            PlanError: ``barrier`` or ``profile`` is given after a keyed stage.
        """
        if self._is_behind_stage and (barrier or profile is not None):
            raise PlanError(
                f"{what} after a keyed stage runs in the stage's own tasks, so it takes no"
                f" {'barrier' if barrier else 'profile'}; leave it out"
            )
        return self._map(
            what,
            lambda frame: getattr(frame, what)(func, schema, barrier, profile),
            lambda frame, *more: getattr(frame.select(*of_users(frame)), what)(func, schema, barrier, profile),
        )

    @abstractmethod
    def _partitioned(self, what: str, function: Callable[[DataFrame], DataFrame]) -> Self:
        """The same, to be partitioned where it is written.

        Raises:
            AnalysisException: Spark's own, if the columns do not take it.
        """

    def repartition(self, numPartitions: int | ColumnOrName, *cols: ColumnOrName) -> Self:
        """Sets the number of files that an epoch writes, in a job without a keyed stage; the last call counts.

        It has no other effect: a keyed stage distributes rows to its shards by itself (option
        ``pipeline.parallelism``).

            orders.filter("amount > 0").repartition(4)
        """
        return self._partitioned("repartition", lambda frame: frame.repartition(numPartitions, *cols))

    def repartitionByRange(self, numPartitions: int | ColumnOrName, *cols: ColumnOrName) -> Self:
        """Has the effect of :meth:`repartition`: ``orders.repartitionByRange(4, "ts")``."""
        return self._partitioned("repartitionByRange", lambda frame: frame.repartitionByRange(numPartitions, *cols))

    def coalesce(self, numPartitions: int) -> Self:
        """Has the effect of :meth:`repartition`: ``orders.coalesce(1)``."""
        return self._partitioned("coalesce", lambda frame: frame.coalesce(numPartitions))

    # -- joins with static frames --------------------------------------------------------------------------------------
