"""A driver's process that counts as one of another host, and can be paused: the other end is ``driver_paused.py``."""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
import time
from pathlib import Path

from driver_jvm import DriverJvm
from mixedmode.state.store.folder_owner import PLACE_VARIABLE

DRIVER = Path(__file__).with_name("driver_paused.py")


class Process:
    """A driver process on a host of its own.

    Args:
        folder: where its job is.
        jvm: what it uses.
        host: that it counts as one of.
        root: below which its checkpoints and output are, if not in the folder.
    """

    def __init__(self, folder: Path, jvm: DriverJvm, host: str, root: str = "") -> None:
        self._jvm = jvm
        self._log = open(folder / f"{host}.log", "w")  # noqa: SIM115 - closed with the process
        self._process = jvm.start(
            DRIVER,
            folder,
            root,
            environment={PLACE_VARIABLE: f"{host}.1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=1,
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put("ended")

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")

    def answer(self) -> str:
        return self._said.get(timeout=300)

    def ask(self, command: str) -> str:
        self.tell(command)
        return self.answer()

    def wait_until_paused(self) -> None:
        """Wait for the SIGSTOP that the process gives itself."""
        deadline = time.monotonic() + 300
        stat = Path(f"/proc/{self._process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert self._said.empty(), self.answer()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.wait_until_paused()

    def end(self) -> None:
        self.go_on()
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._jvm.settle()
