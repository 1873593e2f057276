"""The live phase in Real-Time Mode over kills: what is committed is whole, and a reader can tell what was replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from driver_jvm import KILLED, DriverJvm
from kafka_broker import Broker
from kafka_support import check_each_once
from realtime_support import RealTimeJob, each_once

pytestmark = [pytest.mark.kill, pytest.mark.kafka]

#: Where a worker dies within an epoch, in the order of the epoch.
TORN_AT = (
    "realtime-task-portion",
    "realtime-task-segment",
    "realtime-task-segment-known",
    "realtime-task-end-of-rows",
    "realtime-task-before-report",
)


def test_a_driver_dies_within_an_epoch_and_at_its_commit(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """What ``_metadata`` names is committed, whatever Spark's log says; what a driver sent before is done again by the
    next, in Real-Time Mode or with micro-batches, also if each of them dies at the next commit.  (In Real-Time Mode
    behind micro-batches: test_realtime_results.py.)  What the epoch does is seen while it runs."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "processor")
    assert job.life("0-40") == 0
    assert job.life("die:40-60", real_time="300 seconds") == KILLED
    seen = len(job.messages())
    assert seen == 60, "messages go out before their epoch is committed"
    check_seen(json.loads((tmp_path / "seen.json").read_text()), 20)
    sent = seen
    for point in ("realtime-before-commit", "checkpoint-after-metadata", "realtime-committed"):
        job.send(range(sent, sent + 20))  # not by the driver, which may die while it sends
        sent += 20
        assert job.life("0-0", points=f"{point}=kill") == KILLED, point
    runs = [one.name for one in (tmp_path / "checkpoints" / "mixedmode" / "realtime").iterdir()]
    assert len(runs) == 1, "what runs that are over have told each other is gone"
    assert job.life(f"{sent}-{sent + 10}", real_time=None) == 0
    check_each_once(each_once(job.output()), range(sent + 10))
    came = [value for _, value, _ in each_once(job.messages())]
    assert all(came.count(value) >= 2 for value in range(40, 60)), "the epoch of the driver that died came again"
    assert all(came.count(value) == 1 for value in range(40)), "what was committed did not"


def check_seen(seen: dict[str, Any], rows: int) -> None:
    """Everybody who looks or listens has seen the rows of an epoch that was not committed, and how fast they were."""
    for shown in (seen["status"], seen["outside"]):
        assert shown["rows"] == rows
        latencies = shown["epochLatencyMs"]
        assert 0 < latencies["p50"] <= latencies["p99"] <= latencies["max"] < 600_000
    events = seen["events"]
    assert {event["epoch"] for event in events} == {seen["status"]["epoch"]}
    assert [event["rows"] for event in events] == sorted(event["rows"] for event in events)
    assert any(event["rows_per_second"] > 0 and event["latencies"] is not None for event in events)
    assert f"epoch {seen['status']['epoch']}, {rows} rows in " in seen["line"]
    assert f"epoch {seen['status']['epoch']} in real time: {rows} rows in " in seen["watch"]
    assert 'id="latency"' in seen["report"], "the report has a chart of latencies"


def test_a_torn_epoch_is_never_committed(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """A worker that dies within an epoch, or before it reports, ends the query; the epoch is done again as a whole.

    What was written of its changes, and what local copies have of it, is no part of any checkpoint.  In each life it
    dies at another point, when the life has done the epoch of the one before again and has committed all there is.
    """
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "processor")
    killed, sent = tmp_path / "killed", 0
    for point in TORN_AT:
        killed.touch()  # until the life has come so far
        life = f"fail:{sent}-{sent + 10},{sent + 10}-{sent + 30}"
        assert job.life(life, points=f"{point}=kill-once:{killed}") == 0, point
        assert killed.exists(), point
        values = [value for _, value, _ in each_once(job.output())]
        assert [values.count(value) for value in range(sent + 10)] == [1] * (sent + 10), (point, job.messages())
        sent += 30
    assert job.life(f"{sent}-{sent + 10}") == 0
    check_each_once(each_once(job.output()), range(sent + 10))


def test_an_epoch_begins_again_in_the_same_driver(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """Where a task may fail more often than once, a worker that dies costs an epoch, and not the query."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "processor")
    killed = tmp_path / "killed"
    assert job.life("0-30", "master=local[5,2]", points=f"realtime-task-end-of-rows=kill-once:{killed}") == 0
    assert killed.exists()
    check_each_once(each_once(job.output()), range(30))
    runs = {one.run for one in job.messages() if one.run is not None}
    assert max(runs) % 1_000_000 == 1, "the second query of the run has a number of its own"
