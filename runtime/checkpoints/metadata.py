"""Defines the content of a checkpoint's ``_metadata`` file.

``_metadata`` is written last and atomically: a checkpoint exists if and only if it does.  It is JSON with a checksum,
names every file by a path relative to the checkpoint location and carries a format version, whose rule is in
:mod:`.format`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import Field

from ...errors import CorruptStateError
from ...state.store.state_manifest import StateFile, StateManifest
from ..connectors.transaction import SinkTransaction
from ..storage.checksummed import Envelope
from ..support.frozen import Frozen
from ..support.ids import BatchId, CheckpointId, EpochNumber, JobId
from .format import Format

#: Version 2: the key groups of a stage may be of some of its key columns (``StateLayout.key_group_places``).
#: Version 3: a sink's transaction has an ordinal; tables that have seen one skip what is given to them without.
#: Version 4: the calls of a sink's function have ids of their own; whoever did not know them would use ids again.
FORMAT = Format(version=4, upgrades={1: lambda body: body, 2: lambda body: body, 3: lambda body: body})
#: Version of the format that this code writes.
FORMAT_VERSION = FORMAT.version


class SparkPosition(Frozen):
    """Where the live source's Structured Streaming query stands: everything up to this batch is in the checkpoint."""

    batch_id: BatchId
    #: Content of Spark's offsets/<batch_id>; lets a purged log entry be written again.
    offset_entry: str


class SourceState(Frozen):
    """One source: whether it is in backlog, whether it has ended, how far it was read."""

    is_backlog: bool
    finished: bool = False
    #: Greatest event time of a live input of its own; None: not known, or the job's only one.
    max_event_time_ms: int | None = None
    #: Source-specific position (history in streaming mode: the cut points and the next slice).
    position: dict[str, Any] | None = None


class ShardState(Frozen):
    """One shard: its files and its earliest pending timers."""

    lineage: dict[str, Any]
    finished: bool = False
    next_event_timer_ms: int | None = None
    next_processing_timer_ms: int | None = None
    #: What the operator keeps for the shard besides keyed state, as JSON text.
    own_state: tuple[str, ...] = ()

    def load(self) -> StateManifest:
        return StateManifest.from_json(self.lineage)


class StateLayout(Frozen):
    """What a reader must know of an operator's state besides the registry; it does not have the operator."""

    #: The kind of operator ("transformWithState", "agg").
    operator: str
    #: The key columns under the names that the user knows, and their Arrow schema.
    key_labels: tuple[str, ...]
    key_schema: dict[str, str]
    #: How values are encoded: by the state variables' row codec, or an aggregate's one record, or its open sessions, or
    #: as rows of the two sides of a join.
    values: Literal["rows", "record", "sessions", "joined"] = "rows"
    #: Places of the key columns whose hash is the key group; None: all, as before format version 2.
    key_group_places: tuple[int, ...] | None = None


class OperatorState(Frozen):
    """One keyed stage."""

    uid: str
    #: None: written before this was recorded.
    layout: StateLayout | None = None
    #: True if the operator has finished: it is not opened or run again after recovery.
    finished: bool = False
    max_parallelism: int
    registry: Any
    #: What its state is for: an aggregation's output columns.  None: nothing to say, or written before it was recorded.
    record: Any = None
    #: Its own watermark, and what it has fired; None: written before stages had one of their own, so it is the job's.
    watermark_ms: int | None = None
    fired_watermark_ms: int | None = None
    #: Greatest event time that it has seen of each input; None: as the job's sources say.
    max_event_times_ms: dict[str, int | None] | None = None
    shards: tuple[ShardState, ...] = ()
    #: State of the operator's coordinator on the driver in base64; None: it has none.
    coordinator: str | None = None
    #: Operator events on their way, by direction ("to": "subtask" or "coordinator") and shard.
    buffered_events: tuple[dict[str, Any], ...] = ()


def state_files(operators: Iterable[OperatorState]) -> Iterator[tuple[str, StateFile]]:
    """Each state file of some stages once, with the uid of its stage: shards may share files."""
    for operator in operators:
        named = {file.name: file for shard in operator.shards for file in shard.load().files}
        for file in named.values():
            yield operator.uid, file


class DueSavepoint(Frozen):
    """The savepoint that a checkpoint was taken for, where the two must not be without each other."""

    savepoint_id: str
    #: Where it goes: a local absolute path, or a URI.
    path: str
    #: The execution plan of the job that was asked for it.
    plan: str


class CheckpointMetadata(Frozen):
    """A consistent cut between two epochs."""

    checkpoint_id: CheckpointId
    #: "checkpoint": state to go on from; "completion": the job has ended, only the transaction matters.
    kind: Literal["checkpoint", "completion"] = "checkpoint"
    #: Why it was taken ("interval", "switch", ...); None: written before this was recorded.
    trigger: str | None = None
    job_id: JobId
    timestamp_ms: int
    epoch: EpochNumber
    watermark_ms: int
    #: What has fired: rows behind it are late.  None: written before this was recorded, and it is the watermark.
    fired_watermark_ms: int | None = None
    max_event_time_ms: int | None = None
    sources: dict[str, SourceState]
    spark: SparkPosition | None = None
    #: Kafka's ids of the topics that were read, by the number of the source in Spark's log: what tells a topic from one
    #: that is made anew.  Of topics that it does not name it is not known.
    topic_ids: dict[int, dict[str, str]] = Field(default_factory=dict)
    operators: tuple[OperatorState, ...]
    transaction: SinkTransaction
    #: Id of the last call of the sink's function so far.  None: written before calls had ids of their own.
    last_call_id: int | None = None
    #: Late rows that become visible with the transaction; None: there are none.
    late_rows: SinkTransaction | None = None
    #: Rows dropped as late since the start of the job.
    rows_late_total: int = 0
    #: True if it is the end of a drain: event-time timers and open windows had fired as at the end of input.  False
    #: also for one that was written before this was recorded.
    drained: bool = False
    #: What a stop-with-savepoint still has to make of it, unless it is marked as made; None: nothing.
    savepoint: DueSavepoint | None = None

    def operator(self, uid: str) -> OperatorState | None:
        """The stage with a uid; None: it has none."""
        return next((one for one in self.operators if one.uid == uid), None)

    @property
    def last_call(self) -> int:
        """The greatest id that the sink's function has been given; it was the checkpoint's before version 4."""
        return self.checkpoint_id if self.last_call_id is None else self.last_call_id

    @property
    def is_drained(self) -> bool:
        """True if nothing in it waits for the end of input any more."""
        return self.drained or self.kind == "completion"

    def to_bytes(self) -> bytes:
        """The file's content: version, checksum of the body, body."""
        return Envelope(FORMAT.version, self.model_dump_json()).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> CheckpointMetadata:
        """Parse and verify; ``where`` names the file in errors."""
        try:
            envelope = Envelope.from_bytes(data)
        except ValueError as error:
            raise CorruptStateError(f"{where} is not a checkpoint metadata file: {error}") from error
        version = FORMAT.check(envelope.version, where)
        if not envelope.is_whole:
            raise CorruptStateError(f"{where} does not match its checksum: the file was altered or cut off")
        try:
            return cls.model_validate_json(FORMAT.upgrade(envelope.body, version))
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # a ValidationError is a ValueError
            raise CorruptStateError(f"{where} cannot be understood: {error}") from error


def kind_label(kind: str, drained: bool) -> str:
    """A kind of checkpoint for people; that a job's end has fired what was open goes without saying."""
    return f"{kind} (drained)" if drained and kind != "completion" else kind
