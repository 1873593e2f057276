"""The recorder's history is bounded, and the story of a run survives months of checkpoints."""

from __future__ import annotations

from mixedmode.runtime.metrics.checkpoint import CheckpointReport
from mixedmode.runtime.metrics.history import Recorder


def report(number: int) -> CheckpointReport:
    return CheckpointReport(
        number, "interval", "checkpoint", drained=False, duration_ms=1, state_bytes=2, keys=3, new_files=4
    )


def test_checkpoints_do_not_push_out_other_events() -> None:
    """After any number of checkpoints the phases are still there, in order, and memory has not grown."""
    recorder = Recorder("run", "name", "sink")
    recorder.event("phase", "backlog")
    for number in range(5_000):
        recorder.checkpoint(report(number))
    recorder.event("stopped")

    events = recorder.events
    assert (events[0].event, events[0].detail, events[-1].event) == ("phase", "backlog", "stopped")
    assert len(events) == 102
    assert [kept.checkpoint_id for kept in recorder.checkpoints] == list(range(4_900, 5_000))
