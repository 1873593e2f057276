"""Tracks the event times of each stage of a job, and its watermark.

A stage's watermark is the least of its live inputs' and of what the stages before it have fired up to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from ...catalyst.spark_observations import unobserved
from ...connectors.sources.live_inputs import LiveInput, Reach, by_input, look_at, look_at_footers
from ...jobs.stage_epoch import StageResult
from ...operators.contract import EpochSpec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...protocols.watermarks import ONLY
from ...spec import JobSpec, StageSpec
from ...tasks.report import ShardReport
from ..clocks import now_ms
from ..state.job_state import JobState
from .source_rows import TIMED
from .stage_runs import StageRequest, StageRun, fired_upstream, greatest_event_time, known, reached_upstream

Look = Callable[[DataFrame, str, Sequence[LiveInput]], Reach]


@dataclass(frozen=True)
class EventTimes:
    """Event times and watermarks of a running job's stages.

    Args:
        job: the job.
        state: where it stands; its watermarks move.
        labelled: names the Spark jobs that are started in it.
        look: finds the greatest event times of an epoch's rows.
    """

    job: JobSpec
    state: JobState
    labelled: Callable[[str], AbstractContextManager[None]]
    look: Look = look_at

    def in_order(self, stage: StageSpec) -> bool:
        """Whether event-time timers fire between the rows of their key."""
        timers = self.job.settings.timers
        return timers == "in-order" and stage.operator.has_timers and stage.event_time is not None

    def fires_at_once(self) -> bool:
        """Whether a live epoch has to fire up to where its own rows bring the watermark.

        Under in-order the timers of a key fire as far as its rows go.  What earlier stages have due until then must not
        come behind that: what waits for the watermark while later rows of the same stage go out, or of another input.
        """
        out_of_order: set[str] = set()
        for stage in self.job.stages:
            origins = {edge.origin for edge in stage.edges}
            mixed = bool(origins and (len(stage.edges) + len(stage.reads) > 1 or origins & out_of_order))
            if mixed and self.in_order(stage):
                return True
            if mixed or stage.operator.emits_out_of_order:
                out_of_order.add(stage.uid)
        return False

    def look_ahead(
        self, stage: StageSpec, frame: DataFrame | None, timed: DataFrame | None = None, *, sorts: bool = False
    ) -> Reach | None:
        """Rows and event times of an epoch, before it starts.

        ``observed`` must know the end of the backlog, and the tasks do not tell several inputs apart.

        Args:
            stage: which takes the rows.
            frame: the rows; None: there are none.
            timed: their event times, where some of the rows are dropped later; None: nobody drops any.
            sorts: they are a sorted pass's.
        """
        inputs = self.job.inputs_of(stage)
        if not inputs and not stage.edges:  # a history alone brings the watermark on
            inputs = (LiveInput(ONLY),)
        # A history beside an earlier stage's rows holds nothing back: slices of histories end at the same times.
        if frame is None or stage.event_time is None or not inputs:
            return None
        event_time = stage.event_time
        if timed is not None:
            frame, event_time = timed, TIMED
        frame = unobserved(frame) if stage.observed else frame
        # Who looks in a way of their own need not have frames of Spark's.
        known = look_at_footers(frame, event_time, inputs) if sorts and timed is None and self.look is look_at else None
        if known is not None:
            return known
        cores = self.job.settings.backlog_max_cores
        if sorts and cores is not None:
            frame = frame.coalesce(cores)
        with self.labelled("looking for the greatest event time"):
            return self.look(frame, event_time, inputs)

    def measured_by_tasks(self, stage: StageSpec, spec: EpochSpec) -> bool:
        """Whether the tasks of an epoch say of each input how far it goes, and nobody has to know before it starts."""
        if not stage.tells_inputs_apart or stage.edges or stage.operator.input_times is None:
            return False
        if stage.looks_before_steps:
            return False
        return spec.style == "random" and spec.in_order is None and not self.fires_at_once()

    def reached_by_reports(self, stage: StageSpec, reports: Sequence[ShardReport]) -> Reach:
        """What the tasks have said."""
        times = [one for report in reports for one in report.seen or ()]
        rows = sum(report.counters.rows_in for report in reports)
        return Reach(rows, by_input(times, self.job.inputs_of(stage)))

    def would_fire(self, stage: StageSpec, fired: Mapping[str, int]) -> int:
        """What a stage would fire up to now; ``fired``: what earlier ones would."""
        watermark = self.state.stages[stage.uid].watermark
        if self.state.stages[stage.uid].finished:
            return MAX_WATERMARK
        if not stage.edges:
            return min(watermark.current_ms, watermark.would_reach(None))
        return watermark.would_reach(
            known({edge.origin: fired[edge.origin] for edge in stage.leading_edges}, self.state.stages)
        )

    def seen(
        self,
        stage: StageSpec,
        request: StageRequest,
        reports: Sequence[ShardReport],
        upstream: Mapping[str, int | None],
    ) -> Mapping[str, int | None] | int | None:
        """How far the event times of an epoch went, by input where they are told apart.

        Args:
            stage: the stage.
            request: what it was told to do.
            reports: what it has done.
            upstream: by earlier stage what counts as its event time.
        """
        if stage.edges or stage.tells_inputs_apart or stage.looks_before_steps:
            return {**upstream, **({} if request.reach is None else request.reach.seen)}
        return greatest_event_time(reports)

    def stage_run(
        self, stage: StageSpec, request: StageRequest, done: StageResult, runs: Mapping[str, StageRun]
    ) -> StageRun:
        """What a stage has done in an epoch, and how far that brings it.

        Args:
            stage: the stage.
            request: what it was told to do.
            done: what its jobs have come to.
            runs: what earlier ones have done.
        """
        state, reports = self.state.stages[stage.uid], done.reports
        seen = self.seen(stage, request, reports, fired_upstream(stage, runs, self.state.stages))
        fired_ms = state.watermark.fired_ms
        if request.fires_all(state):
            fired_ms = max(fired_ms, min(request.spec.firing_watermark_ms, state.watermark.would_reach(seen)))
        ahead = self.seen(stage, request, reports, reached_upstream(stage, runs, self.state.stages))
        return StageRun(request, reports, fired_ms, state.watermark.would_reach(ahead), done.observed)

    def move(self, stage: StageSpec, done: StageRun, elapsed_s: float) -> None:
        """Take over how far an epoch's event times went, and what it has fired.

        Args:
            stage: whose watermark it is.
            done: what it has done.
            elapsed_s: seconds in which no input could be read: all stages' jobs.
        """
        watermark, time_ms, spec = self.state.stages[stage.uid].watermark, now_ms(), done.request.spec
        if stage.reads_sources:
            watermark.pause(round(elapsed_s * 1000))
            fired = fired_upstream(stage, {}, self.state.stages)
            watermark.observe(self.seen(stage, done.request, done.reports, fired), time_ms)
            if spec.style == "random":
                watermark.advance(time_ms)
            else:
                # Rows for what a sorted pass has fired must be late from now on, whatever else holds it back.
                fired_ms = spec.firing_watermark_ms if spec.firing_watermark_ms < MAX_WATERMARK else MIN_WATERMARK
                watermark.advance_to(max(fired_ms, watermark.would_reach(None)), time_ms)
        else:
            self.follow(stage, time_ms)
        watermark.fired(done.fired_ms)

    def follow(self, stage: StageSpec, time_ms: int) -> None:
        """Take over what the stages before one have fired up to."""
        if stage.edges:
            watermark = self.state.stages[stage.uid].watermark
            watermark.observe(fired_upstream(stage, {}, self.state.stages))
            watermark.advance_to(watermark.would_reach(None), time_ms)
