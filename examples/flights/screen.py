"""What the demo shows: headings, what is watched of the queries, the verdict."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .compare import Comparison

_WIDTH = 118


class Screen:
    """Prints to the terminal, and keeps what was printed as a picture if asked to.

    Args:
        record: keep the printed lines for :meth:`save_picture`.
        out: where to print.
    """

    def __init__(self, *, record: bool = False, out: TextIO | None = None) -> None:
        out = out or sys.stdout
        self.console = Console(file=out, width=_WIDTH, record=record, force_terminal=record or None, highlight=False)

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
