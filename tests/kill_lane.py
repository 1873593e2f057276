"""One process of a run for files whose drivers are processes, which they kill, beside those that keep the cores busy.

Drivers, executors and JVMs that start, or wait until they are missed, leave a core idle for a third of the time.  The
process that runs their tests needs no session of Spark of its own for most of them, so it costs little; and the JVM
that drivers find warm is started in no other process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: The name that xdist gives the process; without the variable there is none.
VARIABLE = "MIXEDMODE_KILL_LANE"
_MARKED = re.compile(r"^pytestmark = .*\bmark\.(kill|cluster)\b|\bdriver_jvm: DriverJvm\b", re.MULTILINE)


def is_of_kills(path: Path) -> bool:
    """True if all tests of a file kill processes, or if one has drivers in a warm JVM."""
    return _MARKED.search(path.read_text(encoding="utf-8")) is not None


def next_file(waiting: Iterable[str], kills: Callable[[str], bool], in_lane: bool) -> str:
    """Which file a process takes.

    Args:
        waiting: the files that nobody has taken, in order.
        kills: says of a file that it kills processes.
        in_lane: whether the process is the one for these.

    Returns:
        In the lane the last such file, and at the end the last of any, which are short; elsewhere the first other one,
        and at the end the first of any.
    """
    files = list(waiting)[:: -1 if in_lane else 1]
    return next((file for file in files if kills(file) == in_lane), files[0])


class KillLane(LoadFileScheduling):
    """Gives out files by :func:`next_file`."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._known: dict[str, bool] = {}

    def _kills(self, file: str) -> bool:
        if file not in self._known:
            self._known[file] = is_of_kills(self.config.rootpath / file)
        return self._known[file]

    def _assign_work_unit(self, node: WorkerController) -> None:
        in_lane = node.gateway.id == os.environ[VARIABLE]
        self.workqueue.move_to_end(next_file(self.workqueue, self._kills, in_lane), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> KillLane:
    """Take these rules; the plugin is registered where the variable names a process."""
    return KillLane(config, log)
