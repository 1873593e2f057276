"""The sources of a job by what its stages take together: :class:`~...runtime.connectors.sources.source_lanes.Lane`.

What one ``read()`` gives is a lane of its own if several stages take it, each doing to the rows what precedes it; and
what only one stage takes, from however many ``read()``s, is one lane, with all of that done before.  Where a stage
observes rows, each ``read()`` is a lane of its own, too: from there on the stage does it, to the rows of an epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...errors import PlanError
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.connectors.sources.live_inputs import INPUT_COLUMN, LiveInput
from ...runtime.connectors.sources.source_lanes import Lane
from ...runtime.jvm.spark_errors import error_text
from ...runtime.operators.frame_steps import FrameStep, done
from ...runtime.spec import LaneRead
from ..inputs.analysis import columns_below
from ..inputs.inputs import InputPart, Inputs, numbered_names
from ..inputs.untimed_rows import drops_timed_rows
from ..stages.stage import KeyedStage

Branch = tuple[InputPart, ...]


@dataclass(frozen=True)
class PlannedLane:
    """One lane."""

    #: Its sources as it takes them.
    parts: Branch
    #: Those of each stage that takes them, as the stage does.  Of several stages the lane's are as they were given, and
    #: of one that observes them as they were before.
    takers: tuple[tuple[KeyedStage, Branch], ...]
    #: Stages whose event times are looked at behind ``withWatermark``, and not where the stage takes the rows.
    looking: frozenset[KeyedStage] = frozenset()

    @property
    def inputs(self) -> Inputs:
        return Inputs(self.parts)


@dataclass(frozen=True)
class Lanes:
    """All lanes of a job, in the order in which stages take them."""

    lanes: tuple[PlannedLane, ...]

    @classmethod
    def of(cls, stages: Sequence[KeyedStage]) -> Lanes:
        """The lanes of a job's stages.

        Raises:
            PlanError: two live inputs have one name.
        """
        takers: dict[tuple[tuple[int, ...], int], list[tuple[KeyedStage, Branch]]] = {}
        for stage in stages:
            times: Counter[tuple[int, ...]] = Counter()
            for branch in _branches(stage.inputs):
                frames = tuple(id(part.as_given.frame) for part in branch)
                takers.setdefault((frames, times[frames]), []).append((stage, branch))
                times[frames] += 1
        # Rows that are observed together come together there, so each read() of such a stage is a lane of its own.
        observing = {stage for stage in stages if any(_is_observed(part) for part in stage.inputs.parts)}
        looking = frozenset(stage for stage in stages if any(map(_is_looked_at, stage.inputs.parts)))
        lanes: dict[object, PlannedLane] = {}
        for number, (key, taken) in enumerate(takers.items()):
            stage, branch = taken[0]
            if len(taken) > 1 or stage in observing or stage in looking:
                first = tuple(
                    part.behind(0 if len(taken) > 1 else _cut_at(part, looks=stage in looking)) for part in branch
                )
                lanes[key] = PlannedLane(_numbered(first, number), tuple(taken), looking)
                continue
            known = () if stage not in lanes else lanes[stage].parts
            parts = (*known, *_numbered(branch, number))
            lanes[stage] = PlannedLane(parts, ((stage, parts),))
        named = iter(numbered_names([part for lane in lanes.values() for part in lane.parts]))
        return cls(tuple(replace(lane, parts=tuple(next(named) for _ in lane.parts)) for lane in lanes.values()))

    @property
    def parts(self) -> tuple[InputPart, ...]:
        """All sources; a branch is what one ``read()`` gave."""
        return tuple(part for lane in self.lanes for part in lane.parts)

    @property
    def live_inputs(self) -> tuple[LiveInput, ...]:
        """The live inputs as the runtime knows them."""
        return Inputs(self.parts).live_inputs

    def of_stage(self, stage: KeyedStage) -> tuple[tuple[int, PlannedLane, Branch], ...]:
        """The lanes that a stage takes: number, lane, and its sources as the stage takes them."""
        return tuple(
            (number, lane, branch)
            for number, lane in enumerate(self.lanes)
            for taker, branch in lane.takers
            if taker is stage
        )

    def names_of(self, stage: KeyedStage) -> dict[str, str]:
        """The live inputs that a stage reads: the job's names, and what they are called where the stage stands."""
        return {
            part.name: own.name
            for _, lane, branch in self.of_stage(stage)
            for part, own in zip(lane.parts, branch, strict=True)
            if part.is_live
        }

    def history_name(self, number: int) -> str:
        """What the history of a lane is called in plans."""
        bounded = [place for place, lane in enumerate(self.lanes) if lane.inputs.histories]
        return "history" if len(bounded) == 1 else f"history-{bounded.index(number) + 1}"

    # -- for the runtime -----------------------------------------------------------------------------------------------

    def frames(self) -> tuple[Lane, ...]:
        """The lanes as the runtime reads them."""
        separate = {id(lane) for stage in self._stages if self._tells_apart(stage) for lane in self._of(stage)}
        numbers = iter(range(len(self.parts)))
        found = []
        for lane in self.lanes:
            parts = [(next(numbers), part) for part in lane.parts]
            if id(lane) in separate:
                inputs = Inputs(tuple(part.mapped("union", _numbering(number)) for number, part in parts))
            else:
                inputs = lane.inputs
            found.append(Lane(inputs.history, inputs.live))
        return tuple(found)

    def reads_of(self, uid: str, stage: KeyedStage) -> tuple[LaneRead, ...]:
        """What a stage takes of the lanes.

        Raises:
            PlanError: what precedes it cannot be done to other rows than those of the frame it was written on.
        """
        found = []
        for number, lane, branch in self.of_stage(stage):
            done, first = len(lane.parts[0].steps), branch[0]
            steps = first.steps[done:]
            looks = stage in lane.looking and first.timed_by is not None
            timed = (first.timed_at - done, first.timed_column) if looks else None
            if not steps:
                found.append(LaneRead(number, timed=timed))
                continue
            event_time = self._event_time(stage, lane, self._repeated(uid, stage, lane, steps))
            found.append(LaneRead(number, steps, first.frame, event_time, timed))
        return tuple(found)

    def _event_time(self, stage: KeyedStage, lane: PlannedLane, rows: DataFrame) -> str | None:
        """The lane's column that is the event time of a stage's rows; None: it is computed, or there is none."""
        if stage.watermark is None or stage.watermark.event_time not in rows.columns:
            return None
        return dict(zip(rows.columns, columns_below(rows, lane.inputs.schema.names), strict=True))[
            stage.watermark.event_time
        ]

    def _repeated(self, uid: str, stage: KeyedStage, lane: PlannedLane, steps: Sequence[FrameStep]) -> DataFrame:
        """What precedes a stage, done to an empty frame."""
        empty = empty_frame(stage.inputs.spark, lane.inputs.schema).withColumn(INPUT_COLUMN, F.lit(0))
        try:
            rows = done(empty, steps, INPUT_COLUMN)
        except AnalysisException as error:
            raise PlanError(
                f"what precedes the keyed stage {uid} works only on the frame that it was written for:"
                f" {error_text(error)}; where several stages read the same sources, and behind observe(), use names or"
                " F.col('x') instead of columns that were taken from a frame (frame['x'], frame.x)"
            ) from error
        if self._tells_apart(stage) and INPUT_COLUMN not in rows.columns:
            raise PlanError(
                f"what precedes the keyed stage {uid} ({', '.join(step.what for step in steps)}) does not say any"
                " more which live input a row came from, and several stages read several of them; do it behind the"
                " stage, or in one job for each"
            )
        return rows

    def has_lone_history(self, stage: KeyedStage) -> bool:
        """Whether a history of one side was read without a live input, and must not move a watermark of others."""
        if stage.watermark is None or not stage.watermark.of_sides:
            return False
        return any(not any(part.is_live for part in branch) for branch in _branches(stage.inputs))

    def _tells_apart(self, stage: KeyedStage) -> bool:
        lives = len(self.names_of(stage))
        return lives > 1 or (lives == 1 and self.has_lone_history(stage))

    @property
    def _stages(self) -> tuple[KeyedStage, ...]:
        return tuple(dict.fromkeys(stage for lane in self.lanes for stage, _ in lane.takers))

    def _of(self, stage: KeyedStage) -> list[PlannedLane]:
        return [lane for _, lane, _ in self.of_stage(stage)]


def _is_observed(part: InputPart) -> bool:
    return part.origin is None and any(step.metrics is not None for step in part.steps)


def _is_looked_at(part: InputPart) -> bool:
    return part.origin is None and drops_timed_rows(part)


def _cut_at(part: InputPart, *, looks: bool) -> int:
    """How many operations come before the first ``observe``; ``looks``: and no more than up to ``withWatermark``."""
    before = next((at for at, step in enumerate(part.steps) if step.metrics is not None), len(part.steps))
    return min(before, part.timed_at) if looks and part.timed_by is not None else before


def _branches(inputs: Inputs) -> list[Branch]:
    """The sources among some inputs, by the ``read()`` that gave them."""
    found: dict[int, list[InputPart]] = {}
    for part in inputs.parts:
        if part.origin is None:
            found.setdefault(part.branch, []).append(part)
    return [tuple(parts) for parts in found.values()]


def _numbered(parts: Branch, branch: int) -> Branch:
    return tuple(replace(part, branch=branch) for part in parts)


def _numbering(number: int) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.withColumn(INPUT_COLUMN, F.lit(number))
