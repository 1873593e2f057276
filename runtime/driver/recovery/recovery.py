"""Recovers a job before its run: finds its checkpoint and makes disk, sink and Spark's log agree with it.

Order (each step may be repeated after a crash in the middle): last complete checkpoint → re-commit its transaction →
make the savepoint that it was taken for → rewind Spark's log → abort all other staged output → sweep state files that
nothing names.
Without a checkpoint the job starts from the beginning: nothing of an earlier attempt is visible or used.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....errors import CheckpointMismatchError, OptionError
from ....state.keys.registry import StateRegistry
from ....state.store.compaction import StateRewrite
from ...checkpoints.first_position import FirstPositions
from ...checkpoints.identity import FOUND_BY_STATE, JobIdentity
from ...checkpoints.metadata import CheckpointMetadata
from ...checkpoints.savepoints.completion import complete_pending
from ...checkpoints.savepoints.restore import check_restorable, restore_if_asked
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.data_loss import ForgottenMessages, forgotten_messages, kafka_offsets
from ...connectors.sources.live_sources import LiveSourceFacts, live_sources, sources_read_once
from ...operators.contract import EvolvedOperator, KeyedOperator
from ...protocols.watermarks import ONLY
from ...spark_io.spark_sources import log_numbers
from ...spec import JobSpec, StageSpec
from ...storage.filesystem import delete_quietly, exists
from ...support.failpoints import failpoint
from ...support.ids import NO_BATCH, JobId
from ...tasks.report import ShardReport
from ..checkpoint.output_commit import commit_transaction, pending_output
from ..coordinators.task_graph import check_finished_tasks
from ..epochs.pinned_backlog import PinnedBacklog
from ..sources.replayed_files import LostFile, lost_before_replay, lost_of_backlog
from ..state.job_state import JobState
from ..state.stage_handoffs import handoffs_of, output_place_of
from .backlog_fingerprint import backlog_fingerprint
from .initial_state import fresh_state, restored_state

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecoveredRun:
    """The state to go on from, and the checkpoint that it came from (None: a fresh start)."""

    #: The job with operators that have taken over the state.
    job: JobSpec
    state: JobState
    checkpoint: CheckpointMetadata | None
    #: Keeps the finished shards of the backlog; None: the backlog is behind, or cannot be told from another one.
    pin: PinnedBacklog | None = None
    #: What the job's state variables have become since the checkpoint, in words.
    evolution: tuple[str, ...] = ()
    #: What must be done to the values of the state before the first epoch, by stage.
    rewrites: Mapping[str, StateRewrite] = field(default_factory=dict)
    #: The savepoint that an earlier run was to stop with, if it has been made only now.
    savepoint: str | None = None
    #: Live files that a source goes on without.
    lost: tuple[LostFile, ...] = ()


def identify(job: JobSpec, store: CheckpointStore) -> JobIdentity:
    """The identity of the checkpoint location, claimed for this job if it is new; raises as :func:`check_identity`."""
    known = check_identity(job, store)
    if known is None:
        check_restorable(job)
        known = JobIdentity(JobId(uuid.uuid4().hex), _described(job), job.settings.max_parallelism, job.name)
        store.claim(known)
    return known


def check_identity(job: JobSpec, store: CheckpointStore) -> JobIdentity | None:
    """The identity of the checkpoint location, which is this job's; None: it is new.

    Raises:
        CheckpointMismatchError: the location belongs to another job.
        OptionError: ``pipeline.max-parallelism`` differs from the one that the state was written with.
    """
    known = store.identity()
    if known is None:
        return None
    differences = known.differences(_described(job), FOUND_BY_STATE)
    if differences:
        uids = [stage.get("uid") for stage in known.stages], [stage.uid for stage in job.stages]
        row = "U10" if uids[0] == uids[1] else "U15"
        raise CheckpointMismatchError(
            f"checkpointLocation {store.location!r} belongs to another job ({known}): {'; '.join(differences)}. "
            f"Use a checkpointLocation of its own for each job [upgrade:{row}]"
        )
    if known.max_parallelism != job.settings.max_parallelism:
        raise OptionError(
            f"pipeline.max-parallelism is {job.settings.max_parallelism}, but the state in {store.location!r} was "
            f"written with {known.max_parallelism}; it is fixed for the life of the state [upgrade:U4]",
            code="MIXEDMODE_PARALLELISM_FIXED",
        )
    return known


def recover(job: JobSpec, store: CheckpointStore, identity: JobIdentity) -> RecoveredRun:
    """Bring everything to the last complete checkpoint, or to the beginning; the sink must be open."""
    log = store.spark_log
    restore_if_asked(job, store, identity)
    metadata = store.latest()
    if metadata is None:
        parallelism = job.settings.shards(job.spark)
        state = fresh_state(job, identity.job_id, identity.max_parallelism, parallelism)
        pin, lost_files = _recover_backlog(job, store, state)
        return RecoveredRun(job, state, None, pin, lost=lost_files)
    taken = {stage.uid: evolved(stage.operator, store, identity, metadata) for stage in job.stages}
    for stage in job.stages:
        by = taken[stage.uid].operator.key_group_columns
        if by != stage.operator.key_group_columns:
            logger.info("stage %s keeps the key groups of its state, by %s", stage.uid, ", ".join(by))
    job = replace(job, stages=tuple(replace(stage, operator=taken[stage.uid].operator) for stage in job.stages))
    state = restored_state(job, metadata, job.settings.parallelism)
    check_finished_tasks(job, state.parallelism, metadata, store.location)
    check_sources(job, metadata, store)
    begins_anew = job.live is not None and bool(sources_read_once(job.live))
    if metadata.spark is not None and not begins_anew:
        log.check(metadata.spark, None if job.live is None else log_numbers(job.live))
    _check_coordinators(job, state, metadata, store)
    commit_transaction(job, store, metadata, pending_output(job, store, metadata))
    failpoint("recovery-after-commit")
    savepoint = complete_pending(store, metadata)
    store.guard()
    lost = [] if begins_anew or metadata.spark is None else lost_before_replay(job, store, metadata.spark)
    if begins_anew:
        _begin_live_anew(job, store, state)
    elif metadata.spark is None:
        _first_positions(job, store).go_back()
    else:
        log.rewind(metadata.spark)
    job.sink.staging.sweep()
    delete_quietly(store.filesystem, store.runs)
    for handoff in handoffs_of(job, store).values():
        handoff.staging.sweep()
    if job.late_rows is not None:
        job.late_rows.sink.staging.sweep()
    for uid, held in state.stages.items():
        store.retention.collect_garbage(uid, held.manifests)
    return RecoveredRun(
        job,
        state,
        metadata,
        evolution=tuple(change for one in taken.values() for change in one.changes),
        rewrites={uid: one.rewrite for uid, one in taken.items() if one.rewrite is not None},
        savepoint=savepoint,
        lost=tuple(lost),
    )


def _begin_live_anew(job: JobSpec, store: CheckpointStore, state: JobState) -> None:
    """Forget where the live query stood: no position means anything to a source that keeps nothing."""
    assert job.live is not None
    logger.warning(
        "the job in %s continues with its state; rows of live source %r since the last checkpoint are lost",
        store.location,
        sources_read_once(job.live)[0],
    )
    store.spark_log.clear()
    state.batch_id, state.spark = NO_BATCH, None


def _described(job: JobSpec) -> tuple[dict[str, Any], ...]:
    """What the operators of a job's stages say of themselves."""
    return tuple(stage.operator.describe() for stage in job.stages)


