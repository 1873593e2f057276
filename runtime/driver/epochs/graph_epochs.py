"""Runs one epoch over all stages of a job: a Spark job each, in order, applied as a whole.

Invariants:
- An epoch begins with requests for some stages; stages behind those follow, and all others are not concerned.
- ``JobState`` changes only after the jobs of all stages have succeeded; a failed epoch leaves no trace in it, nor in
  any coordinator.  (A stage's watermark may have moved to where earlier epochs had brought it.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ....state.keys.keygroups import ShardId
from ...catalyst.prepared.micro_batch import job_label
from ...catalyst.spark_cluster import JobTasks
from ...catalyst.spark_observations import unobserved
from ...connectors.sources.live_inputs import look_at
from ...connectors.stage_handoff import StageHandoff
from ...connectors.staging import StagedFile
from ...jobs.executor import EpochExecutor
from ...jobs.output_transform_task import staged_behind
from ...jobs.stage_epoch import EpochRows, PinnedShards, StageEpoch, StageResult
from ...metrics.backlog_progress import BacklogProgress
from ...metrics.events.event_parts import Latencies
from ...metrics.events.facts import FactListener, ShardsReused, WholeResultObserved
from ...operators.contract import EpochSpec
from ...spec import JobSpec, Phase, StageSpec
from ...support.failpoints import failpoint
from ...support.ids import EpochNumber
from ...tasks.report import ShardReport
from ..clocks import now_ms
from ..coordinators.event_channels import JobEvents
from ..state.job_state import JobState
from ..state.stage_handoffs import output_place_of
from .epoch_facts import EpochMeasures, epoch_applied
from .epoch_specs import following_epoch_of, whole_result_of
from .event_times import EventTimes, Look
from .handed_on_rows import HandedOnRows
from .observed_rows import ObservedRows
from .pinned_backlog import PinnedBacklog
from .stage_fusion import StageFusion
from .stage_runs import StageRequest, StageRun, fired_upstream, gets_the_end, reached_upstream


@dataclass
class GraphEpochs:
    """Executes what an epoch consists of.

    Args:
        job: what to do.
        state: where the job stands.
        executors: by stage.
        handoffs: what stages hand on, by stage; the last one has none, unless a job follows it.
        listener: is told what happens.
        backlog: live progress of sorted passes.
        tag: Spark job tag of this run, by which its jobs can be cancelled.
        events: what goes between coordinators and shards.
        applied: called after each epoch.
        look: finds the greatest event times of an epoch's rows.
    """

    job: JobSpec
    state: JobState
    executors: Mapping[str, EpochExecutor]
    handoffs: Mapping[str, StageHandoff]
    listener: FactListener
    backlog: BacklogProgress
    tag: str
    events: JobEvents
    applied: Callable[[], None]
    look: Look = look_at

    def __post_init__(self) -> None:
        #: Event times and watermarks of the stages.
        self.times = EventTimes(self.job, self.state, self._labelled, self.look)
        self._observed = ObservedRows(self.job)
        self._handed_on = HandedOnRows(self.state, self.handoffs)
        self.together = StageFusion(self.job, self.state, self.executors, self.events, self.times)

    def execute(
        self, phase: Phase, base: EpochSpec, requests: Mapping[str, StageRequest], pin: PinnedBacklog | None = None
    ) -> None:
        """Run an epoch's jobs, one for each stage that has something to do, then apply what they have done.

        Args:
            phase: the phase it belongs to.
            base: what all stages of it have in common.
            requests: what is to be done; stages behind these follow.
            pin: keeps finished shards of those, too, for a restarted driver.
        """
        started = time.monotonic()
        runs: dict[str, StageRun] = {}
        late: list[StagedFile] = []
        took: dict[str, list[ShardId]] = {}
        try:
            runs.update(self._together(phase, base, requests))
            for stage in self.job.stages:
                if stage.uid in runs:
                    continue
                request = self._request(phase, base, stage, requests.get(stage.uid), runs, pin)
                if request is None:
                    continue
                took[stage.uid] = request.visited(self.state.stages[stage.uid])
                runs[stage.uid] = self._run(phase, stage, request, runs)
                late += self._stage_late(stage, runs[stage.uid])
            applied = self._with_output_transform(phase, base, runs)
            failpoint("epoch-before-apply")
        except BaseException:
            for uid, shards in took.items():
                self.events.fail(uid, shards)
            self._discard_handoffs(runs)
            raise
        self.apply(phase, base, applied, late, started)
        self._discard_handoffs(runs)

    def _together(self, phase: Phase, base: EpochSpec, requests: Mapping[str, StageRequest]) -> dict[str, StageRun]:
        """What two stages have done that can be one Spark job; empty: none can."""
        pair = None if phase.holds_events_back else self.together.pair(base, requests)
        if pair is None or self._handed_on.keep_shards(pair[1]):
            return {}
        failpoint("epoch-between-stages")
        with self._labelled(f"{phase.kind}, epoch {base.epoch}, stages {pair[0].uid} and {pair[1].uid}"):
            return self.together.run(base, *pair, requests[pair[0].uid], phase.sorter)

    def forget_shards(self, uids: Collection[str]) -> None:
        """The shards of some stages are dealt anew: plans and places of those that there were are of no use."""
        for uid in uids:
            self.executors[uid].forget_shards()
        self.together.forget_shards()

    def stage_whole_result(self) -> None:
        """Have the row of every key staged, in place of what is pending, if that is what the job's output is."""
        stage = self.job.last_stage
        if not stage.operator.gives_whole_result:
            return
        held = self.state.stages[stage.uid]
        with self._labelled(f"whole result after epoch {self.state.epoch}"):
            spec = whole_result_of(self.state, held, now_ms())
            done = self.executors[stage.uid].execute(StageEpoch(spec, held.manifests))
            shown = self._behind_last({stage.uid: done}, spec.epoch)[stage.uid]
        self.job.sink.staging.discard(self.state.pending)
        self.state.pending = _output(shown.reports) or self.job.sink.stage_nothing(spec.epoch)
        self._discard_handoff(stage.uid, done.reports)
        if shown.observed:
            self.listener.on(WholeResultObserved(shown.observed))

    def _with_output_transform(
        self, phase: Phase, base: EpochSpec, runs: Mapping[str, StageRun]
    ) -> Mapping[str, StageRun]:
        """What stages have done, the output as what follows the last one, or unites several, has made of it."""
        handing = [uid for uid in self.job.outputs if uid in runs]
        if self.job.output_transform_behind is None or not handing:
            return runs
        failpoint("epoch-before-tail")
        with self._labelled(f"{phase.kind}, epoch {base.epoch}, behind stage {', '.join(handing)}"):
            shown = self._behind_last(
                {uid: StageResult(runs[uid].reports, runs[uid].observed) for uid in handing}, base.epoch
            )
        behind = {uid: replace(runs[uid], reports=one.reports, observed=one.observed) for uid, one in shown.items()}
        return {**runs, **behind}

    def _behind_last(self, done: Mapping[str, StageResult], epoch: EpochNumber) -> Mapping[str, StageResult]:
        """What the last stages have done, with the output of the job behind them in place of their own.

        One of them stands for it, as it is that of all.  Without such a job their own output stays.
        """
        transform = self.job.output_transform_behind
        if transform is None:
            return done
        found = {uid: self.handoffs[uid].frame(_output(one.reports)) for uid, one in done.items()}
        rows = {uid: frame for uid, frame in found.items() if frame is not None}
        if not rows:
            return done
        uid = next(iter(rows))
        staged, observed = staged_behind(rows, transform, self.job.sink.output, epoch, self.executors[uid].run_id)
        shown = {
            uid: replace(one, reports=[replace(report, output=(), dropped_rows=0) for report in one.reports])
            for uid, one in done.items()
        }
        first, *others = shown[uid].reports
        first = replace(first, output=staged.files, dropped_rows=staged.dropped_rows)
        return {**shown, uid: StageResult([first, *others], {**shown[uid].observed, **observed})}

    def _run(self, phase: Phase, stage: StageSpec, request: StageRequest, runs: Mapping[str, StageRun]) -> StageRun:
        """One stage's Spark job, if it has anything to do; ``runs``: what earlier ones have done."""
        state, spec, executor = self.state.stages[stage.uid], request.spec, self.executors[stage.uid]
        reach, visited, sorts = request.reach, request.visited(state), spec.style == "sorted"
        measured_by_tasks = reach is None and request.frame is not None and self.times.measured_by_tasks(stage, spec)
        looks = stage.tells_inputs_apart or stage.looks_before_steps
        if looks and reach is None and not stage.edges and not measured_by_tasks:
            reach = self.times.look_ahead(stage, request.frame, request.timed, sorts=sorts)
        input_rows = None if reach is None or stage.edges or stage.looks_before_steps else reach.rows
        request = replace(request, reach=reach)
        done = StageResult([])
        if visited:
            inboxes = self.events.take(visited, state, with_events=not phase.holds_events_back)
            epoch, rows = StageEpoch(spec, state.manifests, inboxes, phase.sorter), None
            if request.frame is not None:
                rows = EpochRows(request.frame, request.inputs, request.in_place, input_rows, measured_by_tasks)
            if sorts:
                # Of a first pass tasks get what Spark has made of the rows, not the rows; without state there are none.
                by_spark = executor.is_first_pass(epoch) or stage.operator.is_stateless
                self.backlog.begin(
                    None if by_spark else input_rows,
                    len(state.shards),
                    JobTasks.of(self.job.spark, self.tag),
                    is_aggregated=stage.operator.rows_column is not None,
                    by_spark=by_spark,
                    stage=stage.uid,
                    kind=stage.operator.kind,
                    rows="sorted" if phase.sorter == "spark" else "unsorted",
                )
            try:
                with self._labelled(f"{phase.kind}, epoch {spec.epoch}{self._of_stage(stage)}"):
                    can_pause = phase.kind == "backlog"
                    done = executor.execute(epoch, rows, shards=visited, pinned=request.pinned, can_pause=can_pause)
            finally:
                if sorts:
                    self.backlog.end(succeeded=bool(done.reports))
        if measured_by_tasks:
            request = replace(request, reach=self.times.reached_by_reports(stage, done.reports))
        return self.times.stage_run(stage, request, done, runs)

    def _request(
        self,
        phase: Phase,
        base: EpochSpec,
        stage: StageSpec,
        own: StageRequest | None,
        runs: Mapping[str, StageRun],
        pin: PinnedBacklog | None,
    ) -> StageRequest | None:
        """What a stage has to do, also because of what earlier ones have done; None: it is not concerned.

        Args:
            phase: the phase that the epoch belongs to.
            base: what all stages of it have in common.
            stage: the stage.
            own: what it was told to do; of a stage that takes rows of sources and of others, with those of the sources.
            runs: what earlier ones have done.
            pin: keeps finished shards.
        """
        if not any(edge.origin in runs for edge in stage.edges):
            return own
        failpoint("epoch-between-stages")
        state = self.state.stages[stage.uid]
        staged = {uid: _output(done.reports) for uid, done in runs.items()}
        in_place, sorts = self._handed_on.keep_shards(stage), base.style == "sorted"
        rows = self._handed_on.rows(stage, staged, None if own is None else own.frame, in_place=in_place)
        reach = None if own is None else own.reach or self.times.look_ahead(stage, own.frame, own.timed, sorts=sorts)
        seen = {} if reach is None else reach.seen
        fired, reached = (of(stage, runs, self.state.stages) for of in (fired_upstream, reached_upstream))
        # In the stream the rows of an epoch move the watermark behind it, whoever has handed them on.
        at_once = sorts or self.times.fires_at_once()
        spec = following_epoch_of(
            base,
            state.watermark,
            state.watermark.would_reach({**fired, **seen} if at_once else fired),
            state.watermark.would_reach({**reached, **seen}),
            in_order=self.times.in_order(stage),
            has_rows=rows is not None,
            at_end=gets_the_end(stage, own, {one.uid: one for one in self.job.stages}, runs),
        )
        begins = base.has_input and stage.operator.begins_without_rows
        if rows is None and begins and not any(manifest.files for manifest in state.manifests):
            return StageRequest(spec, self._handed_on.no_rows(stage), reach=reach)
        if rows is None:
            events = () if phase.holds_events_back else self.events.waiting(state)
            due = state.shards_due(spec.firing_watermark_ms, spec.processing_timers_upto_ms)
            return StageRequest(spec, shards=sorted({*due, *events}), reach=reach)
        if pin is None:
            return StageRequest(spec, rows, reach=reach, in_place=in_place)
        inputs = [file.name for edge in stage.edges for file in staged.get(edge.origin, ())]
        spec, is_known = pin.follow(stage.uid, spec, inputs)
        pinned = self.pinned_shards(pin, stage.uid, is_known=is_known)
        return StageRequest(spec, rows, reach=reach, pinned=pinned, in_place=in_place)

    def pinned_shards(self, pin: PinnedBacklog, uid: str, *, is_known: bool, follows: bool = True) -> PinnedShards:
        """The shards of a stage in a pinned pass.

        Args:
            pin: of the pass.
            uid: the stage.
            is_known: an earlier run has begun the pass over these very rows.
            follows: it takes rows from other stages.
        """
        finished: Mapping[ShardId, ShardReport] = {}
        if is_known:
            finished = pin.finished(uid, output_place_of(self.job, self.handoffs, uid), follows=follows)
            self.listener.on(ShardsReused(len(finished), len(self.state.stages[uid].shards)))
        return PinnedShards(finished, pin.reports_of(uid) if follows else pin.reports)

    def apply(
        self,
        phase: Phase,
        base: EpochSpec,
        runs: Mapping[str, StageRun],
        late: Sequence[StagedFile],
        started: float,
        latencies: Latencies | None = None,
    ) -> None:
        """Take an epoch over, all stages in one step."""
        reports = {uid: done.reports for uid, done in runs.items()}
        for uid, of_stage in reports.items():
            self.events.accept(uid, of_stage)
        self.together.note(runs)
        self.state.apply(base.epoch, reports, late, self.job.outputs)
        for stage in self.job.stages:
            if stage.uid in runs:
                self.times.move(stage, runs[stage.uid], time.monotonic() - started)
            else:
                self.times.follow(stage, now_ms())
        if not phase.holds_events_back:
            failpoint("events-before-hand-over")
            self.events.hand_over()
        elapsed_s = time.monotonic() - started
        self.applied()
        measures = EpochMeasures(elapsed_s, self.events.counts, self._observed.of(runs), latencies)
        self.listener.on(epoch_applied(self.job, self.state, phase, base, reports, measures, now_ms()))

    def _discard_handoffs(self, runs: Mapping[str, StageRun]) -> None:
        """Remove what stages have handed on, unless a restarted driver may want it."""
        for uid, done in runs.items():
            if done.request.pinned.report_folder is None:
                self._discard_handoff(uid, done.reports)

    def _discard_handoff(self, uid: str, reports: Sequence[ShardReport]) -> None:
        if uid in self.handoffs:
            self.handoffs[uid].discard(_output(reports))

    @contextmanager
    def _labelled(self, what: str) -> Iterator[None]:
        """Spark jobs in here can be cancelled by :meth:`JobRunner.stop` and say in Spark's UI what they are."""
        with job_label(self.job.spark, self.tag, f"{self.job.name or 'mixedmode'}: {what}"):
            yield

    def _of_stage(self, stage: StageSpec) -> str:
        return f", stage {stage.uid}" if len(self.job.stages) > 1 else ""

    def _stage_late(self, stage: StageSpec, done: StageRun) -> list[StagedFile]:
        """Late rows of a stage in an epoch for the side output, if the job has one; what it has read must be there."""
        frame, spec = done.request.frame, done.request.spec
        dropped = sum(report.counters.rows_late for report in done.reports)
        if self.job.late_rows is None or frame is None or not dropped:
            return []
        rows = stage.operator.late_rows(unobserved(frame) if stage.observed else frame, spec)
        if rows is None:
            return []
        with self._labelled(f"late rows of epoch {spec.epoch}{self._of_stage(stage)}"):
            return self.job.late_rows.stage(stage.uid, rows, spec.epoch, spec.late_watermark_ms, dropped)


def _output(reports: Sequence[ShardReport]) -> list[StagedFile]:
    return [file for report in reports for file in report.output]
