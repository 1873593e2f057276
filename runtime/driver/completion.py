"""Completes a checkpoint beside the epochs: all that there is to do for a cut, on whatever thread.

Invariants:
- It looks at nothing of the job but the cut.  What it asks of others they guard themselves: the store, the lease, the
  coordinators' channels, executors.  What it finds the run takes over, under its turn (:mod:`.checkpoint_coordinator`).
- Files of later epochs are left alone, and so are those that a compaction has replaced, until the run has taken that
  over: running tasks may read them.
- What fails before ``_metadata`` is there leaves the job as it was.  What fails after it is the job's failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ..checkpoints.first_position import discard_if_behind
from ..checkpoints.lease.driver_lease import DriverLease
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.store import CheckpointStore
from ..connectors.exchange import Exchange
from ..platform.failpoints import failpoint
from ..tasks.meter import Laps
from .event_channels import JobEvents
from .job_state import Cut
from .output_commit import commit_transaction
from .state_compactor import StateCompactor

if TYPE_CHECKING:
    from ...state.lineage import ShardLineage
    from ..spec import JobSpec


class GivenUp(CheckpointError):
    """The job has failed before the checkpoint was there."""


@dataclass(frozen=True)
class Owners:
    """Those whom a completion asks; each of them is safe to be asked beside the epochs.

    Args:
        job: whose checkpoints they are.
        store: where they go.
        lease: says whether the location is still this run's.
        events: what goes between the driver and the shards.
        exchanges: what stages hand on to others, by stage.
        compactor: compacts state files.
    """

    job: JobSpec
    store: CheckpointStore
    lease: DriverLease
    events: JobEvents
    exchanges: Mapping[str, Exchange]
    compactor: StateCompactor
    #: Set when the run has failed: what is not there yet is given up.
    failed: threading.Event = field(default_factory=threading.Event)


@dataclass
class Completion:
    """One checkpoint on its way from the cut to its end.

    Args:
        cut: what it holds; with compacted files once there are such.
        owners: whom it asks.
        alone: whether no epoch runs meanwhile.
    """

    cut: Cut
    owners: Owners
    alone: bool
    #: By stage the compacted lineages of some shards.
    compacted: dict[str, Mapping[int, ShardLineage]] = field(default_factory=dict)
    #: None: the checkpoint is not there.
    metadata: CheckpointMetadata | None = None
    failure: BaseException | None = None
    laps: Laps = field(default_factory=Laps)
    duration_ms: int = 0
    #: Whether the run has taken it over, and only replaced files are left to be removed.
    is_taken_over: bool = False
    #: Set while nobody works on it.
    at_rest: threading.Event = field(default_factory=threading.Event)
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        #: By stage what its lineages were when they were cut.
        self.lineages = {stage.uid: stage.lineages for stage in self.cut.stages}

    def work(self) -> None:
        """Do the next thing that needs no turn; what goes wrong is kept for the run."""
        try:
            if self.is_taken_over:
                self._remove_replaced()
            else:
                self._write()
                self._show()
                self._clean()
                self.duration_ms = round((time.monotonic() - self._started) * 1000)
        except BaseException as error:  # the run's to judge
            self.failure = error
        finally:
            self.at_rest.set()

    def _write(self) -> None:
        """Compact where that is due, and write ``_metadata``."""
        owners, store = self.owners, self.owners.store
        owners.lease.check(look=True)
        self.cut = cut = self._with_compacted(self.cut)
        self.laps.mark("compact")
        metadata = cut.to_metadata(with_state=owners.job.keeps_state)
        failpoint("events-stored")
        if owners.failed.is_set():
            raise GivenUp("the query has failed before it was complete")
        store.write(metadata)
        self.metadata = metadata
        self.laps.mark("write")

    def _with_compacted(self, cut: Cut) -> Cut:
        stages = []
        for stage in cut.stages:
            lineages = self.owners.compactor.compacted(stage.operator, stage.lineages, cut.epoch)
            if lineages:
                self.compacted[stage.uid] = lineages
                failpoint("checkpoint-after-compaction")
            stages.append(stage.with_lineages(lineages))
        return replace(cut, stages=tuple(stages))

    def _show(self) -> None:
        """It counts: coordinators' events go on their way, and the sink shows its rows."""
        owners, store = self.owners, self.owners.store
        assert self.metadata is not None, "it is written first"
        failpoint("checkpoint-after-metadata")
        owners.events.complete(self.cut.number)
        failpoint("events-opened")
        store.guard()
        store.discard_backlog()  # it is in the checkpoint now
        commit_transaction(owners.job, store, self.metadata)
        self.laps.mark("commit")

    def _clean(self) -> None:
        """Remove older checkpoints, and files that nothing names."""
        owners, store, epoch = self.owners, self.owners.store, self.cut.epoch
        store.subsume(owners.job.settings.retained_checkpoints)
        discard_if_behind(store)
        failpoint("checkpoint-before-gc")
        store.guard()
        owners.job.sink.sweep(epoch)
        if owners.job.late_rows is not None:
            owners.job.late_rows.sweep(epoch)
        for exchange in owners.exchanges.values():
            exchange.sweep(epoch)
        for stage in self.cut.stages:
            read = () if self.alone else self.lineages[stage.uid]
            store.collect_garbage(stage.uid, (*stage.lineages, *read), up_to_epoch=epoch)
        self.laps.mark("cleanup")

    @property
    def leaves_files(self) -> bool:
        """Whether there are files that nobody reads once the run has taken the compaction over."""
        return bool(self.compacted) and not self.alone

    def _remove_replaced(self) -> None:
        for stage in self.cut.stages:
            if stage.uid in self.compacted:
                self.owners.store.collect_garbage(stage.uid, stage.lineages, up_to_epoch=self.cut.epoch)