def evolved(
    operator: KeyedOperator, store: CheckpointStore, identity: JobIdentity, metadata: CheckpointMetadata
) -> EvolvedOperator:
    """The operator that takes over a checkpoint's state; errors as of :meth:`KeyedOperator.evolved`."""
    held = metadata.operator(operator.uid)
    if held is None:
        return EvolvedOperator(operator)
    if held.shards:  # state stays in the key groups that it is in
        operator = operator.in_key_groups_by(None if held.layout is None else held.layout.key_group_places)
    stored, described = StateRegistry.from_json(held.registry), identity.of_stage(operator.uid)
    try:
        return operator.evolved(stored, held.record, described, going_on=metadata.kind != "completion")
    except CheckpointMismatchError as error:
        raise CheckpointMismatchError(
            f"checkpoint {metadata.checkpoint_id} in checkpointLocation {store.location!r} is not for this job: {error}"
        ) from error


def check_sources(job: JobSpec, metadata: CheckpointMetadata, store: CheckpointStore) -> None:
    """Raise CheckpointMismatchError if the job reads other sources than the one that wrote the checkpoint."""
    for name in job.sources:
        if name not in metadata.sources:
            raise CheckpointMismatchError(
                f"the job reads source {name!r}, but checkpoint {metadata.checkpoint_id} in {store.location!r} "
                f"knows only {', '.join(map(repr, metadata.sources))}; a source cannot be added to a job that has run"
                " [upgrade:U17]"
            )
    live = [one.name for one in job.live_inputs]
    stored_live = [name for name in metadata.sources if name != "history"]
    if live and stored_live != live:
        raise CheckpointMismatchError(
            f"the job's live inputs are {', '.join(live)}, those of checkpoint {metadata.checkpoint_id} in "
            f"{store.location!r} are {', '.join(stored_live)}: Spark's log knows them by their order, so their "
            "names, number and order are fixed for the life of the state [upgrade:U17]"
        )
    _check_kinds(job, metadata, store)
    _check_first_offsets(job, metadata, store)
    for stage in job.stages:
        _check_inputs(stage, live, metadata, store)


