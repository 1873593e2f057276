"""Two stages of an epoch of the stream as one Spark job: the second one takes what the first one hands on as it comes.

Of a small epoch most is what Spark does for each job, and what is handed on by files is written, looked up and read.
The second stage's tasks must know before the job what else is told by the first one's, so this is for epochs in which
nothing depends on that (``driver/stages_together.py``).

The plan is made once (:mod:`..catalyst.prepared.prepared_physical_plan`).  Where it cannot be, or Spark has had to
compute a task's rows twice, the stages run one after the other: state changes behind a whole epoch only, so what was
done counts for nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ...errors import MisplacedRowsError
from ...state.keys.keygroups import all_shards, shards_of_hash_partitions
from ..catalyst.prepared.prepared_logical_plan import PlanShape
from ..catalyst.spark_plans import Spread, straight_spreads
from ..catalyst.spark_session import PrivateSession
from ..jvm.worker_errors import translate
from ..tasks.report import ShardReport
from ..tasks.report_accumulator import ReportAccumulator
from ..tasks.shard.shard_task import ShardTask
from ..tasks.shard.shards_in_one import InOneTask
from .executor import EpochExecutor
from .prepared_jobs import PreparedJob
from .shard_placement import PLACEMENT_COLUMN, ShardPlacement
from .shuffle import HashExchange
from .stage_epoch import StageEpoch, StageResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FusedStage:
    """What one of the stages does in an epoch, on all of its shards.

    Args:
        stage: runs it by itself.
        epoch: the epoch.
        placement: where the shards' local copies are, once :meth:`placed`; None: anywhere.
        in_one: one task works on all shards, one after the other.
    """

    stage: EpochExecutor
    epoch: StageEpoch
    placement: ShardPlacement | None = None
    in_one: bool = False

    def placed(self) -> FusedStage:
        """The same, with the places of the shards of now."""
        return replace(self, placement=self.stage.placement_for(self.epoch.manifests))

    @property
    def by_hash(self) -> bool:
        """Whether partitions are shards as Spark's aggregation by key leaves them; False: rows are moved by shard."""
        if self.placement is not None or self.in_one:
            return False
        return HashExchange.is_possible(self.stage.operator, self.stage.max_parallelism, len(self.epoch.manifests))

    @property
    def task(self) -> ShardTask:
        """Works on the rows of each shard."""
        count = len(self.epoch.manifests)
        task = self.stage.task(self.epoch, shards_of_hash_partitions(count) if self.by_hash else all_shards(count))
        return replace(task, in_one=True) if self.in_one else task

    def can_be_in_one(self, frame: DataFrame) -> bool:
        """Whether one task may work on all of its shards; ``frame``: the rows of the epoch."""
        is_possible = self.placement is None and InOneTask.is_possible(self.stage.operator, len(self.epoch.manifests))
        return is_possible and self.stage.jobs.has_few(frame)

    def in_shards(self, rows: DataFrame) -> DataFrame:
        """Rows in its shards, in order; ``rows``: its input."""
        if self.in_one:
            return self.stage.jobs.shard_rows.in_one_task(rows, self.task)
        if self.placement is not None:
            return self.stage.jobs.shard_rows.beside_placement(self.placement, rows, self.task)
        return self.stage.jobs.shard_rows.in_shards(rows, self.task, by_hash=self.by_hash)

    def holds(self, spreads: Sequence[Spread]) -> bool:
        """Whether Spark's plan brings rows to its shards; ``spreads``: the exchanges below its function, from above."""
        if self.in_one:
            return not spreads
        if self.placement is not None:  # what its rows are prepared with may have exchanges of its own
            return list(spreads[:1]) == [Spread(len(self.epoch.manifests), None, meets_beside=True)]
        keys = len(self.stage.operator.key_columns) if self.by_hash else None
        return list(spreads) == [Spread(len(self.epoch.manifests), keys)]

    def has_all(self, reports: Sequence[ShardReport]) -> bool:
        """Whether there is one report of each shard."""
        return sorted(report.shard for report in reports) == list(all_shards(len(self.epoch.manifests)))


