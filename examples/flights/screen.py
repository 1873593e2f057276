"""What the demo shows: headings, the backlog's progress bar, the switch, the live micro-batches, the verdict."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .compare import Comparison

_WIDTH = 118
_LOOK_EVERY_S = 0.1


class Screen:
    """Prints to the terminal, and keeps what was printed as a picture if asked to.

    Args:
        record: keep the printed lines for :meth:`save_picture`.
        out: where to print.
    """

    def __init__(self, *, record: bool = False, out: TextIO | None = None) -> None:
        out = out or sys.stdout
        self.console = Console(file=out, width=_WIDTH, record=record, highlight=False)
        # A moving bar would be in the picture once per frame, so it has a console of its own.
        self._moving = Console(file=out, width=_WIDTH)

    def title(self, text: str) -> None:
        """A line across the screen."""
        self.console.print()
        self.console.print(Rule(Text(text, style="bold"), align="left", style="cyan"))

    def say(self, text: str, style: str = "") -> None:
        """A line of plain text."""
        self.console.print(Text(text, style=style))

    def save_picture(self, path: str) -> None:
        """Everything said so far, as SVG."""
        self.console.save_svg(path, title="make demo")

    # -- a query ---------------------------------------------------------------------------------------------------

    def backlog(self, query: Any) -> None:
        """Follow a query up to its live phase: a bar with rows/s and the time to go."""
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<10}"),
            BarColumn(40),
            _Rows(),
            console=self._moving,
            transient=True,
        ) as progress:
            bar = progress.add_task("backlog", total=None)
            while query.isActive and not reached(query, "live"):
                status = query.status
                progress.update(bar, description=status["phase"])
                counts = status.get("backlog")
                if counts and counts["totalRows"]:
                    progress.update(bar, completed=counts["fraction"], total=1, counts=counts)
                time.sleep(_LOOK_EVERY_S)
        self._switch(query)

    def _switch(self, query: Any) -> None:
        """What the switch did, or what a restarted query came back to."""
        for event in query.lifecycle:
            if event.event == "restored":
                self.say(f"restored  {event.detail}: the backlog is behind us")
        passes = [progress for progress in query.recentProgress if progress["mode"] == "backlog"]
        for progress in passes:
            rows, took_s = progress["numInputRows"], progress["batchDuration"] / 1000
            keys, results = progress["stateOperators"][0]["numRowsUpdated"], progress["sink"]["numOutputRows"]
            line = Text("backlog   ")
            line.append("━" * 30, style="green")
            line.append(
                f" {rows:,} rows in {took_s:.1f} s ({rows / max(took_s, 1e-3):,.0f} rows/s), {keys:,} keys,"
                f" {results:,} results"
            )
            self.console.print(line)
        checkpoints = [checkpoint for checkpoint in query.checkpoints if checkpoint["trigger"] == "switch"]
        if passes and checkpoints:
            keys = sum(progress["stateOperators"][0]["numRowsUpdated"] for progress in passes)
            checkpoint = checkpoints[0]
            self.say(
                f"switch    {keys:,} keys done, {checkpoint['stateEntries']:,} state entries migrated"
                f" ({checkpoint['stateBytes'] / 1024:,.0f} KiB), checkpoint {checkpoint['id']} complete in"
                f" {checkpoint['durationMs']} ms, now live",
                style="bold yellow",
            )

    def live_heading(self) -> None:
        """Names of the columns that :meth:`live` prints."""
        self.say(
            f"live      {'epoch':>5} {'rows':>7} {'keys':>6} {'results':>8} {'timers':>7} {'late':>5} {'took':>8}"
            f"  {'watermark':<17} checkpoint",
            style="bold",
        )

    def live(self, query: Any, seen: int) -> int:
        """Print the live epochs after epoch ``seen``; returns the last one."""
        for progress in query.recentProgress:
            if progress["phase"] != "live" or progress["batchId"] <= seen:
                continue
            seen = progress["batchId"]
            state, metrics = progress["stateOperators"][0], progress["stateOperators"][0]["customMetrics"]
            watermark = progress["eventTime"].get("watermark", "")[:16].replace("T", " ")
            checkpoint = progress["checkpoint"]
            self.say(
                f"          {seen:>5} {progress['numInputRows']:>7,} {state['numRowsUpdated']:>6,}"
                f" {progress['sink']['numOutputRows']:>8,} {metrics['numExpiredTimers']:>7,}"
                f" {state['numRowsDroppedByWatermark']:>5} {progress['batchDuration']:>5} ms  {watermark:<17}"
                f" {checkpoint['id'] if checkpoint else '-'}"
            )
        return seen

    def verdict(self, what: str, comparison: Comparison, took_s: float) -> None:
        """Equal, or the differences."""
        if comparison.equal:
            self.say(
                f"EQUAL     {comparison.rows:,} {what}, the same as in one plain Spark batch over the year",
                style="bold green",
            )
            self.say(f"          compared in {took_s:.1f} s")  # a line of its own: the one above has no room for it
            return
        self.say(
            f"DIFFERENT {what}: {comparison.rows:,} rows, expected {comparison.expected_rows:,};"
            f" {comparison.missing:,} missing, {comparison.unexpected:,} unexpected",
            style="bold red",
        )
        for kind, row in comparison.examples:
            self.say(f"  {kind}: {row.asDict(recursive=True)}", style="red")

    def table(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        """A small table."""
        table = Table(*columns, box=None, padding=(0, 2))
        for row in rows:
            table.add_row(*(str(value) for value in row))
        self.console.print(table)


def reached(query: Any, phase: str) -> bool:
    """True if the query has begun a phase."""
    return any(event.event == "phase" and event.detail == phase for event in query.lifecycle)


class _Rows(ProgressColumn):
    """Rows so far, rows per second and time to go, as the query's status has them."""

    def render(self, task: Task) -> Text:
        counts = task.fields.get("counts")
        if counts is None:
            return Text("")
        eta_s = counts["etaSeconds"]
        eta = "" if eta_s is None else f", {eta_s:.0f} s to go"
        return Text(f"{counts['rows']:,}/{counts['totalRows']:,} rows, {counts['rowsPerSecond']:,.0f} rows/s{eta}")
