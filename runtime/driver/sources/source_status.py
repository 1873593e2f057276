"""Tracks the sources of a run: whether each is in backlog or has ended, and its watermark lag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...metrics.events.events import SourceChanged
from ...protocols.checkpoint_scheduler import CheckpointScheduler
from ...protocols.lag_gate import LagGates
from ...protocols.lifecycle.work import TaskWorker
from ...spec import JobSpec
from ..clocks import clock_ms, now_ms
from ..coordinators.task_graph import source_task
from ..state.job_state import JobState

#: Least time between two changes of isBacklog by lag, where the interval of checkpoints is ``auto``.
_CALM_MS = 10_000


@dataclass
class SourceStatus:
    """Changes isBacklog and the end of sources, and tells the scheduler and the tasks.

    Args:
        job: whose sources they are.
        state: keeps what is known of them.
        scheduler: takes checkpoints by it.
        tasks: a source that has ended ends its task.
        on_change: called with each change of isBacklog.
    """

    job: JobSpec
    state: JobState
    scheduler: CheckpointScheduler
    tasks: TaskWorker
    on_change: Callable[[SourceChanged], None]
    #: isBacklog by watermark lag; None: lag has no effect.
    _lag: LagGates | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        settings = self.job.settings
        if settings.watermark_lag_threshold_ms is not None:
            self._lag = LagGates(
                settings.watermark_lag_threshold_ms, calm_ms=settings.checkpoint_interval_ms or _CALM_MS
            )

    def set_backlog(self, source: str, is_backlog: bool, why: str) -> None:
        """A source's isBacklog changes."""
        if self.state.sources[source].is_backlog == is_backlog:
            return
        self.state.set_source(source, is_backlog=is_backlog)
        self.scheduler.set_backlog(source, is_backlog, clock_ms())
        self.on_change(SourceChanged(source=source, is_backlog=is_backlog, epoch=self.state.epoch, reason=why))

    def ended(self, source: str) -> None:
        """A source will give no more rows."""
        self.state.set_source(source, is_backlog=False, finished=True)
        self.scheduler.source_ended(source, clock_ms())
        lifecycle = self.tasks.lifecycle
        if source_task(source) in lifecycle.graph:  # not if the job was restored without it
            lifecycle.source_ended(source_task(source))
        if not all(known.finished for known in self.state.sources.values()):
            self.tasks.run()  # the end of the last source is the end of the job, which is another's work

    def note_lag(self) -> None:
        """isBacklog by watermark lag (FLIP-328), evaluated whenever the watermark may have moved."""
        if self._lag is not None:
            for one in self.job.live_inputs:
                readers = [stage for stage in self.job.readers if one.name in stage.delays_ms]
                watermarks = [self.state.stages[stage.uid].watermark for stage in readers]
                lags = any(watermark.is_backlog(now_ms(), one.name) for watermark in watermarks)
                self.set_backlog(one.name, self._lag.of(one.name).judge(lags, clock_ms()), "watermark lag")

    @property
    def judges_lag(self) -> bool:
        """Whether watermark lag decides isBacklog, so that it counts if nothing waits at the live inputs."""
        return self._lag is not None

    def note_drained(self) -> None:
        """Nothing waits at the live inputs: one whose watermark lags now is old, not behind."""
        if self._lag is not None:
            for one in self.job.live_inputs:
                self.set_backlog(one.name, self._lag.of(one.name).drained(clock_ms()), "nothing waits at the source")

    @property
    def live_is_in_backlog(self) -> bool:
        """True if all live inputs are: an operator of which only some are runs as if none were."""
        return all(self.state.sources[one.name].is_backlog for one in self.job.live_inputs)