@dataclass
class FusedStages:
    """Runs epochs of two stages.

    Args:
        first: runs the first one by itself.
        second: the same of the second one.
        over: makes the second one's rows of those that the first one hands on.
    """

    first: EpochExecutor
    second: EpochExecutor
    over: Callable[[DataFrame], DataFrame]
    #: By all that a plan depends on; None: there is none.
    _known: dict[Hashable, PreparedJob | None] = field(init=False, default_factory=dict)
    _session: PrivateSession | None = field(init=False, default=None)
    #: Spark has not kept to a plan.
    _given_up: bool = field(init=False, default=False)
    #: For which places of shards all that is: of each stage its assignment; None: it has none.
    _assignments: tuple[int | None, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self._accumulator = ReportAccumulator(self.first.spark)

    def execute(
        self, frame: DataFrame, first: FusedStage, second: FusedStage
    ) -> tuple[StageResult, StageResult] | None:
        """Run an epoch's rows through both stages.

        Args:
            frame: the first one's rows.
            first: what it does.
            second: what the second one does.

        Returns:
            What both have done; None: they have to run one after the other.

        Raises:
            Exception: whatever a task has failed with.
        """
        first, second = first.placed(), second.placed()
        assignments = tuple(None if part.placement is None else part.placement.assignment for part in (first, second))
        if assignments != self._assignments:  # executors have come or gone, which may be why it was given up
            self._assignments, self._session, self._given_up = assignments, None, False
            self._known.clear()
        job = None
        for parts in [] if self._given_up else _ways(frame, first, second):
            job = self._job(frame, *parts)
            if job is not None:
                first, second = parts
                break
        if job is None:
            return None
        sender = self._accumulator.sender()
        task = replace(self._handing_on(first), sender=sender)
        try:
            found = ShardReport.of_rows(job.over(frame, task, second.task).collect())
        except Exception as error:
            if not isinstance(translate(error), MisplacedRowsError):
                raise
            self._give_up("Spark has brought rows to other partitions")
            return None
        first_reports = [ShardReport.from_bytes(report) for report in self._accumulator.of(sender)]
        if not first.has_all(first_reports) or not second.has_all(found):
            self._give_up("not of each task were the rows of one attempt taken")
            return None
        for stage, reports in ((self.first, first_reports), (self.second, found)):
            stage.jobs.note_rows(sum(report.counters.rows_in for report in reports))
        return StageResult(_by_shard(first_reports)), StageResult(_by_shard(found))

    def _give_up(self, why: str) -> None:
        stages = f"{self.first.operator.uid} and {self.second.operator.uid}"
        logger.warning("from now on the stages %s run one after the other: %s", stages, why)
        self._given_up = True

    # -- the plan ------------------------------------------------------------------------------------------------------

    def _handing_on(self, first: FusedStage) -> ShardTask:
        return replace(first.task, hands_on=self.first.jobs.row_schema)

    def _job(self, frame: DataFrame, first: FusedStage, second: FusedStage) -> PreparedJob | None:
        """The job over an epoch's rows; None: its plan cannot be made once."""
        parts = (first, second)
        by = [part.stage.operator.prepares_by(part.epoch.spec) for part in parts]
        if None in by or not all(part.stage.jobs.has_own_session for part in parts):
            return None
        shape = PlanShape.of(frame)
        if not shape.is_of_rdds:
            return None
        key = (
            shape,
            first.epoch.sorter,
            first.in_one,
            *by,
            *(part.stage.operator.order_in(part.epoch.spec) for part in parts),
        )
        if key not in self._known:
            try:
                self._known[key] = self._planned(shape, first, second)
            except AnalysisException as error:  # what the user's session alone knows
                logger.info("two stages have no Spark job together: %s", error)
                self._known[key] = None
        return self._known[key]

    def _planned(self, shape: PlanShape, first: FusedStage, second: FusedStage) -> PreparedJob | None:
        partitions = {len(part.epoch.manifests) for part in (first, second) if part.by_hash}
        if len(partitions) > 1:
            return None
        if self._session is None:
            settings = {"spark.sql.adaptive.enabled": "false"}
            if partitions:
                settings["spark.sql.shuffle.partitions"] = str(partitions.pop())
            self._session = PrivateSession(self.first.spark, settings)
        task, following = self._handing_on(first), second.task
        functions = 2 if following.hands_on is None else 3

        def make(rows: DataFrame) -> tuple[DataFrame, tuple[ShardTask, ...]]:
            rows, one = self.first.jobs.handed_on(first.in_shards(rows), task)
            rows, other = self.second.jobs.reported(second.in_shards(self.over(rows)), following)
            return rows, (one, other)

        def holds(found: DataFrame) -> bool:
            spreads = straight_spreads(found, PLACEMENT_COLUMN)
            # Nothing is moved above all functions, and below one that stages rows.
            nowhere = len(spreads) == functions + 1 and not any(spreads[:-2])
            return nowhere and second.holds(spreads[-2]) and first.holds(spreads[-1])

        planned = PreparedJob.of(
            self._session.session,
            StructType.fromJson(json.loads(shape.schema)),
            make,
            self.second.jobs.publishing,
            takes_late_bound=self.first.operator.takes_late_bound,
            shape=shape,
            holds=holds,
            beside=PLACEMENT_COLUMN,
        )
        return None if planned is None or planned.executed is None else planned


def _ways(frame: DataFrame, first: FusedStage, second: FusedStage) -> list[tuple[FusedStage, FusedStage]]:
    """How the stages may have a job together, the best first: few rows in one task, or all in a task for each shard."""
    parts = first, second
    # Operations of Spark's behind the second one know of each partition which shard's it is.
    if second.stage.jobs.hands_on is not None or not all(part.can_be_in_one(frame) for part in parts):
        return [parts]
    return [(replace(first, in_one=True), replace(second, in_one=True)), parts]


def _by_shard(reports: Sequence[ShardReport]) -> list[ShardReport]:
    return sorted(reports, key=lambda report: report.shard)
