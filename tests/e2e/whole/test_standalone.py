"""A job on a standalone cluster, started by ``spark-submit``: its workers come and go, its driver dies."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import standalone
import support
from mixedmode.runtime.driver.requests import remote_client
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.cluster, pytest.mark.kill, pytest.mark.spark, pytest.mark.timeout(1500)]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "cluster" / "visits.py"
SHARDS = 3
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "3",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.decommission.enabled": "true",
    # The query without rows would look for some a hundred times a second, and keep busy a core that others need.
    "spark.sql.streaming.pollingDelay": os.environ.get("MIXEDMODE_POLLING_DELAY", "25ms"),
    # However slow the machine is: all executors are there first, and a task waits for the one that it prefers.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    # So long, too, a task waits for an executor that is lost when the task is to be run there.
    "spark.locality.wait": "30s",
    "spark.mixedmode.pipeline.parallelism": str(SHARDS),
    # Compactions bring state in, too; and the second driver has something to do again.
    "spark.mixedmode.execution.checkpointing.interval": "1 h",
}
#: Lines of a driver's log.
GONE, REGISTERED, LEAVING = "Lost executor", "Registering block manager", "Decommission executors"
_PAUSE_S, _DELAY_S = 30 * 60, 10 * 60
#: Runs ``python -m module`` as if it were another Python.
OTHER_VERSION = """
import collections, runpy, sys
sys.argv = sys.argv[2:]
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(3, 99, 0, "final", 0)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@dataclass
class Job:
    """The example with its folders, and what it says of its epochs."""

    folder: Path
    landed: int = 0
    drivers: list[standalone.Submitted] = field(default_factory=list)
    conf: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("lake", "landing"):
            (self.folder / name).mkdir(parents=True)

    def submit(self, url: str, **environment: str) -> standalone.Submitted:
        places = {name.upper(): str(self.folder / name) for name in ("lake", "landing", "output", "location")}
        log = self.folder / "driver.log"
        driver = standalone.Submitted(url, EXAMPLE, {**CONF, **self.conf}, {**places, **environment}, log)
        self.drivers.append(driver)
        return driver

    def write(self, place: str, events: list[support.Event]) -> None:
        table = support.table(events).rename_columns(["customer", "ts", "amount"])
        hidden = self.folder / place / f".{self.landed:02d}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(hidden.with_name(hidden.name[1:]))
        self.landed += 1


def epochs(driver: standalone.Submitted) -> list[dict[str, Any]]:
    """What a driver has told of its epochs."""
    return [json.loads(found) for found in re.findall(r'{"epoch".*?}}', "\n".join(driver.lines()))]


def rows_of(driver: standalone.Submitted, phase: str = "live") -> int:
    return sum(epoch["rows"] for epoch in epochs(driver) if epoch["phase"] == phase)


def hours_of(events: list[support.Event]) -> list[tuple[Any, ...]]:
    """What the example gives: (hour, visits, spent), sorted."""
    by_key: dict[str, list[tuple[int, int]]] = {}
    for key, seconds, value in sorted(events, key=lambda event: event[1]):
        by_key.setdefault(key, []).append((seconds, value))
    hours: dict[int, list[int]] = {}
    for rows in by_key.values():
        spent = 0
        for (here, value), following in zip(rows, [*rows[1:], None], strict=True):
            spent += value
            if following is None or following[0] - _DELAY_S >= here + _PAUSE_S:
                of_hour = hours.setdefault((here + _PAUSE_S) // 3600, [0, 0])
                of_hour[0], of_hour[1], spent = of_hour[0] + 1, of_hour[1] + spent, 0
    begin = {hour: (support.START + timedelta(hours=hour)).replace(tzinfo=None) for hour in hours}
    return sorted((begin[hour], *hours[hour]) for hour in hours)


def committed(folder: Path) -> list[tuple[Any, ...]]:
    rows = support.committed(folder / "output")
    return sorted((row[0]["start"].replace(tzinfo=None), *row[1:]) for row in rows)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """The example, without data; its drivers end with the test."""
    made = Job(tmp_path / "job")
    yield made
    for driver in made.drivers:
        driver.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Cluster]:
    """A master without workers."""
    options = {"SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true"}
    with standalone.cluster(tmp_path_factory.mktemp("standalone"), **options) as made:
        yield made


