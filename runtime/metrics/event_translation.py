"""Translates the driver's facts into the events that listeners and the event log get.

An event only gets the run's ids.  A fact holds what the driver had at hand; what costs time (summing reports up) is
done here, on a thread that no epoch waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..protocols.lifecycle.events import Stop
from ..tasks.report import ShardReport
from .epoch_records import durations_ms, lag_by_partition, totals
from .events import events, facts
from .fact_descriptions import description_of
from .progress import json_value

#: How many of an epoch's slowest shards are told of.
_SLOWEST = 5


@dataclass
class EventTranslator:
    """Makes events of the facts of one run; called with one after the other.

    Args:
        query_id: the query's.
        run_id: the run's.
        name: name of the query.
    """

    query_id: str
    run_id: str
    name: str | None
    #: The last positions that are known, by live input.
    _positions: dict[str, events.SourcePosition] = field(default_factory=dict)
    _savepoint: str | None = None
    #: When the last epoch began.
    _epoch_began_ms: float | None = None
    #: How the run ends, as far as its facts say.
    how: str | None = None
    drained: bool = False
    was_stopped_with: str | None = None

    def common(self, at_ms: int) -> dict[str, Any]:
        """What every event has."""
        return {"query_id": self.query_id, "run_id": self.run_id, "name": self.name, "at_ms": at_ms}

    def of(self, fact: facts.Fact, at_ms: int) -> Iterator[events.RunEvent]:
        """The events of a fact: one, or none.

        Args:
            fact: what has happened.
            at_ms: when.
        """
        common = self.common(at_ms)
        match fact:
            case facts.EpochReport():
                yield self._epoch(fact, at_ms)
            case facts.BacklogMoved(stage, now):
                yield _backlog(common, stage, now)
            case facts.OffsetsKnown(epoch, sources):
                found = {name: _position(name, epoch, read) for name, read in sources.items()}
                self._positions.update(found)
                yield events.PositionsKnown(**common, positions=tuple(found.values()))
            case events.RunEvent():
                if isinstance(fact, events.SavepointWritten):
                    self._savepoint = fact.path
                yield replace(fact, **common)
            case facts.RunFinished():
                self.how = "finished"
            case facts.RunStopped(savepoint):
                self.how = "stopped"
                if savepoint is not None:
                    self.drained, self.was_stopped_with = savepoint is Stop.DRAIN, self._savepoint
            case facts.RunFailed():
                self.how = "failed"
            case _:
                words = description_of(fact)
                if words is not None:
                    yield events.Noted(**common, what=words.event, text=words.detail)

    def _epoch(self, fact: facts.EpochReport, at_ms: int) -> events.EpochApplied:
        reports = [report for stage in fact.stages for report in stage.reports]
        sums = {stage.uid: totals(stage.reports) for stage in fact.stages}
        stages = tuple(_stage(stage, sums[stage.uid]) for stage in fact.stages)
        input_rows = sum(sums[stage.uid]["inputRows"] for stage in fact.stages if stage.reads_sources)
        output = [sums[stage.uid] for stage in fact.stages if stage.is_last]
        duration_ms = fact.elapsed_s * 1000
        began_ms, since_ms = at_ms - duration_ms, 0.0
        if self._epoch_began_ms is not None:
            since_ms = began_ms - self._epoch_began_ms
        self._epoch_began_ms = began_ms
        watermark_ms = _moment(fact.watermark_ms)
        return events.EpochApplied(
            **self.common(at_ms),
            epoch=fact.epoch,
            phase=fact.phase,
            mode="backlog" if fact.style == "sorted" else "streaming",
            is_backlog=fact.is_backlog,
            duration_ms=round(duration_ms, 3),
            max_duration_ms=round(duration_ms, 3),
            durations_ms=durations_ms(reports, round(duration_ms)),
            input_rows=input_rows,
            output_rows=sum(one["outputRows"] for one in output),
            late_rows=sum(stage.late_rows for stage in stages),
            output_bytes=sum(one["outputBytes"] for one in output),
            input_rows_per_second=round(1000 * input_rows / since_ms, 3) if since_ms > 0 else 0.0,
            processed_rows_per_second=round(1000 * input_rows / duration_ms, 3) if duration_ms > 0 else 0.0,
            watermark_ms=watermark_ms,
            max_event_time_ms=fact.max_event_time_ms,
            watermark_lag_ms=None if watermark_ms is None else at_ms - watermark_ms,
            state_entries=sum(stage.state_entries for stage in stages),
            state_bytes=sum(stage.state_bytes for stage in stages),
            spilled_bytes=sum(stage.spilled_bytes for stage in stages),
            stages=stages,
            sources=tuple(map(_source, fact.sources)),
            positions=tuple(self._positions.values()),
            coordinator=None if fact.coordinator is None else dict(fact.coordinator),
            observed={name: json_value(row) for name, row in fact.observed.items()},
            latencies=fact.latencies,
        )


def _stage(stage: facts.StageEpoch, sums: Counter[str]) -> events.StageProgress:
    files = [file for manifest in stage.manifests for file in manifest.files]
    slowest: dict[str, int] = {}
    for report in stage.reports:
        for name, value in report.durations_ms.items():
            slowest[name] = max(slowest.get(name, 0), value)
    return events.StageProgress(
        uid=stage.uid,
        input_rows=sums["inputRows"],
        output_rows=sums["outputRows"],
        late_rows=sums["lateRows"],
        keys=sums["keys"],
        timers_fired=sums["timers"],
        shards=len(stage.reports),
        restored_shards=sums["replicaMisses"],
        state_entries=max(0, sum(file.entries - file.tombstones for file in files)),
        state_bytes=sum(file.size_bytes for file in files),
        state_files=len(files),
        spilled_bytes=sums["spilledBytes"],
        durations_ms=slowest,
        slowest=_slowest(stage.reports),
        watermark_ms=_moment(stage.fired_ms),
    )


def _slowest(reports: Sequence[ShardReport]) -> tuple[events.ShardTime, ...]:
    times = sorted(((_seconds(report), report) for report in reports), key=lambda one: (-one[0], one[1].shard))
    return tuple(
        events.ShardTime(
            shard=report.shard, seconds=seconds, rows=report.counters.rows_in, spilled_bytes=report.spilled_bytes
        )
        for seconds, report in times[:_SLOWEST]
    )


def _seconds(report: ShardReport) -> float:
    measured = report.measured
    if "endedAtMs" in measured:
        return max(0, measured["endedAtMs"] - measured["startedAtMs"]) / 1000
    return sum(report.durations_ms.values()) / 1000


def _source(seen: facts.SourceSeen) -> events.SourceProgress:
    times = seen.times
    return events.SourceProgress(
        name=seen.name,
        is_backlog=seen.is_backlog,
        finished=seen.finished,
        is_idle=times is not None and times.is_idle,
        watermark_ms=None if times is None else _moment(times.watermark_ms),
        max_event_time_ms=None if times is None else times.max_event_time_ms,
    )


def _position(name: str, epoch: int, read: facts.OffsetsRead) -> events.SourcePosition:
    lag = lag_by_partition(read.end, read.latest)
    return events.SourcePosition(
        name=name,
        epoch=epoch,
        start=read.start,
        end=read.end,
        latest=read.latest,
        lag=lag,
        lag_messages=None if lag is None else sum(sum(partitions.values()) for partitions in lag.values()),
        metrics=dict(read.metrics),
    )


def _backlog(common: dict[str, Any], stage: str, now: Any) -> events.BacklogProgressed:
    low_s, high_s = now["etaRangeSeconds"] or (None, None)
    return events.BacklogProgressed(
        **common,
        stage=stage,
        shards_done=now["shardsDone"],
        shards=now["shards"],
        rows_read=now["rowsRead"],
        rows=now["rows"],
        total_rows=now["totalRows"],
        rows_per_second=round(now["rowsPerSecond"], 3),
        spilled_bytes=now["spilledBytes"],
        fraction=now["fraction"],
        eta_s=now["etaSeconds"],
        elapsed_s=round(now["elapsedSeconds"], 3),
        rows_shuffled=now.get("rowsShuffled", 0),
        eta_low_s=low_s,
        eta_high_s=high_s,
    )


def _moment(watermark_ms: int) -> int | None:
    """A watermark as a moment; None: there is none yet, or it is at the end of time."""
    return watermark_ms if MIN_WATERMARK < watermark_ms < MAX_WATERMARK else None
