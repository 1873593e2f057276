"""The start of a job's live source: its first position, settled before anything is read, and rows landed with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame

from ...checkpoints.first_position import FirstPosition, FirstPositions
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_query import LiveSource
from ...connectors.sources.live_sources import live_sources, sources_read_once
from ...metrics.events.facts import FactListener, LiveBegins
from ...spec import JobSpec
from ...support.ids import FIRST_BATCH, BatchId
from ..state.job_state import JobState


@dataclass
class LiveStart:
    """Settles where the live source begins, and hands out what was landed of it.

    Args:
        job: the job.
        store: its checkpoint location.
        location: the same as the user gave it.
        live: its live query; None: it has none.
        listener: is told where the source begins.
    """

    job: JobSpec
    store: CheckpointStore
    location: str
    live: LiveSource | None
    listener: FactListener
    _first: FirstPosition | None = None

    @cached_property
    def _positions(self) -> FirstPositions:
        return FirstPositions(self.store, () if self.job.live is None else live_sources(self.job.live))

    @cached_property
    def is_read_once(self) -> bool:
        """Whether nothing may be read before the stream: a source would not give it again, nor anything behind it.

        Without a stream there is but one look at the source, as with Spark's own ``AvailableNow``.
        """
        return self.job.live is not None and self.job.has_phase("live") and bool(sources_read_once(self.job.live))

    def settle(self, state: JobState) -> None:
        """Settle the position, unless a checkpoint has one; called before anything is read.

        Raises:
            PlanError: a source is to begin from now, and nothing can keep that position.
        """
        if self.live is None or state.batch_id >= 0 or self.is_read_once:
            return
        unread = (source := state.sources.get("history")) is not None and not source.finished
        history_first = unread and self.job.has_phase("history")
        self._first = first = self._positions.settle(self.live, self.location, history_first=history_first)
        if first.entry is not None:
            self.listener.on(LiveBegins(first.entry))
            if not first.rows:
                state.batch_id = first.batch

    @property
    def batch(self) -> BatchId:
        """The number of the micro-batch whose rows were landed."""
        return FIRST_BATCH if self._first is None else self._first.batch

    def landed(self, state: JobState) -> DataFrame | None:
        """The landed rows, which belong to the first micro-batch; None: there are none, or they have been read."""
        if self._first is None or not self._first.rows or state.batch_id >= 0 or self.job.live is None:
            return None
        return self._positions.landed(self.job.planning, self.job.live, self.location)

    def was_read(self, state: JobState) -> None:
        """The landed rows, if there are any, have been processed."""
        if self.landed(state) is not None:
            state.batch_id = self.batch
