"""Executes one epoch as one Spark job: prepare, shuffle by shard, sort, run the operator, collect the reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from pyarrow import fs
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ...errors import MisplacedRowsError, MixedModeError
from ...state.lineage import ShardLineage
from ..connectors.output_place import OutputPlace
from ..operators.contract import EpochSpec, KeyedOperator
from ..operators.emission import emitted_schema
from ..operators.processor.keyed_rows import KEY_GROUP_COLUMN
from ..platform.columns import quoted
from ..platform.worker_errors import translate
from ..protocols.operator_events.task_events import ShardInbox
from ..spec import Settings
from .placement import ShardPins
from .publish_task import ArrowFunction, PublishTask, published
from .report import NO_SHARD, REPORT_SCHEMA, ShardReport
from .shard_task import ShardTask, SortPlan
from .shuffle import SHARD_COLUMN, HashExchange, InPlace, exchanged_by_shard, with_key_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from ..operators.tail import Tail

logger = logging.getLogger(__name__)

_Way = TypeVar("_Way", bound=HashExchange | InPlace | ShardPins)


@dataclass
class EpochExecutor:
    """Runs epochs of one operator.  Between calls it keeps how rows come to their shards, and nothing about the job."""

    spark: SparkSession
    operator: KeyedOperator
    settings: Settings
    job_id: str
    run_id: str
    max_parallelism: int
    state_filesystem: fs.FileSystem
    state_pool: str
    output: OutputPlace
    progress_folder: str
    #: True if the rows go to another stage.
    feeds_a_stage: bool = False
    #: What is done to the rows before they are staged; None: nothing.
    tail: Tail | None = None

    def __post_init__(self) -> None:
        self._pickled = cloudpickle.dumps(self.operator)
        self._hash_exchange: HashExchange | None = None
        self._in_place: InPlace | None = None
        #: Styles of epochs whose rows Spark does not leave in place.
        self._moved: set[str] = set()
        self._misplaced = False
        self._pins: ShardPins | None = None
        self._asked_for_pins = False

    def close(self) -> None:
        """Let go of what executors hold for this run."""
        if self._pins is not None:
            self._pins.close()

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
        inboxes: Mapping[int, ShardInbox] = MappingProxyType({}),
        in_place: bool = False,
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
            inboxes: what goes to shards besides the epoch.
            in_place: the rows are handed on by a stage in whose shards they are in their key groups here, and Spark
                knows of each file which shard's it is.

        Returns:
            One report per visited shard: those of the attempts whose result Spark took.

        Raises:
            MixedModeError: Spark has brought rows to other partitions than those of their shards.
            Exception: whatever a task has failed with.
        """
        self._ask_for_pins(lineages)
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
            output=self.output,
            local_dir=self.settings.state_local_dir,
            cache_bytes=self.settings.state_cache_bytes,
            progress_folder=self.progress_folder if epoch.style == "sorted" else None,
            finished=tuple((shard, report.to_bytes()) for shard, report in finished.items()),
            report_folder=report_folder,
            inboxes=tuple(inboxes.items()),
            sort=self._sort_plan(epoch) if frame is not None and sorter == "arrow" else None,
            hands_on=self._hands_on,
            feeds_a_stage=self.feeds_a_stage,
        )
        reports: list[ShardReport] = []
        if frame is not None:
            rows = frame
            reports = self._completed(visited, task, lambda task: self._run(rows, task, in_place))
        if not reports:
            # No rows were given, or Spark found out that there are none and ran no task at all.  One row per visited
            # shard, so that partition i exists; the rows themselves are not input.
            places, partitions = self.places(visited, lineages)
            reports = self._completed(
                visited,
                replace(task, shards=partitions),
                lambda task: self._mapped(places, task, _without_rows(task)).collect(),
            )
        reports = sorted(reports, key=lambda report: report.shard)
        if [report.shard for report in reports] != sorted(visited):
            raise MixedModeError(
                f"epoch {epoch.epoch} expected one report from each of the shards {sorted(visited)}, "
                f"got {[report.shard for report in reports]}: Spark changed the partitioning of the shuffle"
            )
        return reports

    @property
    def _hands_on(self) -> StructType | None:
        """Columns of the rows that the tasks hand on; None: they stage them themselves."""
        if self.operator.projection is not None:
            schema = self.operator.projection.row_schema
            return emitted_schema(schema) if self.feeds_a_stage else schema
        return None if self.tail is None else self.tail.row_schema

    def _completed(
        self, visited: Sequence[int], task: ShardTask, run: Callable[[ShardTask], list[Row]]
    ) -> list[ShardReport]:
        """The reports of a task's shards.

        If Spark finds that nothing gets through what follows the stage (a filter that is never true, a join with an
        empty table), it does not ask the stage for its rows.  They are input all the same, so such shards run again by
        themselves, and their output is dropped.
        """
        reports = _decoded(run(task))
        found = {report.shard for report in reports}
        if self.tail is None or found.issuperset(visited):
            return reports
        logger.info("nothing gets through behind the keyed stage in shards %s", sorted(set(visited) - found))
        finished = (*task.finished, *[(report.shard, report.to_bytes()) for report in reports])
        alone = replace(task, hands_on=None, output=replace(task.output, folder=None), finished=finished)
        return [report if report.shard in found else replace(report, dropped_rows=0) for report in _decoded(run(alone))]

    def places(self, shards: Sequence[int], lineages: Sequence[ShardLineage]) -> tuple[DataFrame, tuple[int, ...]]:
        """Rows for a task over some shards that reads none, to be run where the shards' replicas are.

        Returns:
            The rows, and for each of their partitions its shard, or ``NO_SHARD``.
        """
        self._ask_for_pins(lineages)
        if self._pins is None:
            return self.spark.range(0, len(shards), 1, len(shards)), tuple(shards)
        partitions = tuple(shard if shard in shards else NO_SHARD for shard in range(len(lineages)))
        return self._pins.of(shards), partitions

    def _ask_for_pins(self, lineages: Sequence[ShardLineage]) -> None:
        """Pin the shards once they have state, if there is a choice of places."""
        if not self._asked_for_pins and any(lineage.files for lineage in lineages):
            self._asked_for_pins = True
            self._pins = ShardPins(self.spark, len(lineages)) if ShardPins.are_useful(self.spark) else None

    def _run(self, frame: DataFrame, task: ShardTask, in_place: bool) -> list[Row]:
        """Bring the rows to their shards and run the task on them, with one exchange at most if Spark allows it."""
        parallelism, without = len(task.lineages), {shard for shard, _ in task.finished}
        # Python code may need what was added to the user's session.
        own_session = task.hands_on is None or self.tail is None or not self.tail.runs_python
        if self._pins is not None and task.epoch.style == "random" and own_session:
            job = self._planned(lambda pins: (self._beside_pins(pins, frame, task), task), self._pins)
            if job is not None:
                return job.collect()
        way: HashExchange | InPlace | None = None
        if own_session and in_place and task.epoch.style not in self._moved:
            way = self._in_place = self._in_place or InPlace(self.spark, parallelism)
        # Shards that are not wanted can be left out before the exchange only if the exchange is by shard.
        elif own_session and not without and HashExchange.is_possible(self.operator, self.max_parallelism, parallelism):
            way = self._hash_exchange = self._hash_exchange or HashExchange(self.spark, self.operator, parallelism)
        if way is not None and not self._misplaced:
            placed = replace(task, shards=way.shards)
            job = self._planned(lambda way: (self._prepared(way.adopt(frame), task.epoch), placed), way)
            if job is not None:
                try:
                    return job.collect()
                except Exception as error:
                    if not isinstance(translate(error), MisplacedRowsError):
                        raise
                    logger.warning("rows are moved to their shards in an exchange of their own from now on: %s", error)
                    self._misplaced = True
            elif way is self._in_place:
                logger.info("Spark moves the rows of stage %s to their shards", self.operator.uid)
                self._moved.add(task.epoch.style)
                return self._run(frame, task, in_place=False)
        rows = self._prepared(frame, task.epoch)
        return self._job(exchanged_by_shard(rows, self.max_parallelism, parallelism, without=without), task).collect()

    def _planned(self, make: Callable[[_Way], tuple[DataFrame, ShardTask]], way: _Way) -> DataFrame | None:
        """A job in a session of our own, if that works and its plan is as expected."""
        try:
            rows, task = make(way)
            job = self._job(rows, task)
            # What follows the stage may have exchanges of its own, below a join.
            alone = job if self.tail is None else self._job(rows, replace(task, hands_on=None))
            return job if way.holds(alone) else None
        except AnalysisException as error:
            # The job's keys or aggregates name functions or variables of the user's session; there they are known.
            logger.info("rows are moved to their shards in the user's session: %s", error)
            return None

    def _beside_pins(self, pins: ShardPins, frame: DataFrame, task: ShardTask) -> DataFrame:
        rows = self._prepared(pins.adopt(frame), task.epoch)
        rows = exchanged_by_shard(rows, self.max_parallelism, len(task.lineages), keep_shard=True)
        return pins.beside(rows, SHARD_COLUMN)

    def _prepared(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        return with_key_group(self.operator.prepare(frame, epoch), self.operator, self.max_parallelism)

    def _job(self, rows: DataFrame, task: ShardTask) -> DataFrame:
        if task.sort is None:
            columns = (KEY_GROUP_COLUMN, *self.operator.key_columns, *self.operator.order_in(task.epoch))
            rows = rows.sortWithinPartitions(*[F.col(quoted(name)) for name in columns])
        if any("." in name or "`" in name for name in rows.columns):
            # mapInArrow looks columns up by name and takes dots and backticks for syntax.
            task = replace(task, columns=tuple(rows.columns))
            rows = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])
        return self._mapped(rows, task, task)

    def _mapped(self, rows: DataFrame, task: ShardTask, function: ArrowFunction) -> DataFrame:
        """The reports of ``function``, which runs the task."""
        if task.hands_on is None:
            return rows.mapInArrow(function, REPORT_SCHEMA)
        schema = self.operator.output_schema if self.tail is None else self.tail.schema
        schema = emitted_schema(schema) if self.feeds_a_stage else schema
        handed_on = rows.mapInArrow(function, task.hands_on)
        return published(handed_on, self.operator.projection, self.tail, PublishTask(task, schema))

    def _sort_plan(self, epoch: EpochSpec) -> SortPlan:
        return SortPlan(
            key=(KEY_GROUP_COLUMN, *self.operator.key_columns),
            then=self.operator.order_in(epoch),
            memory_bytes=self.settings.sorter_memory_bytes,
            spill_dir=self.settings.sorter_spill_dir,
        )


def _decoded(rows: Sequence[Row]) -> list[ShardReport]:
    return [ShardReport.from_bytes(bytes(row[0])) for row in rows]


def _without_rows(task: ShardTask):  # type: ignore[no-untyped-def]
    def run(batches):  # type: ignore[no-untyped-def]
        for _ in batches:
            pass
        yield from task(iter(()))

    return run
