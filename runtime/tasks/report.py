"""Defines the report of a shard's task to the driver, and how it travels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from ...state.keys.keygroups import ShardId
from ...state.store.files import StateFile
from ..connectors.staging import StagedFile
from ..operators.contract import ShardCounters

#: Column of a task's report.
REPORT_COLUMN = "report"
#: Ending of the files in which finished attempts of a pinned pass leave their reports.
REPORT_SUFFIX = ".report"
#: In place of a shard's number: there is nothing to do in this partition.
NO_SHARD = ShardId(-1)
#: Not as text, which would be parsed by Spark in every epoch.
REPORT_SCHEMA = StructType([StructField(REPORT_COLUMN, BinaryType())])


#: No report begins so.
_REFUSAL = b"not prepared: "


@dataclass(frozen=True)
class ShardReport:
    """What one winning attempt did; the only thing that goes back to the driver."""

    shard: ShardId
    attempt: str
    files: tuple[StateFile, ...]
    output: tuple[StagedFile, ...]
    counters: ShardCounters
    durations_ms: dict[str, int]
    #: Bytes that the task's sorter wrote to disk.
    spilled_bytes: int = 0
    #: Bytes, files and times as :class:`~.shard.task_meter.TaskMeter` counts them.
    measured: dict[str, int] = field(default_factory=dict)
    #: Events to the coordinator, in order.
    events: tuple[str, ...] = ()
    #: What the shard keeps from now on; None: what it had before.
    own_state: str | None = None
    #: Output rows that nobody takes.
    dropped_rows: int = 0
    #: Output rows that went on to the next stage within the Spark job.
    handed_on_rows: int = 0
    #: Of each frame that gave rows its number and the greatest event time in ms; None: nobody needs to know.
    seen: tuple[tuple[int, int | None], ...] | None = None

    def to_bytes(self) -> bytes:
        # Not by asdict(), which copies each value: that took longer than all else about a report.
        body = {
            **vars(self),
            "files": [file.to_json() for file in self.files],
            "output": [vars(file) for file in self.output],
            "counters": vars(self.counters),
        }
        return json.dumps(body).encode()

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[Any]]) -> list[ShardReport]:
        """The reports that are the rows of a job."""
        return [cls.from_bytes(bytes(row[0])) for row in rows]

    @classmethod
    def from_bytes(cls, data: bytes) -> ShardReport:
        try:
            body = msgspec.json.decode(data)
        except msgspec.DecodeError:  # half a character in a user's text, which json knows how to keep
            body = json.loads(data)
        return cls(
            shard=body["shard"],
            attempt=body["attempt"],
            files=tuple(StateFile.from_json(file) for file in body["files"]),
            output=tuple(StagedFile(**file) for file in body["output"]),
            counters=ShardCounters(**body["counters"]),
            durations_ms=body["durations_ms"],
            spilled_bytes=body["spilled_bytes"],
            measured=body.get("measured", {}),  # a report that an older version has left
            events=tuple(body.get("events", ())),
            own_state=body.get("own_state"),
            dropped_rows=body.get("dropped_rows", 0),
            handed_on_rows=body.get("handed_on_rows", 0),
            seen=None if body.get("seen") is None else tuple((frame, time_ms) for frame, time_ms in body["seen"]),
        )


@dataclass(frozen=True)
class PreparationRefusal:
    """In place of all reports: the task has done nothing, as Spark has to prepare the rows."""

    why: str
    #: True if it would be so in the next epoch, too.
    lasts: bool
    #: True if it is about the file that the task was to read.
    reads: bool = False

    def to_bytes(self) -> bytes:
        return _REFUSAL + json.dumps([self.why, self.lasts, self.reads]).encode()

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> PreparationRefusal | None:
        """The refusal that the rows of a job are; None: they are reports."""
        first = bytes(rows[0][0]) if len(rows) == 1 else b""
        return cls(*json.loads(first.removeprefix(_REFUSAL))) if first.startswith(_REFUSAL) else None


def report_batch(report: bytes) -> pa.RecordBatch:
    """A report as the one row of a task's result."""
    return pa.RecordBatch.from_pydict({REPORT_COLUMN: pa.array([report], pa.binary())})
