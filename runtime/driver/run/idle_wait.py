"""Limits how long a run sleeps: between two looks in its live phase, and before its end."""

from __future__ import annotations

from ...connectors.sources.live_query import LiveSource, Stopped
from ..clocks import clock_ms, now_ms
from .running_job import RunningJob

#: Longest wait.
LONGEST_S = 1.0
_SHORTEST_S = 0.01
#: The same while something is due as soon as Spark has found that no more rows wait.
_LOOKED_FOR_S = 0.02
#: And while its trigger has it wait before it looks.
_NEXT_LOOK_S = 0.1


def idle_s(run: RunningJob, live: LiveSource | None = None) -> float:
    """Seconds until the next checkpoint, processing-time timer or step of the watermark, at most one."""
    with run.context.turn:
        waits = [LONGEST_S]
        # Whether a source is drained is asked last: that takes three calls to the JVM, behind each epoch.
        if live is not None and run.epochs.is_due and not live.is_drained:
            waits.append(_LOOKED_FOR_S if live.is_looking else _NEXT_LOOK_S)
        next_checkpoint_ms = run.scheduler.next_trigger_ms(changed=run.checkpoints.has_change)
        if next_checkpoint_ms is not None:
            waits.append((next_checkpoint_ms - clock_ms()) / 1000)
        for stage in run.state.stages.values():
            for moment_ms in (stage.next_processing_timer_ms(), stage.watermark.next_step_ms(now_ms())):
                if moment_ms is not None:
                    waits.append((moment_ms - now_ms()) / 1000)
    return max(_SHORTEST_S, min(waits))


def wait_until_due(run: RunningJob) -> None:
    """Return when the next checkpoint is due, if one is armed, or somebody wants to end the run with a savepoint; the
    caller has the turn, and nothing else to do.

    Raises:
        Stopped: the run is to end as it is.
        CheckpointError: another driver has taken over.
    """
    context, scheduler = run.context, run.scheduler
    while (next_ms := scheduler.next_trigger_ms()) is not None and not scheduler.due(clock_ms()):
        if context.stopping.is_set():
            raise Stopped
        if context.savepoints.ready_stop() is not None:
            return  # whoever waits for it, a process that is told to end, cannot wait for long
        context.lease.check()
        context.wake.wait(max(_SHORTEST_S, min((next_ms - clock_ms()) / 1000, LONGEST_S)))
        context.wake.clear()
