"""Folds the events of several epochs, or of several checkpoints, into one with less detail.

A stream has an epoch every 200 ms for months.  What is interesting of them are the sums, and where the job stood; what
is interesting by itself (a failure, a phase, a savepoint) is never folded, and nothing is folded across it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .event_parts import Latencies
from .events import (
    BacklogProgressed,
    CheckpointCompleted,
    EpochApplied,
    PositionsKnown,
    RealTimeProgressed,
    RunEvent,
    StageProgress,
)
from .run_listener import is_routine

_SLOWEST = 5


class Folder:
    """Folds events as they come: of each kind that comes often there is at most one in each stretch of time.

    The first one after a pause is handed out at once.

    Args:
        window_ms: how long such a stretch is.
    """

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        #: By kind what is held back, and the end of the stretch.
        self._held: dict[object, RunEvent] = {}
        self._until_ms: dict[object, int] = {}

    def take(self, event: RunEvent) -> list[RunEvent]:
        """Another event; returns those that are to be written now."""
        if not is_routine(event):
            return [*self.flush(), event]
        # How far a pass had come is told before what it was in the end.
        first = self._released(BacklogProgressed) if isinstance(event, EpochApplied) else []
        kind = _kind(event)
        held = self._held.pop(kind, None)
        folded = event if held is None else folded_into(held, event)
        if event.at_ms < self._until_ms.get(kind, 0):
            self._held[kind] = folded
            return first
        self._until_ms[kind] = event.at_ms + self._window_ms
        # So is how far an epoch had come, if its end is told: epochs that end often are not told more often for it.
        if isinstance(event, EpochApplied):
            first += self._released(RealTimeProgressed)
        return [*first, folded]

    def _released(self, of_class: type[RunEvent]) -> list[RunEvent]:
        kinds = [kind for kind, held in self._held.items() if isinstance(held, of_class)]
        return [self._held.pop(kind) for kind in kinds]

    def flush(self, now_ms: int | None = None) -> list[RunEvent]:
        """What is held back, in order; only what has waited long enough, if a time is given."""
        due = [kind for kind in self._held if now_ms is None or now_ms >= self._until_ms[kind]]
        found = [self._held.pop(kind) for kind in due]
        for event in found:
            self._until_ms[_kind(event)] = event.at_ms + self._window_ms
        return sorted(found, key=lambda event: event.at_ms)

    @property
    def next_ms(self) -> int | None:
        """When something will have waited long enough; None: nothing waits."""
        return min((self._until_ms[kind] for kind in self._held), default=None)


def folded(events: Iterable[RunEvent], window_ms: int) -> Iterator[RunEvent]:
    """Events with no more than one of each kind in each stretch of time; see :class:`Folder`."""
    folder = Folder(window_ms)
    for event in events:
        yield from folder.take(event)
    yield from folder.flush()


def _kind(event: RunEvent) -> object:
    return (type(event), event.stage) if isinstance(event, BacklogProgressed) else type(event)


def folded_into(earlier: RunEvent, later: RunEvent) -> RunEvent:
    """Two events of a kind as one, which stands where the later one did."""
    if isinstance(earlier, EpochApplied) and isinstance(later, EpochApplied):
        return _epochs(earlier, later)
    if isinstance(earlier, CheckpointCompleted) and isinstance(later, CheckpointCompleted):
        return _checkpoints(earlier, later)
    if isinstance(earlier, PositionsKnown) and isinstance(later, PositionsKnown):
        newest = {one.name: one for one in (*earlier.positions, *later.positions)}
        return replace(later, positions=tuple(newest.values()))
    if isinstance(earlier, RealTimeProgressed) and isinstance(later, RealTimeProgressed):
        return replace(later, latencies=_greatest(earlier.latencies, later.latencies))
    return later


def _greatest(one: Latencies | None, other: Latencies | None) -> Latencies | None:
    """Percentiles of several times together are not known; they do not exceed these."""
    if one is None or other is None:
        return one or other
    return Latencies(
        p50_ms=max(one.p50_ms, other.p50_ms), p99_ms=max(one.p99_ms, other.p99_ms), max_ms=max(one.max_ms, other.max_ms)
    )


def _epochs(earlier: EpochApplied, later: EpochApplied) -> EpochApplied:
    duration_ms = round(earlier.duration_ms + later.duration_ms, 3)
    rows = earlier.input_rows + later.input_rows
    span_s = _span_s(earlier) + _span_s(later)
    return replace(
        later,
        **_added(earlier, later, "epochs", "input_rows", "output_rows", "late_rows", "output_bytes", "spilled_bytes"),
        duration_ms=duration_ms,
        max_duration_ms=max(earlier.max_duration_ms, later.max_duration_ms),
        durations_ms=_sums(earlier.durations_ms, later.durations_ms),
        input_rows_per_second=round(rows / span_s, 3) if span_s else 0.0,
        processed_rows_per_second=round(1000 * rows / duration_ms, 3) if duration_ms else 0.0,
        stages=_stages(earlier.stages, later.stages),
        observed={**earlier.observed, **later.observed},
        latencies=_greatest(earlier.latencies, later.latencies),
    )


def _span_s(epoch: EpochApplied) -> float:
    """The time whose rows an epoch has taken, as far as it says."""
    return epoch.input_rows / epoch.input_rows_per_second if epoch.input_rows_per_second else 0.0


def _stages(earlier: Sequence[StageProgress], later: Sequence[StageProgress]) -> tuple[StageProgress, ...]:
    before = {stage.uid: stage for stage in earlier}
    return tuple(_stage(before[stage.uid], stage) if stage.uid in before else stage for stage in later)


def _stage(earlier: StageProgress, later: StageProgress) -> StageProgress:
    slowest = sorted((*earlier.slowest, *later.slowest), key=lambda one: -one.seconds)
    return replace(
        later,
        **_added(earlier, later, "input_rows", "output_rows", "late_rows", "keys", "timers_fired"),
        **_added(earlier, later, "restored_shards", "spilled_bytes"),
        shards=max(earlier.shards, later.shards),
        durations_ms=_sums(earlier.durations_ms, later.durations_ms),
        slowest=tuple(slowest[:_SLOWEST]),
    )


def _checkpoints(earlier: CheckpointCompleted, later: CheckpointCompleted) -> CheckpointCompleted:
    return replace(
        later,
        **_added(earlier, later, "checkpoints", "duration_ms", "new_files", "new_bytes", "output_rows", "output_bytes"),
        max_duration_ms=max(earlier.max_duration_ms, later.max_duration_ms),
        durations_ms=_sums(earlier.durations_ms, later.durations_ms),
    )


def _added(earlier: object, later: object, *names: str) -> dict[str, Any]:
    return {name: getattr(earlier, name) + getattr(later, name) for name in names}


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(one) + Counter(other))
