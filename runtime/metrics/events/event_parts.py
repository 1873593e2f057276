"""Defines what events are made of: inputs, stages and phases of a job, and what an epoch tells of each.

The fields are a contract, as those of :mod:`.events`, under whose name users import them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class InputNode:
    """Something that the job reads."""

    name: str
    #: "history" (bounded) or "live".
    kind: str
    #: How it goes on from its history, in words; None: nobody has said, or it has none.
    seam: str | None = None


@dataclass(frozen=True, kw_only=True)
class StageNode:
    """A keyed stage of the job."""

    uid: str
    #: What it does, such as "aggregate" or the name of a processor's class.
    operator: str
    #: Names of the key columns.
    key: tuple[str, ...] = ()
    #: The column of event time; None: there is none.
    event_time: str | None = None
    watermark_delay_ms: int = 0
    #: Names of the inputs that it reads.
    inputs: tuple[str, ...] = ()
    #: Uids of the stages whose rows it takes.
    stages: tuple[str, ...] = ()
    #: Whether its rows are the job's output.
    is_output: bool = False


@dataclass(frozen=True, kw_only=True)
class PlannedPhase:
    """A phase of the plan."""

    kind: str
    #: "sorted" (one key at a time) or "random".
    style: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ShardTime:
    """What one shard's task took."""

    shard: int
    seconds: float
    rows: int
    spilled_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """What one keyed stage did in an epoch."""

    uid: str
    input_rows: int = 0
    output_rows: int = 0
    #: Rows that came too late.
    late_rows: int = 0
    #: Keys that were touched.
    keys: int = 0
    timers_fired: int = 0
    #: Shards that took part.
    shards: int = 0
    #: Those of them whose state was not where their task ran, and was restored there.
    restored_shards: int = 0
    #: Entries of its state after the epoch (values and timers; about), and the bytes and files that they take.
    state_entries: int = 0
    state_bytes: int = 0
    state_files: int = 0
    spilled_bytes: int = 0
    #: By phase of the task, the slowest shard: "restore", "read", "sort", "process", "publish".
    durations_ms: dict[str, int] = field(default_factory=dict)
    #: The shards that took longest, slowest first.
    slowest: tuple[ShardTime, ...] = ()
    #: How far it has fired; None: it has no watermark yet, or is at the end of time.
    watermark_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """How long messages took in Real-Time Mode: from the time that Kafka has for a message until what came of it was
    handed to the producer, or until it was processed, if nothing came of it.

    Percentiles are exact below 16 ms, and at most an eighth too great above.
    """

    p50_ms: int
    p99_ms: int
    max_ms: int

    def by_name(self) -> dict[str, int]:
        """As ``query.status`` and records of progress have them."""
        return {"p50": self.p50_ms, "p99": self.p99_ms, "max": self.max_ms}


@dataclass(frozen=True, kw_only=True)
class SourceProgress:
    """A source after an epoch."""

    name: str
    is_backlog: bool
    finished: bool
    #: Whether it holds nobody's watermark back, for want of rows.
    is_idle: bool = False
    #: None: it has none.
    watermark_ms: int | None = None
    #: Greatest event time; None: no row had one.
    max_event_time_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class SourcePosition:
    """Where a live input stood when an epoch's micro-batch had been read, in the source's own terms."""

    name: str
    #: The epoch that read it.
    epoch: int
    start: Any = None
    end: Any = None
    #: The newest that the source had when the micro-batch was planned.
    latest: Any = None
    #: Messages that wait, by topic and partition; None: the source does not say.
    lag: dict[str, dict[str, int]] | None = None
    #: The same in all.
    lag_messages: int | None = None
    #: What else the source says.
    metrics: dict[str, str] = field(default_factory=dict)