def _check_kinds(job: JobSpec, metadata: CheckpointMetadata, store: CheckpointStore) -> None:
    """Raise CheckpointMismatchError if a live source is of another kind than the one that gave the stored position."""
    for source, stood in _stored_positions(job, metadata):
        if stood != "-" and not source.gave(stood):
            raise CheckpointMismatchError(
                f"live source {source.name} cannot go on from {stood}, where checkpoint"
                f" {metadata.checkpoint_id} in {store.location!r} stands: that is a position of a source of another"
                " kind. Read the source that the job began with, or give the new one a job of its own that begins with"
                " the state: mixedmode.state_writer [upgrade:U18]"
            )


def _stored_positions(job: JobSpec, metadata: CheckpointMetadata) -> Iterator[tuple[LiveSourceFacts, str]]:
    """The live sources that a checkpoint has a line for in Spark's log, each with that."""
    if job.live is None or metadata.spark is None:
        return
    lines = metadata.spark.offset_entry.splitlines()[2:]
    for number, source in zip(log_numbers(job.live), live_sources(job.live), strict=True):
        if number < len(lines):
            yield source, lines[number]


def _check_first_offsets(job: JobSpec, metadata: CheckpointMetadata, store: CheckpointStore) -> None:
    """Raise CheckpointMismatchError if a history that is read in part ends somewhere else than when it was begun."""
    history = metadata.sources.get("history")
    if history is None or history.finished or history.position is None:
        return
    for source, at in _stored_positions(job, metadata):
        if source.first_offset is not None and json.loads(source.first_offset) != json.loads(at):
            raise CheckpointMismatchError(
                f"the job in {store.location!r} has read a part of its history up to checkpoint"
                f" {metadata.checkpoint_id}, and live was to begin at {at}; now it would begin at"
                f" {source.first_offset}, so what lies between would come twice or not at all. Give the version (or"
                " snapshot) that the job began with [upgrade:U21]"
            )


def forgotten_behind(job: JobSpec, metadata: CheckpointMetadata) -> list[ForgottenMessages]:
    """What the live sources have forgotten behind a checkpoint."""
    if job.live is None or metadata.spark is None:
        return []
    entry, numbers = metadata.spark.offset_entry, log_numbers(job.live)
    return forgotten_messages(job.spark, kafka_offsets(job.live, numbers, entry, metadata.topic_ids))


def _check_inputs(stage: StageSpec, live: Sequence[str], metadata: CheckpointMetadata, store: CheckpointStore) -> None:
    """Raise CheckpointMismatchError if a stage reads other live inputs than those whose event times are stored for it.

    Args:
        stage: the stage.
        live: the job's live inputs, which are those of the checkpoint.
        metadata: the checkpoint.
        store: where it is.
    """
    held = metadata.operator(stage.uid)
    # An only input cannot be exchanged; a new stage has none, nor do earlier versions tell them.
    if len(live) < 2 or held is None or held.max_event_times_ms is None:
        return
    had, has = held.max_event_times_ms.keys(), stage.delays_ms.keys()
    if not has and had == {ONLY}:  # what a stage that reads but a history calls its event times
        return
    stages = {one.uid for one in metadata.operators}
    before, now = ([name for name in live if name in some and name not in stages] for some in (had, has))
    if before != now:
        raise CheckpointMismatchError(
            f"stage {stage.uid!r} reads {_listed(now)}, but in checkpoint {metadata.checkpoint_id} in"
            f" {store.location!r} it reads {_listed(before)}: which inputs its watermark and its state come from is"
            " fixed for the life of the state [upgrade:U17]"
        )


