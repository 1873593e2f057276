"""Stage fusion: decides which epochs of the stream run their first two stages as one Spark job, and applies both.

The second stage has to know how far its watermark comes before the job.  It does where that follows from where the
first one stands already: an epoch fires what earlier ones have brought the watermark to.  Where rows of this epoch
decide, or somebody wants to see what goes from one to the other, the stages run one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ....state.keys.keygroups import all_shards
from ...jobs.executor import EpochExecutor
from ...jobs.fused_stages import FusedStage, FusedStages
from ...jobs.stage_epoch import StageEpoch
from ...operators.contract import EpochSpec
from ...operators.emission_watermark import EMITTED_COLUMN
from ...spec import JobSpec, SortEngine, StageSpec, over_edges
from ..coordinators.event_channels import JobEvents
from ..state.job_state import JobState
from .epoch_specs import following_epoch_of
from .event_times import EventTimes
from .stage_runs import StageRequest, StageRun, fired_upstream, reached_upstream


@dataclass
class StageFusion:
    """Runs the first two stages of epochs.

    Args:
        job: the job.
        state: where it stands.
        executors: by stage.
        events: what goes to shards.
        times: how far event times have come.
    """

    job: JobSpec
    state: JobState
    executors: Mapping[str, EpochExecutor]
    events: JobEvents
    times: EventTimes
    #: By the uid of the second stage.
    _pairs: dict[str, FusedStages] = field(init=False, default_factory=dict)
    #: First stages whose last epoch with rows has given the second one some; for others a job together costs only.
    _hand_on: set[str] = field(init=False, default_factory=set)

    def pair(self, base: EpochSpec, requests: Mapping[str, StageRequest]) -> tuple[StageSpec, StageSpec] | None:
        """The two stages of an epoch that may be one Spark job; None: there are no such.

        Args:
            base: what all stages of it have in common.
            requests: what is to be done.
        """
        for second in self.job.stages:
            request = requests.get(second.edges[0].origin) if second.edges else None
            if request is None or request.frame is None or second.uid in requests:
                continue
            first = self.job.stage_of(second.edges[0].origin)
            if first.uid in self._hand_on and base.style == "random" and self._can_be(first, second, request):
                return first, second
        return None

    def forget_shards(self) -> None:
        """Shards are dealt anew: what was planned for those that there were is of no use."""
        self._pairs.clear()

    def note(self, runs: Mapping[str, StageRun]) -> None:
        """Look at what the stages of an epoch have done."""
        for uid, done in runs.items():
            if done.request.frame is not None:
                handed_on = any(report.output or report.handed_on_rows for report in done.reports)
                (self._hand_on.add if handed_on else self._hand_on.discard)(uid)

    def _can_be(self, first: StageSpec, second: StageSpec, request: StageRequest) -> bool:
        """Whether nothing that the second stage has to know is told by the first one's tasks, and nobody else is."""
        followers = [stage.uid for stage in self.job.stages for edge in stage.edges if edge.origin == first.uid]
        if followers != [second.uid] or len(second.edges) > 1 or second.reads or first.edges:
            return False
        if first.uid in self.job.outputs or self.job.late_rows is not None or self.events.users:
            return False
        if first.looks_before_steps:
            return False
        if any(self.executors[stage.uid].observes or stage.observed for stage in (first, second)):
            return False
        if second.operator.takes_late_bound or self.times.in_order(second) or self.times.fires_at_once():
            return False
        return (
            request.reach is None and not first.tells_inputs_apart and request.fires_all(self.state.stages[first.uid])
        )

    def run(
        self, base: EpochSpec, first: StageSpec, second: StageSpec, request: StageRequest, sorter: SortEngine
    ) -> dict[str, StageRun]:
        """Run two stages of an epoch.

        Args:
            base: what all stages of it have in common.
            first: the one that reads sources.
            second: the one that follows it.
            request: what the first one is to do.
            sorter: who sorts.

        Returns:
            What both have done; empty: they have to run one after the other.
        """
        stages = self.state.stages
        assert request.frame is not None
        fired_ms = max(stages[first.uid].watermark.fired_ms, request.spec.firing_watermark_ms)
        spec = self._following(base, second, StageRun(request, [], fired_ms, fired_ms))
        done = self._pair(first, second).execute(
            request.frame, self._part(first, request.spec, sorter), self._part(second, spec, sorter)
        )
        if done is None:
            return {}
        runs = {first.uid: self.times.stage_run(first, request, done[0], {})}
        if self._following(base, second, runs[first.uid]) != spec:  # its tasks had to know more than they did
            return {}
        runs[second.uid] = self.times.stage_run(second, StageRequest(spec), done[1], runs)
        return runs

    def _part(self, stage: StageSpec, spec: EpochSpec, sorter: SortEngine) -> FusedStage:
        state = self.state.stages[stage.uid]
        inboxes = self.events.take(all_shards(len(state.shards)), state, with_events=False)
        return FusedStage(self.executors[stage.uid], StageEpoch(spec, state.manifests, inboxes, sorter))

    def _following(self, base: EpochSpec, second: StageSpec, first: StageRun) -> EpochSpec:
        """What the second stage does if this is what the first one has done."""
        origin, watermark = second.edges[0].origin, self.state.stages[second.uid].watermark
        fired, reached = (of(second, {origin: first}, self.state.stages) for of in (fired_upstream, reached_upstream))
        return following_epoch_of(
            base,
            watermark,
            watermark.would_reach(fired),
            watermark.would_reach(reached),
            in_order=False,
            has_rows=True,
            at_end=False,
        )

    def _pair(self, first: StageSpec, second: StageSpec) -> FusedStages:
        if second.uid not in self._pairs:
            emitted = EMITTED_COLUMN in second.operator.sort_columns

            def over(rows: DataFrame) -> DataFrame:
                return over_edges([(second.edges[0], rows)], emitted=emitted)[0]

            self._pairs[second.uid] = FusedStages(self.executors[first.uid], self.executors[second.uid], over)
        return self._pairs[second.uid]
