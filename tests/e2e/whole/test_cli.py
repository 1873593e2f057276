"""The command line over a real job's files, in this process and in one of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from mixedmode.planner.cli.app import app
from mixedmode.runtime.checkpoints.store import CheckpointStore
from pyarrow import fs
from savepoint_support import write_savepoint
from support import World
from typer.testing import CliRunner

EVENTS = support.stream_of(60, seed=2)


@pytest.fixture(scope="module")
def job(worlds: Callable[[], World]) -> World:
    """A job that was stopped in the live phase, with two checkpoints."""
    world = worlds()
    keyed = support.sessions(world.history(EVENTS[:40]), world.live()).uid("sessions")
    query = support.live(world.start(keyed, {"execution.backlog.final-watermark": "observed"}))
    world.land(EVENTS[40:])
    support.finish(query)
    return world


@pytest.fixture(scope="module")
def savepoint(job: World) -> str:
    store = CheckpointStore(fs.LocalFileSystem(), str(job.checkpoints))
    latest = store.latest()
    assert latest is not None
    return write_savepoint(store, latest, str(job.folder / "sp"), "{}")


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def body(*arguments: object) -> Any:
    """The JSON that a command prints when it succeeds."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.slow
def test_status_of_a_running_job_obeys_each_limit(worlds: Callable[[], World]) -> None:
    """A running job shows its run, phase and sources; a limit that it breaks makes it unhealthy, with exit code 4."""
    world = worlds()
    keyed = support.sessions(world.history(EVENTS[:40]), world.live()).uid("sessions")
    query = world.start(keyed, {"execution.checkpointing.interval": "1 h"})
    try:
        support.live(query)
        world.land(EVENTS[40:])
        query.processAllAvailable()  # takes a checkpoint, so an epoch of the clock or of rows comes behind it
        calm = body("status", world.checkpoints, "--max-silence", "1 h", "--max-checkpoint-age", "1 h")
        assert (calm["running"], calm["healthy"], calm["problems"], calm["phase"]) == (True, True, [], "live")
        assert calm["run"]["id"] == query.runId
        assert [source["name"] for source in calm["sources"]] == ["history", "live"]
        for limit, reason in (("--max-lag", "lags by"), ("--max-silence", "has not got on for")):
            support.wait_until(lambda limit=limit: run("status", world.checkpoints, limit, "1 ms").exit_code == 4)
            broken = run("status", world.checkpoints, limit, "1 ms", "--json")
            (problem,) = json.loads(broken.stdout)["problems"]
            assert reason in problem
        epochs = query.lastProgress.batchId
        world.land(support.flush_after(EVENTS))
        support.wait_until(lambda: query.lastProgress.batchId > epochs)
        support.wait_until(lambda: run("status", world.checkpoints, "--max-checkpoint-age", "1 ms").exit_code == 4)
        broken = run("status", world.checkpoints, "--max-checkpoint-age", "1 ms", "--json")
        assert "for a checkpoint" in json.loads(broken.stdout)["problems"][0]
    finally:
        query.stop()


@pytest.mark.slow
def test_status_of_a_job_without_an_event_log_says_so(worlds: Callable[[], World]) -> None:
    """It runs, in a phase that nobody knows; a limit cannot be checked, which is exit code 1."""
    world = worlds()
    query = world.start(support.sessions(None, world.live()), {"execution.event-log.enabled": "false"})
    try:
        found = body("status", world.checkpoints)
        assert (found["running"], found["healthy"], found["phase"]) == (True, True, None)
        assert run("status", world.checkpoints, "--max-silence", "1 h").exit_code == 1
    finally:
        query.stop()


def test_checkpoints_are_listed(job: World) -> None:
    """Each checkpoint with trigger, size and age; all are whole, also by checksum."""
    found = body("checkpoints", job.checkpoints, "--verify")
    assert [one["id"] for one in found] == [1, 2]
    assert found[0]["trigger"] == "switch"
    assert all(one["whole"] and one["committed"] and one["sizeBytes"] > 0 and one["ageSeconds"] >= 0 for one in found)
    table = run("checkpoints", job.checkpoints)
    assert table.exit_code == 0 and "switch" in table.stdout and "whole" in table.stdout


