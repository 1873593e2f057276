"""Holds what the mode rules need to know about a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...runtime.spec import Settings
from .final_watermark import FinalWatermark


@dataclass(frozen=True)
class JobFacts:
    """What the mode rules need to know about a job besides its settings."""

    has_history: bool
    has_live: bool
    #: True for a trigger that ends by itself (availableNow, once).
    ends_by_itself: bool = False
    #: Length of an epoch of a live phase in Spark's Real-Time Mode, in ms; None: it has micro-batches.
    real_time_ms: int | None = None
    #: The task slots that it holds, in words.
    real_time_slots: str | None = None
    #: True if windows or event-time timers can be pending.
    uses_event_time: bool = False
    uses_processing_time: bool = False
    #: True if ``withWatermark`` was called.
    has_watermark: bool = False
    #: What the keys of each stage get at the end of a sorted backlog, and why, by uid.
    final_watermarks: Mapping[str, FinalWatermark] = field(default_factory=dict)
    #: True for a processor with event-time timers, to which ``Settings.timers`` applies, and why that is what it is.
    has_timers: bool = False
    why_timers: str = "the default"
    #: True if a stage joins two inputs.
    has_joins: bool = False
    #: Who reads and aggregates the history, and why; None: there is no choice.
    backlog_engine: str | None = None
    #: True if no stage keeps anything.
    is_stateless: bool = False
    #: About how much of the history a shard has to sort, in bytes; None: not known, or little.
    bytes_per_shard: int | None = None

    @property
    def carries(self) -> bool:
        """True if a stage keeps what the backlog's own watermark has not passed."""
        return any(final.value != "max" for final in self.final_watermarks.values())


def runs_sorted(settings: Settings) -> bool:
    """True if the backlog is worked off as sorted passes; else the job is a stream throughout."""
    if settings.runtime_mode == "batch":
        return True
    return settings.runtime_mode == "mixed" and settings.interval_during_backlog_ms == 0


def is_cut(settings: Settings, job: JobFacts) -> bool:
    """True if the backlog of a job without state comes in the micro-batches of its live source: there is nothing to
    sort, and no reason to keep the first rows back until the last ones are there."""
    return job.is_stateless and job.has_live and settings.backlog_limits == "source"
