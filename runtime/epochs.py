"""Executes one epoch as one Spark job: prepare, shuffle by shard, sort, run the operator, collect the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import functions as F

from ..errors import MixedModeError
from ..state.lineage import ShardLineage
from .column_names import quoted
from .operators.keyed_rows import KEY_GROUP_COLUMN
from .shard_task import REPORT_SCHEMA, ShardReport, ShardTask, SortPlan
from .spec import EpochSpec, KeyedOperator, Settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SHARD_COLUMN = "__shard"


@dataclass
class EpochExecutor:
    """Runs epochs of one operator.  Stateless between calls: everything that matters is in the arguments."""

    spark: SparkSession
    operator: KeyedOperator
    settings: Settings
    job_id: str
    run_id: str
    max_parallelism: int
    state_filesystem: fs.FileSystem
    state_pool: str
    output_filesystem: fs.FileSystem
    output_folder: str
    progress_folder: str

    def __post_init__(self) -> None:
        self._pickled = cloudpickle.dumps(self.operator)

    def execute(
        self,
        frame: DataFrame | None,
        epoch: EpochSpec,
        lineages: Sequence[ShardLineage],
        *,
        sorter: Literal["spark", "arrow"] = "spark",
        shards: Sequence[int] | None = None,
        finished: Mapping[int, ShardReport] = MappingProxyType({}),
        report_folder: str | None = None,
    ) -> list[ShardReport]:
        """Run an epoch over ``frame``, or over no rows at all (timers only) when it is None.

        Args:
            frame: the epoch's input rows.
            epoch: what the tasks must know.
            lineages: committed state of every shard.
            sorter: who sorts.
            shards: for an epoch without rows, the shards to visit; None: all.
            finished: shards that an earlier run of the same pinned pass has finished; they are not computed again.
            report_folder: where finished attempts leave their reports for a restarted driver.

        Returns:
            One report per visited shard: those of the attempts whose result Spark took.
        """
        visited = tuple(range(len(lineages)) if frame is not None or shards is None else shards)
        task = ShardTask(
            job_id=self.job_id,
            run_id=self.run_id,
            epoch=epoch,
            operator=self._pickled,
            lineages=tuple(lineages),
            shards=visited,
            state_filesystem=self.state_filesystem,
            state_pool=self.state_pool,
            output_filesystem=self.output_filesystem,
            output_folder=self.output_folder,
            local_dir=self.settings.state_local_dir,
            cache_bytes=self.settings.state_cache_bytes,
            progress_folder=self.progress_folder if epoch.style == "sorted" else None,
            finished=tuple((shard, report.to_bytes()) for shard, report in finished.items()),
            report_folder=report_folder,
            sort=self._sort_plan() if frame is not None and sorter == "arrow" else None,
        )
        reports = []
        if frame is not None:
            prepared = self.operator.prepare(frame, epoch)
            rows = self._shuffled(prepared, len(lineages), sorted_by_spark=task.sort is None, without=list(finished))
            if any("." in name or "`" in name for name in rows.columns):
                # mapInArrow looks columns up by name and takes dots and backticks for syntax.
                task = replace(task, columns=tuple(rows.columns))
                rows = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])
            reports = rows.mapInArrow(task, REPORT_SCHEMA).collect()
        if not reports:
            # No rows were given, or Spark found out that there are none and ran no task at all.  One row per visited
            # shard, so that partition i exists; the rows themselves are not input.
            rows = self.spark.range(0, len(visited), 1, len(visited))
            reports = rows.mapInArrow(_without_rows(task), REPORT_SCHEMA).collect()
        decoded = sorted((ShardReport.from_bytes(bytes(row[0])) for row in reports), key=lambda report: report.shard)
        if [report.shard for report in decoded] != sorted(visited):
            raise MixedModeError(
                f"epoch {epoch.epoch} expected one report from each of the shards {sorted(visited)}, "
                f"got {[report.shard for report in decoded]}: Spark changed the partitioning of the shuffle"
            )
        return decoded

    def _shuffled(self, rows: DataFrame, parallelism: int, *, sorted_by_spark: bool, without: list[int]) -> DataFrame:
        group = key_group(self.operator.key_columns, self.max_parallelism)
        shard = F.floor(F.col(KEY_GROUP_COLUMN) * F.lit(parallelism) / F.lit(self.max_parallelism)).cast("int")
        keyed = rows.select(group.alias(KEY_GROUP_COLUMN), "*").withColumn(_SHARD_COLUMN, shard)
        if without:
            keyed = keyed.where(~F.col(_SHARD_COLUMN).isin(without))
        placed = keyed.repartitionById(parallelism, F.col(_SHARD_COLUMN)).drop(_SHARD_COLUMN)
        if not sorted_by_spark:
            return placed
        columns = (KEY_GROUP_COLUMN, *self.operator.key_columns, *self.operator.sort_columns)
        return placed.sortWithinPartitions(*[F.col(quoted(name)) for name in columns])

    def _sort_plan(self) -> SortPlan:
        return SortPlan(
            key=(KEY_GROUP_COLUMN, *self.operator.key_columns),
            then=self.operator.sort_columns,
            memory_bytes=self.settings.sorter_memory_bytes,
            spill_dir=self.settings.sorter_spill_dir,
        )


def key_group(key_columns: Sequence[str], max_parallelism: int) -> Column:
    """The key group of a row; without key columns there is one key, in group 0."""
    if not key_columns:
        return F.lit(0)
    return F.pmod(F.hash(*[F.col(quoted(name)) for name in key_columns]), F.lit(max_parallelism))


def _without_rows(task: ShardTask):  # type: ignore[no-untyped-def]
    def run(batches):  # type: ignore[no-untyped-def]
        for _ in batches:
            pass
        yield from task(iter(()))

    return run
