"""Driver processes as the supervisor has them: started when needed, told what to do, replaced when they die."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jvm_archive
import process_tree
import pyspark
from spark_home import spark_home

HERE = Path(__file__).parent
CLUSTER = "local-cluster[2,1,1024]"
LOCAL = "local[2,20]"
#: A driver of few jobs is gone before optimised code would pay.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:-UsePerfData"


class Lost(Exception):
    """The driver has died, or its JVM has."""


class Wrong(Exception):
    """Something that no kill may cause; its text says what."""


class DriverProcess:
    """One driver.

    Args:
        folder: of its own; takes its log, flags and kills.
        cluster: whether it has a cluster of two executors.
        deadline_s: the most that a command may take.
        script: what it runs.
        arguments: of the script, behind the folder and the descriptor.
        more: is in its environment, too.
    """

    def __init__(
        self,
        folder: Path,
        cluster: bool,
        deadline_s: float,
        *,
        script: str = "driver.py",
        arguments: Sequence[str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._deadline_s = deadline_s
        folder.mkdir()
        replies, far_end = os.pipe()
        environment = {
            "JDK_JAVA_OPTIONS": f"{_JAVA_OPTIONS} {jvm_archive.java_options()}",
            **os.environ,
            **(more or {}),
            "SPARK_HOME": str(_own_spark_home(folder) if cluster else spark_home(HERE.parents[1] / "build")),
            "TZ": "UTC",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if arguments is None:
            arguments = [CLUSTER if cluster else LOCAL]
        with open(self.log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / script), str(folder), str(far_end), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=[far_end],
                start_new_session=True,
                text=True,
                bufsize=1,
            )
        os.close(far_end)
        self._replies = replies
        self._buffer = b""
        self._overlaps = 0
        self._answer("to start")

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, **command: Any) -> Any:
        """Have it do something; returns what that gives.

        Raises:
            Lost: it died, or its JVM did.
            Wrong: it failed although both live, or took too long.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
        except BrokenPipeError:
            raise Lost from None
        return self._answer(command["do"])

    def _answer(self, what: str) -> Any:
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._replies], [], [], self._deadline_s)
            if not ready:
                self.end()
                raise Wrong(f"it took more than {self._deadline_s:g} s {what}; see {self.log}")
            received = os.read(self._replies, 1 << 16)
            if not received:
                self._process.wait()
                raise Lost
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        if "error" not in answer:
            return answer["ok"]
        if not answer["jvm"]:
            process_tree.kill([self._process.pid])
            self._process.wait()
            raise Lost
        raise Wrong(f"{what}: {answer['error']}; see {self.log}")

    def new_overlaps(self) -> int:
        """How many epochs have run beside checkpoints since this was asked."""
        path, before = self.folder / "overlaps", self._overlaps
        self._overlaps = path.stat().st_size if path.exists() else 0
        return self._overlaps - before

    def end(self) -> None:
        """Kill it and all that it has started."""
        process_tree.kill(process_tree.of_session(self._process.pid))
        self._process.wait()

    def close(self) -> None:
        """Forget it; what is left of it goes."""
        self.end()
        os.close(self._replies)


def _own_spark_home(folder: Path) -> Path:
    """Links to the installed Spark, so that the cluster's work folder does not land in it."""
    home = folder / "spark-home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home


class Drivers:
    """The driver at hand, for one run after the other.

    Args:
        folder: takes a folder for each.
        deadline_s: see :class:`DriverProcess`.
    """

    def __init__(self, folder: Path, deadline_s: float) -> None:
        self._folder = folder
        self._deadline_s = deadline_s
        self._all: list[DriverProcess] = []
        self._current: DriverProcess | None = None
        self._cluster = False

    def current(self, cluster: bool) -> DriverProcess:
        """A driver that lives."""
        if self._current is not None and self._cluster != cluster:
            self.drop()
        if self._current is None:
            self._cluster = cluster
            self._current = DriverProcess(self._folder / f"driver-{len(self._all)}", cluster, self._deadline_s)
            self._all.append(self._current)
        return self._current

    def drop(self, orphans: bool = False) -> None:
        """The driver at hand is no more.

        Args:
            orphans: leave what it has started to its own end.
        """
        if self._current is not None and not orphans:
            self._current.end()
        self._current = None

    def close(self) -> None:
        for driver in self._all:
            driver.close()
