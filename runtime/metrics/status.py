"""Says how a job does, from outside of its process: by its claim on the location, its event log and its checkpoints.

Meant for probes that ask every few seconds: no Spark, and a few small files.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ...errors import CheckpointError, OptionError
from ..checkpoints.lease.claims import ClaimFolder
from ..checkpoints.lease.run_presence import RunPresence, standing_of
from ..storage.filesystem import resolve
from .events.event_reader import HistoryTail
from .events.events import CheckpointCompleted, EpochApplied
from .run_records import RunRecord, runs_of
from .units import lasting


@dataclass(frozen=True)
class Limits:
    """What a healthy job keeps; None: anything."""

    #: How long an applied epoch of the stream may wait for a checkpoint.
    checkpoint_age_ms: int | None = None
    #: How far the watermark of a source that is not in backlog, idle or finished may be behind the clock.
    lag_ms: int | None = None
    #: How long a run may go without getting on: no phase, epoch, checkpoint, nor rows of a backlog.
    silence_ms: int | None = None
    #: How many messages may wait in all partitions of a source.
    waiting_messages: int | None = None


@dataclass(frozen=True)
class CheckpointSeen:
    """The newest checkpoint."""

    id: int
    at_ms: int
    #: None: it is of an earlier run, and its log was not read.
    duration_ms: int | None = None
    state_bytes: int | None = None
    trigger: str | None = None


@dataclass(frozen=True)
class JobStatus:
    """A job at one moment."""

    location: str
    at_ms: int
    standing: RunPresence
    #: The newest run that has left a log; None: there is none.
    run: RunRecord | None
    checkpoint: CheckpointSeen | None
    #: Why the newest checkpoint cannot be read; None: it can.
    damage: str | None = None

    @property
    def is_running(self) -> bool:
        return self.standing.is_running

    @property
    def is_of_the_log(self) -> bool:
        """Whether the run that has the location is the one whose log is there.

        The claim and the log are compared by the claim's generation: the run's id in the log is Spark's, which is
        known only after the location was claimed.
        """
        if self.run is None or self.standing.holder is None:
            return self.run is not None
        return self.run.began is not None and self.run.began.generation == self.standing.generation

    @property
    def outcome(self) -> str | None:
        """How the newest run ended: "finished", "stopped", "failed" or "killed"; None: it runs, or nothing is known."""
        if self.is_running or self.run is None:
            return None
        return "killed" if self.run.ended is None else self.run.ended.how

    @property
    def is_paused(self) -> bool:
        """Whether somebody has told the run to stand still."""
        return self.is_running and self.is_of_the_log and self.run is not None and self.run.is_paused

    @property
    def phase(self) -> str | None:
        """The phase that the run is in, or ended in; None: nobody knows."""
        if not self.is_of_the_log:
            return "recovery" if self.is_running and self.standing.has_event_log else None
        return None if self.run is None else self.run.phase

    @property
    def epoch(self) -> EpochApplied | None:
        """The last epoch of the run."""
        return self.run.epochs[-1] if self.run is not None and self.is_of_the_log and self.run.epochs else None

    def check_measurable(self, limits: Limits) -> None:
        """Raise OptionError if a limit is given, and the run writes nothing by which it can be checked."""
        if self.is_running and not self.standing.has_event_log and limits != Limits():
            raise OptionError(
                f"no limit can be checked: the job that runs on {self.location} writes no event log"
                " (execution.event-log.enabled = false). Set it to true and start the job again, or give no limit"
            )

    def problems(self, limits: Limits) -> list[str]:
        """Why a job that runs is not healthy, in words; none for one that is, nor for one that does not run."""
        if not self.is_running:
            return []
        found = []
        if self.standing.is_silent:
            silent = lasting(self.standing.silent_ms or 0)
            found.append(f"its process is there, but has given no sign of life for {silent}")
        run = self.run if self.is_of_the_log else None
        if run is None or run.is_paused:  # who is told to stand still does
            return found
        if limits.silence_ms is not None and self.at_ms - run.progressed_ms > limits.silence_ms:
            still = lasting(self.at_ms - run.progressed_ms)
            found.append(f"it has not got on for {still}, {lasting(limits.silence_ms)} are allowed")
        found += [f"the live folder {folder} is gone, no files are found there" for folder in run.folders_gone]
        unsaved_ms = 0 if run.unsaved_since_ms is None else self.at_ms - run.unsaved_since_ms
        if limits.checkpoint_age_ms is not None and unsaved_ms > limits.checkpoint_age_ms:
            allowed = lasting(limits.checkpoint_age_ms)
            found.append(f"an epoch has waited {lasting(unsaved_ms)} for a checkpoint, {allowed} are allowed")
        for source in self.sources():
            lag_ms, waiting = source["watermarkLagMs"], source["waitingMessages"]
            is_live = not (source["isBacklog"] or source["isIdle"] or source["finished"])
            if limits.lag_ms is not None and is_live and lag_ms is not None and lag_ms > limits.lag_ms:
                found.append(f"source {source['name']} lags by {lasting(lag_ms)}, {lasting(limits.lag_ms)} are allowed")
            if limits.waiting_messages is not None and (waiting or 0) > limits.waiting_messages:
                found.append(
                    f"{waiting} messages wait at source {source['name']}, {limits.waiting_messages} are allowed"
                )
        return found

    def sources(self) -> list[dict[str, Any]]:
        """Each source after the last epoch, and after the switch if that came behind it."""
        epoch = self.epoch
        if epoch is None or self.run is None:
            return []
        found = []
        for source in epoch.sources:
            position = self.run.positions.get(source.name)
            # Of several live inputs each has a watermark; the only one has the job's.
            is_history = any(one.name == source.name and one.kind == "history" for one in self._inputs)
            watermark_ms = source.watermark_ms
            if watermark_ms is None and not is_history and not source.finished:
                watermark_ms = epoch.watermark_ms
            found.append(
                {
                    "name": source.name,
                    "isBacklog": self.run.in_backlog.get(source.name, source.is_backlog),
                    "finished": source.finished,
                    "isIdle": source.is_idle,
                    "watermarkMs": watermark_ms,
                    "watermarkLagMs": None if watermark_ms is None or source.finished else self.at_ms - watermark_ms,
                    "waitingMessages": None if position is None else position.lag_messages,
                }
            )
        return found

    @property
    def _inputs(self) -> tuple[Any, ...]:
        return () if self.run is None or self.run.began is None else self.run.began.inputs


def status_of(location: str) -> JobStatus:
    """How the job on a checkpoint location is.

    Args:
        location: its ``checkpointLocation``, a folder or a URI.

    Raises:
        CheckpointError: the location is none, is of a newer version, or cannot be reached.
    """
    now_ms = round(time.time() * 1000)
    filesystem, path = resolve(location)
    try:
        standing = standing_of(ClaimFolder(filesystem, f"{path}/mixedmode"), now_ms)
        runs = runs_of(HistoryTail(location, lambda: standing.held_generation).new_events())
    except OSError as error:
        raise CheckpointError(f"{location!r} cannot be read: {error}") from error
    run = runs[-1] if runs else None
    checkpoint, damage = _newest_checkpoint(location, run)
    return JobStatus(location, now_ms, standing, run, checkpoint, damage)


def _newest_checkpoint(location: str, run: RunRecord | None) -> tuple[CheckpointSeen | None, str | None]:
    """The newest checkpoint, from the log if it tells of one; and why it cannot be read."""
    if run is not None and run.checkpoints:
        return seen_in_log(run.checkpoints[-1]), None
    from ..checkpoints.store import CheckpointStore

    try:
        store = CheckpointStore(*resolve(location))
        ids = store.ids()
        if not ids:
            return None, None
        metadata = store.read(ids[-1])
    except (CheckpointError, OSError) as error:
        return None, str(error)
    return CheckpointSeen(metadata.checkpoint_id, metadata.timestamp_ms, trigger=metadata.trigger), None


def seen_in_log(event: CheckpointCompleted) -> CheckpointSeen:
    """A checkpoint that the log tells of."""
    duration_ms = round(event.duration_ms / max(event.checkpoints, 1))
    return CheckpointSeen(event.checkpoint_id, event.at_ms, duration_ms, event.state_bytes, event.trigger)
