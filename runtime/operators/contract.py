"""Defines the contract between a shard task and an operator: one epoch, one shard."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
import pyarrow as pa

from ...state.keys.keygroups import KeyGroupRange, ShardId
from ..protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..protocols.operator_events.task_events import TaskEvents
from ..support.ids import EpochNumber
from .emission_watermark import emitted_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self

    from ...state.keys.registry import StateRegistry
    from ...state.store.compaction import StateRewrite
    from ...state.store.files import SortedStateWriter
    from ...state.store.local_copy import LocalStateCopy
    from .projection import Projection


@dataclass(frozen=True)
class InOrder:
    """How the orderly stream's watermark follows the rows of one key: from event time to event time."""

    #: What earlier epochs have fired up to: no timer sees an earlier watermark.
    fired_ms: int
    #: How far the watermark stays behind event time.
    delay_ms: int
    #: The watermark of this epoch's rows goes no further, whatever their event times; MAX: it follows them.
    upto_ms: int = MAX_WATERMARK


@dataclass(frozen=True)
class EpochSpec:
    """Everything a shard task must know about the epoch it executes.  Invariant: equal on all shards."""

    epoch: EpochNumber
    #: "sorted": keys arrive in encoded-key order, each exactly once; state goes straight to sorted files.
    #: "random": keys may be visited again by timers; writes are held back until the end of the epoch.
    style: Literal["sorted", "random"]
    #: What the operator sees as current watermark while rows are processed (MIN in a backlog without ``in_order``).
    watermark_ms: int
    #: Event-time timers and windows that end at or before this fire; MIN: none.  In "sorted" style they fire
    #: at the end of each key, in "random" style after all rows, in time order.
    firing_watermark_ms: int
    #: Rows with event time strictly below are late and dropped; MIN: nothing is late.  It is what earlier epochs have
    #: fired up to.
    late_watermark_ms: int
    #: The processing time of the whole epoch, pinned by the driver.
    processing_time_ms: int
    #: Processing-time timers at or before this fire (MAX in batch mode, where they fire at the end of their key).
    processing_timers_upto_ms: int
    #: False in batch mode: the state of a key is forgotten at its end.
    keep_state: bool = True
    #: True for the very first epoch of a job, the one in which initial state is handed over.
    first: bool = False
    #: What becomes of event-time timers that timers register while MAX_WATERMARK fires: at a switch they are carried
    #: into the stream, at the end of input they are ignored.
    timers_at_max: Literal["carry", "ignore"] = "carry"
    #: What event times bring the watermark to in this epoch.  Where MAX_WATERMARK fires, the timers up to here fire
    #: before it, as in a stream that comes to its end; MIN: none do.
    reached_watermark_ms: int = MIN_WATERMARK
    #: How rows and event-time timers of a key are ordered; None: all rows, then the timers ("after-rows").
    in_order: InOrder | None = None
    #: True for the epoch without rows and timers in which the operator's endInput() and finish() are called.
    ending: bool = False
    #: True for a look at the state between two epochs: the row of every key is output, and nothing changes.
    whole_result: bool = False
    #: True while any source is in backlog.
    is_backlog: bool = False
    #: How far the watermark stays behind the event times of the stage's rows.
    delay_ms: int = 0
    #: More of the backlog follows: nothing fires by event time yet, and there is no order to keep.
    more_follows: bool = False
    #: False in a pass in which no row is behind anything: it is the first, and whole.
    drops_late: bool = True
    #: True if the sources have given something for it, even if no row is left of that: a micro-batch of stock Spark.
    has_input: bool = False

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> EpochSpec:
        """What ``asdict`` made, by way of JSON; raises TypeError for what another version made."""
        in_order = body.get("in_order")
        return cls(**{**body, "in_order": None if in_order is None else InOrder(**in_order)})


class OutputWriter(Protocol):
    """Where an operator's rows go; attempt-private until the driver picks the winner."""

    def write(self, rows: pa.RecordBatch) -> None: ...


