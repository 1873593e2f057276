"""The Spark job of a stage's epochs in the stream, planned once for all epochs whose input looks alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from ..catalyst.prepared.prepared_logical_plan import PlanShape, PreparedLogicalPlan
from ..catalyst.prepared.prepared_physical_plan import PreparedPhysicalPlan
from ..operators.admission import LATE_BOUND_COLUMN, bound_us
from ..operators.columnar.few_rows import FewRows
from ..tasks.report import REPORT_SCHEMA
from ..tasks.shard.publish_task import PublishTask
from ..tasks.shard.shard_routing import ShardRouting
from ..tasks.shard.shard_task import ShardTask

if TYPE_CHECKING:
    from ..operators.contract import KeyedOperator

#: More shapes of input than a stage has; what they keep of Spark's is let go then.
_MANY = 16
#: The job over an input, and the tasks that it runs: that of each stage in it.
Make = Callable[["DataFrame"], "tuple[DataFrame, tuple[ShardTask, ...]]"]


@dataclass(frozen=True)
class _Key:
    """All that a job's plan depends on."""

    way: type
    assignment: int
    shape: PlanShape
    prepared_by: Hashable
    order: tuple[str, ...]
    spark_sorts: bool
    #: What prepares rows in the task; None: Spark does all of it.
    few_rows: type[FewRows] | None
    #: The bound of late rows is a column of the input.
    takes_late_bound: bool
    is_staged: bool


@dataclass(frozen=True)
class ExecutedJob:
    """The job of an epoch whose physical plan was made for all, to be run as a frame is.

    Args:
        template: the plan.
        rows: its input.
        functions: what it runs; None: what the plan has.
        numbers: its parameters.
    """

    template: PreparedPhysicalPlan
    rows: DataFrame
    functions: Sequence[Callable[..., Any] | None]
    numbers: Mapping[str, int]

    def collect(self) -> list[Row]:
        """Run it."""
        return self.template.collected(self.rows, self.functions, self.numbers)


@dataclass
class PreparedJob:
    """The job of a stage, or of several that are fused, over rows that change.

    Args:
        plan: its plan.
        columns: see :attr:`ShardTask.columns`, for each stage.
        publishing: what stages the rows that the last stage's task hands on.
    """

    plan: PreparedLogicalPlan
    columns: tuple[tuple[str, ...] | None, ...]
    publishing: Callable[[ShardTask], PublishTask]
    #: Makes its physical plan, if its input is an RDD.
    execute: Callable[[], PreparedPhysicalPlan | None]
    #: Whether Spark has been seen to plan it as expected.
    is_checked: bool = False

    @cached_property
    def executed(self) -> PreparedPhysicalPlan | None:
        """Its physical plan; None: there is none that is made once."""
        return self.execute()

    @classmethod
    def of(
        cls,
        session: SparkSession,
        schema: StructType,
        make: Make,
        publishing: Callable[[ShardTask], PublishTask],
        *,
        takes_late_bound: bool,
        shape: PlanShape,
        holds: Callable[[DataFrame], bool],
        beside: str | None,
    ) -> PreparedJob | None:
        """The template of a job; None: its plan cannot be made once for all.

        Args:
            session: the session that it is planned in.
            schema: the columns of its input.
            make: the job over an input, and the tasks that it runs.
            publishing: what stages the rows that the last task hands on.
            takes_late_bound: the bound of late rows is a column of the input.
            shape: that of its input.
            holds: whether Spark's plan is as expected.
            beside: the column of rows that are joined to the input on the way; None: there are none.
        """
        made: list[tuple[ShardTask, ...]] = []
        returns: list[StructType] = []

        def job(rows: DataFrame) -> DataFrame:
            found, tasks = make(rows)
            made.append(tasks)
            returns.extend(task.hands_on for task in tasks if task.hands_on is not None)
            returns.append(REPORT_SCHEMA)
            return found

        bound = [LATE_BOUND_COLUMN] if takes_late_bound else []
        plan = PreparedLogicalPlan.of(session, schema, job, returns, bound, beside)
        if plan is None:
            return None
        functions = tuple(returns)

        def execute() -> PreparedPhysicalPlan | None:
            if not shape.is_of_rdds:
                return None
            return PreparedPhysicalPlan.of(
                session, schema, lambda rows: make(rows)[0], functions, bound, holds, is_rdd=shape.is_rdd, beside=beside
            )

        return cls(plan, tuple(task.columns for task in made[0]), publishing, execute)

    def over(self, rows: DataFrame, *tasks: ShardTask) -> DataFrame | ExecutedJob:
        """The job of an epoch.

        Args:
            rows: its input.
            tasks: what works on the rows of each shard, for each stage.
        """
        if self.executed is None:
            return self.planned_over(rows, *tasks)
        functions: list[Callable[..., Any] | None] = [*self._prepared(tasks)]
        if tasks[-1].hands_on is not None:
            functions.append(None)  # what stages the rows is the same in all epochs
        return ExecutedJob(self.executed, rows, functions, _numbers(tasks[0]))

    def planned_over(self, rows: DataFrame, *tasks: ShardTask) -> DataFrame:
        """The same, which Spark optimizes and plans anew; the arguments are those of :meth:`over`."""
        functions: list[Callable[..., Any]] = [*self._prepared(tasks)]
        if tasks[-1].hands_on is not None:
            functions.append(self.publishing(tasks[-1]))
        return self.plan.over(rows, functions, _numbers(tasks[0]))

    def _prepared(self, tasks: Sequence[ShardTask]) -> Iterator[ShardTask]:
        return (replace(task, columns=own) for task, own in zip(tasks, self.columns, strict=True))


