"""The rows of the sources that one epoch reads, by lane, and what each stage takes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...catalyst.columns import event_time_us
from ...catalyst.prepared.micro_batch import partitions_of
from ...catalyst.spark_session import empty_frame
from ...connectors.sources.live_inputs import INPUT_COLUMN
from ...connectors.sources.source_lanes import rows_by_lane
from ...operators.arrival_order import in_one_order
from ...operators.frame_steps import FrameStep, behind_steps, done, union_of
from ...spark_io.file_rows import with_file_rows
from ...spec import JobSpec, LaneRead, StageSpec

#: The event times of rows that are looked at before some of them are dropped.
TIMED = "__timed"
#: Takes some rows of a history, given the column with their event times.
Part = Callable[[DataFrame, "str | None"], DataFrame]


@dataclass(frozen=True)
class SourceRows:
    """Rows of the sources; none of a lane that is not named.

    A stage takes its part of a history by its own event time, behind what precedes it: so the parts come in order for
    each stage, whatever columns others go by.
    """

    histories: Mapping[int, DataFrame] = field(default_factory=dict)
    #: Which rows of the histories; None: all.
    part: Part | None = None
    lives: tuple[Mapping[int, DataFrame], ...] = ()
    #: The rows of ``lives`` go by the times of their files, as in micro-batches of one file: the source's limits would
    #: have brought them so, and are lifted.
    by_file: bool = False
    #: There is no row, as Spark knows without a job: no partition is left of what the sources gave.
    are_none: bool = False
    #: The sources have given nothing at all: the lanes are named for what an aggregate makes of no rows.
    nothing_came: bool = False

    @classmethod
    def of_history(cls, job: JobSpec, part: Part | None = None) -> SourceRows:
        """Rows of all histories."""
        histories = {number: lane.history for number, lane in enumerate(job.lanes) if lane.history is not None}
        return cls(histories, part)

    @classmethod
    def of_live(cls, job: JobSpec, rows: DataFrame) -> SourceRows:
        """Rows of the job's live frame."""
        return replace(cls().with_live(job, rows), are_none=partitions_of(rows) == 0)

    def with_live(self, job: JobSpec, rows: DataFrame) -> SourceRows:
        """These, and rows of the job's live frame."""
        return replace(self, lives=(*self.lives, rows_by_lane(job.lanes, rows)), are_none=False)

    def going_by_file(self) -> SourceRows:
        """These, the live ones in the order of their files."""
        return replace(self, by_file=True)

    def with_empty(self, job: JobSpec) -> SourceRows:
        """These, and no rows of the lanes that are not named: even of no rows an aggregate may make one."""
        named = {*self.histories, *(number for rows in self.lives for number in rows)}
        empty = {
            number: empty_frame(job.planning, lane.frame.schema)
            for number, lane in enumerate(job.lanes)
            if number not in named
        }
        if not empty:
            return self
        return replace(self, lives=(*self.lives, empty), nothing_came=self.nothing_came or self.is_empty)

    @property
    def is_empty(self) -> bool:
        """Whether no lane is named."""
        return not self.histories and not self.lives

    def of(self, stage: StageSpec) -> DataFrame | None:
        """The rows that a stage takes; None: there are none."""
        return union_of(self.by_input(stage))

    def timed(self, stage: StageSpec) -> DataFrame | None:
        """The event times of the rows that move a stage's watermark, in a column ``TIMED``; None: there are none."""
        frames = []
        for number, rows in enumerate((self.histories, *self.lives)):
            for read in stage.reads:
                if read.timed is None or read.lane not in rows:
                    continue
                steps, column = read.timed
                frame = done(rows[read.lane], read.steps[:steps], INPUT_COLUMN)
                if number == 0 and self.part is not None:
                    frame = self.part(frame, column)
                input_column = [INPUT_COLUMN] if INPUT_COLUMN in frame.columns and stage.needs_input_column else []
                frames.append(
                    frame.select(F.timestamp_micros(event_time_us(frame, column)).alias(TIMED), *input_column)
                )
        return union_of(frames)

    def by_input(self, stage: StageSpec) -> tuple[DataFrame, ...]:
        """The same, each history and what a live source gives of each lane by itself; empty: there are none."""
        taken = [self._of_history(stage, read) for read in stage.reads if read.lane in self.histories]
        histories = len(taken)
        taken += [(rows[read.lane], read.steps) for rows in self.lives for read in stage.reads if read.lane in rows]
        frames = behind_steps(taken, INPUT_COLUMN)
        if stage.operator.keeps_arrival and (histories or self.by_file):
            # What is observed together has become one frame.
            mixed = len(taken) > 1 and any(read.is_observed for read in stage.reads)
            lives = with_file_rows(frames[histories:], are_live=True) if self.by_file and not mixed else None
            frames = in_one_order(None if mixed else with_file_rows(frames[:histories]), frames, lives)
        if not stage.needs_input_column:  # others may read several live inputs of the same lane
            # Spark plans one more step for it even if there is no such column.
            frames = [frame.drop(INPUT_COLUMN) if INPUT_COLUMN in frame.columns else frame for frame in frames]
        return tuple(frames)

    def _of_history(self, stage: StageSpec, read: LaneRead) -> tuple[DataFrame, tuple[FrameStep, ...]]:
        """Rows of a history, and what is still to be done to them."""
        rows = self.histories[read.lane]
        if self.part is None:
            return rows, read.steps
        if read.is_observed:  # what is observed is the part alone
            return self.part(rows, read.event_time), read.steps
        return self.part(behind_steps([(rows, read.steps)], INPUT_COLUMN)[0], stage.event_time), ()