#: How the names of Spark's metrics begin that count input rows.
INPUT_ROWS = "__input_rows"


@dataclass(frozen=True)
class FirstPass:
    """What Spark alone makes of the rows of a sorted pass that meets no state."""

    #: Rows that are output already, for :meth:`KeyedOperator.run` to emit as they come, in whatever order.
    output: DataFrame
    #: Rows to be processed, in the order of the rows of any pass; the same columns.  None: there are none.
    rows: DataFrame | None


@dataclass(frozen=True)
class EvolvedOperator:
    """An operator that takes over the state of another version of its job."""

    operator: KeyedOperator
    #: What becomes of the state, in words.
    changes: tuple[str, ...] = ()
    #: How it has to be rewritten before the first epoch; None: not at all.
    rewrite: StateRewrite | None = None


@dataclass
class ShardCounters:
    """What a shard task reports besides its files; summed up (or max-ed) by the driver."""

    rows_in: int = 0
    rows_late: int = 0
    #: Those of them that are of the right side; None: there is one side.
    rows_late_right: int | None = None
    keys: int = 0
    timers_fired: int = 0
    #: Timers that were registered when all input had ended, and so never fire.
    timers_ignored: int = 0
    #: Greatest event time among the rows that were not late, in ms; None: no row carried one.
    max_event_time_ms: int | None = None
    #: Earliest pending timers of the shard after this epoch, in ms; None: no timer is pending.
    next_event_timer_ms: int | None = None
    next_processing_timer_ms: int | None = None


@dataclass
class ShardContext:
    """What an operator works with inside one shard task."""

    shard: ShardId
    key_groups: KeyGroupRange
    epoch: EpochSpec
    #: State after the previous epoch; None: there is none (fresh job).
    base: LocalStateCopy | None
    #: Takes state entries in strictly ascending key order; its files become part of the shard's manifest.
    writer: SortedStateWriter
    output: OutputWriter
    counters: ShardCounters
    #: What came from the coordinator and goes to it, and the shard's own state.
    events: TaskEvents = field(default_factory=TaskEvents)
    #: True if the output goes to another stage: each row with the watermark at which it is emitted.
    feeds_a_stage: bool = False
    #: Folder on the local disk for what does not fit into memory.
    local_dir: str = field(default_factory=tempfile.gettempdir)

    def emit(self, rows: pa.RecordBatch, emitted_ms: np.ndarray | int) -> None:
        """Output rows; ``emitted_ms``: the watermark at which each, or all, are emitted."""
        self.output.write(emitted_at(rows, emitted_ms) if self.feeds_a_stage else rows)


