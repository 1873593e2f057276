"""Completes a checkpoint beside the epochs: what makes its rows visible, and nothing else, on whatever thread.

Invariants:
- It looks at nothing of the job but the cut.  What it asks of others they guard themselves: the store, the lease, the
  coordinators' channels.  What comes of it the run takes over, under its turn (:mod:`.checkpoint_coordinator`).
- Nothing slow is done here: files are compacted and removed behind it (:mod:`.housekeeping`).
- What fails before ``_metadata`` is there leaves the job as it was.  What fails after it is the job's failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ....errors import CheckpointError
from ...checkpoints.lease.driver_lease import DriverLease
from ...checkpoints.metadata import CheckpointMetadata, SparkPosition
from ...checkpoints.store import CheckpointStore
from ...connectors.stage_handoff import StageHandoff
from ...spec import JobSpec
from ...support.failpoints import failpoint
from ...tasks.shard.task_meter import Laps
from ..coordinators.event_channels import JobEvents
from ..state.job_state import CheckpointSnapshot
from .output_commit import commit_transaction
from .state_compactor import StateCompactor


class CheckpointAbandoned(CheckpointError):
    """The job has failed before the checkpoint was there."""


@dataclass(frozen=True)
class CheckpointServices:
    """Those whom a completion asks; each of them is safe to be asked beside the epochs.

    Args:
        job: whose checkpoints they are.
        store: where they go.
        lease: says whether the location is still this run's.
        events: what goes between the driver and the shards.
        handoffs: what stages hand on to others, by stage.
        compactor: compacts state files.
        clean_sources: has live files taken away that a complete checkpoint with this position of Spark's query holds.
    """

    job: JobSpec
    store: CheckpointStore
    lease: DriverLease
    events: JobEvents
    handoffs: Mapping[str, StageHandoff]
    compactor: StateCompactor
    clean_sources: Callable[[SparkPosition | None], None] = lambda position: None
    #: Set when the run has failed: what is not there yet is given up.
    failed: threading.Event = field(default_factory=threading.Event)
    #: Set when ``stop()`` has given the run up: nobody waits for a user's function any more.
    given_up: threading.Event = field(default_factory=threading.Event)


@dataclass
class PendingCheckpoint:
    """One checkpoint on its way from the cut to its end.

    Args:
        cut: what it holds.
        services: whom it asks.
    """

    cut: CheckpointSnapshot
    services: CheckpointServices
    #: None: the checkpoint is not there.
    metadata: CheckpointMetadata | None = None
    failure: BaseException | None = None
    laps: Laps = field(default_factory=Laps)
    duration_ms: int = 0
    #: Set while nobody works on it.
    at_rest: threading.Event = field(default_factory=threading.Event)
    _started: float = field(default_factory=time.monotonic)

    def work(self) -> None:
        """Do what needs no turn; what goes wrong is kept for the run."""
        try:
            self._write()
            self._show()
            self.duration_ms = round((time.monotonic() - self._started) * 1000)
        except BaseException as error:  # the run's to judge
            self.failure = error
        finally:
            self.at_rest.set()

    def _write(self) -> None:
        """Write ``_metadata``."""
        services, store = self.services, self.services.store
        services.lease.check(look=True)
        metadata = self.cut.to_metadata(with_state=services.job.keeps_state)
        failpoint("events-stored")
        if services.failed.is_set():
            raise CheckpointAbandoned("the query has failed before it was complete")
        store.write(metadata)
        self.metadata = metadata
        self.laps.mark("write")

    def _show(self) -> None:
        """It counts: coordinators' events go on their way, and the sink shows its rows."""
        services, store = self.services, self.services.store
        assert self.metadata is not None, "it is written first"
        failpoint("checkpoint-after-metadata")
        services.events.complete(self.cut.number)
        failpoint("events-opened")
        store.guard()
        store.discard_backlog()  # it is in the checkpoint now
        commit_transaction(services.job, store, self.metadata, is_new=True)
        self.laps.mark("commit")
