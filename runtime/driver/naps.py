"""How long the live phase's clock may sleep between two looks at timers and checkpoints."""

from __future__ import annotations

from .clocks import clock_ms, now_ms
from .running_job import RunningJob

#: Longest nap.
LONGEST_S = 1.0
_SHORTEST_S = 0.01


def nap_s(run: RunningJob) -> float:
    """Seconds until the next checkpoint, processing-time timer or step of the watermark, at most one."""
    with run.context.turn:
        naps = [LONGEST_S]
        next_checkpoint_ms = run.scheduler.next_trigger_ms()
        if next_checkpoint_ms is not None:
            naps.append((next_checkpoint_ms - clock_ms()) / 1000)
        for stage in run.state.stages.values():
            for moment_ms in (stage.next_processing_timer_ms(), stage.watermark.next_step_ms(now_ms())):
                if moment_ms is not None:
                    naps.append((moment_ms - now_ms()) / 1000)
    return max(_SHORTEST_S, min(naps))