class SparkQuestions(Protocol):
    """What Spark decides about the prepared rows of an operator before they are run."""

    def columns(self, frame: DataFrame) -> StructType | None:
        """Columns of what :meth:`ask` gives for the prepared rows; None: Spark is asked nothing about these."""

    def ask(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The shard's rows, which the operator gets in this order, and between them what Spark is asked."""

    def answered(self, frame: DataFrame) -> DataFrame:
        """What :meth:`ask` gives, with Spark's answers."""


class OutputsUnsorted(ABC):
    """An operator that deals with some rows of a sorted pass before they are sorted."""

    @abstractmethod
    def output_unsorted(
        self, context: ShardContext, rows: Iterator[pa.RecordBatch], done: Callable[[pa.RecordBatch], None]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that :meth:`KeyedOperator.run` is to get, sorted; the others are dealt with on the way.

        Args:
            context: that of ``run``.
            rows: the rows as they come, each of a key of its own.
            done: is told of rows that are dealt with.
        """


class KeyedOperator(ABC):
    """One keyed stage's operator.  Built on the driver, pickled to the tasks.

    The runtime's part: add the key-group column, shuffle, sort by (key group, key columns, order columns),
    call :meth:`run` once per shard with the shard's rows in that order.
    """

    #: What kind of operator it is, as checkpoints record it: on-disk contract.
    kind: ClassVar[str]
    #: Stable id under which state is stored.
    uid: str
    #: Key columns by name, in the frame that :meth:`prepare` returns; they are sorted and hashed in this order.
    key_columns: tuple[str, ...]
    #: The key's Arrow schema (the contract of state.keys).
    key_schema: pa.Schema
    #: Places in ``key_columns`` of those whose hash is the key group; None: all, in their order.  State is laid out by
    #: it, so what a checkpoint records holds for the life of the state.
    key_group_places: tuple[int, ...] | None = None
    #: How the values of its state are encoded (see ``StateLayout.values``).
    state_values: Literal["rows", "record", "sessions", "joined"] = "rows"
    #: Columns of prepare()'s frame that order the rows of one key, after the key (event time).
    sort_columns: tuple[str, ...] = ()
    output_schema: StructType
    #: True if prepare() takes the bound of late rows from the column ``LATE_BOUND_COLUMN`` (:mod:`.admission`), where
    #: the frame has it.
    takes_late_bound: ClassVar[bool] = False
    #: How Spark makes output rows of the rows that :meth:`run` writes; None: they are the output rows.
    projection: Projection | None = None
    registry: StateRegistry
    #: True if windows or event-time timers can be pending: asks for a firing pass and for the observed watermark.
    uses_event_time: bool
    uses_processing_time: bool = False
    #: True if it registers timers of its own, which may fire between the rows of a key.
    has_timers: bool = False
    #: True if it may hand on a row while another one, due earlier, waits for the watermark.
    emits_out_of_order: bool = False
    #: True if the operator has something to do when its input ends, after all timers: an epoch with ``ending`` set.
    has_end_hooks: bool = False
    #: Class of the user's processor, for errors; None: it has none.
    processor_name: str | None = None
    #: True if its output is the row of every key, each time; epochs themselves give none (outputMode complete).
    gives_whole_result: bool = False
    #: True if it has a row even of no rows, from the first epoch on for which the sources have given something.
    begins_without_rows: bool = False
    #: True if it keeps nothing and works on no shard: its input rows are its output (:mod:`.stateless`).
    is_stateless: bool = False
    #: True if it can handle events from a coordinator.
    takes_events: bool = False
    #: True if prepare() ends with one aggregation by the key columns, which distributes its rows by them.
    aggregates_by_key: bool = False
    #: True if prepare() may be read as what it is, for tasks to scan files and aggregate in place of Spark.
    scans_files: bool = False
    #: By column of prepare()'s frame what users know it as, for messages.
    column_texts: Mapping[str, str] = MappingProxyType({})
    #: True if its input is rows as they are, which tasks may read from files in place of Spark.
    scans_rows: bool = False
    #: True if it matters which of a key's rows of one event time comes first: its input has columns that say so
    #: (:mod:`.arrival_order`), unless nobody knows.
    keeps_arrival: bool = False
    #: True if Spark alone does most of a sorted pass that meets no state (see :meth:`first_pass`).
    has_first_pass: bool = False
    #: Column of prepare()'s frame with the number of input rows that a row stands for; None: itself.
    rows_column: str | None = None
    #: Column of the event times in prepare()'s frame, if that has all input rows as they are; None: it has not.
    input_times: str | None = None

    def prepare(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """Turn an epoch's input rows into the rows that are shuffled (an aggregate computes partials here)."""
        return frame

    def prepare_few(self, frame: DataFrame, epoch: EpochSpec) -> tuple[DataFrame, tuple[str, ...]] | None:
        """As :meth:`prepare`, of few rows that one task takes, where Spark has nothing to compute of them.

        Returns:
            The rows, and the columns that sort those of a key; None: they are prepared as others.
        """
        return None

    def prepares_by(self, epoch: EpochSpec) -> Hashable:
        """All of an epoch that :meth:`prepare` looks at; None: it has to be asked in each epoch, and Spark may be, too.

        The bound of late rows is not part of it if :attr:`takes_late_bound`.  Where :attr:`questions` is not None,
        this is: what is planned once asks nothing.
        """
        return None

    def order_in(self, epoch: EpochSpec) -> tuple[str, ...]:
        """The ``sort_columns`` in the order in which they sort the rows of a key in an epoch."""
        return self.sort_columns

    def first_pass(
        self, frame: DataFrame, epoch: EpochSpec, spread: Callable[[DataFrame], DataFrame], *, counted: bool
    ) -> FirstPass:
        """What takes the place of :meth:`prepare` in a sorted pass that meets no state, if ``has_first_pass``.

        Args:
            frame: the epoch's input rows, with the key columns; they are read more than once.
            epoch: what the tasks must know.
            spread: brings rows with the key columns to where Spark is to join them.
            counted: whether Spark is to count the input rows on the way, in metrics called ``INPUT_ROWS`` and so on.

        Raises:
            NotImplementedError: it has no such pass.
        """
        raise NotImplementedError

    @property
    def key_group_columns(self) -> tuple[str, ...]:
        """The key columns whose hash is the key group, in the order in which they are hashed."""
        if self.key_group_places is None:
            return self.key_columns
        return tuple(self.key_columns[place] for place in self.key_group_places)

    @property
    def output_key_columns(self) -> tuple[str, ...]:
        """For each key column the output column that has it; empty: output rows need not be of the key's group."""
        return ()

    @property
    def key_group_outputs(self) -> tuple[str, ...]:
        """The output columns that have the columns whose hash is the key group; empty: there are no such."""
        known = dict(zip(self.key_columns, self.output_key_columns, strict=False))
        return tuple(known[name] for name in self.key_group_columns) if known else ()

    def in_key_groups_by(self, places: tuple[int, ...] | None) -> Self:
        """The same with other key groups; ``places``: of the key columns that decide, None: all do."""
        whole = places == tuple(range(len(self.key_columns)))
        return self._with(key_group_places=None if whole else places)

    @property
    def output_identities(self) -> tuple[tuple[str, str], ...] | None:
        """What each output column computes, and the same for people; None: only their names are known."""
        return None

    @property
    def state_record(self) -> Any:
        """What a checkpoint says of the state besides the registry, as JSON values; None: nothing."""
        return None

    def evolved(
        self, stored: StateRegistry, record: Any, described: Mapping[str, Any], *, going_on: bool = True
    ) -> EvolvedOperator:
        """The operator that takes over state of another version of the job; this one stays as it is.

        Args:
            stored: the registry that it was written under.
            record: the ``state_record`` of then; None: there was none.
            described: what the operator said of itself when the location was claimed.
            going_on: False: the job has ended, so nothing that is new would ever get a row.

        Raises:
            StateSchemaError: stored values do not fit the declared variables.
            CheckpointMismatchError: it is the state of other aggregates.
        """
        other = self._with()
        other.registry = self.registry.evolve(stored, self.state_values == "rows")
        return EvolvedOperator(other, tuple(self.registry.changes_since(stored)))

    def _with(self, **attributes: Any) -> Self:
        """A copy with other attributes; unlike ``copy`` it keeps what only the driver has."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **attributes)
        return other

    @abstractmethod
    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch.  ``rows`` has column ``__kg`` (int32) first, then prepare()'s columns."""

    @property
    def questions(self) -> SparkQuestions | None:
        """What Spark is asked about the prepared rows; None: nothing."""
        return None

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """Those of an epoch's input rows that :meth:`run` drops as late; None: it never drops any."""
        return None

    def fingerprint(self) -> str | None:
        """Digest of all that decides what the operator computes; None: it cannot be told, nothing is ever reused."""
        return None

    def template(self, spark: SparkSession) -> DataFrame | None:
        """What else decides, and only Spark can tell whether it is always the same: its plan, over one frame without
        rows; None: nothing does."""
        return None

    @property
    def key_labels(self) -> tuple[str, ...]:
        """The key columns under the names that the user knows, in the order of ``key_columns``."""
        return tuple(self.key_schema.names)

    def describe(self) -> dict[str, Any]:
        """Facts for explain() and for the job identity check (JSON-able)."""
        return {"uid": self.uid, "key": list(self.key_columns)}
