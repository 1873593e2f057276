"""Copies what the run's listeners learn of an epoch from the job's state, which goes on changing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Row

from ...metrics.events.event_parts import Latencies
from ...metrics.events.facts import EpochReport, InputEventTime, SourceSeen, StageEpoch
from ...operators.contract import EpochSpec
from ...protocols.event_time import MIN_WATERMARK
from ...spec import JobSpec, Phase
from ...tasks.report import ShardReport
from ..state.job_state import JobState


@dataclass(frozen=True)
class EpochMeasures:
    """What the driver has measured of an epoch, beside the reports of its shards."""

    #: Seconds that it took in all.
    elapsed_s: float
    #: Numbers of events; None: there is no coordinator.
    coordinator: Mapping[str, int] | None
    #: What was observed of rows on their way, by name.
    observed: Mapping[str, Row]
    #: Of its messages; None: it is not known.
    latencies: Latencies | None = None


def epoch_applied(
    job: JobSpec,
    state: JobState,
    phase: Phase,
    spec: EpochSpec,
    reports: Mapping[str, Sequence[ShardReport]],
    measures: EpochMeasures,
    now_ms: int,
) -> EpochReport:
    """An epoch that the state has just taken over.

    Args:
        job: the job.
        state: where it stands after the epoch.
        phase: the phase it belongs to.
        spec: what the epoch began with.
        reports: the winners, by stage.
        measures: what the driver has measured of it.
        now_ms: the clock that tells idle inputs.
    """
    times = {
        name: InputEventTime(
            one.inputs[name].reached_ms(), one.inputs[name].max_event_time_ms, one.is_idle(name, now_ms)
        )
        for name, one in state.live_watermarks.items()
    }
    timed = [stage for stage in job.readers if stage.event_time is not None]
    seen = [
        one.max_event_time_ms
        for stage in timed
        for name, one in state.stages[stage.uid].watermark.inputs.items()
        if one.max_event_time_ms is not None and all(name != edge.origin for edge in stage.edges)
    ]
    return EpochReport(
        job_id=state.job_id,
        epoch=spec.epoch,
        style=spec.style,
        phase=phase.kind,
        elapsed_s=measures.elapsed_s,
        watermark_ms=min((state.stages[stage.uid].watermark.current_ms for stage in timed), default=MIN_WATERMARK),
        max_event_time_ms=max(seen, default=None),
        sources=tuple(
            SourceSeen(name, source.is_backlog, source.finished, times.get(name), name in phase.sources)
            for name, source in state.sources.items()
        ),
        stages=tuple(
            StageEpoch(
                stage.uid,
                tuple(reports.get(stage.uid, ())),
                tuple(state.stages[stage.uid].manifests),
                reads_sources=stage.reads_sources,
                is_last=stage.uid in job.outputs,
                fired_ms=state.stages[stage.uid].watermark.fired_ms,
                keeps_state=not stage.operator.is_stateless,
            )
            for stage in job.stages
        ),
        coordinator=measures.coordinator,
        observed=measures.observed,
        latencies=measures.latencies,
    )
