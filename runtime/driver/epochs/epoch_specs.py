"""Creates the :class:`EpochSpec` of an epoch from the job's state: one function for each kind of epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...connectors.sources.live_inputs import Reach
from ...operators.contract import EpochSpec, InOrder
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...protocols.watermarks import WatermarkTracker
from ...support.ids import EpochNumber
from ..state.job_state import JobState
from ..state.stage_state import StageState

#: As the final watermark of a sorted pass: the greatest one that the backlog itself reaches.
OBSERVED = MIN_WATERMARK


@dataclass(frozen=True)
class PassInput:
    """The rows of a sorted pass: none, unless something else is said."""

    #: How far their event times go, where that is asked for.
    reach: Reach | None = None
    #: Whether the stage gets any.
    has_rows: bool = False
    #: Whether the sources have given something.
    from_sources: bool = False


def sorted_pass_of(
    state: JobState,
    stage: StageState,
    time_ms: int,
    final_ms: int | None,
    rows: PassInput,
    *,
    drop_late: bool,
    keep_state: bool,
    in_order: bool,
    at_end: bool,
) -> EpochSpec:
    """A pass over batch keyed state.

    Args:
        state: where the job stands.
        stage: where the stage stands.
        time_ms: processing time.
        final_ms: final watermark of the keys; None: more of the backlog follows; ``OBSERVED``: how far its rows reach.
        rows: what there is of them.
        drop_late: rows behind what has fired are late.
        keep_state: False in batch mode, where each key ends with the pass.
        in_order: event-time timers fire between the rows of their key.  Not if more of the backlog follows, which may
            be earlier.
        at_end: all input ends with this pass.
    """
    watermark = stage.watermark
    reached_ms = watermark.would_reach({} if rows.reach is None else rows.reach.seen)
    more_follows = final_ms is None
    firing_ms = MIN_WATERMARK if final_ms is None else reached_ms if final_ms == OBSERVED else final_ms
    in_order = in_order and not more_follows
    return EpochSpec(
        epoch=EpochNumber(state.epoch + 1),
        style="sorted",
        watermark_ms=watermark.current_ms if in_order else MIN_WATERMARK,
        firing_watermark_ms=firing_ms,
        late_watermark_ms=watermark.fired_ms if drop_late else MIN_WATERMARK,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=MIN_WATERMARK if keep_state else MAX_WATERMARK,
        keep_state=keep_state,
        timers_at_max="ignore" if at_end else "carry",
        # FLIP-327 to the letter has nothing fire between the rows of a key and MAX_WATERMARK.
        reached_watermark_ms=reached_ms if in_order or not rows.has_rows else MIN_WATERMARK,
        in_order=InOrder(watermark.fired_ms, watermark.greatest_delay_ms, reached_ms) if in_order else None,
        first=state.epoch == 0,
        is_backlog=state.is_backlog,
        delay_ms=watermark.greatest_delay_ms,
        more_follows=more_follows,
        drops_late=drop_late,
        has_input=rows.from_sources,
    )


def streaming_epoch_of(
    state: JobState,
    stage: StageState,
    time_ms: int,
    reach: Reach | None,
    *,
    in_order: bool,
    has_input: bool,
    at_once: bool = False,
) -> EpochSpec:
    """An epoch over RocksDB state: its rows, and what is due by the watermark so far and by ``time_ms``.

    Args:
        state: where the job stands.
        stage: where the stage stands.
        time_ms: processing time.
        reach: how far the event times of the epoch go; None: the job's one input takes the watermark there.
        in_order: event-time timers fire between the rows of their key.
        has_input: whether the sources have given something.
        at_once: what is due by where ``reach`` brings the watermark fires as well.
    """
    watermark = stage.watermark
    upto_ms = MAX_WATERMARK if reach is None else watermark.would_reach(reach.seen)
    firing_ms = watermark.current_ms if reach is None or not at_once else max(watermark.current_ms, upto_ms)
    return EpochSpec(
        epoch=EpochNumber(state.epoch + 1),
        style="random",
        watermark_ms=watermark.current_ms,
        firing_watermark_ms=firing_ms,
        late_watermark_ms=watermark.fired_ms,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=time_ms,
        in_order=InOrder(watermark.fired_ms, watermark.greatest_delay_ms, upto_ms) if in_order else None,
        first=state.epoch == 0,
        is_backlog=state.is_backlog,
        delay_ms=watermark.greatest_delay_ms,
        has_input=has_input,
    )


def last_epoch_of(state: JobState, stage: StageState, time_ms: int, *, keep_state: bool) -> EpochSpec:
    """The epoch after all input and all timers, for the operator's end hooks; nothing fires in it."""
    watermark_ms = stage.watermark.current_ms
    return EpochSpec(
        epoch=EpochNumber(state.epoch + 1),
        style="random" if keep_state else "sorted",
        watermark_ms=watermark_ms,
        firing_watermark_ms=MIN_WATERMARK,
        late_watermark_ms=stage.watermark.fired_ms,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=MIN_WATERMARK,
        keep_state=keep_state,
        ending=True,
    )


def whole_result_of(state: JobState, stage: StageState, time_ms: int) -> EpochSpec:
    """A look at a stage's state as the last epoch has left it; nothing fires and nothing changes.

    Args:
        state: where the job stands.
        stage: where the stage stands.
        time_ms: processing time.
    """
    return EpochSpec(
        epoch=state.epoch,
        style="random",
        watermark_ms=stage.watermark.current_ms,
        firing_watermark_ms=MIN_WATERMARK,
        late_watermark_ms=MIN_WATERMARK,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=MIN_WATERMARK,
        whole_result=True,
    )


def following_epoch_of(
    base: EpochSpec,
    watermark: WatermarkTracker,
    fired_ms: int,
    reached_ms: int,
    *,
    in_order: bool,
    has_rows: bool,
    at_end: bool,
) -> EpochSpec:
    """What a stage does that follows others: their rows, and what is due by what they have fired up to.

    Args:
        base: what the epoch began with.
        watermark: where the stage stands.
        fired_ms: where the stages before it have fired up to, with this epoch.
        reached_ms: how far event times bring their watermarks with this epoch: rows may have been emitted until then.
        in_order: event-time timers fire between the rows of their key.
        has_rows: whether the stages before it have handed on any.
        at_end: MAX_WATERMARK has come to all of them, and they will hand on nothing more.
    """
    in_order = in_order and not base.more_follows
    firing_ms = MIN_WATERMARK if base.more_follows else MAX_WATERMARK if at_end else fired_ms
    shown_ms = fired_ms if base.style == "random" else MIN_WATERMARK
    return replace(
        base,
        watermark_ms=watermark.current_ms if in_order else shown_ms,
        firing_watermark_ms=firing_ms,
        late_watermark_ms=watermark.fired_ms if base.drops_late else MIN_WATERMARK,
        reached_watermark_ms=fired_ms if in_order or not has_rows else MIN_WATERMARK,
        in_order=InOrder(watermark.fired_ms, watermark.greatest_delay_ms, reached_ms) if in_order else None,
        ending=False,
        delay_ms=watermark.greatest_delay_ms,
    )
