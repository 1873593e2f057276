"""A store that takes 80 ms for each request and a sink that takes 0.8 s for each commit, at once."""

from __future__ import annotations

import json
from pathlib import Path

import driver_far
import mixedmode
import pytest
import support
from driver_far import EVENTS
from driver_jvm import KILLED, DriverJvm
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.kill, pytest.mark.slow, pytest.mark.timeout(900)]

DRIVER = Path(driver_far.__file__)


def test_a_job_lives_with_a_slow_store_and_a_slow_sink(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A savepoint is taken while checkpoints are on their way, the job is stopped beside one, goes on, is killed beside
    one, and goes on again: epochs share checkpoints, the savepoint is whole, each row of a plain batch is seen once."""
    support.write(tmp_path / "history.parquet", EVENTS[:60])
    support.World(None, tmp_path).land(EVENTS[60:72])  # type: ignore[arg-type]
    (tmp_path / "far").mkdir()

    def live(name: str, *more: object, failpoints: str = "") -> int:
        return driver_jvm.run(DRIVER, tmp_path, name, *more, **{VARIABLE: failpoints}).returncode

    assert live("first", tmp_path / "far" / "savepoint") == 0
    (found,) = mixedmode.state_reader(str(tmp_path / "far" / "savepoint")).checkpoints(verify=True)
    assert (found.kind, found.damage) == ("savepoint", None)
    said = json.loads((tmp_path / "said").read_text())
    assert 0 < said["checkpoints"] < said["epochs"], "epochs share checkpoints"
    assert said["requests"] > said["checkpoints"]
    before = set(support.committed(tmp_path / "out"))
    beside = "checkpoint-before-metadata=kill-beside:epoch-applied"
    assert live("second", failpoints=beside) == KILLED
    assert live("last") == 0
    output = support.without_flush(support.committed(tmp_path / "out"))
    assert before and before < set(output), "what was seen stays"
    assert repr(output) == (tmp_path / "expected").read_text()