def _numbers(task: ShardTask) -> dict[str, int]:
    return {LATE_BOUND_COLUMN: bound_us(task.epoch.late_watermark_ms)}


class PreparedJobs:
    """The templates of a stage, by all that its jobs depend on.

    Args:
        operator: the stage's.
        publishing: what stages the rows that a task hands on.
    """

    def __init__(self, operator: KeyedOperator, publishing: Callable[[ShardTask], PublishTask]) -> None:
        self._operator = operator
        self._publishing = publishing
        #: None: there can be no such template.
        self._known: dict[_Key, PreparedJob | None] = {}
        #: What Spark has planned otherwise than expected, and would plan so again in each epoch.
        self._refused: set[_Key] = set()

    def job(
        self,
        way: ShardRouting,
        frame: DataFrame,
        task: ShardTask,
        make: Make,
        anew: Callable[[], DataFrame | None],
        *,
        checks: bool,
    ) -> DataFrame | ExecutedJob | None:
        """The job of an epoch; None: it cannot be had in this way.

        Args:
            way: how rows come to their shards.
            frame: the epoch's input.
            task: works on the rows of each shard.
            make: the job over an input that the way has adopted, and the task that it runs.
            anew: the same, planned for this epoch, if its plan is as expected.
            checks: Spark's plan of a template is looked at once, too.
        """
        key = self._key(way, frame, task)
        if key in self._refused:
            return None
        template = None if key is None else self._template(key, way, make, checks=checks)
        if key is None or template is None:
            return self._noted(key, anew()) if way.depends_on_plan else None
        if template.is_checked:
            return template.over(frame, task)
        job = self._noted(key, anew())
        found = None if job is None else template.planned_over(frame, task)
        template.is_checked = found is not None and (not checks or way.holds(found))
        if not template.is_checked:
            self._known[key] = None
            return job
        return found

    def _noted(self, key: _Key | None, job: DataFrame | None) -> DataFrame | None:
        """A job that was planned anew; None, which is noted: in this way there is none."""
        if job is None and key is not None:
            self._refused.add(key)
        return job

    def _key(self, way: ShardRouting, frame: DataFrame, task: ShardTask) -> _Key | None:
        """All that a job's plan depends on; None: it is made anew each time."""
        by = self._operator.prepares_by(task.epoch)
        if task.epoch.style != "random" or by is None:
            return None
        shape = PlanShape.of(frame)
        # With a join in it, Spark may plan it in another way each time.
        if any("Join" in kind for kind in shape.kinds):
            return None
        order, few = self._operator.order_in(task.epoch), task.few_rows
        takes_bound = self._operator.takes_late_bound and not (few is not None and few.input_columns is not None)
        return _Key(
            way=type(way),
            assignment=way.assignment,
            shape=shape,
            prepared_by=by,
            order=order,
            spark_sorts=task.sort is None,
            few_rows=None if few is None else type(few),
            takes_late_bound=takes_bound,
            is_staged=task.hands_on is None,
        )

    def _template(self, key: _Key, way: ShardRouting, make: Make, *, checks: bool) -> PreparedJob | None:
        if key not in self._known:
            if len(self._known) >= _MANY:
                self._known.clear()
                self._refused.clear()
            for known in [one for one in self._known if one.way is key.way and one.assignment != key.assignment]:
                del self._known[known]
            schema = StructType.fromJson(json.loads(key.shape.schema))
            try:
                self._known[key] = PreparedJob.of(
                    way.session,
                    schema,
                    make,
                    self._publishing,
                    takes_late_bound=key.takes_late_bound,
                    shape=key.shape,
                    holds=way.holds if checks else lambda _: True,
                    beside=way.placed_by,
                )
            except AnalysisException:  # it is for the user's session, which is found out and told where it is planned
                self._known[key] = None
        return self._known[key]