def test_a_job_that_was_stopped_is_told_of(job: World, tmp_path: Path) -> None:
    """Its status says so with exit code 3; its report has stages, phases and checkpoints; watching shows its end."""
    done = run("status", job.checkpoints, "--max-checkpoint-age", "1 s", "--json")
    status = json.loads(done.stdout)
    assert (done.exit_code, status["running"], status["run"]["outcome"], status["phase"]) == (
        3,
        False,
        "stopped",
        "live",
    )
    assert (status["checkpoint"]["id"], status["problems"], status["run"]["starts"]) == (2, [], 1)
    assert [source["name"] for source in status["sources"]] == ["history", "live"]
    assert status["sources"][1]["watermark"] is not None and status["epoch"]["stateBytes"] > 0
    assert body("report", job.checkpoints, "-o", tmp_path / "run.html") == {"report": f"{tmp_path}/run.html", "runs": 1}
    page = (tmp_path / "run.html").read_text()
    for text in ("sessions (stage, ", "takes from history (input), live (input)", ">backlog<", "checkpoint 1 (switch)"):
        assert text in page, text
    watched = run("watch", job.checkpoints)
    assert watched.exit_code == 3 and " phase      live" in watched.stdout and " stopped " in watched.stdout


def test_damaged_checkpoint_is_an_exit_code(job: World, tmp_path: Path) -> None:
    """A flipped bit is found by --verify, named, and makes the exit code 1; a lost file is found without."""
    copy = shutil.copytree(job.checkpoints, tmp_path / "copy")
    path = next(iter(sorted((copy / "mixedmode" / "state" / "sessions").iterdir())))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert run("checkpoints", copy).exit_code == 0
    found = run("checkpoints", copy, "--verify", "--json")
    assert found.exit_code == 1
    assert any(path.name in (one["damage"] or "") for one in json.loads(found.stdout))
    path.unlink()
    lost = run("checkpoints", copy)
    assert lost.exit_code == 1 and "DAMAGED" in lost.stdout


def test_inspect_shows_what_is_in_a_checkpoint(job: World) -> None:
    """Operators with their states and shards, sources with their flags, and the position in Spark's log."""
    found = body("inspect", job.checkpoints, "--count-keys")
    assert found["checkpoint"] == 2
    assert {source["name"]: source["finished"] for source in found["sources"]} == {"history": True, "live": False}
    assert json.loads(found["sparkOffsets"][0])["logOffset"] >= 0
    (operator,) = found["operators"]
    assert (operator["uid"], operator["key"], operator["finished"]) == ("sessions", ["key"], False)
    assert [state["name"] for state in operator["states"]] == ["open"]
    assert [shard["keyGroups"] for shard in operator["shards"]] == [[0, 63], [64, 127]]
    last = {key: seconds for key, seconds, _ in EVENTS}
    assert operator["keys"] == sum(seconds + support.GAP_S >= EVENTS[-1][1] for seconds in last.values())
    text = run("inspect", job.checkpoints, "--checkpoint", 1)
    assert text.exit_code == 0
    for fact in (
        "kind         checkpoint",
        "trigger      switch",
        "Operator sessions: transformWithState by key",
        "64-127",
        "history",
    ):
        assert fact in text.stdout


def test_inspect_reads_a_savepoint(job: World, savepoint: str) -> None:
    """A savepoint holds the checkpoint that it was made from; its output is visible."""
    here, there = body("inspect", savepoint), body("inspect", job.checkpoints)
    assert here == {**there, "kind": "savepoint"}
    assert here["outputVisible"] is True and here["drained"] is False
    (listed,) = body("checkpoints", savepoint)
    assert (listed["kind"], listed["drained"], listed["whole"]) == ("savepoint", False, True)
    for command in ("inspect", "checkpoints"):
        text = run(command, savepoint).stdout
        assert "savepoint" in text and "drained" not in text


