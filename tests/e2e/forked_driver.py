"""A driver's process, forked off one that has imported what drivers need: it begins with the driver's own first line.

It is a process of its own in all that tests of dead drivers are about: its memory, its threads and its files.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import own_proxies
import pytest

_HERE = Path(__file__).parent
_forks: Any = multiprocessing.get_context("forkserver")


def run(
    script: Path, arguments: list[str], environment: dict[str, str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a script as ``python <script> <arguments>`` would.

    Args:
        script: the script.
        arguments: its arguments.
        environment: all that is in its environment.
        folder: takes what it prints, for as long as it runs.
        timeout_s: after which it is killed, in seconds.

    Raises:
        subprocess.TimeoutExpired: it had to be killed.
    """
    with pytest.MonkeyPatch.context() as patched:  # for the process that forks, if it is not there yet
        patched.setenv("PYTHONPATH", str(_HERE), prepend=os.pathsep)
        _forks.set_forkserver_preload(["driver_imports"])
        said = [folder / "stdout", folder / "stderr"]
        process = _forks.Process(target=_be, args=(str(script), arguments, environment, *map(str, said)))
        process.start()
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired([str(script)], timeout_s, *(path.read_bytes() for path in said))
    return subprocess.CompletedProcess([str(script)], process.exitcode, *(path.read_text() for path in said))


def _be(script: str, arguments: list[str], environment: dict[str, str], *said: str) -> None:
    for descriptor, path in enumerate(said, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = [script, *arguments]
    sys.path[0:0] = [str(Path(script).parent)]
    own_proxies.number_apart()
    runpy.run_path(script, run_name="__main__")
