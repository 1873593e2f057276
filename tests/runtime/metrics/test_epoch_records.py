"""Progress fields from the reports of shards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.metrics.epoch_records import durations_ms, offsets_entry, source_entries, state_operator, totals
from mixedmode.runtime.metrics.events.facts import OffsetsRead, SourceSeen
from mixedmode.runtime.operators.contract import ShardCounters
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.state_manifest import StateManifest


def state_file(entries: int, tombstones: int, size_bytes: int) -> StateFile:
    described: dict[str, Any] = {
        "name": "f",
        "entries": entries,
        "tombstones": tombstones,
        "size_bytes": size_bytes,
        "first_key": "",
        "last_key": "",
    }
    blank = dict.fromkeys(StateFile.__dataclass_fields__)
    return StateFile(**{**blank, **described})


def report(shard: int, start_ms: int, end_ms: int, process_ms: int, **measured: int) -> ShardReport:
    return ShardReport(
        shard=shard,
        attempt=f"a{shard}",
        files=(state_file(10, 2, 500),),
        output=(StagedFile("o", 3, 70),),
        counters=ShardCounters(rows_in=20, rows_late=1, keys=5, timers_fired=4),
        durations_ms={"process": process_ms, "publish": 7},
        spilled_bytes=9,
        measured={"startedAtMs": start_ms, "endedAtMs": end_ms, **measured},
    )


REPORTS = [
    report(0, 1_000, 1_400, 300, replicaHits=1, inputBytes=50, memoryUsedBytes=1_000),
    report(
        1, 1_200, 1_900, 600, replicaMisses=1, stateFilesRead=4, stateBytesRead=800, inputBytes=60, memoryUsedBytes=24
    ),
]


def test_phases_are_those_of_the_slowest_shard() -> None:
    """An epoch's time is split into the keyed stage, from first start to last end, and what was outside of it."""
    durations = durations_ms(REPORTS, 1_500)
    assert durations == {
        "triggerExecution": 1_500,
        "addBatch": 1_500,
        "process": 600,
        "publish": 7,
        "keyedStage": 900,
        "outsideTasks": 600,
    }


def test_clocks_that_disagree_give_no_negative_times() -> None:
    """Times of other machines or runs are cut to what the driver has measured."""
    assert durations_ms(REPORTS, 100)["outsideTasks"] == 0
    assert durations_ms([report(0, 5_000, 1_000, 1)], 100)["keyedStage"] == 0
    assert "outsideTasks" not in durations_ms([], 100)


def test_state_operator_sums_up_the_shards() -> None:
    """Keys, timers, late rows, bytes, files and cache hits of all shards, under the documented names."""
    manifests = [
        StateManifest(KeyGroupRange(0, 63), (state_file(10, 2, 500),)),
        StateManifest(KeyGroupRange(64, 127), ()),
    ]
    found = state_operator("stage", REPORTS, manifests, totals(REPORTS))
    assert found == {
        "operatorName": "stage",
        "numRowsTotal": 8,
        "numRowsUpdated": 10,
        "numRowsRemoved": 4,
        "allUpdatesTimeMs": 900,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 14,
        "memoryUsedBytes": 1_024,
        "numRowsDroppedByWatermark": 2,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
        "customMetrics": {
            "numExpiredTimers": 8,
            "numIgnoredTimers": 0,
            "replicaCacheHits": 1,
            "replicaCacheMisses": 1,
            "stateFilesRead": 4,
            "stateBytesRead": 800,
            "stateEntriesWritten": 20,
            "stateFilesWritten": 2,
            "stateBytesWritten": 1_000,
            "inputBytes": 110,
            "spilledBytes": 18,
        },
    }


def test_rows_belong_to_the_only_source_that_is_read() -> None:
    """Of several sources the number of each is not known, unless there is no row at all; one that is not read has 0."""
    history, live = (SourceSeen(name, True, False, None, is_read=True) for name in ("history", "live"))

    def rows(*sources: SourceSeen, count: int = 10) -> list[Any]:
        names = ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")
        return [[one[name] for name in names] for one in source_entries(sources, count, 5.0, 2.0)]

    assert rows(live) == [[10, 2.0, 5.0]]
    assert rows(replace(history, is_read=False), live) == [[0, 0.0, 0.0], [10, 2.0, 5.0]]
    assert rows(history, live) == [[None] * 3] * 2
    assert rows(history, live, count=0) == [[0, 0.0, 0.0]] * 2
    assert source_entries([live], 10, 0.0, 2.0)[0]["inputRowsPerSecond"] == 0.0


def test_late_rows_of_two_sides_are_told_apart() -> None:
    """A stage with one side says nothing of sides."""
    counters = ShardCounters(rows_late=5, rows_late_right=2), ShardCounters(rows_late=1, rows_late_right=0)
    reports = [replace(one, counters=own) for one, own in zip(REPORTS, counters, strict=True)]
    metrics = state_operator("join", reports, [], totals(reports))["customMetrics"]
    assert (metrics["numRowsLateLeft"], metrics["numRowsLateRight"]) == (4, 2)


def test_reports_of_older_versions_are_read() -> None:
    """A finished shard's report without measurements still counts its rows."""
    new = ShardReport(0, "a", (), (), ShardCounters(rows_in=3), {"process": 5}, 0, {"inputBytes": 9})
    assert ShardReport.from_bytes(new.to_bytes()) == new
    body = json.loads(new.to_bytes())
    del body["measured"]
    old = ShardReport.from_bytes(json.dumps(body).encode())
    assert (totals([old])["inputRows"], totals([old])["inputBytes"]) == (3, 0)
    assert "keyedStage" not in durations_ms([old], 10)


def test_lag_of_each_partition() -> None:
    """What waits in each partition is known of a source that has partitions, and of no other."""
    end, latest = {"t": {"0": 5, "1": 7}}, {"t": {"0": 5, "1": 10}}
    entry = offsets_entry(OffsetsRead(None, end, latest, {"maxOffsetsBehindLatest": "3"}))
    assert entry["lag"] == {"t": {"0": 0, "1": 3}}
    assert (entry["startOffset"], entry["endOffset"], entry["latestOffset"]) == (None, end, latest)
    assert entry["metrics"] == {"maxOffsetsBehindLatest": "3"}
    others = [({"logOffset": 3}, None), ({"logOffset": 3}, {"logOffset": 4}), (5, 7), (end, {"u": {"0": 1}})]
    assert all("lag" not in offsets_entry(OffsetsRead(None, *one, {})) for one in others)
