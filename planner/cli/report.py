"""``mixedmode report LOCATION``: what the runs of a job were, as one HTML file."""

from __future__ import annotations

from pathlib import Path

from ...errors import QueryError
from ...runtime.metrics.events.event_reader import read_history
from ...runtime.metrics.report.page import report_page
from ...runtime.metrics.run_records import runs_of, since
from ...runtime.metrics.status import status_of
from .console import misused


def write_report(location: str, output: Path, last_ms: int | None) -> int:
    """Write the page; returns how many runs it tells of.

    Args:
        location: the job's ``checkpointLocation``.
        output: the file.
        last_ms: only the last so many milliseconds; None: all that is remembered.

    Raises:
        QueryError: the job has left no history, or none of that time.
    """
    status = status_of(location)
    runs = runs_of(read_history(location))
    if not runs:
        raise QueryError(f"{location!r} has no history: no run of this version of mixedmode has left anything there")
    if last_ms is not None:
        runs = since(runs, status.at_ms - last_ms)
        if not runs:
            raise QueryError(f"nothing ran on {location!r} in that time; leave --last away for all that is remembered")
    page = report_page(status, runs)
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise misused(f"--output {str(output)!r} cannot be written: {error}") from error
    return len(runs)
