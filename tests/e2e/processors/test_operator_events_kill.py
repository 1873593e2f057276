"""Real SIGKILLs of driver and workers, and of executors, at steps of an event's way and of a checkpoint.

Whatever dies, in the end both ends hold exactly 0, 1, 2, …, in order: each end raises at any other number, the events
are rows of the committed output, and the newest checkpoint tells how many either end has sent and received.
"""

from __future__ import annotations

from pathlib import Path

import numbering
import pytest
import support
from driver_jvm import KILLED, DriverJvm
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_events.py"
EVENTS = support.stream_of(360, seed=8)

#: Where the driver can die: before a checkpoint's ``_metadata``, behind it, and at the hand-over of what shards have
#: sent.  (At each step of a checkpoint, without Spark: tests/runtime/protocols/operator_events/test_model.py.)
STEPS = ["events-stored", "events-opened", "events-before-hand-over"]
#: Where a worker can die on an event's way: before and after it is handled, when the shard's own state
#: is taken, when output and sent events are written, when they are reported.
TASK_STEPS = [
    "task-events-received",
    "task-events-handled",
    "task-events-snapshot",
    "task-before-publish-sorted",
    "task-before-publish-random",
    "task-before-report-random",
]
#: Where an executor dies, too: with events in its memory, and with files that nobody knows of yet.
EXECUTOR_STEPS = ["task-events-handled", "task-before-report-random"]


class Job:
    """The folders of one job and the processes that run it, one after the other.

    Args:
        folder: where they are.
        jvm: what they use.
        files: how many files land one after the other.
        total: how many events each shard is sent.
    """

    def __init__(self, folder: Path, jvm: DriverJvm, files: int, total: int) -> None:
        self.folder = folder
        self.jvm = jvm
        self.total = total
        self.rows = 160 + 25 * files
        pending = support.parts_of(EVENTS[160 : self.rows], files)
        support.write_inputs(folder, EVENTS[:120], EVENTS[120:160], *pending)

    def run(self, failpoints: str = "", master: str = "local[2,3]", **environment: str) -> int:
        environment |= {VARIABLE: failpoints, "SESSIONS_MASTER": master}
        return self.jvm.run(DRIVER, self.folder, self.total, **environment).returncode

    def check(self) -> None:
        """Both ends have everything, once."""
        numbering.check_all_there(self.folder / "checkpoints", self.rows, self.total, 2)
        rows = [row for row in support.committed(self.folder / "out") if row[0] == "event"]
        for shard in (0, 1):
            assert sorted(row[2] for row in rows if row[1] == shard) == list(range(self.total))


@pytest.mark.slow
def test_killed_drivers(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A driver that dies at another step in each of its lives: in the end both ends have every event once.

    What the coordinator sends inside checkpoint() it sends before it makes its state, and after it, in turn.
    """
    job = Job(tmp_path, driver_jvm, files=8, total=80)
    for life, point in enumerate(STEPS):
        # The first life dies at the switch; the others when they have got somewhere.
        serialises = "first" if life % 2 else "last"
        died = job.run(f"{point}=kill:{1 if life == 0 else 2}", SERIALISES=serialises)
        assert died == KILLED, f"{point} was not reached"
    assert job.run() == 0
    job.check()


def flags(folder: Path, steps: list[str]) -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    return {point: folder / point for point in steps}


@pytest.mark.parametrize(
    ("act", "steps", "master"),
    [
        pytest.param("kill-once", TASK_STEPS, "local[2,12]", marks=pytest.mark.slow),
        pytest.param("kill-executor-once", EXECUTOR_STEPS, "local-cluster[2,1,1024]", marks=pytest.mark.cluster),
    ],
)
def test_killed_workers_and_executors(
    tmp_path: Path, driver_jvm: DriverJvm, act: str, steps: list[str], master: str
) -> None:
    """Those that die at any step of an event's way cost a retry: nothing is doubled by the losing attempts."""
    job, flagged = Job(tmp_path / "job", driver_jvm, files=2, total=20), flags(tmp_path / "flags", steps)
    points = ";".join(f"{point}={act}:{flag}" for point, flag in flagged.items())
    assert job.run(points, master) == 0
    assert [point for point, flag in flagged.items() if not flag.exists()] == [], "nobody was killed there"
    job.check()