def _listed(live: Sequence[str]) -> str:
    return f"live inputs {', '.join(live)}" if live else "no live input"


def _check_coordinators(job: JobSpec, state: JobState, metadata: CheckpointMetadata, store: CheckpointStore) -> None:
    """Raise CheckpointMismatchError if the state of a coordinator would be lost."""
    lost = (state.stages[stage.uid].restored_events is not None and stage.coordinator is None for stage in job.stages)
    if job.settings.savepoint_ignore_unclaimed or not any(lost):
        return
    raise CheckpointMismatchError(
        f"checkpoint {metadata.checkpoint_id} in {store.location!r} holds the state of a coordinator, and the job has"
        " none; give transformWithState its coordinator=…, or set execution.savepoint.ignore-unclaimed-state = true to"
        " drop that state [upgrade:U23]"
    )


def _recover_backlog(
    job: JobSpec, store: CheckpointStore, state: JobState
) -> tuple[PinnedBacklog | None, tuple[LostFile, ...]]:
    """Without a checkpoint: keep what an earlier run has finished of this very backlog, remove everything else.

    Returns:
        What keeps finished shards, and files of the live source that they held and that are gone or changed.
    """
    store.guard()
    fingerprint, stage, handoffs = None, state.first_stage, handoffs_of(job, store)
    if job.settings.reuse_finished_shards and job.has_phase("backlog"):
        fingerprint = backlog_fingerprint(job, len(stage.shards), stage.max_parallelism)
    pin = PinnedBacklog(store, fingerprint or "")
    reports: dict[str, list[ShardReport]] = {}
    pinned, lost = fingerprint is not None and pin.belongs, tuple[LostFile, ...]()

    def finished() -> dict[str, list[ShardReport]]:
        return {
            one.uid: list(
                pin.finished(
                    one.uid, output_place_of(job, handoffs, one.uid), follows=one is not job.stages[0]
                ).values()
            )
            for one in job.stages
        }

    if pinned and job.live is not None and pin.live_position is not None and any(finished().values()):
        lost = tuple(lost_of_backlog(job, store, pin.live_position))
        if lost:  # shards of two backlogs never mix
            pin.discard()
            pinned = False
    elif not pinned and exists(store.filesystem, store.backlog_pin):
        logger.info("the backlog is not the one that the run before had begun: its finished shards are computed again")
    if _first_positions(job, store).go_back(replay=pinned, entry=pin.live_position) and pinned:
        reports = finished()
    else:
        pin.discard()
    if job.late_rows is not None:
        job.late_rows.sink.staging.sweep()
    staged = {file.name for its in reports.values() for report in its for file in report.output}
    job.sink.staging.sweep(keep=staged)
    delete_quietly(store.filesystem, store.runs)
    for handoff in handoffs.values():
        handoff.staging.sweep(keep=staged)
    for uid, held in state.stages.items():
        state_files = [file.name for report in reports.get(uid, ()) for file in report.files]
        store.retention.collect_garbage(uid, held.manifests, keep=state_files)
    return None if fingerprint is None else pin, lost


def _first_positions(job: JobSpec, store: CheckpointStore) -> FirstPositions:
    return FirstPositions(store, () if job.live is None else live_sources(job.live))


def refuse_more_after_the_end(job: JobSpec, store: CheckpointStore, end: JobState | CheckpointMetadata) -> None:
    """A job that has ended must not look as if it had processed what has come since.

    Raises:
        CheckpointMismatchError: it has a live source, and keeps the state that what came since would have changed.
    """
    if job.live is None:
        return
    ended = f"the job in checkpointLocation {store.location!r} ended with checkpoint {end.checkpoint_id}"
    if job.keeps_state:
        raise CheckpointMismatchError(
            f"{ended}, and what its live source has received since would be ignored; a job that is to go on must run "
            "in runtime-mode mixed or streaming from the start. Use a new checkpointLocation [upgrade:U24]",
            code="MIXEDMODE_BATCH_ENDED",
        )
    logger.warning("%s; in batch mode it reads nothing that arrived later. Use a new checkpointLocation", ended)
