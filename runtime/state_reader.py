"""``mixedmode.state_reader``: what the checkpoints of a job hold, as DataFrames, without the job.

    reader = mixedmode.state_reader("checkpoints/")
    reader.checkpoints()                 # which there are, and whether they are whole
    reader.state("open").show()          # key columns, value
    reader.timers().show()
    reader.lookup("N14228")              # state and timers of one key

The job may run meanwhile: nothing is written, claimed or locked.  State is read by Spark tasks, one per shard, when the
DataFrame is executed; the driver reads ``_metadata`` files only.  Column names follow Spark's ``statestore`` source.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from ..errors import CheckpointError, CorruptStateError, MixedModeError, SetupError, UnknownStateError
from ..state.keys.registry import StateRegistry, schema_from_json
from .catalyst.columns import columns_ddl
from .catalyst.types.arrow_functions import mapped_in_arrow
from .checkpoints.metadata import CheckpointMetadata, OperatorState, StateLayout, state_files
from .checkpoints.savepoints.store import SavepointStore, open_store
from .checkpoints.store import CheckpointStore
from .storage.filesystem import exists, path_text, resolve
from .support.ids import CheckpointId, EpochNumber
from .support.notebook_html import facts_html, table_html
from .tasks.state.lookup_task import identify_key, lookup, only_shard
from .tasks.state.scan_task import (
    Scan,
    Shards,
    TimerScan,
    known_layout,
    spark_type,
    struct_of,
)
from .tasks.state.variable_scans import scans_of

#: Newest checkpoints that a notebook's cell shows.
_SHOWN_CHECKPOINTS = 20


@dataclass(frozen=True)
class CheckpointInfo:
    """One checkpoint of a location."""

    id: int
    #: Why it was taken: "interval", "switch", "stop"...
    trigger: str | None
    #: "checkpoint", "completion" for that of a job which has reached its end, or "savepoint".
    kind: str | None
    timestamp_ms: int | None
    epoch: EpochNumber | None
    #: Bytes of all state files that it names; checkpoints share files.
    size_bytes: int
    files: int
    #: True if its output is known to be visible.
    committed: bool
    #: What is wrong with it; None: it is complete.
    damage: str | None = None
    #: True if event-time timers and open windows had fired as at the end of input: a job that begins from it goes on
    #: behind that.
    drained: bool = False

    @property
    def time(self) -> datetime | None:
        """The time at which it was taken (UTC)."""
        return None if self.timestamp_ms is None else datetime.fromtimestamp(self.timestamp_ms / 1000, timezone.utc)

    @property
    def complete(self) -> bool:
        """True if no damage is known."""
        return self.damage is None


@dataclass(frozen=True)
class OperatorInfo:
    """One keyed stage of a checkpoint."""

    uid: str
    operator: str
    #: Key columns with their types, as in DDL.
    key: tuple[str, ...]
    #: Names of the state variables.
    states: tuple[str, ...]
    shards: int
    max_parallelism: int


def state_reader(path: str | os.PathLike[str], spark: SparkSession | None = None) -> StateReader:
    """Returns a reader of the checkpoints of a ``checkpointLocation``, or of a savepoint.

        mixedmode.state_reader("checkpoints").state("total").show()

    Args:
        path: the job's checkpointLocation, or the folder of a savepoint, local or a URI.
        spark: the session that reads; None: the active one.

    Raises:
        OptionError: ``path`` is not a path.
        CheckpointError: there are no checkpoints of mixedmode at ``path``.
    """
    path = path_text("path of state_reader", path)
    filesystem, location = resolve(path)
    store = open_store(filesystem, location)
    if isinstance(store, SavepointStore):
        return StateReader(store, spark)
    if not exists(filesystem, f"{store.root}/job.json") and not exists(filesystem, f"{store.root}/checkpoints"):
        there = "exists, but has no folder mixedmode/" if exists(filesystem, location) else "does not exist"
        raise CheckpointError(
            f"{path!r} is not a checkpointLocation of mixedmode: it {there}. Give the folder that the job was started "
            "with as option checkpointLocation",
            code="MIXEDMODE_CHECKPOINT_NOT_FOUND",
        )
    return StateReader(store, spark)


class StateReader:
    """Reads the checkpoints of one location, without the job and also while it runs.

        reader = mixedmode.state_reader("checkpoints")
        reader.checkpoints(verify=True)
        reader.state("total").where("key.customer = 'c-1'").show()
        reader.lookup("c-1")

    In all methods, ``checkpoint`` None means the newest one; ``operator`` or ``name`` None means the only one.  Columns
    are those of Spark's ``statestore`` source; additional ones come last.
    """

    def __init__(self, store: CheckpointStore, spark: SparkSession | None) -> None:
        self._store = store
        self._given = spark

    def __repr__(self) -> str:
        return f"StateReader[{self._store.location}]"

    def _repr_html_(self) -> str:
        rows = [
            (
                one.id,
                one.kind or "",
                one.trigger or "",
                "" if one.time is None else one.time.strftime("%Y-%m-%d %H:%M:%S UTC"),
                "" if one.epoch is None else one.epoch,
                f"{one.size_bytes:,}",
                one.damage or ("complete, drained" if one.drained else "complete"),
            )
            for one in self.checkpoints()[-_SHOWN_CHECKPOINTS:]
        ]
        header = ("checkpoint", "kind", "trigger", "taken", "epoch", "bytes of state", "how it is")
        stages = []
        with contextlib.suppress(MixedModeError):
            stages = [
                (one.uid, one.operator, ", ".join(one.key), ", ".join(one.states), one.shards)
                for one in self.operators()
            ]
        newest = table_html(("stage", "operator", "key", "states", "shards"), stages) if stages else ""
        return facts_html("StateReader", [("location", self._store.location)]) + table_html(header, rows) + newest

    # -- what there is -----------------------------------------------------------------------------------------------

    def checkpoints(self, verify: bool = False) -> list[CheckpointInfo]:
        """Returns all checkpoints, oldest first, including damaged ones.

            reader.checkpoints(verify=True)

        Args:
            verify: read all state files to compare their checksums, and the file with the identity of the location;
                False:
                check that the state files exist and have the right size.

        Raises:
            CorruptStateError: with ``verify``, the identity file is damaged or missing, so that no job could start
                here.
        """
        if verify and not isinstance(self._store, SavepointStore):
            self._store.identity()
        return [self._info(checkpoint_id, verify) for checkpoint_id in self._store.known_ids()]

    def _info(self, checkpoint_id: CheckpointId, verify: bool) -> CheckpointInfo:
        committed = self._store.is_committed(checkpoint_id)
        try:
            found = self._store.read(checkpoint_id)
        except CheckpointError as error:
            return CheckpointInfo(checkpoint_id, None, None, None, None, 0, 0, committed, str(error))
        files = {file.name: file for _, file in state_files(found.operators)}
        damage = None
        try:
            self._store.check_files(found, checksums=verify)
        except CorruptStateError as error:
            damage = str(error)
        return CheckpointInfo(
            checkpoint_id,
            found.trigger,
            self._store.kind_of(found),
            found.timestamp_ms,
            found.epoch,
            sum(file.size_bytes for file in files.values()),
            len(files),
            committed,
            damage,
            found.is_drained,
        )

    def operators(self, checkpoint: int | None = None) -> list[OperatorInfo]:
        """Returns the keyed stages of a checkpoint: ``reader.operators()``."""
        found = []
        for operator in self._metadata(checkpoint).operators:
            layout = operator.layout
            schema = None if layout is None else _labelled_key(layout)
            key = () if schema is None else tuple(f"{f.name} {spark_type(f.type).simpleString()}" for f in schema)
            states = tuple(descriptor.name for descriptor in StateRegistry.from_json(operator.registry))
            kind = "unknown" if layout is None else layout.operator
            found.append(OperatorInfo(operator.uid, kind, key, states, len(operator.shards), operator.max_parallelism))
        return found

    def metadata(self, checkpoint: int | None = None) -> DataFrame:
        """Returns one row per operator and state variable: kind, schemas as DDL, TTL, schema version, shards.

            reader.metadata().show()

        The last two columns are the kind of the checkpoint, and whether it is drained (see :class:`CheckpointInfo`).
        """
        rows = []
        metadata = self._metadata(checkpoint)
        own = (self._store.kind_of(metadata), metadata.is_drained)
        for operator in metadata.operators:
            key = "" if operator.layout is None else _ddl(_labelled_key(operator.layout))
            for item in StateRegistry.from_json(operator.registry):
                user_key = None if item.user_key_schema is None else _ddl(item.user_key_schema)
                described = (item.name, item.kind, key, user_key, _ddl(item.schema), item.ttl_ms, len(item.history))
                place = (len(operator.shards), operator.max_parallelism)
                rows.append((metadata.checkpoint_id, operator.uid, *described, *place, *own))
        return self._spark.createDataFrame(
            rows,
            "checkpoint_id long, operator string, state string, kind string, key_schema string, user_key_schema string,"
            " value_schema string, ttl_ms long, schema_version int, shards int, max_parallelism int,"
            " checkpoint_kind string, drained boolean",
        )

    # -- what is in it -----------------------------------------------------------------------------------------------

    def state(self, name: str | None = None, operator: str | None = None, checkpoint: int | None = None) -> DataFrame:
        """One state variable: ``key``, a struct of the key columns, then

        ``value``                            a value state, or an aggregate's buffers (a row per open session)
        ``list_element``                     one row per element of a list state
        ``user_map_key``, ``user_map_value`` one row per entry of a map state

        and ``partition_id``, the shard.  With a TTL, values are structs of ``value`` and ``ttlExpirationMs``.  All this
        is as in Spark's ``statestore`` source with ``stateVarName``; unlike there, expired values are not shown,
        and the elements of a list have their ``position`` in a last column.

        Args:
            name: the variable; None: the only one.
            operator: uid of the keyed stage; None: the only one.
            checkpoint: id of a complete checkpoint; None: the newest.

        Raises:
            UnknownStateError: there is no such checkpoint, operator or variable.
            CorruptStateError: the checkpoint is damaged.
        """
        stored, shards = self._opened(operator, checkpoint)
        scans = scans_of(stored, shards)
        wanted = _only(scans, name, "state variable", f"operator {stored.uid!r} of checkpoint {shards.checkpoint_id}")
        return self._frame(scans[wanted])

    def timers(self, operator: str | None = None, checkpoint: int | None = None) -> DataFrame:
        """Returns waiting timers: ``key``, ``expiration_timestamp_ms``, ``partition_id``, ``timer_kind`` (event or
        processing).

            reader.timers().show()

        All but the last column are as in Spark's ``statestore`` source with ``readRegisteredTimers``.
        """
        _, shards = self._opened(operator, checkpoint)
        return self._frame(TimerScan(shards))

    def lookup(self, *key: Any, operator: str | None = None, checkpoint: int | None = None) -> dict[str, Any]:
        """Returns state and timers of one key; reads only its shard.

            reader.lookup("c-1")["state"]

        Args:
            key: one value per key column.
            operator: the keyed stage.
            checkpoint: the id of the checkpoint.

        Returns:
            ``{"checkpoint": id, "key": Row, "found": bool, "state": {name: value}, "timers": {kind: [ms, ...]}}``.  A
                value
            state is a Row or None, a list state a list of Rows, a map state a dict of Rows by Row.  ``found`` is False
                if the
            checkpoint has neither timers nor unexpired state of the key.
        """
        stored, shards = self._opened(operator, checkpoint)
        layout = known_layout(stored)
        if len(key) != len(layout.key_labels):
            raise UnknownStateError(
                f"lookup got {len(key)} values, the key has {len(layout.key_labels)}: {_ddl(_labelled_key(layout))}"
            )
        ident = identify_key(self._spark, shards.key_schema, key, stored.max_parallelism, layout.key_group_places)
        visited = only_shard(ident[0], len(stored.shards), stored.max_parallelism)
        shards = replace(shards, only=ident, visited=visited)
        found = lookup(self._spark, shards, scans_of(stored, shards))
        return {"checkpoint": shards.checkpoint_id, "key": Row(*layout.key_labels)(*key), **found}

    # -- how it is found ---------------------------------------------------------------------------------------------

    @property
    def _spark(self) -> SparkSession:
        session = self._given or SparkSession.getActiveSession()
        if session is None:
            raise SetupError("there is no active Spark session; give one: mixedmode.state_reader(path, spark)")
        return session

    def _metadata(self, checkpoint: int | None) -> CheckpointMetadata:
        where = f"checkpointLocation {self._store.location!r}"
        if checkpoint is None:
            found = self._store.latest()
            if found is None:
                raise UnknownStateError(f"{where} holds no complete checkpoint yet")
            return found
        known = self._store.known_ids()
        if checkpoint not in known:
            held = ", ".join(map(str, known)) or "none"
            raise UnknownStateError(f"{where} has no checkpoint {checkpoint}; it holds {held}")
        number = CheckpointId(checkpoint)
        try:
            found = self._store.read(number)
            self._store.check_files(found, checksums=False)
        except CorruptStateError as error:
            raise self._store.with_alternative(error, number) from error
        return found

    def _opened(self, operator: str | None, checkpoint: int | None) -> tuple[OperatorState, Shards]:
        metadata = self._metadata(checkpoint)
        by_uid = {stored.uid: stored for stored in metadata.operators}
        uid = _only(by_uid, operator, "operator", f"checkpoint {metadata.checkpoint_id}")
        stored = by_uid[uid]
        if not stored.shards:
            raise UnknownStateError(
                f"checkpoint {metadata.checkpoint_id} holds no state: its job ran in batch mode, which keeps none"
            )
        return stored, Shards.of(self._spark, self._store, metadata.checkpoint_id, stored)

    def _frame(self, scan: Scan) -> DataFrame:
        count = len(scan.shards.visited)
        return mapped_in_arrow(self._spark.range(0, count, 1, count), scan, scan.schema)


def _only(known: Iterable[str], wanted: str | None, what: str, where: str) -> str:
    """The wanted name, or the only one there is."""
    names = list(known)
    if wanted in names:
        return str(wanted)
    held = ", ".join(map(repr, names)) or "none"
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise UnknownStateError(f"{where} has {len(names)} {what}s, say which: {held}")
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownStateError(f"{where} has no {what} {wanted!r}; {hint}it has {held}")


def _labelled_key(layout: StateLayout) -> pa.Schema:
    stored = schema_from_json(layout.key_schema)
    return pa.schema([field.with_name(label) for label, field in zip(layout.key_labels, stored, strict=True)])


def _ddl(schema: pa.Schema) -> str:
    return columns_ddl(struct_of(schema).fields)
