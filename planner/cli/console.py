"""Prints what commands find (tables for people, JSON for programs) and turns failures into exit codes.

Exit codes: 0 done, 1 the job or its files are at fault, 2 the command line is.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from ...errors import MixedModeError
from ...runtime.support.redaction import redacted
from ..options.values import parse_positive_duration_ms

FAILED = 1
#: The code of what the system says of a file or a folder.
UNUSABLE = "MIXEDMODE_LOCATION_UNUSABLE"


def print_json(body: Any) -> None:
    """One JSON document on standard output."""
    json.dump(body, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """A table on standard output, under a title if it has one; numbers are aligned to the right."""
    if title is not None:
        _console().print(f"\n{title}", style="bold", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[place], (int, float)) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    _console().print(table)


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Names and values, one a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, "" if value is None else str(value))
    _console().print(table)


def say(text: str) -> None:
    """A line for people that is no result: it goes to standard error."""
    typer.echo(text, err=True)


def _console() -> Console:
    # Made when needed: the streams may have been replaced.  A pipe has no width, and nothing may be cut off in it.
    # Brackets and colons are those of messages, paths and keys.
    width = None if sys.stdout.isatty() else 200
    return Console(highlight=False, markup=False, emoji=False, width=width)


@contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Turn errors of the library, and of files and folders, into a message and exit code 1."""
    try:
        yield
    except MixedModeError as error:
        _say_failure(error, error.code, as_json)
        raise typer.Exit(FAILED) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # who reads has seen enough: the command line ends without a word
        _say_failure(error, UNUSABLE, as_json)
        raise typer.Exit(FAILED) from error


def _say_failure(error: Exception, code: str, as_json: bool) -> None:
    message = redacted(str(error))
    if as_json:
        print_json({"error": {"type": type(error).__name__, "code": code, "message": message}})
    else:
        say(f"error: {message} [{code}]")


def misused(message: str) -> typer.BadParameter:
    """An error of the command line, without the credentials of a location: usage and exit code 2."""
    return typer.BadParameter(redacted(message))


def option_duration_ms(option: str, text: str | None) -> int | None:
    """The value of an option that is a length of time; None: it is not given."""
    try:
        return None if text is None else parse_positive_duration_ms(text)
    except ValueError as error:
        raise misused(f'{option} is {text!r}: {error}; a duration such as "90 s" or "10 min" is expected') from error


def age(age_s: float) -> str:
    """A span of time as people read it."""
    return str(timedelta(seconds=max(0, round(age_s))))


def moment_text(timestamp_ms: int) -> str:
    """A moment (UTC) as people read it."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
