"""Runs each phase of a plan: one function per kind of phase.

Each is called with the parts of the run and the phase, on the run's thread, and returns when the phase has come to its
end, when the run is stopped, or when a savepoint that ends it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame

from ...checkpoints.metadata import SourceState
from ...connectors.sources.history import HistoryCut, cut
from ...connectors.sources.live_query import LiveSource, OnBatch, Stopped, delivers_one_batch, has_file_limits
from ...protocols.event_time import MAX_WATERMARK
from ...spec import Phase, PhaseKind
from ...support.clean_up import take_all
from ...support.ids import BatchId
from ..clocks import clock_ms, now_ms
from ..epochs.epoch_specs import OBSERVED
from ..epochs.source_rows import SourceRows
from . import rescaling
from .idle_wait import LONGEST_S, idle_s, wait_until_due
from .pausing import stand_still, stands_still
from .running_job import RunningJob
from .shutdown import Ending

#: Why there is nothing to take a savepoint of.
IN_BACKLOG = (
    "the job works through its backlog, and execution.interval-during-backlog is 0, so there is no state to take it of"
    " before the switch; ask with wait=True to have it then, or set the option to an interval for checkpoints"
)

PhaseFunction = Callable[[RunningJob, Ending, Phase], None]


def run_backlog(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """History and waiting live data as sorted passes over batch keyed state."""
    job, state, context, epochs = run.job, run.state, run.context, run.epochs
    context.savepoints.refuse_those_that_do_not_wait(IN_BACKLOG)
    context.rescales.refuse_those_that_do_not_wait(rescaling.IN_BACKLOG)
    rows = _unread_history(run)
    final_ms, at_end = _final_watermarks(run), job.has_phase("finish")
    # What an earlier run has fired behind its switch stays fired: of a first backlog nothing is late.
    drop_late = run.is_recovered and not state.is_backlog
    if context.live is None or job.live is None or context.live_start.is_read_once:
        epochs.sorted_pass(phase, rows.with_empty(job), final_ms, drop_late=drop_late, at_end=at_end, pin=run.pin)
        return
    if (landed := context.live_start.landed(state)) is not None:
        rows = rows.with_live(job, landed)
    passes = 0
    one_batch = delivers_one_batch(job.live)
    # Batch mode forgets a key at its end, so it must see all of its rows in one pass.
    at_once = not job.keeps_state or (not one_batch and job.settings.backlog_limits != "source")
    one_batch = one_batch or at_once
    if at_once and has_file_limits(job.live):
        rows = rows.going_by_file()

    def on_batch(batch: DataFrame, batch_id: BatchId) -> None:
        nonlocal passes, rows
        if batch_id <= state.batch_id:
            return
        rows = rows.with_live(job, batch)
        run.seams.check()
        with run.losses.watching(batch_id) as watch:
            if one_batch:
                position = context.store.spark_log.position(batch_id).offset_entry
                # A second batch holds what arrived while the job was down after a kill in the first.
                pin = None if passes else run.pin
                reused = epochs.sorted_pass(
                    phase, rows, final_ms, drop_late=drop_late, at_end=at_end, pin=pin, live_position=position
                )
                watch.had_read(*reused)
            else:
                epochs.sorted_pass(phase, rows, None, drop_late=drop_late)
        state.batch_id = batch_id
        run.offsets.read_in(batch_id, state.epoch)
        rows = SourceRows(by_file=rows.by_file)
        passes += 1

    context.live.drain(on_batch, at_once=at_once)
    run.offsets.report(context.live.query)
    if passes == 0 and (not rows.is_empty or state.epoch == 0):
        epochs.sorted_pass(phase, rows.with_empty(job), final_ms, drop_late=drop_late, at_end=at_end, pin=run.pin)
        context.live_start.was_read(state)
    elif passes and not one_batch:
        epochs.sorted_pass(phase, None, final_ms, at_end=at_end)


def run_history(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """Streaming mode: the history in slices, each an epoch of its own."""
    job, state, savepoints = run.job, run.state, run.context.savepoints
    if not job.has_history or state.sources["history"].finished:
        return
    position = state.sources["history"].position
    if position is None:
        whole = SourceRows.of_history(job)
        # Without state there is nothing to gain from slices, and rows that differ each time they are made (the time of
        # now is one of their columns, say) cannot be cut into any.
        at_once = all(stage.operator.is_stateless for stage in job.stages)
        readers = [(rows, stage.event_time) for stage in job.readers if (rows := whole.of(stage)) is not None]
        where = HistoryCut(1, None) if at_once else cut(readers, job.settings.history_rows_per_epoch)
    else:
        where = HistoryCut.from_json(position)
    while not where.done:
        with run.context.turn:
            run.epochs.streaming_epoch(phase, SourceRows.of_history(job, where.take))
            where = replace(where, next=where.next + 1)
            state.set_source("history", position=where.to_json())
            run.checkpoints.checkpoint_if_due()
            ending.serve(phase)
        stand_still(run, ending, phase)
        if savepoints.ready_stop() is not None and not where.done:
            return
    with run.context.turn:
        ending.source_ended(phase, "history")


def run_catch_up(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """Streaming mode: what the live source holds at the start, with isBacklog still true."""
    state, context = run.state, run.context
    if context.live is None or context.live_start.is_read_once:
        return
    # A run that ends by itself has no other phase for what has come since the run before.
    if run.job.has_phase("live") and not any(state.sources[one.name].is_backlog for one in run.job.live_inputs):
        return

    def take(batch: DataFrame, batch_id: BatchId) -> None:
        with run.losses.watching(batch_id):
            run.epochs.streaming_epoch(phase, SourceRows.of_live(run.job, batch))
        state.batch_id = batch_id
        run.offsets.read_in(batch_id, state.epoch)
        run.checkpoints.checkpoint_if_due()
        ending.serve(phase)

    def on_batch(batch: DataFrame, batch_id: BatchId) -> None:
        stand_still(run, ending, phase)
        if context.savepoints.ready_stop() is not None:
            raise Stopped
        if batch_id > state.batch_id:
            take(batch, batch_id)

    if (landed := context.live_start.landed(state)) is not None:
        with context.turn:
            take(landed, context.live_start.batch)
        if context.savepoints.ready_stop() is not None:
            return
    context.live.drain(on_batch)
    run.offsets.report(context.live.query)


def run_switch(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """isBacklog turns false: rows become visible, and under interval 0 a checkpoint is taken at once."""
    with run.context.turn:
        run.epochs.check_stopped()
        run.seams.report()
        for name in run.state.sources:
            run.sources.set_backlog(name, False, "the backlog is processed")
        if "history" in run.state.sources:
            ending.source_ended(phase, "history")
        run.events.hand_over()
        if not run.job.has_phase("live"):
            run.scheduler.request()  # nothing comes after the switch: this is the last chance
            # What the last rows have made due, and events that wait: Spark's AvailableNow ends with such an epoch, too.
            run.epochs.tick(phase, idle=True)
        run.epochs.deliver()
        run.checkpoints.checkpoint_if_due("switch", wait=True)  # nothing live is read before the backlog is there
        if not run.job.has_phase("live"):
            # One that has failed within what is tolerated would leave the run without its output.
            while not run.checkpoints.checkpoint_if_behind("switch", when_due=True):
                if run.context.savepoints.ready_stop() is not None:
                    return  # its checkpoint shows the output, too
                wait_until_due(run)


def run_live(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """Micro-batches until the query is stopped; a clock of our own fires timers and checkpoints in between."""
    context, live = run.context, run.context.live
    assert live is not None
    for stage in run.job.readers:
        run.state.stages[stage.uid].watermark.watch(now_ms(), stage.delays_ms)
    pause = context.pause
    trigger = run.job.trigger or {"processingTime": "0 seconds"}
    query = live.start(_on_live_batch(run, ending, phase), trigger, waits=lambda: pause.is_wanted or pause.stands)
    try:
        while query.isActive and not context.stopping.is_set() and context.savepoints.ready_stop() is None:
            context.wake.wait(LONGEST_S if pause.stands else idle_s(run, live))
            context.wake.clear()
            with context.turn, live.refusing_after_failure():
                if not context.stopping.is_set() and not live.failed:
                    _live_step(run, ending, phase, live)
    except Stopped:
        pass  # somebody stops the query between two epochs: what is processed is whole, and is made visible below
    except BaseException:
        live.refuse()
        with context.turn:
            take_all(live.stop)
        raise
    # The epoch in hand is finished first; a micro-batch that still waits for its turn is refused.
    live.refuse()
    with context.turn:
        live.stop()
    if live.failed or context.savepoints.ready_stop() is None:
        live.raise_failure()
    if context.savepoints.ready_stop() is None or context.stopping.is_set():
        with context.turn:
            run.checkpoints.checkpoint_if_behind("stop")


def run_finish(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """End of input."""
    ending.natural_end(phase)


PHASES: dict[PhaseKind, PhaseFunction] = {
    "backlog": run_backlog,
    "history": run_history,
    "catch-up": run_catch_up,
    "switch": run_switch,
    "live": run_live,
    "finish": run_finish,
}


def commit_now(run: RunningJob, phase: Phase) -> bool:
    """Fire what is due and make everything processed so far visible; nothing waits at the live inputs.

    Args:
        run: the run, whose turn this is.
        phase: the phase that it is in.

    Returns:
        False if that failed tolerably; the next time that it is tried is when a checkpoint is due.
    """
    upto_ms = now_ms()  # fixed: a timer that registers the next one again and again must not keep us here
    run.epochs.send_events(phase)  # once: a coordinator that answers each event with another must not either
    while run.epochs.tick(phase, upto_ms, idle=True):
        pass
    return run.checkpoints.checkpoint_if_behind("requested", when_due=True)


def _on_live_batch(run: RunningJob, ending: Ending, phase: Phase) -> OnBatch:
    state = run.state

    def on_batch(batch: DataFrame, batch_id: BatchId) -> None:
        if batch_id <= state.batch_id or run.context.savepoints.ready_stop() is not None:
            return
        run.checkpoints.keep_up()
        run.sources.note_lag()
        rows = SourceRows.of_live(run.job, batch)
        with run.losses.watching(batch_id):
            if run.sources.live_is_in_backlog and run.job.has_phase("backlog"):
                run.epochs.sorted_pass(phase, rows, OBSERVED, drop_late=True)
                run.epochs.deliver()
            else:
                run.epochs.streaming_epoch(phase, rows)
        state.batch_id = batch_id
        run.offsets.read_in(batch_id, state.epoch)
        run.sources.note_lag()
        run.checkpoints.checkpoint_if_due()
        ending.serve(phase)
        run.context.wake.set()

    return on_batch


def _live_step(run: RunningJob, ending: Ending, phase: Phase, live: LiveSource) -> None:
    """What the clock of the live phase does between two epochs."""
    run.context.lease.check()
    run.checkpoints.look()
    run.events.check()
    if stands_still(run, ending, phase):
        return
    run.events.hand_over()  # what shards have sent while a checkpoint was being completed
    # Asking takes three calls to the JVM, and a step follows each epoch and each checkpoint.
    asks = run.epochs.moves_if_idle() or run.sources.judges_lag or run.folders.is_due(clock_ms())
    drained = asks and live.is_drained
    run.offsets.report(live.query)
    run.epochs.tick(phase, idle=drained)
    if drained:
        run.sources.note_drained()
        run.folders.look(clock_ms())
    run.checkpoints.checkpoint_if_due()
    ending.serve(phase)
    # What users ask for is made visible; after a failure that is tolerated, with the checkpoint that is due next.
    requests = run.context.commits.pending()
    if requests and commit_now(run, phase):
        run.context.commits.grant(requests)


def _final_watermarks(run: RunningJob) -> dict[str, int]:
    """What the keys of each stage get at the end of the backlog."""
    job = run.job
    if job.has_phase("finish"):
        return dict.fromkeys(run.state.stages, MAX_WATERMARK)
    return {
        stage.uid: OBSERVED if run.is_recovered or stage.final_watermark == "observed" else MAX_WATERMARK
        for stage in job.stages
    }


def _unread_history(run: RunningJob) -> SourceRows:
    """The histories, without the slices that an earlier run has taken as a stream."""
    source: SourceState | None = run.state.sources.get("history")
    if source is None or source.finished:
        return SourceRows()
    if source.position is None:
        return SourceRows.of_history(run.job)
    where = HistoryCut.from_json(source.position)
    return SourceRows() if where.done else SourceRows.of_history(run.job, where.rest)
