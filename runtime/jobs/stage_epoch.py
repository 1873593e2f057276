"""An epoch of one stage on the driver: what it begins with, what is known while it runs, what it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...state.keys.keygroups import ShardId
from ...state.store.state_manifest import StateManifest
from ..operators.contract import EpochSpec
from ..protocols.operator_events.task_events import ShardInbox
from ..spec import SortEngine
from ..tasks.report import ShardReport
from ..tasks.shard.pass_pause import PassPause
from ..tasks.shard.shard_task import ShardTask
from .shard_placement import ShardPlacement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True)
class StageEpoch:
    """An epoch of one stage, for the tasks of all of its shards."""

    #: What tasks must know.
    spec: EpochSpec
    #: Committed state of every shard.
    manifests: Sequence[StateManifest]
    #: What goes to shards besides.
    inboxes: Mapping[ShardId, ShardInbox] = field(default_factory=dict)
    sorter: SortEngine = "spark"

    @property
    def has_state(self) -> bool:
        """Whether a shard has any."""
        return any(manifest.files for manifest in self.manifests)


@dataclass(frozen=True)
class EpochRows:
    """The rows of an epoch, and what is known of them before they are read."""

    frame: DataFrame
    #: The same by input, where they may be prepared one by one; empty: they are prepared together.
    inputs: tuple[DataFrame, ...] = ()
    #: True if a stage in whose shards they are in their key groups here hands them on, and Spark knows of each file
    #: which shard's it is.
    in_place: bool = False
    #: How many there are; None: not known.
    count: int | None = None
    #: The reports say of each input how far its event times go; the operator has ``input_times``.
    tells_inputs: bool = False


@dataclass(frozen=True)
class PinnedShards:
    """What shards leave of a pass that a restarted driver goes on with."""

    #: What an earlier run of the same pass has finished; those are not computed again.
    finished: Mapping[ShardId, ShardReport] = field(default_factory=dict)
    #: Where finished attempts leave their reports; None: nowhere.
    report_folder: str | None = None


#: Of a pass that is computed as a whole after a restart, and of an epoch of the stream.
NOT_PINNED = PinnedShards()


@dataclass(frozen=True)
class StageResult:
    """What a stage's Spark jobs in an epoch have come to."""

    #: One report per visited shard: those of the attempts whose result Spark took.
    reports: list[ShardReport]
    #: What was observed of rows on their way, by name; of nothing that gave no rows.
    observed: Mapping[str, Row] = field(default_factory=dict)


@dataclass
class EpochRun:
    """An epoch that is being executed."""

    epoch: StageEpoch
    visited: tuple[ShardId, ...]
    #: Works on the rows of each shard.
    task: ShardTask
    placement: ShardPlacement | None
    #: None: the epoch cannot be held between shards.
    pause: PassPause | None = None
    #: What Spark brings to the shards; None: nothing.
    rows: DataFrame | None = None
    #: None: not known.
    input_rows: int | None = None
    #: Whether Spark alone does most of it (``EpochExecutor.is_first_pass``).
    is_first: bool = False
    #: Whether the rows are in their shards already.
    in_place: bool = False
    #: What was observed of rows on their way, by name.
    observed: dict[str, Row] = field(default_factory=dict)
