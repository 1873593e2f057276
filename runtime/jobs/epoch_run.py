"""Holds what is known of an epoch of one stage while it is executed, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...state.keys.keygroups import ShardId
from ...state.store.state_manifest import StateManifest
from ..operators.contract import EpochSpec
from ..tasks.shard.pass_pause import PassPause
from ..tasks.shard.shard_task import ShardTask
from .shard_placement import ShardPlacement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass
class EpochRun:
    """An epoch that is being executed."""

    epoch: EpochSpec
    #: Committed state of every shard.
    manifests: Sequence[StateManifest]
    visited: tuple[ShardId, ...]
    #: Works on the rows of each shard.
    task: ShardTask
    placement: ShardPlacement | None
    #: None: the epoch cannot be held between shards.
    pause: PassPause | None
    #: What Spark brings to the shards; None: nothing.
    rows: DataFrame | None
    #: None: not known.
    input_rows: int | None
    #: Whether Spark alone does most of it (``EpochExecutor.is_first_pass``).
    is_first: bool
    #: Whether the rows are in their shards already.
    in_place: bool
    #: What was observed of rows on their way, by name.
    observed: dict[str, Row] = field(default_factory=dict)
