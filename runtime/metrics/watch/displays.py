"""Shows a watched run in a terminal, in a notebook, or as lines of plain text."""

from __future__ import annotations

import contextlib
import html
import io
import re
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live

from ..event_descriptions import real_time_numbers
from ..run_records import RunRecord
from ..units import clock, count, lasting, percent, size
from .view import BACKLOG, checkpoint_of, in_numbers, rows_per_s, stage_of, view

#: Time between two lines of a run that goes well, where there is no terminal.
LINES_EVERY_MS = 5_000
#: Columns in a notebook, and of lines.
_WIDTH = 118

_BREAKS = re.compile(r"\s*[\n\r\t]\s*")


class Display(Protocol):
    """Shows a run again and again."""

    def show(self, run: RunRecord, now_ms: int) -> None:
        """It is so now."""

    def close(self, run: RunRecord | None, now_ms: int) -> None:
        """Nothing more comes; leave what was shown last."""


def display_for(console: Console) -> Display:
    """What fits where the console writes to."""
    if console.is_jupyter:
        return NotebookDisplay()
    return TerminalDisplay(console) if console.is_terminal else LinesDisplay(console)


class TerminalDisplay:
    """A few lines of a terminal that are drawn anew; what they said last stays.

    Args:
        console: of the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        # A console that keeps what it prints would keep every frame.
        moving = Console(file=console.file, width=console.width, force_terminal=True) if console.record else console
        self._live = Live(
            console=moving, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def show(self, run: RunRecord, now_ms: int) -> None:
        self._live.update(view(run, now_ms), refresh=True)

    def close(self, run: RunRecord | None, now_ms: int) -> None:
        self._live.stop()
        if run is not None:
            self._console.print(view(run, now_ms))


class NotebookDisplay:
    """One output of a cell that is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, run: RunRecord, now_ms: int) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        content = HTML(as_html(run, now_ms))
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)

    def close(self, run: RunRecord | None, now_ms: int) -> None:
        if run is not None:
            self.show(run, now_ms)


def as_html(run: RunRecord, now_ms: int) -> str:
    """What a terminal would show, as HTML."""
    console = Console(file=io.StringIO(), width=_WIDTH, record=True, force_terminal=True, force_jupyter=False)
    console.print(view(run, now_ms))
    code = console.export_html(inline_styles=True, code_format="{code}")
    title = html.escape(run.name or run.run_id)
    return f'<pre style="white-space:pre;overflow-x:auto;line-height:1.3" aria-label="{title}">{code}</pre>'


class LinesDisplay:
    """Lines, each for itself: what happens at once, and how it goes every few seconds.

    Args:
        console: whose file is written to.
    """

    def __init__(self, console: Console) -> None:
        self._file = console.file
        self._shown_count, self._run_id = 0, ""
        self._next_ms = 0

    def show(self, run: RunRecord, now_ms: int) -> None:
        if run.run_id != self._run_id:
            self._run_id, self._shown_count, self._next_ms = run.run_id, 0, 0
        for one in run.happenings[self._shown_count :]:
            self._say(one.at_ms, f"{one.kind:<10} {one.detail}")
        self._shown_count = len(run.happenings)
        said = progress_line(run, now_ms)
        if said is not None and now_ms >= self._next_ms and run.ended is None:
            self._next_ms = now_ms + LINES_EVERY_MS
            self._say(now_ms, f"{run.phase:<10} {said}")

    def close(self, run: RunRecord | None, now_ms: int) -> None:
        if run is not None:
            self.show(run, now_ms)

    def _say(self, at_ms: int, text: str) -> None:
        with contextlib.suppress(ValueError):  # the file was closed
            self._file.write(f"{clock(at_ms)} {_BREAKS.sub(' ', text.strip())}\n")
            self._file.flush()


def progress_line(run: RunRecord, now_ms: int) -> str | None:
    """How a run goes, in one line; None: there is nothing to be said yet."""
    if run.phase == "backlog" and run.backlog:
        progress = run.backlog[-1]
        part = "" if progress.fraction is None else f"{percent(progress.fraction)}, "
        return stage_of(run) + part + ", ".join(in_numbers(progress))
    if (open_epoch := run.open_epoch) is not None:
        numbers = ", ".join(real_time_numbers(open_epoch, now_ms))
        return f"epoch {open_epoch.epoch}, {numbers}, checkpoint {checkpoint_of(run, now_ms)}"
    if not run.epochs or run.phase == "backlog":
        return None
    last = run.epochs[-1]
    lag = "" if last.watermark_ms is None or run.phase in BACKLOG else f", lag {lasting(now_ms - last.watermark_ms)}"
    return (
        f"epoch {last.epoch}, {count(rows_per_s(run, now_ms))} rows/s{lag}, state {size(last.state_bytes)},"
        f" checkpoint {checkpoint_of(run, now_ms)}"
    )
