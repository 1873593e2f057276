"""Real SIGKILLs of a driver's JVM while Spark writes the log of the live query.

Whatever is left of a write, a plain query of Spark goes on from it as the log says, and so does the job: once.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import file_events
import intervals
import process_tree
import pytest
import support
from driver_jvm import DriverJvm
from file_events import FileEvents
from mixedmode.runtime.spark_io.query_log_writes import started
from mixedmode.runtime.support.failpoints import VARIABLE
from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]

DRIVER = Path(__file__).parents[1] / "driver_sessions.py"
OPTIONS = ("execution.backlog.final-watermark=observed", f"execution.checkpointing.interval={intervals.named('1h')}")
EVENTS = support.stream_of(300, seed=6)
#: The name of such a file, with its number.
_UNNAMED = r"\.(\d+)\.[^.]+\.tmp"
#: The JVM is killed when a file of this part is written and has no name yet: its batch has begun and is not done.  (All
#: other states of a log's files: tests/runtime/spark_io/test_query_log_writes.py.)
PART = "commits"
_LONGEST_S = 240


class Job:
    """A job whose drivers have a JVM of their own.

    Args:
        folder: for it.
        jvm: starts drivers.
        files: how many files land one after the other.
    """

    def __init__(self, folder: Path, jvm: DriverJvm, files: int) -> None:
        self.folder, self.jvm = folder, jvm
        self.log = folder / "checkpoints" / "spark"
        pending = [*support.parts_of(EVENTS[140:], files), support.flush_after(EVENTS)]
        support.write_inputs(folder, EVENTS[:100], EVENTS[100:140], *pending)

    def start(self, own_jvm: bool = True) -> subprocess.Popen[str]:
        """A driver that goes on with the job; in a JVM of its own if that is to be killed."""
        environment = {VARIABLE: "", "SESSIONS_MASTER": "local[2,3]", "FILES": "one by one"}
        said = open(self.folder / "said", "a", encoding="utf-8")  # noqa: SIM115  (the driver's)
        with said:
            return self.jvm.start(
                DRIVER,
                self.folder,
                "sessions",
                *OPTIONS,
                environment=environment,
                own_jvm=own_jvm,
                stdout=said,
                stderr=said,
            )

    def killed_behind_a_write(self, part: str) -> int:
        """Kill the JVM when it has written a file, behind what the job goes on from; returns the file's number."""
        driver = self.start()
        try:
            while (position := self.position) is None or not (self.log / part).is_dir():
                assert driver.poll() is None, self.said
                time.sleep(0.005)
            with FileEvents(self.log / part, file_events.CLOSED) as events:
                jvms = self._jvms(driver.pid)
                for found in events.names(_LONGEST_S):
                    match = re.fullmatch(_UNNAMED, found)
                    if match and int(match[1]) > position:
                        process_tree.kill(jvms)
                        break
                else:
                    raise AssertionError(f"{part}: no file was written\n{self.said}")
            assert driver.wait(_LONGEST_S) != 0, "it has not noticed"
            return int(match[1])
        finally:
            process_tree.kill([*process_tree.below(driver.pid), driver.pid])
            driver.wait()

    def _jvms(self, driver: int) -> list[int]:
        while not (found := process_tree.find(driver, "jvm")):
            time.sleep(0.005)
        return found

    @property
    def position(self) -> int | None:
        """The last micro-batch in the newest checkpoint; None: there is none."""
        newest = max((self.folder / "checkpoints" / "mixedmode" / "checkpoints").glob("*/_metadata"), default=None)
        if newest is None:
            return None
        spark = json.loads(json.loads(newest.read_text())["body"])["spark"]
        return -1 if spark is None else int(spark["batch_id"])

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()[-4000:]

    @property
    def output(self) -> list[tuple[Any, ...]]:
        return support.without_flush(support.committed(self.folder / "out"))


@pytest.mark.slow
def test_killed_while_spark_writes_its_log(spark: SparkSession, tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A file under its own name is whole, and a plain query takes what no committed batch has taken; in the end the
    job's output is that of an undisturbed run."""
    job = Job(tmp_path / "job", driver_jvm, files=2)
    number = job.killed_behind_a_write(PART)
    left = sorted(path.name for path in (job.log / PART).iterdir() if re.search(rf"\.?\b{number}\b", path.name))
    _check_whole(job.log)
    shutil.copytree(job.log, tmp_path / "log")
    wanted = sorted(_rows_behind(tmp_path / "log", job.folder / "landing"))
    assert sorted(_taken(spark, tmp_path / "log", job.folder / "landing")) == wanted, left
    driver = job.start(own_jvm=False)
    assert driver.wait(_LONGEST_S) == 0, job.said
    driver_jvm.settle()
    assert job.output == support.sessions_of(EVENTS)


def _check_whole(log: Path) -> None:
    """Entries under their own names are whole."""
    for path in (log / "offsets").glob("[0-9]*"):
        version, metadata, offset = path.read_text().splitlines()
        assert (version, "logOffset" in json.loads(offset), json.loads(metadata)["batchWatermarkMs"]) == ("v1", True, 0)
    for path in (log / "commits").glob("[0-9]*"):
        version, entry = path.read_text().splitlines()
        assert version == "v1" and isinstance(json.loads(entry), dict)


def _rows_behind(log: Path, landing: Path) -> Iterator[str]:
    """Names of the landed files that no committed batch has taken."""
    done = max((int(path.name) for path in (log / "commits").glob("[0-9]*")), default=-1)
    taken = -1 if done < 0 else json.loads((log / "offsets" / str(done)).read_text().splitlines()[2])["logOffset"]
    lines = [line for path in (log / "sources" / "0").glob("[0-9]*") for line in path.read_text().splitlines()[1:]]
    known = {Path(entry["path"]).name: entry["batchId"] for entry in map(json.loads, lines)}
    yield from (path.name for path in landing.glob("[!.]*") if known.get(path.name, taken + 1) > taken)


def _taken(spark: SparkSession, log: Path, landing: Path) -> list[str]:
    """Names of the files that a plain query takes which goes on from a log."""
    taken: list[str] = []

    def take(batch: DataFrame, number: int) -> None:
        taken.extend(Path(row[0]).name for row in batch.distinct().collect())

    rows = spark.readStream.schema(support.ROW_SCHEMA).parquet(str(landing)).select("_metadata.file_path")
    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", log.as_uri()).trigger(availableNow=True)
    started(writer, [spark], log.as_uri()).awaitTermination()
    return taken
