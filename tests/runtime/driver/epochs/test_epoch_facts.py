"""From where a job stands after an epoch to the progress that its users read."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

from mixedmode.runtime.checkpoints.metadata import SourceState
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.driver.epochs.epoch_facts import EpochMeasures, epoch_applied
from mixedmode.runtime.driver.state.job_state import JobState
from mixedmode.runtime.driver.state.stage_state import StageState
from mixedmode.runtime.metrics.events.events import CheckpointCompleted
from mixedmode.runtime.metrics.events.facts import EpochReport, RowsDelivered
from mixedmode.runtime.metrics.run_history import RunHistory
from mixedmode.runtime.operators.contract import EpochSpec, ShardCounters
from mixedmode.runtime.protocols.watermarks import WatermarkTracker
from mixedmode.runtime.spec import Phase
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.state.store.files import StateFile

NOW_MS = 1_700_000_000_500


def report(shard: int, started_ms: int, ended_ms: int, process_ms: int, **measured: int) -> ShardReport:
    named = {"name": "f", "entries": 10, "tombstones": 2, "size_bytes": 500, "first_key": "", "last_key": ""}
    return ShardReport(
        shard=shard,
        attempt=f"a{shard}",
        files=(StateFile(**{**dict.fromkeys(StateFile.__dataclass_fields__), **named}),),  # type: ignore[arg-type]
        output=(StagedFile("o", 3, 70),),
        counters=ShardCounters(rows_in=20, rows_late=1, keys=5, timers_fired=4),
        durations_ms={"process": process_ms, "publish": 7},
        spilled_bytes=9,
        measured={"startedAtMs": started_ms, "endedAtMs": ended_ms, **measured},
    )


REPORTS = [
    report(0, 1_000, 1_400, 300, replicaHits=1, inputBytes=50),
    report(1, 1_200, 1_900, 600, replicaMisses=1, stateFilesRead=4, stateBytesRead=800),
]


STAGE = SimpleNamespace(
    uid="stage-1", reads_sources=True, event_time="ts", edges=(), operator=SimpleNamespace(is_stateless=False)
)
JOB: Any = SimpleNamespace(stages=(STAGE,), readers=(STAGE,), outputs=(STAGE.uid,))


def after_an_epoch() -> JobState:
    """A job of two shards and three sources: the history, and two live inputs of which one is behind."""
    watermark = WatermarkTracker(1_000, None, {"a": 1_000, "b": 5_000}, 0, 60_000)
    operator: Any = SimpleNamespace(uid="stage-1")
    state = JobState.fresh("0f" * 16, [StageState.fresh(operator, 128, 2, watermark)], ["history", "a", "b"])
    watermark.watch(NOW_MS - 100_500)
    watermark.observe({"a": NOW_MS - 10_500, "b": NOW_MS - 20_500}, NOW_MS - 500)
    watermark.advance(NOW_MS - 500)
    state.sources["history"] = SourceState(is_backlog=False, finished=True)
    state.sources["a"] = SourceState(is_backlog=False)
    state.apply(1, {"stage-1": REPORTS}, [], ("stage-1",))
    return state


def applied(state: JobState, epoch: EpochSpec, kind: str, elapsed_s: float, **counts: int) -> EpochReport:
    read = ("a", "b") if kind == "live" else ("history", "a", "b")
    phase = Phase(kind=kind, reason="", sources=read)  # type: ignore[arg-type]
    measures = EpochMeasures(elapsed_s, counts or None, {})
    return epoch_applied(JOB, state, phase, epoch, {"stage-1": REPORTS}, measures, NOW_MS)


SHARED = """"stateOperators": [{"operatorName": "stage-1", "numRowsTotal": 16, "numRowsUpdated": 10, \
"numRowsRemoved": 4, "allUpdatesTimeMs": 900, "allRemovalsTimeMs": 0, \
"commitTimeMs": 14, "memoryUsedBytes": 0, "numRowsDroppedByWatermark": 2, "numShufflePartitions": 2, \
"numStateStoreInstances": 2, "customMetrics": {"numExpiredTimers": 8, "numIgnoredTimers": 0, "replicaCacheHits": 1, \
"replicaCacheMisses": 1, "stateFilesRead": 4, "stateBytesRead": 800, "stateEntriesWritten": 20, \
"stateFilesWritten": 2, "stateBytesWritten": 1000, "inputBytes": 50, "spilledBytes": 18}}], \
"sources": [{"description": "history", "isBacklog": false, "finished": true, ROWS}, \
{"description": "a", "isBacklog": false, "finished": false, "eventTime": {"watermark": "2023-11-14T22:13:09.000Z", \
"max": "2023-11-14T22:13:10.000Z"}, "isIdle": false, UNKNOWN}, \
{"description": "b", "isBacklog": true, "finished": false, "eventTime": {"watermark": "2023-11-14T22:12:55.000Z", \
"max": "2023-11-14T22:13:00.000Z"}, "isIdle": false, UNKNOWN}], \
"sink": {"description": "sink!", "numOutputRows": 6, "metrics": {"outputBytes": 140, "outputFiles": 2}}, \
"observedMetrics": {}, """
UNKNOWN = '"numInputRows": null, "inputRowsPerSecond": null, "processedRowsPerSecond": null'
NONE = '"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0'
SHARED = SHARED.replace("UNKNOWN", UNKNOWN)
TIMES = """"eventTime": {"watermark": "2023-11-14T22:12:55.000Z", "max": "2023-11-14T22:13:10.000Z"}, \
"watermarkLagMs": 25500, "latencyMs": null, """
CHECKPOINT = """"checkpoint": {"id": 3, "trigger": "interval", "kind": "checkpoint", "drained": false, \
"durationMs": 7, "durationsMs": {"write": 1}, "stateBytes": 1, "stateEntries": 2, "stateFiles": 5, \
"newFiles": 3, "newBytes": 4, "numOutputRows": 6, "outputBytes": 7}}"""
NAMED = """{"id": "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f", "runId": "run", "name": "name", \
"timestamp": "2023-11-14T22:13:20.500Z", """
FIRST = f"""{NAMED}"batchId": 1, "batchDuration": 1250, "durationMs": {{"triggerExecution": 1250, "addBatch": 1250, \
"process": 600, "publish": 7, "keyedStage": 900, "outsideTasks": 350}}, {TIMES}"mode": "backlog", "phase": "backlog", \
"isBacklog": true, "numInputRows": 40, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 32.0, \
{SHARED.replace("ROWS", UNKNOWN)}"coordinator": null, {CHECKPOINT}"""
SECOND = f"""{NAMED}"batchId": 2, "batchDuration": 500, "durationMs": {{"triggerExecution": 502, "addBatch": 500, \
"process": 600, "publish": 7, "keyedStage": 500, "outsideTasks": 0, "deliver": 2}}, {TIMES}"mode": "streaming", \
"phase": "live", "isBacklog": true, "numInputRows": 40, "inputRowsPerSecond": 5.161290322580645, \
"processedRowsPerSecond": 80.0, {SHARED.replace("ROWS", NONE)}"coordinator": {{"eventsSent": 1}}, {CHECKPOINT}"""


def test_progress_of_epochs_is_what_it_always_was() -> None:
    """The JSON of two epochs, with a checkpoint between them and a delivery after the second, byte for byte."""
    ticks = itertools.chain([100.0, 107.0])
    history = RunHistory("run", "name", "sink!", now_s=lambda: NOW_MS / 1000, clock_s=lambda: next(ticks))
    state = after_an_epoch()
    history.on(applied(state, EpochSpec(1, "sorted", 0, 0, 0, 0, 0), "backlog", 1.25))
    completed = CheckpointCompleted(
        checkpoint_id=3,
        trigger="interval",
        kind="checkpoint",
        duration_ms=7,
        state_bytes=1,
        state_entries=2,
        new_files=3,
        new_bytes=4,
        state_files=5,
        output_rows=6,
        output_bytes=7,
        durations_ms={"write": 1},
    )
    history.on(completed)
    history.on(applied(state, EpochSpec(2, "random", 0, 0, 0, 0, 0), "live", 0.5, eventsSent=1))
    history.on(RowsDelivered(0.002))
    assert [record.json for record in history.recent] == [FIRST, SECOND]
    assert history.events[0].detail == "3 (interval, 7 ms): 4 B new, 2 entries of state" and len(history.events) == 1


def test_a_fact_stays_what_it_was() -> None:
    """What the listener was told of an epoch does not change with the state of the job."""
    state = after_an_epoch()
    told = applied(state, EpochSpec(1, "sorted", 0, 0, 0, 0, 0), "backlog", 1.0)
    before = repr(told)
    state.set_source("b", is_backlog=False)
    state.apply(2, {"stage-1": REPORTS}, [], ("stage-1",))
    state.first_stage.watermark.observe({"a": NOW_MS}, NOW_MS)
    assert repr(told) == before and json.dumps(told.is_backlog) == "true"
