"""What breaks under a running job is told as what it is, by the query, and leaves the location free."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import support
from mixedmode import QueryError
from mixedmode.runtime import failpoints
from support import World

pytestmark = pytest.mark.spark

EVENTS = support.stream_of(120, seed=31)
RARELY = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}


def test_a_checkpoint_that_fails_for_a_users_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails while a user waits for rows to be visible counts as on the clock: tolerated, it is done again until
    they are; not tolerated, it fails the query."""
    history, live = world.history(EVENTS[:60]), world.live()
    monkeypatch.setenv(failpoints.VARIABLE, "checkpoint-start=raise:2")
    failpoints._hits.clear()
    tolerant = {**RARELY, "execution.checkpointing.tolerable-failed-checkpoints": "1"}
    query = world.start(support.sessions(history, live), tolerant)
    assert query.wait_for("live", 300), query.exception()
    world.land(EVENTS[60:90])
    query.processAllAvailable()
    assert [report["id"] for report in query.checkpoints] == [1, 3], "the second one failed"
    assert query.isActive
    query.stop()

    world.land(EVENTS[90:], support.flush_after(EVENTS))
    monkeypatch.setenv(failpoints.VARIABLE, "checkpoint-start=raise:1")
    failpoints._hits.clear()
    query = world.start(support.sessions(history, live), RARELY)
    with pytest.raises(QueryError, match=r"checkpoint 4 failed .*tolerable-failed-checkpoints is 0"):
        query.processAllAvailable()
    assert not query.isActive
    assert "checkpoint 4 failed" in str(query.exception())

    monkeypatch.delenv(failpoints.VARIABLE)
    query = world.start(support.sessions(history, live), RARELY)
    query.processAllAvailable()
    assert support.without_flush(world.output()) == support.sessions_of(EVENTS)


def test_a_location_that_cannot_be_written_to_any_more(world: World) -> None:
    """The query names what could not be written and nothing of the clean-up that fails for the same reason; once the
    cause is gone the same process starts the job again, and nothing is lost."""
    history, live = world.history(EVENTS[:60]), world.live()
    query = world.start(support.sessions(history, live), RARELY)
    assert query.wait_for("live", 300), query.exception()
    ours, aside = world.checkpoints / "mixedmode", world.checkpoints / "aside"
    ours.rename(aside)
    ours.touch()  # not even root can write below a file
    world.land(EVENTS[60:], support.flush_after(EVENTS))
    with pytest.raises(QueryError) as failed:
        query.processAllAvailable()
        query.awaitTermination(300)
    assert not query.isActive
    assert "Not a directory" in str(failed.value)
    assert str(ours) in str(failed.value)
    for file in ("driver.json", "claims"):
        assert file not in str(failed.value), "that is the clean-up"
    ours.unlink()
    aside.rename(ours)
    query = world.start(support.sessions(history, live), RARELY)
    assert query.wait_for("live", 300), query.exception()
    query.processAllAvailable()
    assert support.without_flush(world.output()) == support.sessions_of(EVENTS)


@pytest.mark.kill
def test_a_killed_jvm(tmp_path: Path) -> None:
    """Every method of the handle says in a QueryError that the JVM is gone, or works without it; the location is free."""
    driver = Path(__file__).with_name("driver_jvm_loss.py")
    done = subprocess.run([sys.executable, str(driver), str(tmp_path)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    said = json.loads(done.stdout.splitlines()[-1])
    for call in ("processAllAvailable", "awaitTermination", "savepoint", "stopWithSavepoint", "lateRows"):
        kind, text = said[call]
        assert kind == "QueryError", (call, said[call])
        assert "the JVM of the Spark session is gone" in text, (call, text)
    assert "failed: the JVM of the Spark session is gone" in said["exception"][1]
    assert said["status"] == ["value", "Failed"]
    assert said["isActive"] == ["value", "False"]
    for call in ("lastProgress", "stop", "lease"):
        assert said[call][0] == "value", (call, said[call])
