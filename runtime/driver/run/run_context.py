"""Holds what a run has from its very beginning: its location, its queues of requests, and the signals that end it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ...checkpoints.lease.driver_lease import DriverLease
from ...checkpoints.savepoints.queue import SavepointQueue
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_query import LiveSource
from ...metrics.backlog_progress import BacklogProgress
from ...metrics.events.facts import FactListener
from ...support.ids import RunId
from ...tasks.shard.pass_pause import PassPause, PauseMarker
from ..requests.commit_queue import CommitQueue
from ..requests.pause_switch import PauseSwitch
from ..requests.rescale_queue import RescaleQueue
from .backlog_pause import BacklogPause
from .live_start import LiveStart
from .run_snapshot import Published


@dataclass
class RunContext:
    """What a run has from its very beginning, before it is known where the job stands."""

    run_id: RunId
    store: CheckpointStore
    listener: FactListener
    #: Moves to the branch that the run works in when the location is claimed.
    backlog: BacklogProgress
    lease: DriverLease
    #: Held by whoever runs an epoch, takes a checkpoint, or changes anything of the job's state.
    turn: threading.RLock
    stopping: threading.Event
    #: Set to have the phase's clock look again at once.
    wake: threading.Event
    #: Savepoints that users ask for.
    savepoints: SavepointQueue
    #: What users ask to be made visible.
    commits: CommitQueue
    #: Whether users want a pause.
    pause: PauseSwitch
    live: LiveSource | None
    live_start: LiveStart
    #: What other threads may read.
    published: Published
    #: Set when the run has failed.
    failed: threading.Event = field(default_factory=threading.Event)
    #: Set when ``stop()`` has given the run up.
    given_up: threading.Event = field(default_factory=threading.Event)
    #: Other numbers of shards that users ask for.
    rescales: RescaleQueue = field(default_factory=RescaleQueue)

    @property
    def marker(self) -> PauseMarker:
        """What keeps tasks from beginning with a shard."""
        return PauseMarker(self.store.filesystem, f"{self.store.home}/pause")

    @property
    def pass_pause(self) -> PassPause:
        """Pauses of a backlog at batch speed."""
        held = BacklogPause(self.pause, self.stopping, self.wake, self.lease.check, self.listener)
        tag = f"{self.tag}-shards"
        return PassPause(self.marker, tag, lambda: self.pause.times, lambda: self.pause.is_wanted, held.hold)

    def is_set(self) -> bool:
        """Whether the run is to end, for whoever waits for somebody outside: it was stopped, or has failed, or a
        savepoint ends it."""
        return self.stopping.is_set() or self.failed.is_set() or self.savepoints.ends_the_job

    @property
    def tag(self) -> str:
        """Spark job tag, by which the run's jobs can be cancelled."""
        return f"mixedmode-{self.run_id}"

    @property
    def tag_of_all(self) -> str:
        """The same for all Spark jobs of the run's threads, those of a user's ``foreachBatch`` function among them."""
        return f"{self.tag}-all"
