"""Changes one stage's state offline: collects the changes, then applies them in one Spark job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...errors import MixedModeError, StateSchemaError, UnknownStateError
from ...state.keys.key_space import TIMER_SLOTS, TimerKind
from ...state.keys.keygroups import KeyGroupRange
from ...state.keys.registry import StateDescriptor, StateRegistry, schema_from_json
from ...state.store.state_manifest import StateManifest
from ..catalyst.columns import quoted
from ..catalyst.types.arrow_functions import mapped_in_arrow
from ..checkpoints.metadata import OperatorState, ShardState, StateLayout
from ..jobs.shuffle import exchanged_by_shard, key_group
from ..jobs.stage_jobs import without_rows
from ..jvm.worker_errors import raised_in_workers
from ..operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..storage.folder_checks import local_option
from ..support.ids import EpochNumber
from ..tasks.report import REPORT_SCHEMA, ShardReport
from ..tasks.state.scan_task import LOCAL_DIR, Shards
from ..tasks.state.state_change_task import ORDER, TAG, StateChangeTask, change_key_column, change_schema
from .state_frames import StageKey, StateFrames

Mode = Literal["overwrite", "merge"]
MODES = ("overwrite", "merge")


@dataclass
class StageChange:
    """The changes of one stage, in no order: removals come first, then what is set.

    Args:
        uid: the stage.
        layout: its key, and how its values are encoded.
        registry: its variables.
        timer_kinds: those that it can have.
        max_parallelism: number of key groups.
    """

    uid: str
    layout: StateLayout
    registry: StateRegistry
    timer_kinds: tuple[TimerKind, ...]
    max_parallelism: int
    #: Slots of what is to be as the frames say and in no other way.
    _overwritten: set[int] = field(default_factory=set)
    _rows: list[DataFrame] = field(default_factory=list)
    _set: set[str] = field(default_factory=set)
    #: What variables are gone.
    dropped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._key = StageKey(self.uid, self.layout.key_labels, schema_from_json(self.layout.key_schema))
        self._frames = StateFrames(self._key)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing for the task to do."""
        return not self._rows

    def set_state(self, name: str, frame: DataFrame, mode: Mode) -> None:
        """Set a variable's values.

        Args:
            name: the variable.
            frame: its values by key.
            mode: "overwrite": other keys have none any more; "merge": they keep theirs.

        Raises:
            StateSchemaError: the frame does not fit, or the stage's values are the engine's own.
            UnknownStateError: there is no such variable.
        """
        item = self._variable(name)
        self._rows.append(self._frames.state(item, frame))
        if mode == "overwrite":
            self._overwritten.add(item.slot)

    def set_timers(self, frame: DataFrame, mode: Mode) -> None:
        """Set timers; arguments and errors as of :meth:`set_state`."""
        self._check_rows("timers")
        self._once("timers")
        self._rows.append(self._frames.timers(frame, self.timer_kinds))
        if mode == "overwrite":
            self._overwritten.update(TIMER_SLOTS.values())

    def remove_keys(self, frame: DataFrame) -> None:
        """Remove keys with all that they have."""
        self._rows.append(self._frames.removed(frame))

    def remove_state(self, name: str) -> None:
        """Remove a variable of all keys.

        Raises:
            StateSchemaError: the stage's values are the engine's own, or the variable is set as well.
            UnknownStateError: there is no such variable.
        """
        self.dropped.append(self._variable(name).name)

    def _variable(self, name: str) -> StateDescriptor:
        """The variable that is set or removed, once."""
        self._check_rows(f"state {name!r}")
        if name not in self.registry:
            held = ", ".join(repr(item.name) for item in self.registry) or "none"
            raise UnknownStateError(f"stage {self.uid!r} has no state {name!r}; it has {held}")
        self._once(f"state {name!r}")
        return self.registry.get(name)

    def _once(self, what: str) -> None:
        if what in self._set:
            raise StateSchemaError(f"{what} of stage {self.uid!r} is set or removed twice; unite the frames")
        self._set.add(what)

    def _check_rows(self, what: str) -> None:
        if self.layout.values != "rows":
            raise StateSchemaError(
                f"{what} of stage {self.uid!r} cannot be set: the state of {self.layout.operator} is the engine's own."
                " Allowed: remove_keys(), remove_operator(), and run_history(), which makes it of rows"
            )

    # -- doing it ----------------------------------------------------------------------------------------------------

    def made(
        self,
        spark: SparkSession,
        stored: OperatorState,
        base: Shards | None,
        filesystem: fs.FileSystem,
        pool: str,
        epoch: EpochNumber,
    ) -> OperatorState:
        """The stage's state after the changes; new files are in ``pool``.

        Args:
            spark: the session.
            stored: its state before.
            base: the same, for tasks; None: there is none.
            filesystem: of the pool.
            pool: folder of the stage's files.
            epoch: the epoch that new files count as of.

        Raises:
            StateSchemaError: a value does not fit, or comes twice.
        """
        manifests = [shard.load() for shard in stored.shards]
        registry = self._kept_registry
        if self.is_empty:
            return stored.model_copy(update={"registry": registry.to_json()})
        groups = tuple(manifest.key_groups for manifest in manifests)
        task = StateChangeTask(
            uid=self.uid,
            key_schema=self._key.schema,
            key_labels=self._key.labels,
            registry=self.registry,
            key_groups=groups,
            base=base,
            is_rows=self.layout.values == "rows",
            overwritten=frozenset(self._overwritten),
            filesystem=filesystem,
            pool=pool,
            epoch=epoch,
            now_ms=round(time.time() * 1000),
            local_dir=local_option(LOCAL_DIR, spark.conf.get(LOCAL_DIR, None)),
        )
        filesystem.create_dir(pool, recursive=True)
        reports = self._run(spark, task, groups)
        shards = [
            _changed(shard, manifest, report)
            for shard, manifest, report in zip(stored.shards, manifests, reports, strict=True)
        ]
        return stored.model_copy(update={"registry": registry.to_json(), "shards": tuple(shards)})

    @property
    def _kept_registry(self) -> StateRegistry:
        """The variables without those that are dropped, whose slots nobody gets again."""
        if not self.dropped:
            return self.registry
        kept = StateRegistry.from_json(self.registry.to_json())
        for name in self.dropped:
            kept.withdraw(name)
        return kept.evolve(self.registry, self.layout.values == "rows")

    def _run(self, spark: SparkSession, task: StateChangeTask, groups: Sequence[KeyGroupRange]) -> list[ShardReport]:
        rows = self._in_shards(len(groups))
        with raised_in_workers():
            found = ShardReport.of_rows(mapped_in_arrow(rows, task, REPORT_SCHEMA).collect())
            if not found:  # Spark has found out that there are no rows, and has run no task
                places = spark.range(0, len(groups), 1, len(groups))
                found = ShardReport.of_rows(mapped_in_arrow(places, without_rows(task), REPORT_SCHEMA).collect())
        found.sort(key=lambda report: report.shard)
        if [report.shard for report in found] != list(range(len(groups))):
            raise MixedModeError(
                f"expected one report from each of the {len(groups)} shards of stage {self.uid!r}, got"
                f" {[report.shard for report in found]}: Spark changed the partitioning of the shuffle"
            )
        return found

    def _in_shards(self, parallelism: int) -> DataFrame:
        """All rows where their shards' tasks run, in the order of the stored keys."""
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), self._rows)
        keys = [change_key_column(place) for place in range(len(self._key.labels))]
        places = self.layout.key_group_places
        deciding = keys if places is None else [keys[place] for place in places]
        wanted = change_schema(self.registry)
        have = set(rows.columns)
        columns = [
            F.col(field.name) if field.name in have else F.lit(None).cast(field.dataType).alias(field.name)
            for field in wanted.fields
        ]
        group = f"CAST({key_group(deciding, self.max_parallelism)} AS int)"
        rows = rows.select(F.expr(group).alias(KEY_GROUP_COLUMN), *keys, *columns)
        rows = exchanged_by_shard(rows, self.max_parallelism, parallelism)
        return rows.sortWithinPartitions(KEY_GROUP_COLUMN, *map(quoted, keys), TAG, ORDER)


def _changed(shard: ShardState, manifest: StateManifest, report: ShardReport) -> ShardState:
    return shard.model_copy(
        update={
            "lineage": manifest.append(report.files).to_json(),
            "next_event_timer_ms": report.counters.next_event_timer_ms,
            "next_processing_timer_ms": report.counters.next_processing_timer_ms,
        }
    )
