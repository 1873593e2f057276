"""Failpoints do what the environment asks of them, and nothing otherwise."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from mixedmode.runtime.support.failpoints import VARIABLE, InjectedFailure, failpoint


def run(configured: str, body: str) -> subprocess.CompletedProcess[str]:
    """Run code that passes failpoints in a process of its own."""
    code = f"from mixedmode.runtime.support.failpoints import failpoint\n{body}\nprint('alive')"
    environment = {VARIABLE: configured, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)


def test_does_nothing_when_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable a point is passed."""
    monkeypatch.delenv(VARIABLE, raising=False)
    failpoint("anything")


def test_raises_at_the_nth_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    """``raise:2`` lets the first hit pass, fails the second and lets the third pass again."""
    name = uuid.uuid4().hex
    monkeypatch.setenv(VARIABLE, f"other=raise; {name}=raise:2")
    failpoint(name)
    with pytest.raises(InjectedFailure, match=f"{name}.*hit 2"):
        failpoint(name)
    failpoint(name)


def test_kill_is_sigkill() -> None:
    """``kill`` ends the process by SIGKILL: no handler, no clean-up."""
    done = run("here=kill", "import atexit; atexit.register(print, 'cleaned up')\nfailpoint('here')")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""


def test_kill_waits_for_the_nth_hit() -> None:
    """``kill:2`` dies at the second hit only."""
    assert run("here=kill:2", "failpoint('here')").stdout == "alive\n"
    assert run("here=kill:2", "failpoint('here'); failpoint('here')").returncode == -signal.SIGKILL


def test_kill_once_spares_the_second_process(tmp_path: Path) -> None:
    """``kill-once`` kills the process that creates the flag file; a retry in a new process gets through."""
    configured = f"here=kill-once:{tmp_path / 'flag'}"
    assert run(configured, "failpoint('here')").returncode == -signal.SIGKILL
    assert run(configured, "failpoint('here')").stdout == "alive\n"


#: Three generations as Spark has them, each of the elder two saying how the one below it has ended.
_GENERATIONS = """
import os

def wait_for(child):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    child()
    os._exit(0)

def daemon():
    print("worker", wait_for(lambda: failpoint("here")), flush=True)

print("daemon", wait_for(daemon), flush=True)
"""


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("kill-once", ["worker 9", "daemon 0", "alive"]),
        ("kill-daemon-once", ["daemon 9", "alive"]),
        ("kill-executor-once", ["worker 9"]),
    ],
)
def test_a_worker_takes_its_daemon_or_its_executor_along(tmp_path: Path, verb: str, said: list[str]) -> None:
    """A worker dies alone, with its daemon, or with the process that has started the daemon."""
    assert run(f"here={verb}:{tmp_path / 'flag'}", _GENERATIONS).stdout.splitlines() == said


def test_a_process_is_held_until_it_may_go_on(tmp_path: Path) -> None:
    """``hold-once`` says who waits, and only the first one does."""
    flag = tmp_path / "flag"
    held: list[subprocess.CompletedProcess[str]] = []
    body = "import os\nprint(os.getpid(), flush=True)\nfailpoint('here')"
    waiting = threading.Thread(target=lambda: held.append(run(f"here=hold-once:{flag}", body)))
    waiting.start()
    while not flag.exists() or not flag.read_text().endswith("\n"):
        time.sleep(0.01)
    assert run(f"here=hold-once:{flag}", "failpoint('here')").stdout == "alive\n"
    assert waiting.is_alive()
    (tmp_path / "flag.go").touch()
    waiting.join()
    assert held[0].stdout.splitlines() == [flag.read_text().strip(), "alive"]
