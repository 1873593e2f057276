"""A standalone cluster of Spark on this machine: a master and workers, each with a folder of its own.

They are the processes that ``start-master.sh`` and ``start-worker.sh`` start, which are not in PySpark's package.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: A process that has not come so far by then will not; nothing waits for it to pass.
LONGEST_S = 300
_PR_SET_PDEATHSIG = 1


def wait_until(is_so: Callable[[], object], what: str) -> None:
    """Wait for a condition.

    Args:
        is_so: the condition.
        what: its name, for the error.
    """
    until = time.monotonic() + LONGEST_S
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"after {LONGEST_S} s: {what}")
        time.sleep(0.05)


@dataclass(frozen=True)
class Daemon:
    """A process of the cluster with its children, and the file of what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> re.Match[str] | None:
        """The first place in its log that looks so."""
        return re.search(pattern, self.log.read_text(errors="replace"))

    def waited_for(self, pattern: str, what: str) -> re.Match[str]:
        """The first place in its log that looks so, once there is one; a process that has ended will not say it.

        Args:
            pattern: how it looks.
            what: its name, for the error.
        """
        found: list[re.Match[str]] = []

        def is_said() -> bool:
            ended = self.process.poll() is not None
            found.extend(filter(None, [self.said(pattern)]))
            if ended and not found:
                raise AssertionError(f"it has ended before {what}:\n{self.log.read_text(errors='replace')[-4000:]}")
            return bool(found)

        wait_until(is_said, what)
        return found[0]

    def send(self, number: signal.Signals) -> None:
        """A signal to itself alone."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """The machine is gone: the process and its executors, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LONGEST_S)


class Cluster:
    """A master and its workers, each of one core.

    Args:
        folder: takes logs, and the folders of the workers.
        environment: of all its processes.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._daemons: list[Daemon] = []
        self.workers: list[Daemon] = []
        master = self._start("master", "master.Master", ["--port", "0"], "127.0.0.1", {})
        self._daemons.append(master)
        try:
            #: Where drivers find it.
            self.url = master.waited_for(r"Starting Spark master at (spark://\S+)", "the master has a port").group(1)
        except BaseException:
            self.close()
            raise

    def add_workers(self, count: int, memory: str = "640m") -> list[Daemon]:
        """Start workers; they are there when this returns.

        Args:
            count: how many.
            memory: what each has for executors.
        """
        added = []
        for number in range(len(self.workers), len(self.workers) + count):
            own = self._folder / f"worker-{number}"
            (own / "local").mkdir(parents=True)
            places = {"SPARK_WORKER_DIR": str(own / "work"), "SPARK_LOCAL_DIRS": str(own / "local")}
            words = ["--port", "0", "--cores", "1", "--memory", memory, self.url]
            # With one host for all, Spark would take what the others have shuffled for lost, too, when one has left.
            host = f"127.0.0.{number + 2}"
            added.append(self._start(f"worker-{number}", "worker.Worker", words, host, places))
        self.workers += added
        for worker in added:
            worker.waited_for("Successfully registered with master", "a worker registers")
        return added

    def alive(self) -> list[Daemon]:
        """The workers that there are, the oldest first."""
        return [worker for worker in self.workers if worker.process.poll() is None]

    def close(self) -> None:
        """End all processes."""
        for daemon in [*self.workers, *self._daemons]:
            daemon.kill()

    def _start(self, name: str, kind: str, words: list[str], host: str, environment: dict[str, str]) -> Daemon:
        command = [f"{os.environ['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{kind}"]
        command += ["--host", host, "--webui-port", "0", *words]
        log = self._folder / f"{name}.log"
        around = {**os.environ, "SPARK_DAEMON_MEMORY": "192m", **self._environment, **environment}
        with open(log, "wb") as said:
            process = subprocess.Popen(
                command, env=around, stdout=said, stderr=said, start_new_session=True, preexec_fn=_die_with_parent
            )
        return Daemon(process, log)


@contextmanager
def cluster(folder: Path, **environment: str) -> Iterator[Cluster]:
    """A cluster that ends with the block.

    Args:
        folder: takes all that its processes write.
        environment: of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Cluster(folder, environment)
    try:
        yield made
    finally:
        made.close()


class Submitted:
    """A program that was started by ``spark-submit``, in a process group of its own.

    Args:
        url: of the master.
        script: the program.
        conf: settings of Spark.
        environment: different from this process'.
        log: takes what it says, after what is there.
    """

    def __init__(self, url: str, script: Path, conf: dict[str, str], environment: dict[str, str], log: Path) -> None:
        command = [f"{os.environ['SPARK_HOME']}/bin/spark-submit", "--master", url]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        around = {**os.environ, "PYSPARK_PYTHON": sys.executable, **environment}
        # Spark's log (stderr) and the program (stdout): in one file the one's lines would stand within the other's.
        self._logs = (log, log.with_suffix(".out"))
        #: Of each file how far it was read, and the lines up to there: the log has some thousands.
        self._read = [(path.stat().st_size if path.exists() else 0, list[str]()) for path in self._logs]
        with open(self._logs[0], "ab") as logged, open(self._logs[1], "ab") as said:
            self.process = subprocess.Popen(
                [*command, str(script)],
                cwd=log.parent,
                env=around,
                stdout=said,
                stderr=logged,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def lines(self) -> list[str]:
        """What it has said so far: the lines of Spark's log, then those of the program."""
        for place, (path, (begin, known)) in enumerate(zip(self._logs, self._read, strict=True)):
            with open(path, "rb") as file:
                file.seek(begin)
                whole, end, _ = file.read().rpartition(b"\n")
            known += whole.decode(errors="replace").splitlines()
            self._read[place] = (begin + len(whole + end), known)
        return [line for _, known in self._read for line in known]

    def count(self, words: str) -> int:
        """How many lines have these words in them."""
        return sum(words in line for line in self.lines())

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait for a condition; a program that has ended will not bring it about.

        Args:
            is_so: the condition.
            what: its name, for the error.
        """

        def is_over() -> bool:
            ended = self.process.poll() is not None
            if is_so():
                return True
            if ended:
                raise AssertionError("\n".join([f"it has ended before {what}:", *self.lines()[-60:]]))
            return False

        try:
            wait_until(is_over, what)
        except TimeoutError as error:
            raise AssertionError("\n".join([f"{error}:", *self.lines()[-60:]])) from error

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to all of its processes, and wait for the exit code."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        return self.process.wait(LONGEST_S)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
