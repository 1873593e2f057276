"""What is shown of a run in a terminal, in a notebook and behind a pipe."""

from __future__ import annotations

import io
import sys
import threading
import types
from collections.abc import Sequence

import pytest
from event_support import RUN, began, common, epoch, phase
from made_up_runs import ERROR, NAME, made_up_runs
from mixedmode.runtime.metrics.events.events import Latencies, RealTimeProgressed, RunEvent
from mixedmode.runtime.metrics.run_records import RunRecord, runs_of
from mixedmode.runtime.metrics.watch.displays import (
    LinesDisplay,
    NotebookDisplay,
    TerminalDisplay,
    as_html,
    display_for,
    progress_line,
)
from rich.console import Console

EVENTS = list(made_up_runs())
FIRST = EVENTS[0].run_id


def record(events: Sequence[RunEvent]) -> RunRecord:
    (run,) = runs_of(events)
    return run


def first(count: int) -> RunRecord:
    """The first run after so many events."""
    return record([event for event in EVENTS if event.run_id == FIRST][:count])


def terminal() -> Console:
    return Console(
        file=io.StringIO(), width=118, height=50, force_terminal=True, color_system=None, force_jupyter=False
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_the_backlog_and_then_the_stream() -> None:
    """A bar with rows, rows/s, the time to go and spill; later the stream's numbers; in the end what was last stays."""
    console = terminal()
    face = TerminalDisplay(console)
    run = first(50)
    face.show(run, run.seen_ms)
    backlog = written(console)
    assert (
        "50 %" in backlog
        and "stage rotations: 10,876,913 of 21,400,000 rows" in backlog
        and "226,602 rows/s, 47 s to go" in backlog
    )
    assert "shards 1/8" in backlog and "144 MiB spilled" in backlog and "━" in backlog
    run = first(190)
    face.show(run, run.seen_ms)
    face.close(run, run.seen_ms)
    last = written(console)[-2500:]
    assert "━ 21,400,000 rows in 1.58 min" in last and "live isBacklog=false after epoch 1" in last
    for name in ("rows/s", "watermark lag", "state", "checkpoint", "late rows", "epoch", "results", "timers"):
        assert name in last
    assert "64 MiB" in last and not written(console).endswith("\x1b[2K")


def test_nothing_is_left_running() -> None:
    """No face has a thread, neither while it shows nor after it."""
    before = threading.enumerate()
    face = TerminalDisplay(terminal())
    face.show(first(50), 0)
    assert threading.enumerate() == before
    face.close(first(50), 0)
    assert threading.enumerate() == before


def test_how_a_run_ended_is_shown() -> None:
    """A failure with its reason, in one line, as text: names and errors are no markup."""
    run = runs_of(EVENTS)[-1]
    console = terminal()
    face = TerminalDisplay(console)
    face.close(run, run.seen_ms)
    assert "failed after 25 min" in written(console) and "Job aborted: </pre><script>" in written(console)
    named = RunRecord(RUN, 0, 0, name="[red]sum[/red]")
    console = terminal()
    TerminalDisplay(console).close(named, 0)
    assert "[red]sum[/red]" in written(console)


def test_a_recording_console_keeps_the_last_picture_only() -> None:
    """So that what was shown can be saved as a picture."""
    console = Console(file=io.StringIO(), width=118, force_terminal=True, force_jupyter=False, record=True)
    face = TerminalDisplay(console)
    for count in (20, 50, 190):
        face.show(first(count), 0)
    face.close(first(190), 0)
    text = console.export_text()
    assert text.count("process 4001 on driver-0") == 1 and "live for" in text


def test_a_pipe_gets_lines() -> None:
    """What happens comes at once, how it goes every five seconds; each line has its time, and is one line."""
    console = Console(file=io.StringIO(), force_jupyter=False)
    face = display_for(console)
    assert isinstance(face, LinesDisplay)
    run = RunRecord(FIRST, 0, 0)
    for event in (event for event in EVENTS if event.run_id == FIRST):
        run.on(event)
        face.show(run, event.at_ms)
    lines = written(console).splitlines()
    backlog = [line for line in lines if " backlog    " in line]
    assert 18 <= len(backlog) <= 20
    assert backlog[1].startswith(
        "2026-11-20 21:00:06 backlog    stage rotations: 0 %, 209,934 of 21,400,000 rows, 34,989 rows/s"
    )
    assert "2026-11-20 21:01:36 switch     live isBacklog=false after epoch 1: all that waited is read" in lines
    live = [line for line in lines if " live    " in line]
    assert len(live) > 100 and "rows/s, lag 1 h" in live[5] and "checkpoint 2, 10 s ago" in live[4]
    failed = runs_of(EVENTS)[-1]
    face.close(failed, failed.seen_ms)
    assert written(console).splitlines()[-1].endswith(" ".join(ERROR.split()))


def test_a_notebook_gets_html() -> None:
    """The same picture, in which what users say is text."""
    page = as_html(first(190), first(190).seen_ms)
    assert page.startswith("<pre") and page.endswith("</pre>")
    assert "<script>" not in page and NAME.partition("<")[0] in page and "watermark lag" in page


def test_a_cell_has_one_output_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown once, and updated from then on, by what IPython gives; nothing else is asked of the notebook."""
    outputs: list[list[str]] = []

    class Handle:
        def update(self, content: str) -> None:
            outputs[-1].append(content)

    def display(content: str, *, display_id: bool) -> Handle:
        assert display_id
        outputs.append([content])
        return Handle()

    module = types.ModuleType("IPython.display")
    module.HTML, module.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    face = display_for(Console(file=io.StringIO(), force_jupyter=True))
    assert isinstance(face, NotebookDisplay)
    for count in (20, 50):
        face.show(first(count), 0)
    face.close(first(190), 0)
    (pictures,) = outputs
    assert len(pictures) == 3 and "shards" in pictures[1] and "watermark lag" in pictures[2]


def test_a_run_without_numbers_is_shown() -> None:
    """One that has only begun, and one whose backlog told nothing."""
    for events in ([began()], [began(), phase("backlog", 1)], [epoch(1, 5)], [began(), phase("live", 1), epoch(1, 5)]):
        console = terminal()
        TerminalDisplay(console).close(record(events), 10)
        assert "job" in written(console)


def test_an_epoch_in_real_time_is_shown_while_it_runs() -> None:
    """Rows so far, rows/s and latencies of the last seconds; when it is applied it is an epoch as others."""
    latencies = Latencies(p50_ms=12, p99_ms=40, max_ms=1300)
    progress = RealTimeProgressed(
        **common(20_000), epoch=8, elapsed_s=9.2, rows=1_850, rows_per_second=200.0, latencies=latencies
    )
    events = [began(), phase("live", 1_000), epoch(7, 10_000, input_rows=4), progress]
    numbers = "1,850 rows in 9 s, 200 rows/s, latency p50 12 ms, p99 40 ms, max 1,300 ms"
    console = terminal()
    TerminalDisplay(console).show(record(events), 20_000)
    assert f"epoch 8 in real time: {numbers}" in written(console)
    assert progress_line(record(events), 20_000) == f"epoch 8, {numbers}, checkpoint none yet"
    assert progress_line(record([*events[:2], progress]), 20_000) == f"epoch 8, {numbers}, checkpoint none yet"
    later = record([*events, epoch(8, 21_000)])
    assert "real time" not in as_html(later, 21_000)
    assert "epoch 8, 200 rows/s" in str(progress_line(later, 21_000)), "not the epoch's rows in ten seconds"
    assert record(events).happenings == later.happenings, "what is told each second is no event of the run's story"
