"""Lists the charts of the report and fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...support.ids import NO_EPOCH
from ..events.events import EpochApplied, RealTimeProgressed
from ..run_records import RunRecord
from ..units import per_second, size, span
from .charts import Point, Series, greatest, last, mean
from .scales import binary, temporal


def all_series(runs: Sequence[RunRecord]) -> list[Series]:
    """All charts, in the order of the page; latencies only of jobs that were in Real-Time Mode."""
    latencies = [point for run in runs for point in _latencies(run)]
    return [
        Series(
            key="rows",
            title="Rows per second",
            caption="Rows of the sources that were processed: in a backlog as its tasks told, in the stream by epoch,"
            " in Real-Time Mode as they told",
            column="rows/s",
            unit=per_second,
            points=[point for run in runs for point in _rates(run)],
            joined=mean,
            joined_says="the mean of each moment",
        ),
        *(
            [
                Series(
                    key="latency",
                    title="Latency",
                    caption="Real-Time Mode: 99 of 100 messages were not slower, from Kafka's time to their output",
                    column="p99",
                    unit=span,
                    points=latencies,
                    joined=greatest,
                    rounds=temporal,
                    is_filled=False,
                )
            ]
            if latencies
            else []
        ),
        Series(
            key="lag",
            title="Watermark lag",
            caption="How far the watermark was behind the clock after an epoch",
            column="lag",
            unit=span,
            points=_of_epochs(runs, lambda one: one.watermark_lag_ms),
            joined=greatest,
            rounds=temporal,
        ),
        Series(
            key="epochs",
            title="Micro-batch duration",
            caption="What each epoch of the stream took",
            column="duration",
            unit=span,
            points=_of_epochs(runs, lambda one: _longest(one) if one.mode == "streaming" else None),
            joined=greatest,
            rounds=temporal,
            is_filled=False,
        ),
        Series(
            key="checkpoints",
            title="Checkpoint duration",
            caption="From the cut between two epochs to the output that is visible",
            column="duration",
            unit=span,
            points=[
                Point(run.run_id, one.at_ms, max(one.max_duration_ms, one.duration_ms / max(one.checkpoints, 1)))
                for run in runs
                for one in run.checkpoints
            ],
            joined=greatest,
            rounds=temporal,
            is_filled=False,
        ),
        Series(
            key="state",
            title="State size",
            caption="Files of keyed state of all stages after an epoch",
            column="size",
            unit=size,
            points=_of_epochs(runs, lambda one: one.state_bytes),
            joined=last,
            joined_says="the last of each moment",
            rounds=binary,
        ),
    ]


def _longest(one: EpochApplied) -> float:
    return max(one.max_duration_ms, one.duration_ms / max(one.epochs, 1))


def _of_epochs(runs: Sequence[RunRecord], value: Callable[[EpochApplied], float | None]) -> list[Point]:
    return [
        Point(run.run_id, one.at_ms, float(found))
        for run in runs
        for one in run.epochs
        if (found := value(one)) is not None
    ]


def _rates(run: RunRecord) -> Iterator[Point]:
    """Rows per second: between two tellings of a backlog, and of each epoch of the stream since the one before."""
    before_ms, before_rows, stage = run.began_ms, 0, ""
    # What a stage takes from others is no row of the sources.
    readers = [] if run.began is None else [one.uid for one in run.began.stages if one.inputs]
    for progress in (progress for progress in run.backlog if not readers or progress.stage in readers):
        if progress.stage != stage or progress.rows < before_rows:
            before_ms, before_rows, stage = round(progress.at_ms - progress.elapsed_s * 1000), 0, progress.stage
        elapsed_ms = progress.at_ms - before_ms
        if elapsed_ms > 0 and (progress.rows > before_rows or progress is not run.backlog[-1]):
            yield Point(run.run_id, progress.at_ms, (progress.rows - before_rows) * 1000 / elapsed_ms, elapsed_ms)
        before_ms, before_rows = progress.at_ms, progress.rows
    # Where the log has made one of several epochs, what was told within the last of them is a part of it.
    folded = [(one.epoch - one.epochs, one.epoch) for one in run.epochs if one.epochs > 1]
    told = [one for one in run.real_time if not any(first < one.epoch <= end for first, end in folded)]
    yield from _within_epochs(run.run_id, told)
    until = {one.epoch: one for one in told}
    has_backlog, before_ms = bool(run.backlog), run.began_ms
    for epoch in run.epochs:
        within = until.get(epoch.epoch)
        if within is not None:
            rest_ms = max(epoch.at_ms - within.at_ms, 1)
            rate = max(epoch.input_rows - within.rows, 0) * 1000 / rest_ms
            yield Point(run.run_id, epoch.at_ms, rate, rest_ms)
        began = [phase.began_ms for phase in run.phases if phase.began_ms <= epoch.at_ms - epoch.duration_ms]
        elapsed_ms = max(epoch.at_ms - max([before_ms, *began[-1:]]), 1)
        if (epoch.mode == "streaming" or not has_backlog) and within is None:
            yield Point(run.run_id, epoch.at_ms, epoch.input_rows * 1000 / elapsed_ms, elapsed_ms)
        before_ms = epoch.at_ms


def _within_epochs(run_id: str, told: Sequence[RealTimeProgressed]) -> Iterator[Point]:
    """Between two tellings of an epoch in Real-Time Mode, of which nothing is told while no row comes."""
    epoch: int = NO_EPOCH
    before_ms, before_rows = 0, 0
    for one in told:
        if one.epoch != epoch or one.rows < before_rows:  # which may have begun again
            epoch, before_ms, before_rows = one.epoch, round(one.at_ms - one.elapsed_s * 1000), 0
        elapsed_ms = one.at_ms - before_ms
        if elapsed_ms > 0:
            yield Point(run_id, one.at_ms, (one.rows - before_rows) * 1000 / elapsed_ms, elapsed_ms)
        before_ms, before_rows = one.at_ms, one.rows


def _latencies(run: RunRecord) -> Iterator[Point]:
    """99 of 100 messages of some seconds; of epochs that nothing else is known of, those of the epoch."""
    told = {one.epoch for one in run.real_time}
    ones: list[RealTimeProgressed | EpochApplied] = [
        *run.real_time,
        *(one for one in run.epochs if one.epoch not in told),
    ]
    for one in ones:
        if one.latencies is not None:
            yield Point(run.run_id, one.at_ms, float(one.latencies.p99_ms))
