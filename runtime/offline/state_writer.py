"""``mixedmode.state_writer``: a job's state built, or a savepoint's changed, by Spark and without the job.

    writer = mixedmode.state_writer(job)                       # what writeStream has led to: a new savepoint
    writer.state("total", totals).timers(closing).event_time(last_seen)
    writer.write("savepoints/seeded")

    writer = mixedmode.state_writer(savepoint="savepoints/seeded")
    writer.state("total", corrected).remove_keys(forgotten).write("savepoints/corrected")

The model is Flink's State Processor API.  Nothing happens before :meth:`StateWriter.write`; the savepoint that is
changed stays as it is, and the one that is written exists when its ``_metadata`` does, like any other.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from ...errors import CheckpointError, OptionError, PlanError, SetupError, StateSchemaError, UnknownStateError
from ...state.keys.key_space import TIMER_KINDS, TimerKind
from ...state.keys.registry import StateRegistry
from ..checkpoints.metadata import CheckpointMetadata, OperatorState
from ..checkpoints.savepoints.folder import SavepointFolder
from ..checkpoints.savepoints.restore import check_fits
from ..checkpoints.savepoints.store import PLAN, SavepointStore
from ..checkpoints.state_layout import empty_stage
from ..checkpoints.store import CheckpointStore
from ..driver.recovery.initial_state import fresh_watermark
from ..storage.filesystem import path_text, read_bytes
from ..support.failpoints import failpoint
from ..support.ids import EpochNumber
from ..tasks.state.scan_task import Shards, known_layout
from .fresh_checkpoint import fresh_checkpoint
from .history_pass import TRIGGER, check_history, history_pass
from .savepoint_files import WORK, fill
from .stage_change import MODES, Mode, StageChange

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..spec import JobSpec

_TIMER_KINDS: Mapping[Any, tuple[TimerKind, ...]] = {
    "none": (),
    "eventTime": ("event",),
    "processingTime": ("processing",),
}


class StateWriter:
    """Collects what a savepoint is to hold; see :func:`mixedmode.state_writer`.

        writer = mixedmode.state_writer(job).state("total", totals).timers(closing).event_time(last_seen)
        writer.write("sp/seeded")

        writer = mixedmode.state_writer(savepoint="savepoints/7")
        writer.state("total", totals, operator="totals").remove_keys(gone).write("savepoints/8")

    Wherever a method takes ``operator``, the uid of a keyed stage, None means the only one.  Changes of one writer have
    no order: keys and stages are removed first, then state and timers are set, each variable once.

    Args:
        job: the job that is to begin with the savepoint; None: any that the changed savepoint is for.
        savepoint: the savepoint to change; None: there is none.
        spark: the session that does it; None: the active one.
    """

    def __init__(self, job: JobSpec | None, savepoint: SavepointStore | None, spark: SparkSession | None) -> None:
        self._job = job
        self._savepoint = savepoint
        self._given = spark
        self._removed: set[str] = set()
        self._event_times_ms: dict[str, int] = {}
        self._runs_history = self._reads_history = False
        if job is not None and not job.keeps_state:
            raise PlanError("the job's execution.runtime-mode is batch, which keeps no state; use mixed or streaming")
        if job is not None and savepoint is not None:
            check_fits(job, savepoint)
        self._operators = self._known_operators()
        self._changes: dict[str, StageChange] = {}

    # -- what the savepoint is to hold -------------------------------------------------------------------------------

    def state(self, name: str, frame: DataFrame, operator: str | None = None, mode: Mode = "overwrite") -> Self:
        """Set a state variable of a processor.

        Columns are those of :meth:`StateReader.state`: structs ``key`` and ``value`` (``list_element`` and
        ``position``; ``user_map_key`` and ``user_map_value``), or instead of a struct its fields as columns of their
        own.  With a TTL a value may come with ``ttlExpirationMs``; without one its time begins now.

        Args:
            name: the variable.
            frame: a row for each key, element or entry.
            operator: the keyed stage.
            mode: "overwrite": the variable is what the frame says, and of other keys nothing; "merge": other keys keep
                theirs.

        Raises:
            StateSchemaError: the frame does not fit the variable.
            UnknownStateError: there is no such stage or variable.
        """
        self._change_of(operator).set_state(name, frame, _checked_mode(mode))
        return self

    def timers(self, frame: DataFrame, operator: str | None = None, mode: Mode = "overwrite") -> Self:
        """Set a processor's timers: columns as of :meth:`StateReader.timers`.

        Args:
            frame: key, ``expiration_timestamp_ms`` (or a timestamp), and ``timer_kind`` where a stage has both kinds.
            operator: the keyed stage.
            mode: as of :meth:`state`.

        Raises:
            StateSchemaError: the frame does not fit, or the stage has no timers.
            UnknownStateError: there is no such stage.
        """
        self._change_of(operator).set_timers(frame, _checked_mode(mode))
        return self

    def remove_keys(self, frame: DataFrame, operator: str | None = None) -> Self:
        """Remove keys, with all their state and timers, from a stage of any kind.

        Args:
            frame: the key's columns, or a struct ``key``; a key that is not there is no error.
            operator: the keyed stage.

        Raises:
            StateSchemaError: the frame does not fit the key.
            UnknownStateError: there is no such stage.
        """
        self._change_of(operator).remove_keys(frame)
        return self

    def remove_state(self, name: str, operator: str | None = None) -> Self:
        """Remove a state variable of all keys; a job that declares it finds it empty.

        Args:
            name: the variable.
            operator: the keyed stage.

        Raises:
            UnknownStateError: there is no such stage or variable.
        """
        self._change_of(operator).remove_state(name)
        return self

    def remove_operator(self, operator: str) -> Self:
        """Remove a keyed stage with all its state; one that the job has begins empty, and may be set anew.

        Raises:
            UnknownStateError: the savepoint has no such stage.
        """
        held = [one.uid for one in self._held]
        if operator not in held:
            raise UnknownStateError(
                f"there is no stage {operator!r} to remove; the savepoint has {', '.join(map(repr, held)) or 'none'}"
            )
        if operator in self._changes:
            raise StateSchemaError(f"stage {operator!r} is changed already; remove it first, then set its state")
        self._removed.add(operator)
        self._operators = self._known_operators()
        return self

    def event_time(self, last: datetime | int, source: str | None = None) -> Self:
        """How far event time has come in what the state was made of: the watermark follows, as behind those rows.

        Args:
            last: the greatest event time, as a datetime (naive: UTC) or in milliseconds.
            source: the live input; None: all of them.

        Raises:
            PlanError: a savepoint is changed, which says by itself how far event time has come.
            StateSchemaError: ``last`` is no time, or there is no such source.
        """
        if self._job is None or self._savepoint is not None:
            raise PlanError("event_time() is for new savepoints; one that is changed says how far event time has come")
        if isinstance(last, datetime):
            aware = last if last.tzinfo is not None else last.replace(tzinfo=timezone.utc)
            last_ms = round(aware.timestamp() * 1000)
        elif isinstance(last, int) and not isinstance(last, bool):
            last_ms = last
        else:
            raise StateSchemaError(f"event_time() got {last!r}; it takes a datetime or milliseconds since 1970")
        sources = sorted({name for stage in self._job.readers for name in fresh_watermark(self._job, stage).inputs})
        if source is not None and source not in sources:
            raise StateSchemaError(f"event_time() got source {source!r}; the job's are {', '.join(sources)}")
        self._event_times_ms.update(dict.fromkeys(sources if source is None else [source], last_ms))
        return self

    def run_history(self) -> Self:
        """Have the job's own ``history`` go through its stages, whatever they are; its output is dropped.

        It is the way to state of aggregates, deduplications and joins.  What is set by hand comes on top of it.  The
        job that begins with the savepoint does not read the history again.

        Raises:
            PlanError: the job has no history or no live source, or works through it in another way than one pass; or a
                savepoint is changed.
        """
        if self._job is None or self._savepoint is not None:
            raise PlanError("run_history() is for new savepoints: give the job alone")
        check_history(self._job)
        if self._changes:
            raise PlanError("run_history() comes first: call it before state, timers and keys are changed")
        self._runs_history = True
        return self

    def keep_history(self) -> Self:
        """Have the job still read its ``history``, on top of the new state; otherwise that stands for the history.

        Raises:
            PlanError: the job has no history, or a savepoint is changed.
        """
        if self._job is None or self._savepoint is not None or not self._job.has_history:
            raise PlanError("keep_history() is for new savepoints of a job with a history")
        self._reads_history = True
        return self

    # -- writing it --------------------------------------------------------------------------------------------------

    def write(self, path: str | os.PathLike[str]) -> str:
        """Write the savepoint; returns its path, absolute if it is local.

        Spark reads the frames now.  A writer that is killed leaves a folder that nobody takes for a savepoint.

        Args:
            path: a folder that is empty or does not exist, local or a URI.

        Raises:
            CheckpointError: there is something at ``path``.
            CorruptStateError: a file of the changed savepoint is not as it was written.
            StateSchemaError: a value does not fit its variable, or comes twice.
        """
        if self._runs_history and self._reads_history:
            raise PlanError("keep_history() and run_history() exclude each other: the history would be read twice")
        if self._runs_history and self._event_times_ms:
            raise PlanError("event_time() and run_history() exclude each other: the history says how far it has come")
        destination = path_text("path of write()", path)
        plan = self._plan()
        maker = "mixedmode.state_writer"
        with SavepointFolder(destination, maker, plan) as folder:
            base, metadata = self._base(folder)
            metadata = self._changed(folder, base, metadata)
            fill(folder, base, metadata, self._savepoint)
            failpoint("state-writer-before-complete")
            return folder.complete(metadata, self._described(), metadata.operators[0].max_parallelism)

    # -- how it is done ----------------------------------------------------------------------------------------------

    @property
    def _spark(self) -> SparkSession:
        session = self._given or (None if self._job is None else self._job.spark) or SparkSession.getActiveSession()
        if session is None:
            raise SetupError("there is no active Spark session; give one: mixedmode.state_writer(…, spark=…)")
        return session

    def _plan(self) -> str:
        if self._job is not None:
            return self._job.plan_json
        assert self._savepoint is not None, "one of them is there"
        return read_bytes(self._savepoint.filesystem, f"{self._savepoint.location}/{PLAN}").decode()

    @property
    def _held(self) -> tuple[OperatorState, ...]:
        """The stages of the savepoint that is changed."""
        return () if self._savepoint is None else self._savepoint.savepoint.checkpoint.operators

    def _known_operators(self) -> dict[str, OperatorState]:
        """The stages, as they are before the changes: the savepoint's that stay, and the job's others, empty."""
        held = (
            {} if self._savepoint is None else {one.uid: one for one in self._savepoint.savepoint.checkpoint.operators}
        )
        known: dict[str, OperatorState] = {}
        for stage in () if self._job is None else self._job.stages:
            assert self._job is not None
            if stage.uid in held and stage.uid not in self._removed:
                known[stage.uid] = self._evolved(stage.uid, held[stage.uid])
            else:
                known[stage.uid] = empty_stage(self._job, stage.operator)
        known.update({uid: one for uid, one in held.items() if uid not in known and uid not in self._removed})
        return known

    def _evolved(self, uid: str, held: OperatorState) -> OperatorState:
        """A stage of the savepoint as the job takes it over; what the engine encodes stays as it is."""
        assert self._job is not None and self._savepoint is not None
        operator = self._job.stage_of(uid).operator
        if operator.state_values != "rows":
            return held
        described = self._savepoint.savepoint.described(uid)
        taken = operator.evolved(StateRegistry.from_json(held.registry), held.record, described).operator
        return held.model_copy(update={"registry": taken.registry.to_json(), "record": taken.state_record})

    def _change_of(self, uid: str | None) -> StageChange:
        if uid is None and len(self._operators) == 1:
            uid = next(iter(self._operators))
        if uid is None or uid not in self._operators:
            held = ", ".join(map(repr, self._operators)) or "none"
            asked = "say which stage with operator=" if uid is None else f"there is no stage {uid!r}"
            raise UnknownStateError(f"{asked}; there are {held}")
        if uid not in self._changes:
            stored = self._operators[uid]
            layout = known_layout(stored)
            self._changes[uid] = StageChange(
                uid,
                layout,
                StateRegistry.from_json(stored.registry),
                self._timer_kinds(uid),
                stored.max_parallelism,
            )
        return self._changes[uid]

    def _timer_kinds(self, uid: str) -> tuple[TimerKind, ...]:
        stages = () if self._job is None else self._job.stages
        described = next((stage.operator.describe() for stage in stages if stage.uid == uid), None)
        if described is None and self._savepoint is not None:
            described = self._savepoint.savepoint.described(uid)
        return _TIMER_KINDS.get((described or {}).get("time mode"), TIMER_KINDS)

    def _described(self) -> list[Mapping[str, Any]]:
        """What the operators of the savepoint's stages say of themselves."""
        mine = [] if self._job is None else [stage.operator.describe() for stage in self._job.stages]
        known = {one.get("uid") for one in mine}
        if self._savepoint is not None:
            held = self._savepoint.savepoint
            others = [held.described(one.uid) for one in held.checkpoint.operators if one.uid in self._operators]
            mine += [one for one in others if one.get("uid") not in known]
        return list(mine)

    def _base(self, folder: SavepointFolder) -> tuple[CheckpointStore | None, CheckpointMetadata]:
        """What is changed: where its files are, and what it holds."""
        if self._savepoint is not None:
            self._savepoint.latest()  # verifies presence and sizes before anything is written
            return self._savepoint, self._savepoint.savepoint.checkpoint
        assert self._job is not None, "a new savepoint is for a job"
        if self._runs_history:
            return history_pass(self._job, f"{folder.path}/{WORK}")
        return None, fresh_checkpoint(self._job, self._event_times_ms, reads_history=self._reads_history)

    def _changed(
        self, folder: SavepointFolder, base: CheckpointStore | None, metadata: CheckpointMetadata
    ) -> CheckpointMetadata:
        epoch = EpochNumber(metadata.epoch + 1)
        operators = []
        for uid, stored in self._operators.items():
            given = metadata.operator(uid)
            if given is not None and uid not in self._removed:  # what the changes begin with knows where time has come
                stored = given.model_copy(update={"registry": stored.registry, "record": stored.record})
            change = self._changes.get(uid)
            if change is not None:
                if not stored.shards:
                    raise CheckpointError(f"stage {uid!r} holds no state: its job ran in batch mode, which keeps none")
                shards = None if base is None else Shards.of(self._spark, base, metadata.checkpoint_id, stored)
                pool = f"{folder.folder}/state/{uid}"
                stored = change.made(self._spark, stored, shards, folder.filesystem, pool, epoch)
            operators.append(stored)
        if not operators:
            raise StateSchemaError("nothing is left: all stages of the savepoint are removed")
        return metadata.model_copy(
            update={
                "job_id": uuid.uuid4().hex,
                "trigger": TRIGGER,
                "timestamp_ms": round(time.time() * 1000),
                "epoch": epoch,
                "operators": tuple(operators),
            }
        )


def _checked_mode(mode: Any) -> Mode:
    if mode not in MODES:
        raise OptionError(f"mode = {mode!r} is not allowed; allowed: {', '.join(MODES)}")
    return mode
