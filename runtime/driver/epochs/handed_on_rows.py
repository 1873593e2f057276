"""Rows that earlier stages of a job have staged in an epoch, as a later stage takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from ...connectors.sources.live_inputs import INPUT_COLUMN
from ...connectors.stage_handoff import StageHandoff
from ...connectors.staging import StagedFile
from ...jobs.shuffle import InPlace
from ...operators.emission_watermark import EMITTED_COLUMN, emitted_when_due
from ...operators.frame_steps import union_of
from ...spec import StageEdge, StageSpec, over_edges
from ..state.job_state import JobState


@dataclass(frozen=True)
class HandedOnRows:
    """What stages hand on to each other.

    Args:
        state: where the job stands.
        handoffs: by stage.
    """

    state: JobState
    handoffs: Mapping[str, StageHandoff]

    def rows(
        self, stage: StageSpec, staged: Mapping[str, Sequence[StagedFile]], own: DataFrame | None, *, in_place: bool
    ) -> DataFrame | None:
        """The rows that a stage takes; None: there are none.

        Args:
            stage: the stage.
            staged: what earlier ones have staged, by stage.
            own: its rows of sources, if it reads some, too.
            in_place: whether rows are in their shards already (:meth:`keep_shards`).
        """
        frames = [] if own is None else [own.drop(INPUT_COLUMN)]
        if own is not None and EMITTED_COLUMN in stage.operator.sort_columns:
            assert stage.event_time is not None, "only a stage with event time asks for it"
            frames = [emitted_when_due(frames[0], stage.event_time)]
        handed_on: list[tuple[StageEdge, DataFrame]] = []
        for edge in stage.edges:
            files, handoff = staged.get(edge.origin, ()), self.handoffs[edge.origin]
            if in_place:
                earlier = self.state.stages[edge.origin]
                frame = handoff.frame_in_shards(files, earlier.operator.key_group_outputs, len(earlier.shards))
            else:
                frame = handoff.frame(files)
            if frame is not None:
                handed_on.append((edge, frame))
        return union_of([*frames, *_over_edges(stage, handed_on)])

    def no_rows(self, stage: StageSpec) -> DataFrame | None:
        """What a stage takes of an earlier one that has staged nothing."""
        edge = stage.edges[0]
        return union_of(_over_edges(stage, [(edge, self.handoffs[edge.origin].no_rows)]))

    def keep_shards(self, stage: StageSpec) -> bool:
        """Whether rows are in their shards before a stage gets them: in those of the stage before."""
        earlier = self.state.stages[stage.edges[0].origin]
        here = self.state.stages[stage.uid]
        return (
            stage.keeps_key_groups_of(earlier.operator)
            and len(earlier.shards) == len(here.shards)
            and earlier.max_parallelism == here.max_parallelism
            and InPlace.is_possible(here.max_parallelism, len(here.shards))
        )


def _over_edges(stage: StageSpec, handed_on: Sequence[tuple[StageEdge, DataFrame]]) -> list[DataFrame]:
    return over_edges(handed_on, emitted=EMITTED_COLUMN in stage.operator.sort_columns) if handed_on else []
