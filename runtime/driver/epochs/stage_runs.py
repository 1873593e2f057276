"""One epoch while it runs: what each stage is told to do, what it has done, and what follows from that for the next.

A stage is told what to do by whoever begins the epoch (an :class:`StageRequest`), or it follows the stages before it:
it takes the rows that they hand on, and fires up to what they have fired up to, since they will hand on nothing older
any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row

from ....state.keys.keygroups import ShardId, all_shards
from ...connectors.sources.live_inputs import Reach
from ...jobs.stage_epoch import NOT_PINNED, PinnedShards
from ...operators.contract import EpochSpec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...spec import StageSpec
from ...tasks.report import ShardReport
from ..state.stage_state import StageState


@dataclass(frozen=True)
class StageRequest:
    """What a stage is to do in an epoch."""

    spec: EpochSpec
    #: Its input rows; None: there are none.
    frame: DataFrame | None = None
    #: The same by input, where they may be prepared one by one; empty: they are prepared together.
    inputs: tuple[DataFrame, ...] = ()
    #: Without rows the shards to visit; None: all.
    shards: Sequence[ShardId] | None = None
    #: How far the event times of its rows go, if somebody has looked.
    reach: Reach | None = None
    #: The event times that move the watermark, where rows are dropped on their way; None: those of ``frame``.
    timed: DataFrame | None = None
    pinned: PinnedShards = NOT_PINNED
    #: Its rows are in their shards already, those of the stage that has handed them on.
    in_place: bool = False

    def visited(self, stage: StageState) -> list[ShardId]:
        """The shards that take part."""
        if self.frame is not None or self.shards is None:
            return list(all_shards(len(stage.shards)))
        return list(self.shards)

    def fires_all(self, stage: StageState) -> bool:
        """Whether all that is due by its firing watermark fires."""
        return set(self.visited(stage)).issuperset(stage.shards_due(self.spec.firing_watermark_ms, MIN_WATERMARK))


@dataclass(frozen=True)
class StageRun:
    """What a stage has done in an epoch."""

    request: StageRequest
    reports: list[ShardReport]
    #: What it has fired up to with this epoch; MIN: nothing.
    fired_ms: int
    #: How far event times bring its watermark with this epoch; MIN: nowhere.
    reached_ms: int
    #: What was observed of rows on their way to it and behind it, by name.
    observed: Mapping[str, Row] = field(default_factory=dict)


def greatest_event_time(reports: Sequence[ShardReport]) -> int | None:
    """The greatest event time that some reports tell, in ms; None: none does."""
    times = [report.counters.max_event_time_ms for report in reports]
    return max((time for time in times if time is not None), default=None)


def fired_upstream(
    spec: StageSpec, runs: Mapping[str, StageRun], stages: Mapping[str, StageState]
) -> dict[str, int | None]:
    """By earlier stage what it has fired up to, with the epoch that runs; None: nothing.

    Args:
        spec: the stage that follows.
        runs: what other stages have done in the epoch.
        stages: where all stages stood before it.
    """
    return known(
        {
            edge.origin: runs[edge.origin].fired_ms if edge.origin in runs else stages[edge.origin].watermark.fired_ms
            for edge in spec.leading_edges
        },
        stages,
    )


def reached_upstream(
    spec: StageSpec, runs: Mapping[str, StageRun], stages: Mapping[str, StageState]
) -> dict[str, int | None]:
    """The same of how far event times bring it; arguments as of :func:`fired_upstream`."""
    return known(
        {
            edge.origin: runs[edge.origin].reached_ms
            if edge.origin in runs
            else stages[edge.origin].watermark.would_reach(None)
            for edge in spec.leading_edges
        },
        stages,
    )


def known(times_ms: Mapping[str, int], stages: Mapping[str, StageState]) -> dict[str, int | None]:
    """Watermarks of stages as event times of those behind: MIN is none; one that has finished holds nobody back."""
    final = {origin: MAX_WATERMARK if stages[origin].finished else time_ms for origin, time_ms in times_ms.items()}
    return {origin: None if time_ms == MIN_WATERMARK else time_ms for origin, time_ms in final.items()}


def has_ended(uid: str, specs: Mapping[str, StageSpec], runs: Mapping[str, StageRun]) -> bool:
    """Whether a stage, and all before it, have had MAX_WATERMARK in this epoch and will hand on nothing more.

    Args:
        uid: the stage.
        specs: all stages, by uid.
        runs: what they have done in the epoch.
    """
    spec = specs[uid]
    # End hooks, and events that are still on their way, come when the stage finishes.
    if uid not in runs or spec.operator.has_end_hooks or spec.coordinator is not None:
        return False
    request = runs[uid].request.spec
    return _is_the_end(request) and all(has_ended(edge.origin, specs, runs) for edge in spec.edges)


def gets_the_end(
    spec: StageSpec, own: StageRequest | None, specs: Mapping[str, StageSpec], runs: Mapping[str, StageRun]
) -> bool:
    """Whether MAX_WATERMARK comes to a stage that follows others with this epoch: from those, and from its sources.

    Args:
        spec: the stage.
        own: what it was told to do with the rows of its sources; None: nothing.
        specs: all stages, by uid.
        runs: what they have done in the epoch.
    """
    if spec.reads and (own is None or not _is_the_end(own.spec)):
        return False
    return all(has_ended(edge.origin, specs, runs) for edge in spec.edges)


def _is_the_end(epoch: EpochSpec) -> bool:
    return epoch.firing_watermark_ms == MAX_WATERMARK and epoch.timers_at_max == "ignore"