class Run:
    """The job while it runs: what lands, and what its epochs say then.

    Args:
        job: the example with its folders.
        cluster: where it runs.
        events: what is to land.
    """

    def __init__(self, job: Job, cluster: standalone.Cluster, events: list[support.Event]) -> None:
        self.job, self.cluster, self.events = job, cluster, events
        self._told = 0
        self.driver = job.submit(cluster.url)

    def land(self, count: int) -> int:
        """A file with the next rows; how many the driver will have seen with them."""
        rows, self.events = self.events[:count], self.events[count:]
        self.job.write("landing", rows)
        return rows_of(self.driver) + len(rows)

    def through(self, rows: int) -> None:
        self.driver.wait_until(lambda: rows_of(self.driver) >= rows, f"{rows} rows are through")

    def restored(self, count: int = 40) -> int:
        """Rows land; how many of the first stage's shards were restored since this was last asked, until now."""
        self.through(self.land(count))
        # What has come due by these rows fires in an epoch without rows: then nothing runs.
        self.driver.wait_until(lambda: epochs(self.driver)[-1]["rows"] == 0, "timers have fired")
        seen, found = self._told, epochs(self.driver)
        self._told = len(found)
        return sum(epoch["restored"]["visits"] for epoch in found[seen:])

    def moved(self) -> int:
        """The same, of the first rows; what moves does so once (on a busy machine Spark may run a task elsewhere)."""
        found = self.restored()
        assert any(self.restored(count) == 0 for count in (40, 40, 40)), "what has moved stays"
        return found

    def rescale(self, shards: int) -> None:
        """The job goes on with another number of shards; returns when a checkpoint holds them."""
        remote_client.ask(str(self.job.folder / "location"), "rescale", parallelism=shards)

    def come(self, count: int) -> None:
        """Workers come, each with an executor that the driver knows."""
        known = self.driver.count(REGISTERED)
        self.cluster.add_workers(count)
        self.driver.wait_until(lambda: self.driver.count(REGISTERED) >= known + count, "there are further executors")

    def lose(self, *workers: standalone.Daemon) -> None:
        """Machines are gone, and the driver knows."""
        known = self.driver.count(GONE)
        for worker in workers:
            worker.kill()
        self.driver.wait_until(lambda: self.driver.count(GONE) >= known + len(workers), "executors are lost")

    def leave(self, worker: standalone.Daemon) -> None:
        """A machine is told to go, and the driver knows."""
        known = self.driver.count(LEAVING)
        worker.send(signal.SIGPWR)
        self.driver.wait_until(lambda: self.driver.count(LEAVING) > known, "an executor is decommissioned")


