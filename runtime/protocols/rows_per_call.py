"""Defines how a key's rows are cut into calls in a backlog (``execution.backlog.rows-per-call``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowsPerCall:
    """The most rows of a key that one call of a function gets in a sorted pass: so many, or those of one span of event
    time.  Spans begin where windows of that length do."""

    rows: int | None = None
    span_ms: int | None = None
