"""On a cluster of two executors: shards keep their place, and an executor that is lost costs a retry, no more."""

from __future__ import annotations

from pathlib import Path

import pytest
import support
from driver_jvm import DriverJvm
from driver_places import MORE, STEADY
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.cluster, pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

CLUSTER = "local-cluster[2,1,1024]"
HERE = Path(__file__).parents[1]


def test_lost_executors_are_survived(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Executors that die in a task, in backlog, stream and compaction, change nothing in the output: with state that
    they have restored, and with files that nobody knows of yet.  (Workers die at all steps:
    tests/e2e/recovery/test_kill.py.)  The job has a processor, and behind it an aggregate.
    """
    events = support.stream_of(420, seed=3)
    points = ("task-before-report-sorted", "task-after-restore-random", "compaction-before-report")
    flags = {point: tmp_path / point for point in points}
    folder = tmp_path / "job"
    pending = (events[360:400], events[400:], support.flush_after(events))
    support.write_inputs(folder, events[:300], events[300:360], *pending)
    failpoints = ";".join(f"{point}=kill-executor-once:{flag}" for point, flag in flags.items())
    options = ("execution.backlog.final-watermark=observed", "pipeline.parallelism=4")
    environment = {VARIABLE: failpoints, "SESSIONS_MASTER": CLUSTER}
    assert driver_jvm.run(HERE / "driver_sessions.py", folder, "busy_hours", *options, **environment).returncode == 0
    assert [point for point, flag in flags.items() if not flag.exists()] == [], "no executor was killed there"
    expected = support.hours_of(events)
    assert [row for row in support.committed(folder / "out") if row[0] in [one[0] for one in expected]] == expected


def test_shards_stay_where_their_state_is(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """In the stream every task of a shard, of an epoch or a compaction, runs on the executor that has its local copy.

    An epoch costs hardly more calls than without executors to choose from, and its one job is planned already, also of
    two stages.  When an executor is lost and another one comes, the shards of the lost one move, and those alone; the
    plan is made once more, in two steps as at the beginning.
    """
    done = driver_jvm.run(HERE / "driver_places.py", tmp_path, SESSIONS_MASTER=CLUSTER)
    told: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines():
        told.setdefault(" ".join(line.split()[:2]), []).append(line.split()[2:])
    places = told["one places"]
    steady, more = places[:STEADY], places[STEADY:]
    assert steady == [steady[0]] * STEADY and more == [more[0]] * MORE
    assert len(set(steady[0])) == len(set(more[0])) == 2, "one executor has all the shards"
    moved = [then != now for then, now in zip(steady[0], more[0], strict=True)]
    assert sum(moved) == 2 and len(set(steady[0]) & set(more[0])) == 1
    # Which executors are there is asked before each job, for each stage.
    for job, most in (("one", 18), ("two", 26)):
        assert int(told[f"{job} compactions"][0][0])
        for misses in told[f"{job} misses"]:
            built = [place for place, number in enumerate(misses) if int(number)]
            assert built == [1, STEADY + 1], "a local copy was built more than once"
            assert sum(map(int, misses)) <= 4 + 2, "not only what was to move has moved"
        calls, ready = [list(map(int, told[f"{job} {what}"][0])) for what in ("calls", "ready")]
        assert max(*calls[2:STEADY], *calls[STEADY + 2 :]) <= most, calls
        assert ready[2:STEADY] == [1] * (STEADY - 2) and ready[STEADY + 2 :] == [1] * (MORE - 2), ready
