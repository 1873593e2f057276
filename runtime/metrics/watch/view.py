"""Lays out a run for ``mixedmode watch``: the bar of its backlog, or the table of its stream."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..event_descriptions import real_time_numbers
from ..events.events import BacklogProgressed, EpochApplied, RealTimeProgressed
from ..run_records import Happening, RunRecord
from ..units import clock, count, lasting, percent, size, span, time_to_go, whole

#: Epochs and events that are shown, and the time over which rows/s is the mean.
_EPOCHS, _HAPPENINGS, _RATE_MS = 6, 5, 10_000
_BAR = 30
#: Phases that are the backlog's.
BACKLOG = ("backlog", "history", "catch-up")
_COLOURS = {"finished": "green", "stopped": "yellow", "failed": "red"}


def view(run: RunRecord, now_ms: int) -> RenderableType:
    """All that is shown of a run."""
    parts: list[RenderableType] = [_heading(run, now_ms)]
    if run.ended is None and run.phase == "backlog" and run.backlog:
        parts.append(bar(run.backlog[-1], stage=stage_of(run)))
    if any(epoch.mode == "backlog" for epoch in run.epochs):
        parts.append(_passes(run))
    if (open_epoch := run.open_epoch) is not None:
        parts.append(_real_time(open_epoch, now_ms))
    if any(epoch.mode == "streaming" for epoch in run.epochs):
        parts += ["", _numbers(run, now_ms if run.ended is None else run.until_ms), "", _epochs(run)]
    if run.happenings:
        parts += ["", _happenings(run.happenings)]
    return Group(*parts)


def _heading(run: RunRecord, now_ms: int) -> Text:
    line = Text(run.name or run.run_id[:8], style="bold", overflow="fold")
    if run.ended is not None:
        line.append(f"  {run.ended.how}", style=f"bold {_COLOURS[run.ended.how]}")
        line.append(f" after {lasting(run.until_ms - run.began_ms)}", style="not bold")
        return line
    line.append(f"  {run.phase}", style="bold cyan" if run.phase in BACKLOG else "bold green")
    if run.is_paused:
        line.append(", paused", style="bold yellow")
    since_ms = run.phases[-1].began_ms if run.phases else run.began_ms
    line.append(f" for {lasting(now_ms - since_ms)}", style="not bold")
    if run.began is not None:
        line.append(f"  process {run.began.pid} on {run.began.host}", style="not bold dim")
    return line


def _passes(run: RunRecord) -> Text:
    """What the backlog was, in one line."""
    passes = [epoch for epoch in run.epochs if epoch.mode == "backlog"]
    rows, took_ms = sum(epoch.input_rows for epoch in passes), sum(epoch.duration_ms for epoch in passes)
    keys = sum(stage.keys for epoch in passes for stage in epoch.stages[:1])
    results = sum(epoch.output_rows for epoch in passes)
    line = Text("━" * _BAR, style="green")
    line.append(
        f" {rows:,} rows in {span(took_ms)} ({whole(rows * 1000 / max(took_ms, 1))} rows/s), {keys:,} keys,"
        f" {results:,} results",
        style="default",
    )
    return line


def _real_time(progress: RealTimeProgressed, now_ms: int) -> Text:
    """The epoch that runs, in one line."""
    return Text(f"epoch {progress.epoch} in real time: {', '.join(real_time_numbers(progress, now_ms))}", style="cyan")


def stage_of(run: RunRecord) -> str:
    """Whose pass is told of, where there are several stages."""
    has_several = run.began is not None and len(run.began.stages) > 1
    return f"stage {run.backlog[-1].stage}: " if has_several and run.backlog else ""


def bar(progress: BacklogProgressed, stage: str = "") -> RenderableType:
    """How far a sorted pass is: a bar, rows, rows/s, the time to go, spill."""
    fraction = progress.fraction
    part = Text("    ") if fraction is None else Text(f"{percent(fraction):>5}", style="bold")
    rows, *more = in_numbers(progress)
    table = Table.grid(padding=(0, 1))
    # Before anything is measured the bar pulses: one that stood at 0 % would look like a job that hangs.
    total = None if fraction is None else 1.0
    table.add_row(ProgressBar(total=total, completed=fraction or 0.0, width=_BAR), part, Text(stage + rows))
    table.add_row("", "", Text(", ".join(more)))
    return table


def in_numbers(progress: BacklogProgressed) -> list[str]:
    """The same without a bar."""
    of_all = "" if progress.total_rows is None else f" of {progress.total_rows:,}"
    parts = [f"{progress.rows:,}{of_all} rows", f"{whole(progress.rows_per_second)} rows/s"]
    if not progress.rows:  # none is through yet: what has happened before the shards
        parts = [f"{progress.rows_read:,}{of_all} rows read"]
        parts += [f"{progress.rows_shuffled:,} shuffled"] if progress.rows_shuffled else []
    if (left := time_to_go(progress.eta_s, progress.eta_low_s, progress.eta_high_s)) is not None:
        parts.append(f"{left} to go")
    parts.append(f"shards {progress.shards_done}/{progress.shards}")
    if progress.spilled_bytes:
        parts.append(f"{size(progress.spilled_bytes)} spilled")
    return parts


def rows_per_s(run: RunRecord, now_ms: int) -> float:
    """Rows of the stream in a second, of the last ten or of as many as there were; in real time as its tasks told."""
    told = run.real_time[-1:]
    if told and told[0].at_ms >= max([run.began_ms, *(phase.began_ms for phase in run.phases[-1:])]):
        return told[0].rows_per_second  # also behind the end of an epoch, which is that of a minute
    since_ms = max([now_ms - _RATE_MS, run.began_ms, *(phase.began_ms for phase in run.phases[-1:])])
    rows = sum(epoch.input_rows for epoch in run.epochs if epoch.mode == "streaming" and epoch.at_ms > since_ms)
    return rows * 1000 / max(now_ms - since_ms, 1000)


def _numbers(run: RunRecord, now_ms: int) -> RenderableType:
    """Where the stream is now."""
    last = run.epochs[-1]
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for name in ("rows/s", "watermark lag", "state", "checkpoint", "late rows"):
        table.add_column(name, no_wrap=True)
    table.add_row(
        count(rows_per_s(run, now_ms)),
        "none" if last.watermark_ms is None else lasting(now_ms - last.watermark_ms),
        f"{size(last.state_bytes)}, {count(last.state_entries)} entries",
        checkpoint_of(run, now_ms),
        count(run.late_rows),
    )
    return table


def checkpoint_of(run: RunRecord, now_ms: int) -> str:
    """The last checkpoint and its age."""
    if not run.checkpoints:
        return "none yet"
    last = run.checkpoints[-1]
    return f"{last.checkpoint_id}, {lasting(now_ms - last.at_ms)} ago" if run.ended is None else f"{last.checkpoint_id}"


def _epochs(run: RunRecord) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("epoch", "rows", "keys", "results", "timers", "late", "took"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("watermark", no_wrap=True)
    for epoch in [epoch for epoch in run.epochs if epoch.mode == "streaming"][-_EPOCHS:]:
        table.add_row(*_cells(epoch))
    return table


def _cells(epoch: EpochApplied) -> list[str]:
    return [
        str(epoch.epoch),
        f"{epoch.input_rows:,}",
        f"{sum(stage.keys for stage in epoch.stages):,}",
        f"{epoch.output_rows:,}",
        f"{sum(stage.timers_fired for stage in epoch.stages):,}",
        f"{epoch.late_rows:,}",
        span(round(epoch.duration_ms)),
        "" if epoch.watermark_ms is None else clock(epoch.watermark_ms),
    ]


def _happenings(happenings: list[Happening]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    shown = happenings[-_HAPPENINGS:]
    for width in (8, max(len(one.kind) for one in shown)):
        table.add_column(no_wrap=True, min_width=width)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for one in shown:
        style = "red" if one.kind in ("failed", "data-lost", "checkpoint-failed") else ""
        table.add_row(
            Text(clock(one.at_ms)[11:], style="dim"), Text(one.kind, style=style), Text(" ".join(one.detail.split()))
        )
    return table
