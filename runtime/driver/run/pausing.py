"""Pauses and resumes a run between two epochs.

It takes a checkpoint, so that nothing is pending, and stands still: no row, timer or event is processed; savepoints are
taken, and the location is held.  Should the checkpoint fail within what is tolerated there is no pause, and whoever has
asked for it is told: the run neither stands still with rows that nobody sees nor fails again with each step.

For inputs that may become idle the time does not count, since none of them could be read.  For everything else it does:
processing time goes on, and what has become due meanwhile is due when the run goes on.
"""

from __future__ import annotations

from ...metrics.events.facts import RunPaused, RunResumed
from ...spec import Phase
from ..clocks import now_ms
from .run_context import RunContext
from .running_job import RunningJob
from .shutdown import Ending

_LOOK_EVERY_S = 1.0


def stands_still(run: RunningJob, ending: Ending, phase: Phase) -> bool:
    """Whether the run makes a pause now; what is to be done for it is done.

    Args:
        run: the run, whose turn this is; it stands between two epochs.
        ending: takes savepoints.
        phase: the phase that it is in.
    """
    pause = run.context.pause
    if pause.is_wanted and not pause.stands:
        if run.checkpoints.checkpoint_if_behind("pause"):
            come_to_a_stand(run.context, phase)
        else:
            pause.refuse("its checkpoint failed, and the query goes on")
    if not pause.is_wanted:
        go_on(run)
        return False
    ending.serve(phase)
    return True


def stand_still(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """Return when no pause is wanted, or the run is to end; arguments as of :func:`stands_still`."""
    context = run.context
    while (
        not context.stopping.is_set() and context.savepoints.ready_stop() is None and stands_still(run, ending, phase)
    ):
        context.lease.check()
        run.events.check()
        context.wake.wait(_LOOK_EVERY_S)
        context.wake.clear()


def come_to_a_stand(context: RunContext, phase: Phase) -> None:
    """Say that the run stands still."""
    if not context.pause.stands and context.pause.stand(now_ms()):
        context.listener.on(RunPaused(phase.kind))


def go_on(run: RunningJob) -> None:
    """The run goes on, if it has stood still."""
    if run.context.pause.stands:
        gap_ms = run.context.pause.go_on(now_ms())
        for stage in run.state.stages.values():
            stage.watermark.pause(gap_ms)
        run.context.listener.on(RunResumed(gap_ms))
