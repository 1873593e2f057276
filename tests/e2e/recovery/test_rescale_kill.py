"""Real SIGKILLs while the shards of a job are dealt anew: a restart finds the old ones or the new ones, whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import support
from driver_jvm import KILLED, DriverJvm
from test_kill_endings import DRIVER, EVENTS, Job
from test_rescale import shards_of

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other


@pytest.mark.slow
def test_killed_while_shards_are_dealt(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed before the checkpoint that holds the new shards is there: the next run has the old ones.  Killed after it:
    the new ones.  The output is that of the undisturbed run."""
    job = Job(tmp_path, driver_jvm)

    def run(shards: int, failpoints: str = "") -> int:
        return driver_jvm.run(DRIVER, tmp_path, "rescale", shards, failpoints).returncode

    for shards, point, held in (
        (5, "rescale-dealt=kill", 2),
        (3, "checkpoint-before-metadata=kill", 2),
        (5, "checkpoint-after-metadata=kill", 5),
        (2, "rescale-dealt=kill", 5),
    ):
        assert run(shards, point) == KILLED, point
        assert shards_of(tmp_path / "checkpoints")[-1][1] == {"sessions": held}, point
    assert run(3) == 0
    assert shards_of(tmp_path / "checkpoints")[-1][1] == {"sessions": 3}
    assert job.output == support.sessions_of(EVENTS)