@pytest.mark.slow
def test_drained_savepoint_says_so(worlds: Callable[[], World]) -> None:
    """What a drain has left is a drained savepoint, in text and JSON, and what that means to a restore is said; the
    handle and the checkpointLocation tell the same of the checkpoint that it was made of."""
    world = worlds()
    query = support.live(world.start(support.sessions(world.history(EVENTS[:40]), world.live()).uid("sessions")))
    kept = query.savepoint(str(world.folder / "kept"))
    path = query.stopWithSavepoint(str(world.folder / "end"), drain=True)
    ids = [one["id"] for one in query.checkpoints]
    assert [(one["kind"], one["drained"]) for one in query.checkpoints] == [
        ("checkpoint", False),
        ("savepoint", False),
        ("savepoint", True),
    ]

    def kind(path: object) -> list[tuple[Any, ...]]:
        return [(one["id"], one["kind"], one["drained"]) for one in body("checkpoints", path)]

    assert kind(kept) == [(ids[1], "savepoint", False)]
    assert kind(path) == [(ids[2], "savepoint", True)]
    assert kind(world.checkpoints)[-2:] == [(ids[1], "checkpoint", False), (ids[2], "checkpoint", True)]
    assert "savepoint (drained)" in run("checkpoints", path).stdout
    text = " ".join(run("inspect", path).stdout.split())
    assert "kind savepoint (drained)" in text and "goes on behind that" in text
    assert f"stopped with savepoint {path}" in " ".join(run("inspect", world.checkpoints).stdout.split())
    assert body("inspect", world.checkpoints)["savepoint"] == {"path": path, "madeAt": path}
    rows = mixedmode.state_reader(path, world.spark).metadata().collect()
    assert [(row.state, row.kind, row.checkpoint_kind, row.drained) for row in rows] == [
        ("open", "value", "savepoint", True)
    ]


def test_inspect_looks_a_key_up(job: World, savepoint: str) -> None:
    """--key gives the state and the timers of one key, in a checkpoint and in a savepoint."""
    key, seconds, _ = EVENTS[-1]
    for path in (job.checkpoints, savepoint):
        found = body("inspect", path, "--key", key)
        assert found["key"] == {"key": key}
        assert found["state"]["open"]["last"] == support.at_ms(seconds)
        assert found["timers"]["event"] == [support.at_ms(seconds) + support.GAP_S * 1000 + 1]
    assert "state open" in run("inspect", job.checkpoints, "--key", key).stdout


@pytest.mark.slow
def test_key_without_state(job: World, savepoint: str) -> None:
    """A key that the checkpoint holds nothing of is not shown like an empty one: it is said, and the exit code is 1."""
    for path in (job.checkpoints, savepoint):
        done = run("inspect", path, "--key", "nobody")
        assert done.exit_code == 1 and not done.stdout
        assert "the key key = 'nobody' has no state and no timers in checkpoint 2 of operator 'sessions'" in done.stderr
        done = run("inspect", path, "--key", "nobody", "--json")
        assert done.exit_code == 1
        found = json.loads(done.stdout)
        assert (found["found"], found["state"], found["timers"]) == (False, {"open": None}, {})
    assert body("inspect", savepoint, "--key", EVENTS[-1][0])["found"] is True


