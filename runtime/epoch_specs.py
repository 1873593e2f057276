"""What the tasks of an epoch must know, by where the job stands: one function for each kind of epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .spec import MAX_WATERMARK, MIN_WATERMARK, EpochSpec

if TYPE_CHECKING:
    from .live_inputs import Reach
    from .state_of_job import JobState

#: As the final watermark of a sorted pass: the greatest one that the backlog itself reaches.
OBSERVED = MIN_WATERMARK


def sorted_pass_of(
    state: JobState, time_ms: int, final_ms: int | None, reach: Reach | None, *, drop_late: bool, keep_state: bool
) -> EpochSpec:
    """A pass over batch keyed state.

    Args:
        state: where the job stands.
        time_ms: processing time.
        final_ms: final watermark of the keys; None: more of the backlog follows; ``OBSERVED``: what ``reach`` says.
        reach: how far the event times of the pass go, where that is asked for.
        drop_late: rows behind the current watermark are late.
        keep_state: False in batch mode, where each key ends with the pass.
    """
    if final_ms is None:
        firing_ms = MIN_WATERMARK
    elif final_ms == OBSERVED:
        firing_ms = state.watermark.would_reach({} if reach is None else reach.seen)
    else:
        firing_ms = final_ms
    return EpochSpec(
        epoch=state.epoch + 1,
        style="sorted",
        watermark_ms=MIN_WATERMARK,
        firing_watermark_ms=firing_ms,
        late_watermark_ms=state.watermark.current_ms if drop_late else MIN_WATERMARK,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=MIN_WATERMARK if keep_state else MAX_WATERMARK,
        keep_state=keep_state,
        ignore_new_timers=firing_ms == MAX_WATERMARK,
        first=state.epoch == 0,
        is_backlog=state.is_backlog,
    )


def streaming_epoch_of(state: JobState, time_ms: int) -> EpochSpec:
    """An epoch over RocksDB state: its rows first, then what is due by the watermark so far and by ``time_ms``."""
    watermark_ms = state.watermark.current_ms
    return EpochSpec(
        epoch=state.epoch + 1,
        style="random",
        watermark_ms=watermark_ms,
        firing_watermark_ms=watermark_ms,
        late_watermark_ms=watermark_ms,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=time_ms,
        first=state.epoch == 0,
        is_backlog=state.is_backlog,
    )


def last_epoch_of(state: JobState, time_ms: int, *, keep_state: bool) -> EpochSpec:
    """The epoch after all input and all timers, for the operator's end hooks; nothing fires in it."""
    watermark_ms = state.watermark.current_ms
    return EpochSpec(
        epoch=state.epoch + 1,
        style="random" if keep_state else "sorted",
        watermark_ms=watermark_ms,
        firing_watermark_ms=MIN_WATERMARK,
        late_watermark_ms=watermark_ms,
        processing_time_ms=time_ms,
        processing_timers_upto_ms=MIN_WATERMARK,
        keep_state=keep_state,
        ending=True,
    )
