"""Tidies up behind complete checkpoints, beside epochs and the next checkpoints: what nobody waits for.

A round removes what nothing names any more, at most every :data:`CLEAN_EVERY_MS`, and then compacts the change logs
that have outgrown their base.  One round is under way at a time; the run takes over what it gives between two epochs.

Invariants:
- It looks at nothing of the job but what it was given under the turn: the complete checkpoint's cut, and the manifests
  that the job has by then.  No file of an epoch behind the cut is removed.
- What a compaction has made is in nobody's way: it is removed by the next round unless the run has taken it over.  What
  it has replaced is removed once no checkpoint names it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId
from ....state.store.compaction import StateRewrite
from ....state.store.state_manifest import StateManifest
from ...checkpoints.corruption import explain_corruption
from ...checkpoints.first_position import discard_if_behind
from ...checkpoints.lease.driver_lease import LocationLost
from ...support.failpoints import failpoint
from ...support.ids import EpochNumber
from ..clocks import clock_ms
from ..state.job_state import CheckpointSnapshot, JobState
from .async_checkpoint import CheckpointServices

logger = logging.getLogger(__name__)

#: Least time between two rounds that remove files.
CLEAN_EVERY_MS = 10_000
#: A checkpoint stays for this long, however many there are: whoever reads it, or copies it, needs that time.
KEEP_MS = 60_000


@dataclass
class Round:
    """What is done behind one checkpoint.

    Args:
        cut: what the checkpoint holds.
        live: by stage the manifests that the job has by now.
        epoch: the last one that is in those.
        services: whom it asks.
        cleans: whether files are removed.
    """

    cut: CheckpointSnapshot
    live: Mapping[str, Sequence[StateManifest]]
    epoch: EpochNumber
    services: CheckpointServices
    cleans: bool
    #: By stage the compacted manifests of some shards.
    compacted: dict[str, Mapping[ShardId, StateManifest]] = field(default_factory=dict)
    failure: BaseException | None = None
    at_rest: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        """Do it; what goes wrong is kept for the run."""
        try:
            if self.cleans:
                self.clean()
            self._compact()
        except BaseException as error:  # the run's to judge
            self.failure = error
        finally:
            self.at_rest.set()

    def clean(self) -> None:
        """Remove older checkpoints, and files that nothing names."""
        services, store, epoch, number = self.services, self.services.store, self.cut.epoch, self.cut.number
        store.retention.subsume(services.job.settings.retained_checkpoints, keep_ms=KEEP_MS)
        discard_if_behind(store)
        failpoint("checkpoint-before-gc")
        store.guard()
        services.job.sink.staging.sweep(epoch, number)
        if services.job.late_rows is not None:
            services.job.late_rows.sink.staging.sweep(epoch, number)
        for handoff in services.handoffs.values():
            handoff.staging.sweep(epoch, number)
        store.spark_log.seal()
        services.clean_sources(self.cut.spark)
        for stage in self.cut.stages:
            store.retention.collect_garbage(stage.uid, (*stage.manifests, *self.live[stage.uid]), up_to_epoch=epoch)

    def _compact(self) -> None:
        for stage in self.cut.stages:
            manifests = self.services.compactor.compacted(stage.operator, self.live[stage.uid], self.epoch)
            if manifests:
                self.compacted[stage.uid] = manifests
                failpoint("checkpoint-after-compaction")


@dataclass
class Housekeeping:
    """Has rounds done, and takes over what they give; every method is called under the turn of the run.

    Args:
        services: whom rounds ask.
        state: whose files they are.
        beside: has something done on a thread of its own; whatever goes wrong in there is kept by it.
    """

    services: CheckpointServices
    state: JobState
    beside: Callable[[Callable[[], None]], None]
    _round: Round | None = None
    #: The last complete checkpoint, if nothing was removed behind it yet.
    _unclean: CheckpointSnapshot | None = None
    _next_clean_ms: int = 0
    _failures: int = 0

    def follow(self, cut: CheckpointSnapshot) -> None:
        """A checkpoint is complete: begin a round behind it, if there is something to do and none is under way."""
        self.look()
        self._unclean = cut
        if self._round is not None:
            return
        cleans = clock_ms() >= self._next_clean_ms
        if cleans or any(one.needs_compaction() for stage in self.state.stages.values() for one in stage.manifests):
            self._round = self._of(cut, cleans=cleans)
            self.beside(self._round.work)

    def finish(self) -> None:
        """The run ends in good order: remove what nothing names behind its last checkpoint.

        Raises:
            CheckpointError: as of :meth:`look`.
        """
        self.wait()
        if self._unclean is not None:
            self._of(self._unclean, cleans=True).clean()

    def _of(self, cut: CheckpointSnapshot, *, cleans: bool) -> Round:
        if cleans:
            self._unclean, self._next_clean_ms = None, clock_ms() + CLEAN_EVERY_MS
        live = {uid: tuple(stage.manifests) for uid, stage in self.state.stages.items()}
        return Round(cut, live, self.state.epoch, self.services, cleans)

    def look(self) -> None:
        """Take over what a round has given since somebody looked.

        Raises:
            CheckpointError: it has failed, more often in a row than checkpoints may, or another driver has taken over.
        """
        one = self._round
        if one is None or not one.at_rest.is_set():
            return
        self._round = None
        for uid, manifests in one.compacted.items():
            stage = self.state.stages[uid]
            if stage.goes_on_from(one.live[uid]):  # its shards may have been dealt anew
                stage.compacted(one.live[uid], manifests)
        if one.failure is None:
            self._failures = 0
            return
        if isinstance(one.failure, LocationLost) or not isinstance(one.failure, Exception):
            raise one.failure
        self._failures += 1
        error = explain_corruption(one.failure, self.services.store)
        what = f"compacting or removing files behind checkpoint {one.cut.number} failed"
        if self._failures > self.services.job.settings.tolerable_failed_checkpoints:
            raise CheckpointError(f"{what}: {error}") from error
        logger.warning("%s, and is tried again after a later one: %s", what, error)

    def wait(self) -> None:
        """Return when no round is under way.

        Raises:
            CheckpointError: as of :meth:`look`.
        """
        if self._round is not None:
            self._round.at_rest.wait()
            self.look()

    def give_up(self) -> None:
        """The run ends, because it has failed: return when no round touches files any more; nothing is taken over."""
        if self._round is not None:
            self._round.at_rest.wait()
            self._round = None

    # -- now, for what follows ---------------------------------------------------------------------------------------

    def compact_now(self) -> None:
        """Compact all stages, for a checkpoint that will follow; none is in flight."""
        self.wait()
        for stage in self.state.stages.values():
            before = stage.manifests
            stage.compacted(before, self.services.compactor.compacted(stage.operator, before, self.state.epoch))

    def rewrite(self, uid: str, change: StateRewrite) -> None:
        """Change all values of a stage's state; the next checkpoint has them."""
        stage = self.state.stages[uid]
        before = stage.manifests
        stage.compacted(before, self.services.compactor.rewritten(stage.operator, before, self.state.epoch, change))
