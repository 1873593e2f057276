"""Runs epochs, one at a time: says for each kind of epoch what the stages that it begins with have to do.

Invariant: every epoch runs under :attr:`EpochRunner.turn`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ....state.keys.keygroups import ShardId
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_query import Stopped
from ...metrics.events.facts import FactListener, RowsDelivered
from ...operators.contract import EpochSpec
from ...operators.frame_steps import union_of
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...spec import JobSpec, Phase, StageSpec
from ...support.failpoints import failpoint
from ..clocks import now_ms
from ..coordinators.event_channels import JobEvents
from ..state.job_state import JobState
from ..state.stage_state import StageState
from .epoch_specs import OBSERVED, PassInput, last_epoch_of, sorted_pass_of, streaming_epoch_of
from .graph_epochs import GraphEpochs
from .pinned_backlog import PinnedBacklog
from .source_rows import SourceRows
from .stage_runs import StageRequest


class ReusedShards(NamedTuple):
    """Of the stages that read the sources: how many shards were finished, and how many there are."""

    finished: int
    shards: int


@dataclass
class EpochRunner:
    """Executes epochs on behalf of the phases and of the clock.

    Args:
        job: what to do.
        state: where the job stands.
        store: says whether the location is still this run's.
        graph: executes them.
        listener: is told what happens.
        turn: the lock under which epochs run.
        stopping: set when the job is to stop.
        events: what goes between coordinators and shards.
    """

    job: JobSpec
    state: JobState
    store: CheckpointStore
    graph: GraphEpochs
    listener: FactListener
    turn: threading.RLock
    stopping: threading.Event
    events: JobEvents

    def check_stopped(self) -> None:
        """Raise Stopped if the job is to stop."""
        if self.stopping.is_set():
            raise Stopped

    @property
    def first_stage(self) -> StageSpec:
        """The first one that reads the sources."""
        return self.job.stages[0]

    # -- epochs ------------------------------------------------------------------------------------------------------

    def sorted_pass(
        self,
        phase: Phase,
        rows: SourceRows | None,
        final_ms: int | Mapping[str, int] | None,
        *,
        drop_late: bool = False,
        at_end: bool = False,
        pin: PinnedBacklog | None = None,
        live_position: str | None = None,
    ) -> ReusedShards:
        """One epoch over batch keyed state, keys in order.

        Args:
            phase: the phase it belongs to.
            rows: its rows; None for a pass that only fires timers.
            final_ms: final watermark of the keys, or by stage; None: more of the backlog follows, nothing fires yet;
                ``OBSERVED``: the greatest watermark that the backlog itself reaches.
            drop_late: rows behind what has fired are late (a stream that fell back into backlog).
            at_end: all input ends with it.
            pin: keeps finished shards for a restarted driver; None: this pass is not the whole backlog.
            live_position: Spark's offsets entry of the live batch in ``rows``.

        Returns:
            How much of it an earlier run had done.
        """
        with self.turn:
            self.check_stopped()
            time_ms, requests = now_ms(), {}
            for stage in self.job.readers:
                inputs = () if rows is None else rows.by_input(stage)
                frame, timed = union_of(inputs), None if rows is None else rows.timed(stage)
                state = self.state.stages[stage.uid]
                own_ms = final_ms[stage.uid] if isinstance(final_ms, Mapping) else final_ms
                asks = own_ms == OBSERVED or (own_ms is not None and self.graph.times.in_order(stage))
                is_pinned = pin is not None and stage is self.first_stage and pin.load(live_position) is not None
                reach = None
                if asks and not is_pinned and (stage.operator.uses_event_time or len(self.job.stages) > 1):
                    reach = self.graph.times.look_ahead(stage, frame, timed, sorts=True)
                spec = sorted_pass_of(
                    self.state,
                    state,
                    time_ms,
                    own_ms,
                    PassInput(reach, frame is not None, rows is not None and not rows.nothing_came),
                    drop_late=drop_late,
                    keep_state=self.job.keeps_state,
                    in_order=self.graph.times.in_order(stage),
                    at_end=at_end,
                )
                visited = None if rows is None or frame is not None else self._without_rows(stage, spec)
                request = StageRequest(spec, frame, inputs, visited, reach, timed)
                if pin is not None and not stage.edges:  # what follows others is pinned by what those hand on
                    request = self._pinned(stage, request, pin, live_position)
                requests[stage.uid] = request
            self.graph.execute(phase, requests[self.first_stage.uid].spec, requests, pin)
            self.store.may_have_backlog = True
            failpoint("backlog-epoch-applied")
            shards = sum(len(self.state.stages[uid].shards) for uid in requests)
            return ReusedShards(sum(len(request.pinned.finished) for request in requests.values()), shards)

    def _pinned(
        self, stage: StageSpec, request: StageRequest, pin: PinnedBacklog, live_position: str | None
    ) -> StageRequest:
        """What a stage that reads the sources has to do in a pinned pass: what an earlier run has left of it."""
        is_first = stage is self.first_stage
        if is_first:
            known = pin.load(live_position)
            spec, is_known = known or request.spec, known is not None
            if not is_known:
                pin.save(spec, live_position)
        else:
            spec, is_known = pin.follow(stage.uid, request.spec, ())
        pinned = self.graph.pinned_shards(pin, stage.uid, is_known=is_known, follows=not is_first)
        return replace(request, spec=spec, pinned=pinned)

    def streaming_epoch(
        self,
        phase: Phase,
        rows: SourceRows | None,
        shards: Mapping[str, Sequence[ShardId]] | None = None,
        *,
        fires: bool = True,
    ) -> None:
        """One epoch over RocksDB state: rows, then what is due by the watermark so far; delivered at once.

        Where :meth:`EventTimes.fires_at_once` says so, what is due by where these rows bring it fires, too.

        Args:
            phase: the phase it belongs to.
            rows: its rows; None: there are none.
            shards: without rows, those that have something to do, by stage.
            fires: what is due by event time fires.
        """
        with self.turn:
            self.check_stopped()
            time_ms, requests = now_ms(), {}
            at_once = self.graph.times.fires_at_once()
            for stage in self.job.readers:
                state = self.state.stages[stage.uid]
                taken = None if rows is None or self._needs_none(stage, rows) else rows
                frame, timed = (None, None) if taken is None else (taken.of(stage), taken.timed(stage))
                state.watermark.advance(time_ms)
                in_order = self.graph.times.in_order(stage)
                looks = at_once or (in_order and stage.tells_inputs_apart)
                reach = self.graph.times.look_ahead(stage, frame, timed) if looks else None
                spec = streaming_epoch_of(
                    self.state, state, time_ms, reach, in_order=in_order, has_input=rows is not None, at_once=at_once
                )
                if not fires:
                    spec = replace(spec, firing_watermark_ms=state.watermark.fired_ms)
                visited = self._without_rows(stage, spec) if shards is None else shards[stage.uid]
                requests[stage.uid] = StageRequest(spec, frame, shards=visited, reach=reach, timed=timed)
            self.graph.execute(phase, requests[self.first_stage.uid].spec, requests)
            self.deliver()
            failpoint("epoch-applied")

    def _needs_none(self, stage: StageSpec, rows: SourceRows) -> bool:
        """Whether a stage gets along without rows of which there are none; then only what is due takes a job.

        Without keys there is a row even of no rows, and with the first epoch comes what a processor begins with.
        """
        makes_none = bool(stage.operator.key_columns) or stage.operator.is_stateless
        return rows.are_none and makes_none and self.state.epoch > 0

    def _without_rows(self, stage: StageSpec, spec: EpochSpec) -> list[ShardId]:
        """The shards that have something to do, if a stage has no rows in an epoch that brings some to others."""
        state = self.state.stages[stage.uid]
        due = state.shards_due(spec.firing_watermark_ms, spec.processing_timers_upto_ms)
        return sorted({*due, *self.events.waiting(state)})

    def fire_all(self, phase: Phase, uid: str) -> None:
        """MAX_WATERMARK for a stage: fire all of its event-time timers and open windows."""
        state = self.state.stages[uid]
        if not self.job.keeps_state or not state.shards_due(MAX_WATERMARK, MIN_WATERMARK):
            return
        with self.turn:
            self.check_stopped()
            spec = sorted_pass_of(
                self.state,
                state,
                now_ms(),
                MAX_WATERMARK,
                PassInput(),
                drop_late=False,
                keep_state=True,
                in_order=self.graph.times.in_order(self.job.stage_of(uid)),
                at_end=True,
            )
            self.graph.execute(phase, spec, {uid: StageRequest(spec)})
            failpoint("backlog-epoch-applied")

    def finish_operators(self, phase: Phase, uid: str) -> None:
        """Call endInput() and finish() of a stage's operator on every shard, if it has them; their rows are output.

        This is its last epoch: events that still wait go with it, those that the coordinator sends later go nowhere.
        """
        state = self.state.stages[uid]
        if not state.operator.has_end_hooks and not self.events.waiting(state):
            return
        with self.turn:
            self.check_stopped()
            spec = last_epoch_of(self.state, state, now_ms(), keep_state=self.job.keeps_state)
            self.graph.execute(phase, spec, {uid: StageRequest(spec)})

    def tick(self, phase: Phase, upto_ms: int | None = None, *, idle: bool = False) -> bool:
        """Fire what is due without new rows (None: due now), and send out events that wait; True if it ran an epoch.

        Args:
            phase: the phase it belongs to.
            upto_ms: timers up to here, and no events.
            idle: nothing waits at the live inputs; if nothing is due, either, that counts as fired (Spark runs a
                micro-batch without data for it).  Otherwise nothing fires by event time, as in Spark, which takes rows
                that wait in front: what is due fires in their epoch, so none of them is late for it.
        """
        time_ms, idle = now_ms(), idle and self.job.fires_without_rows
        self._advance(time_ms)
        with_events = upto_ms is None
        due: dict[str, list[ShardId]] = {}
        fired: dict[str, int] = {}
        for stage in self.job.stages:
            state = self.state.stages[stage.uid]
            fired[stage.uid] = upto = self.graph.times.would_fire(stage, fired) if idle else state.watermark.fired_ms
            shards = state.shards_due(upto, time_ms if upto_ms is None else upto_ms)
            due[stage.uid] = sorted({*shards, *(self.events.waiting(state) if with_events else ())})
        if any(due.values()):
            self.streaming_epoch(phase, None, due, fires=idle)
        elif idle:
            for stage in self.job.stages:
                self.graph.times.follow(stage, time_ms)
                self.state.stages[stage.uid].watermark.fired(fired[stage.uid])
        return any(due.values())

    @property
    def is_due(self) -> bool:
        """Whether anything would fire by event time if nothing waited at the live inputs."""
        if not self.job.fires_without_rows:
            return False
        return any(stage.shards_due(upto, MIN_WATERMARK) for stage, upto in self._would_fire())

    def moves_if_idle(self) -> bool:
        """Whether anything would fire, or count as fired, by event time if nothing waited at the live inputs."""
        if not self.job.fires_without_rows:
            return False
        self._advance(now_ms())
        return any(upto != stage.watermark.fired_ms for stage, upto in self._would_fire())

    def _would_fire(self) -> Iterator[tuple[StageState, int]]:
        """The stages, and what each would fire up to if nothing waited at the live inputs."""
        fired: dict[str, int] = {}
        for stage in self.job.stages:
            fired[stage.uid] = upto = self.graph.times.would_fire(stage, fired)
            yield self.state.stages[stage.uid], upto

    def _advance(self, time_ms: int) -> None:
        """Have watermarks take the time into account: inputs that have been idle for too long hold nothing back."""
        for stage in self.job.readers:
            self.state.stages[stage.uid].watermark.advance(time_ms)

    def send_events(self, phase: Phase) -> None:
        """Send out events that wait, if any do, in an epoch of their own."""
        with self.turn:
            waiting = {uid: self.events.waiting(stage) for uid, stage in self.state.stages.items()}
            if any(waiting.values()):
                self.streaming_epoch(phase, None, waiting)

    def deliver(self) -> None:
        """Hand rows to a sink that shows them at once; all others wait for the checkpoint."""
        if self.job.sink.shows_at_once:
            started = time.monotonic()
            self.graph.stage_whole_result()
            self.store.guard()
            self.job.sink.deliver(self.state.epoch, self.state.pending)
            self.listener.on(RowsDelivered(time.monotonic() - started))
            self.state.pending = []
