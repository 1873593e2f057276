"""Drivers of jobs on an object store, killed, or paused while another one takes over: each row comes out once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import driver_s3
import pytest
import support
from driver_jvm import KILLED, DriverJvm
from mixedmode.runtime.storage import s3 as s3_module
from mixedmode.runtime.storage.filesystem import list_files, resolve
from mixedmode.runtime.support.failpoints import VARIABLE
from paused_process import Process
from s3_server import S3Server
from s3_support import EVENTS, Place, shown

pytestmark = pytest.mark.kill

DRIVER = Path(driver_s3.__file__)
#: Where drivers die: in the sink's commit of the switch, and in the stream's checkpoint.  (Before ``_metadata`` one is
#: paused: the other test here.)
KILLS = (
    ("sink-between-files", "first"),
    ("checkpoint-after-metadata", "second"),
)


@pytest.fixture
def reached(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, which this process and drivers that are told of it reach."""
    said = {name.removeprefix("fs.s3a."): text for name, text in s3.hadoop.items()}
    monkeypatch.setattr(s3_module, "hadoop_settings", lambda prefix, bucket: said)
    monkeypatch.setenv("TEST_HADOOP", json.dumps(s3.hadoop))
    return s3


def test_each_row_comes_out_once_over_kills(reached: S3Server, driver_jvm: DriverJvm) -> None:
    """The driver dies in the first write of each kind that Spark's log makes before the first checkpoint, and its JVM
    writes no more; then in the sink's commit of the switch and in the stream: the next life goes on."""
    bucket = reached.make("halting-log")
    root = f"s3a://{bucket}/job"
    place = Place(None, root)  # type: ignore[arg-type]
    place.land(EVENTS[:80], folder="history")
    place.land(EVENTS[80:120])
    died: list[str] = []
    while not any(re.search(r"commits/\.?N", kind) for kind in died):  # what follows is the checkpoint
        reached.halt(bucket)
        environment = {"TEST_HALTING": bucket, VARIABLE: ""}
        life = driver_jvm.run(DRIVER, root, "first", when_over=lambda: reached.halt(bucket, "end"), **environment)
        if life.returncode != KILLED:
            break  # it has come to its end, through the first checkpoint
        kind = reached.halted(bucket)
        assert kind and not _metadata(root), f"{kind} is behind the first checkpoint"
        died.append(kind)
    reached.halt(bucket, "go on")
    assert {kind.partition(" ")[2].partition("/")[0] for kind in died} >= {"metadata", "offsets", "sources"}, died
    assert life.returncode == KILLED, died
    for point, number in KILLS:
        assert driver_jvm.run(DRIVER, root, number, **{VARIABLE: f"{point}=kill"}).returncode == KILLED, point
    assert driver_jvm.run(DRIVER, root, "third").returncode == 0, died
    assert support.without_flush(sorted(shown(root), key=repr)) == support.sessions_of(EVENTS), died


@pytest.fixture
def drivers(
    reached: S3Server,
    driver_jvm: DriverJvm,
    second_driver_jvm: DriverJvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Process, Process]]:
    """Two drivers of one job, on two hosts."""
    monkeypatch.setenv("TEST_EXPIRY", "6 s")  # one that lives is seen to within this time, on any machine
    support.write(tmp_path / "history.parquet", EVENTS[:80])
    root = f"s3a://{reached.make('fought-for')}/job"
    first, second = Process(tmp_path, driver_jvm, "one", root), Process(tmp_path, second_driver_jvm, "two", root)
    yield first, second
    first.end()
    second.end()


def _metadata(root: str) -> list[str]:
    filesystem, path = resolve(root)
    return sorted(info.path for info in list_files(filesystem, path, recursive=True) if info.base_name == "_metadata")


def test_of_two_drivers_one_has_the_location(drivers: tuple[Process, Process], tmp_path: Path) -> None:
    """While one runs, the other is refused.  Paused right before it writes ``_metadata``, one that the other has taken
    over from writes none when it wakes up, and says why it ends."""
    first, second = drivers
    root, world = "s3a://fought-for/job", support.World(None, tmp_path)  # type: ignore[arg-type]
    assert first.answer() == second.answer() == "ready"
    world.land(EVENTS[80:120])
    assert first.ask("run ") == "done"
    said = second.ask("run ")
    assert said.startswith("failed:") and "another driver" in said, said
    assert first.ask("stop") == "stopped"
    world.land(EVENTS[120:160])
    first.tell("run checkpoint-before-metadata=stop")
    first.wait_until_paused()
    assert second.ask("run ") == "done"
    complete = _metadata(root)
    first.go_on()
    said = first.answer()
    assert said.startswith("failed:") and "taken over" in said, said
    assert set(_metadata(root)) <= set(complete), "older ones may have been removed meanwhile"
    assert second.ask("stop") == "stopped"
    world.land(EVENTS[160:], support.flush_after(EVENTS))
    assert second.ask("run ") == "done"
    assert second.ask("stop") == "stopped"
    assert support.without_flush(sorted(shown(root), key=repr)) == support.sessions_of(EVENTS)