def test_workers_come_and_go(cluster: standalone.Cluster, job: Job, tmp_path: Path) -> None:
    """What has to move is restored and nothing else is, whoever is lost, comes or leaves; the output is as ever.

    - A machine that is lost in the backlog costs a part of it.  In the stream all shards are restored once; from then
      on each task meets its state where the epoch before has left it.
    - One that is decommissioned is left by its shards, and by no others; one that comes takes its share; of two that
      are lost at once both parts move to the one that is left.  (Of one that is lost: tests/e2e/whole/test_cluster.py.)
      Other numbers of shards are restored once.
    - The driver and its JVM are killed, and submitted again: it goes on from the last checkpoint, on the executors that
      Spark allocates as it goes, with Python workers of one task each, and survives a machine that is lost within an
      epoch, while somebody asks for other shards.  SIGTERM ends it in good order.
    - Nothing is late, and the output is what the rows come to.
    """
    events = support.stream_of(1500, seed=5, keys=60, step_s=240)  # some hours end with every 40 of them
    in_backlog, in_epoch = tmp_path / "in-backlog", tmp_path / "in-epoch"
    in_epoch.touch()  # not yet
    failpoints = f"task-before-report-sorted=kill-machine-once:{in_backlog}"
    failpoints += f";task-before-report-random=kill-machine-once:{in_epoch}"
    job.conf[f"spark.executorEnv.{VARIABLE}"] = failpoints
    job.write("lake", events[:300])
    cluster.add_workers(3)
    run = Run(job, cluster, [*events[300:], ("flush", events[-1][1] + 100_000, 1)])
    run.driver.wait_until(in_backlog.exists, "a machine is lost in the backlog")
    run.come(1)
    run.driver.wait_until(lambda: rows_of(run.driver, "backlog") == 300, "the backlog is through")
    # Each has one; on a busy machine Spark may run a task elsewhere once, so that one has two.
    assert run.moved() in (SHARDS, SHARDS + 1)

    leaving = cluster.alive()[0]
    run.leave(leaving)
    assert run.moved() in (1, 2), "what the leaving one had"
    leaving.kill()
    run.come(1)
    assert run.moved() in (1, 2), "the share of the one that has come"
    run.lose(*cluster.alive()[:2])
    assert run.moved() >= 1, "what the lost ones had"
    run.rescale(4)
    assert run.moved() in (4, 5), "all shards are others"
    told = epochs(run.driver)
    run.driver.end(signal.SIGKILL)
    cluster.add_workers(1)  # there are two again

    job.conf |= {
        "spark.locality.wait": "3s",
        "spark.mixedmode.execution.checkpointing.interval": "1 s",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.python.worker.reuse": "false",
    }
    run = Run(job, cluster, run.events)
    run.through(run.land(40))
    in_epoch.unlink()
    with ThreadPoolExecutor(1) as somebody:
        rows = run.land(40)
        asked = somebody.submit(run.rescale, 5)
        run.driver.wait_until(in_epoch.exists, "a machine is lost in an epoch")
        run.through(rows)
        asked.result()
    run.land(len(run.events))
    run.rescale(2)
    expected = hours_of(events)
    known = {row[0] for row in expected}

    def output() -> list[tuple[Any, ...]]:
        return [row for row in committed(job.folder) if row[0] in known]

    run.driver.wait_until(lambda: len(output()) >= len(expected), "all is shown")
    assert run.driver.end() in (0, 128 + signal.SIGTERM), "the JVM of spark-submit tells by which signal it has ended"
    assert run.driver.count("the job has ended") == 1
    assert sum(epoch["late"] for epoch in [*told, *epochs(run.driver)]) == 0
    assert output() == expected


def test_workers_with_a_wrong_python_are_told_at_the_start(cluster: standalone.Cluster, tmp_path: Path) -> None:
    """One that is not there, one without mixedmode, one of another version: each is named, with what is wrong and what
    to set, before anything runs.

    The driver finds all of them under their names, and they are right there.
    """
    here, there, packages = (tmp_path / name for name in ("here", "there", "packages"))
    for folder in (here, there, packages):
        folder.mkdir()
    for path in Path(pa.__file__).parents[1].iterdir():
        if "mixedmode" not in path.name:
            (packages / path.name).symlink_to(path)
    other = tmp_path / "other.py"
    other.write_text(OTHER_VERSION)
    without = f'PYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"'
    says = {
        "gone": (None, "cannot be started there: "),
        "bare": (without, "has not what tasks need: No module named 'mixedmode'"),
        "other": (f'exec "{sys.executable}" {other} "$@"', "is of another version than the driver's: "),
        "right": (f'exec "{sys.executable}" "$@"', ""),
    }
    for name, (command, _) in says.items():
        for folder, line in ((here, says["right"][0]), (there, command)):
            if line is not None:
                (folder / name).write_text(f"#!/bin/sh\n{line}\n")
                (folder / name).chmod(0o755)
    if not cluster.alive():
        cluster.add_workers(1)
    path = os.environ["PATH"]
    conf = {**CONF, "spark.executorEnv.PATH": f"{there}:{path}", "spark.cores.max": "1"}
    environment = {"FOLDER": str(tmp_path), "INTERPRETERS": " ".join(says), "PATH": f"{here}:{path}"}
    conf["spark.scheduler.minRegisteredResourcesRatio"] = "0"
    script = Path(__file__).parents[1] / "driver_interpreters.py"
    driver = standalone.Submitted(cluster.url, script, conf, environment, tmp_path / "driver.log")
    try:
        driver.wait_until(lambda: driver.count("all have been tried"), "all have been tried")
    finally:
        driver.end(signal.SIGKILL)
    told = {line.split()[1]: line for line in driver.lines() if line.startswith("told ")}
    assert told.keys() == says.keys()
    assert told.pop("right") == "told right nothing"
    for name, line in told.items():
        assert line.startswith(f"told {name} MIXEDMODE_WORKER_PYTHON Spark's workers would run Python '{name}', "), line
        assert says[name][1] in line and "set PYSPARK_PYTHON" in line