def test_wrong_use_is_exit_code_2(job: World, savepoint: str, tmp_path: Path) -> None:
    """Unknown options, wrong paths and a key of another width are errors of the command line, with a hint."""
    cases = {
        ("checkpoints", tmp_path / "nowhere"): "does not exist",
        ("checkpoints", tmp_path): "has no folder mixedmode/",
        ("checkpoints", job.checkpoints, "--colour"): "--colour",
        ("inspect", job.checkpoints, "--checkpoint", 7): "it holds 1, 2",
        ("inspect", job.checkpoints, "--key", "a", "--key", "b"): "has 1 columns: key string",
        ("stop", savepoint, "--savepoint", tmp_path / "x"): "is a savepoint",
        ("stop", job.checkpoints, "--drain"): "by --savepoint",
        ("pause", savepoint): "is a savepoint",
        ("plan", tmp_path / "job.py"): "does not exist",
    }
    for arguments, hint in cases.items():
        done = run(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert hint in " ".join(done.stderr.split()), (arguments, done.stderr)


def test_damage_is_exit_code_1(savepoint: str, tmp_path: Path) -> None:
    """A savepoint with damaged metadata is an error of the files, in words or as JSON."""
    copy = shutil.copytree(savepoint, tmp_path / "copy")
    (copy / "_metadata").write_bytes((copy / "_metadata").read_bytes()[:99])
    assert run("inspect", copy).exit_code == 1
    done = run("inspect", copy, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"]["type"] == "CorruptStateError"


@pytest.mark.parametrize(
    "command",
    [
        ("savepoint", "LOCATION", "SP"),
        ("stop", "LOCATION", "--savepoint", "SP"),
        ("stop", "LOCATION"),
        ("pause", "LOCATION"),
        ("resume", "LOCATION"),
    ],
    ids=" ".join,
)
def test_no_running_job(job: World, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Without a running driver there is nobody to ask: a clear error, exit code 1, and no request is left."""
    places = {"LOCATION": str(job.checkpoints), "SP": str(tmp_path / "new")}
    done = run(*[places.get(word, word) for word in command])
    assert done.exit_code == 1
    assert "no job is running on" in done.stderr
    assert not list((job.checkpoints / "mixedmode").glob("requests/*"))


JOB_FILE = """
import sys, mixedmode
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
frame = spark.range(10).selectExpr("id % 3 AS key", "id AS value")
writer = (mixedmode.read(history=frame).groupBy("key").agg(F.count("*").alias("n")).uid("counts")
    .writeStream.format("parquet").option("path", sys.argv[1] + "/out")
    .option("checkpointLocation", sys.argv[1] + "/checkpoints"))
"""


@pytest.mark.parametrize("end", ["writer.start()\nraise SystemExit('not reached')", "job = writer"])
def test_plan_of_a_job_file(spark: Any, tmp_path: Path, end: str) -> None:
    """A file that starts a job, or defines one, is planned; nothing is started or written, later lines do not run."""
    path = tmp_path / "job.py"
    path.write_text(f"{JOB_FILE}\n{end}\n")
    done = run("plan", path, tmp_path)
    assert done.exit_code == 0, done.output
    assert "== mixedmode plan ==" in done.stdout and "Phase 1 of 2: backlog" in done.stdout
    described = json.loads(run("plan", "--json", path, tmp_path).stdout)
    assert described["stages"][0]["uid"] == "counts"
    assert described["checkpoint_location"] == f"{tmp_path}/checkpoints"
    assert [entry.name for entry in tmp_path.iterdir()] == ["job.py"]


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("print('no job here')", 2, "neither calls start() nor defines 'job'"),
        ("job = 3", 2, "job is a int"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise SystemExit(5)", 1, "exit code 5"),
        ("writer.option('execution.runtime-mod', 'x').start()", 1, "did you mean execution.runtime-mode"),
    ],
)
def test_job_file_without_a_plan(spark: Any, tmp_path: Path, end: str, code: int, words: str) -> None:
    """A file without a job is wrong use; one that fails on the way fails with its own error."""
    path = tmp_path / "job.py"
    path.write_text(f"{JOB_FILE}\n{end}\n")
    done = run("plan", path, tmp_path)
    assert done.exit_code == code, done.output
    assert words in " ".join(done.stderr.split())


def test_command_in_a_process_of_its_own(job: World) -> None:
    """``python -m mixedmode`` is the command, and its exit code that of the process."""
    command = [sys.executable, "-m", "mixedmode", "checkpoints"]
    done = subprocess.run([*command, job.checkpoints, "--json"], capture_output=True, text=True, cwd=job.folder)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 2
    assert subprocess.run([*command, job.folder], capture_output=True, cwd=job.folder).returncode == 2
